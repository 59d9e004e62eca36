"""The check for side effects of imports finds them."""

from pathlib import Path

from closed import import_closed

CURIOUS = """
import contextlib, os, socket, sqlite3
for reach in (
    lambda: open("secrets.toml"),
    lambda: socket.create_connection(("127.0.0.1", 9)),
    lambda: sqlite3.connect("airflow.db"),
    lambda: os.environ.get("SOURCES__LETTERS__ACCESS_TOKEN"),
):
    with contextlib.suppress(OSError):
        reach()
"""


def test_what_a_file_with_side_effects_opens_is_reported(tmp_path: Path) -> None:
    """A file, network, database and secret that an import tries to open are reported, although it hides the errors."""
    file = tmp_path / "effects.py"
    file.write_text(CURIOUS)
    assert import_closed([file], tmp_path).reached == [
        "open secrets.toml",
        "socket.getaddrinfo 127.0.0.1",
        "sqlite3.connect airflow.db",
        "environ SOURCES__LETTERS__ACCESS_TOKEN",
    ]


def test_a_file_that_imports_our_package_opens_nothing(tmp_path: Path) -> None:
    """Importing the package opens nothing but code."""
    file = tmp_path / "modest.py"
    file.write_text("from letters_source import letters, make_pipeline, run\n")
    assert import_closed([file], tmp_path, "dlt", "requests").reached == []
