"""How the process of the `letters` command starts and ends: its environment, one line per error, and the exit code."""

import os
import sys
import warnings
from types import TracebackType
from typing import NoReturn

import click

from letters_source.cli.main import cli
from letters_source.cli.output import end_output
from letters_source.errors import INTERRUPTED, INTERRUPTION, LettersError
from letters_source.wording import is_interrupt


def set_up(*, debug: bool) -> None:
    """Set what dlt, Arrow and NumPy read when they are first imported, unless the environment already does."""
    defaults = (
        ("RUNTIME__DLTHUB_TELEMETRY", "false"),
        # where Airflow is installed, dlt would read its variables, which takes ten seconds and creates ~/airflow
        ("PROVIDERS__ENABLE_AIRFLOW_SECRETS", "false"),
        ("RUNTIME__LOG_LEVEL", "WARNING" if debug else "CRITICAL"),
        # with Arrow's own allocator, which keeps freed memory, a load takes 3 to 4 % longer and 40 MB more
        ("ARROW_DEFAULT_MEMORY_POOL", "system"),
        # NumPy's linear algebra library, which is never used, starts a thread per core that spins for 0.1 s
        ("OPENBLAS_NUM_THREADS", "1"),
    )
    for name, value in defaults:
        os.environ.setdefault(name, value)
    # dlt would warn about it in every process
    warnings.filterwarnings("ignore", "XDG_DATA_HOME is set", UserWarning)


def main() -> NoReturn:
    """Run the command. An error is one line on stderr and an exit code; `--debug` adds the traceback."""
    debug = "--debug" in sys.argv
    set_up(debug=debug)
    if not debug:
        sys.excepthook = tell_unexpected
    try:
        code = cli.main(prog_name="letters", standalone_mode=False)
    except click.UsageError as error:
        tell_usage(error)
        code = error.exit_code
    except click.ClickException as error:
        tell(error.message)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt, RuntimeError) as error:
        if not isinstance(error, click.Abort) and not is_interrupt(error):
            raise
        tell(INTERRUPTION)
        code = INTERRUPTED
    except LettersError as error:
        if debug:
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            tell(str(error))
        code = error.exit_code
    except OSError:
        # writing one more line shows whether the error is about the output
        if not (code := close_output(0, "\n")):
            raise
    sys.exit(close_output(code or 0))


def close_output(code: int, last: str = "") -> int:
    """End standard output; return the exit code, 1 with a line if the output could not be written."""
    if reason := end_output(last):
        tell(f"the output cannot be written: {reason}.")
        return 1
    return code


def tell(message: str) -> None:
    """Print one line to stderr."""
    click.echo(f"letters: {message}", err=True)


def tell_usage(error: click.UsageError) -> None:
    """Print a line that points to the help; without a command, print the help itself."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    command = error.ctx.command_path if error.ctx else "letters"
    tell(f"{error.format_message()} See {command} --help.")


def tell_unexpected(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    """Print one line instead of the traceback of an unexpected error."""
    tell(f"unexpected {kind.__name__}: {str(error).partition(chr(10))[0]}; run again with --debug for the traceback.")
