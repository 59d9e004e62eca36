"""How this copy of the package was installed, for advice that works: how to add an extra, how to run its Python."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from letters_source.errors import SettingsError

NAME = "letters-source"


@contextmanager
def importing_extra(extra: str) -> Iterator[None]:
    """Run imports that need an extra, or raise `SettingsError`, which says how to install it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise SettingsError(
            f"{missing.name} is not installed; add the extra {extra}: {how_to_add_extra(extra)}"
        ) from None


def how_to_add_extra(extra: str) -> str:
    """Return the command that adds an extra; under `uv run`, the option that does."""
    if "UV" in os.environ:
        return f"{uv_run()} --extra {extra} ..."
    return how_to_install(f"{installed_from()}[{extra}]")


def how_to_install(requirement: str) -> str:
    """Return the command that installs a requirement into this environment."""
    what = shlex.quote(requirement)
    if "UV" in os.environ:
        return f"{uv_run()} --with {what} ..."
    python = shlex.quote(sys.executable)
    return f"{python} -m pip install {what}" if find_spec("pip") else f"uv pip install --python {python} {what}"


def uv_run() -> str:
    """Return how uv runs something in this environment, also from a folder outside the clone."""
    clone = installed_from()
    is_outside = clone != NAME and not Path.cwd().is_relative_to(clone)
    return f"uv run --project {shlex.quote(clone)}" if is_outside else "uv run"


def installed_from() -> str:
    """Return the clone that the package was installed from or is run in; without one, its name."""
    try:
        url = json.loads(distribution(NAME).read_text("direct_url.json") or "{}").get("url", "")
    except PackageNotFoundError:
        url = ""
    folder = Path(url2pathname(urlsplit(url).path)) if url.startswith("file:") else Path(__file__).parents[2]
    return str(folder) if (folder / "pyproject.toml").is_file() else NAME


def letters_command() -> str:
    """Return how a shell runs the command of this installation."""
    return "letters" if python_command() == "python" else f"{python_command()} -m {__name__.partition('.')[0]}"


def python_command() -> str:
    """Return how a shell runs this Python: by its path unless it is the one that `python` means."""
    if "UV" in os.environ:
        # under uv the environment's Python is not on the path
        return f"{uv_run()} python"
    found = shutil.which("python")
    is_ours = found and Path(found).parent == Path(sys.executable).parent
    return "python" if is_ours else shlex.quote(sys.executable)
