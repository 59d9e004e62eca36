"""Imports files in a process that refuses access to all but code, and reports what they tried to reach and imported."""

import json
import os
import runpy
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

REFUSED_EVENTS = ("socket.", "sqlite3.connect", "subprocess.", "os.system", "os.posix_spawn", "os.mkdir", "os.rename")
"""Prefixes of audit events that an import must not cause; opened files are checked one by one."""
HARMLESS = ("socket.__new__", "socket.gethostname")
RUN = "--"
"""Separates the modules to import first from the files to run."""
CODE = (".py", ".pyc", ".so")
LIBRARIES = tuple({str(Path(place).resolve()) for place in (*sysconfig.get_paths().values(), sys.base_prefix)})
SYSTEM = ("/usr/share/zoneinfo/", "/proc/", "/sys/", "/dev/null")
"""Libraries look here for time zones, processors and memory."""


@dataclass(frozen=True)
class Imported:
    """What importing files tried to reach, which was refused each time, and all modules that were imported then."""

    reached: list[str]
    modules: list[str]


def import_closed(files: Sequence[Path], folder: Path, *before: str) -> Imported:
    """Import files where access to all but code is refused.

    Args:
        files: the Python files, which one process runs one after the other.
        folder: where they run; the place for secrets that they must leave alone.
        before: modules to import before that, such as `dlt`: what libraries open is not reported.
    """
    # without -B, what is imported for the first time would be compiled into files
    command = [sys.executable, "-B", __file__, *before, RUN, *map(str, files)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    return Imported(**json.loads(ended.stdout))


class AccessHook:
    """An audit hook that refuses, and records, access to anything but code."""

    def __init__(self) -> None:
        self.attempts: list[str] = []

    def __call__(self, event: str, arguments: Sequence[Any]) -> None:
        """Refuse an event that is not about code; Python calls this at each event."""
        refused = event.startswith(REFUSED_EVENTS) and event not in HARMLESS
        if refused or (event == "open" and not is_code(arguments[0])):
            self.attempts.append(f"{event} {arguments[0]}")
            raise PermissionError(self.attempts[-1])


class WatchedEnvironment(os._Environ[str]):
    """The environment variables, with a note of each of ours that is read."""

    read: ClassVar[list[str]] = []

    def __getitem__(self, name: str) -> str:
        """A variable."""
        if name.startswith("SOURCES__"):
            self.read.append(f"environ {name}")
        value: str = super().__getitem__(name)
        return value


def is_code(place: Any) -> bool:
    """Whether a file is a module, or comes with a library; a number is a file that is open already."""
    if isinstance(place, int):
        return True
    path = os.path.realpath(os.fsdecode(place))
    return path.endswith(CODE) or path.startswith((*LIBRARIES, *SYSTEM))


def main(*arguments: str) -> None:
    """Run the files under the hook, and print what they tried to open and imported."""
    end = arguments.index(RUN)
    for module in arguments[:end]:
        import_module(module)
    hook = AccessHook()
    os.environ.__class__ = WatchedEnvironment
    sys.addaudithook(hook)
    for file in arguments[end + 1 :]:
        runpy.run_path(file)
    print(json.dumps({"reached": [*hook.attempts, *WatchedEnvironment.read], "modules": [*sys.modules]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
