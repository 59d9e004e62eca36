"""Runs Spark's tasks in forks of a Python that has imported their libraries.

    #!/path/to/python /path/to/task_python.py

A file with only this line is a Python for Spark. Libraries are most of what a small task costs: about 1 s of CPU, which
each fork saves. Our own modules are imported by each task, as they are for users.
"""

import gc
import runpy
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

DAEMON = "pyspark.daemon"
LIBRARIES = (
    "dlt",
    "jwt",
    "msgspec",
    "pandas",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyspark.sql.datasource",
    "tenacity",
)


def main() -> None:
    """Become Spark's daemon, or run anything else as Python does."""
    _, _, *arguments = sys.argv
    if arguments[:2] != ["-m", DAEMON]:
        sys.exit(subprocess.call([sys.executable, *arguments]))
    # pandas is not among the requirements of the extra
    for module in filter(find_spec, LIBRARIES):
        import_module(module)
    # garbage collections of a fork would go through all that is imported here
    gc.freeze()
    # as `python -m` has them
    sys.argv, sys.path[0] = arguments[1:], str(Path.cwd())
    runpy.run_module(DAEMON, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
