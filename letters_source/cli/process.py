"""How does a command's process begin and end, so that loads are quick and nobody speaks in between?"""

import atexit
import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

# with the 700 of Python 3.11 a load of 100,000 contacts takes 3 % longer, and no less memory
OBJECTS_BETWEEN_COLLECTIONS = 20_000


def set_up(*, debug: bool) -> None:
    """Set what dlt, Arrow and NumPy read when they are first imported, unless the environment says otherwise."""
    os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")
    # where Airflow is installed, dlt would look into its variables, which takes ten seconds and makes a ~/airflow
    os.environ.setdefault("PROVIDERS__ENABLE_AIRFLOW_SECRETS", "false")
    os.environ.setdefault("RUNTIME__LOG_LEVEL", "WARNING" if debug else "CRITICAL")
    # Arrow's own allocator keeps what is freed: a load takes 3 to 4 % longer with it, and 40 MB more
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # NumPy's library of linear algebra starts a thread for each core, which spins for 0.1 s, and none is ever needed
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # dlt's, each time; where its folders are is README's to say
    warnings.filterwarnings("ignore", "XDG_DATA_HOME is set", UserWarning)
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)


def owns_process(command: FrameType | None) -> bool:
    """Whether a process is there for a command alone, given the frame of the function that is called first.

    The installed script has called it then, no profiler or debugger of Python's has; and nothing that was there before
    waits to be called at the end, as a tracing agent would.
    """
    script = command.f_back if command else None
    by_script = script is not None and script.f_back is None and Path(script.f_code.co_filename).name == "letters"
    return by_script and not atexit._ncallbacks()


@contextmanager
def ending_at_once() -> Iterator[None]:
    """End the process as soon as the block has exited with 0, and what it registered with `atexit` has been called.

    Python would go on to take all objects apart, which is 2 % of a load of 100,000 contacts, and a Ctrl-C meanwhile
    would show a traceback.
    """
    codes: list[object] = []
    # what is registered first is called last
    atexit.register(leave_after, codes)
    try:
        yield
    except SystemExit as end:
        codes.append(end.code)
        raise


def leave_after(codes: list[object]) -> None:
    """Leave the process if the one exit code there is says that all went well."""
    if codes == [0]:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
        os._exit(0)
