"""How are lines of the ledger written and read?"""

from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from commands import start_command
from terminals import Outcome, run_command

from letters_source.destination.ledger import KEPT_RUNS, LARGEST_BYTES, LEDGER, append_run, read_runs
from letters_source.results import Run, RunError

WRITER = """
import sys
from pathlib import Path
from letters_source.destination.ledger import append_run, read_runs

file = Path(sys.argv[1])
[run, *_] = read_runs(file.parent)
for _ in range(int(sys.argv[2])):
    append_run(file, run)
"""
FULL = """
import resource, sys
from pathlib import Path
from letters_source.destination.ledger import append_run, read_runs

file = Path(sys.argv[1])
[run] = read_runs(file.parent)
limit = file.stat().st_size + 100
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    append_run(file, run)
except OSError as error:
    print(error)
"""


def make_run(number: int = 0, dataset: str = "letters_data") -> Run:
    """A failed run, identified by its duration."""
    return Run(
        load_id=None,
        destination="duckdb",
        place="/srv/letters/letters.duckdb",
        dataset=dataset,
        tables={},
        seconds=float(number),
        started_at=datetime(2026, 11, 24, 3, 15, tzinfo=UTC),
        verdicts={},
        error=RunError(kind="NotAuthorized", exit_code=3),
    )


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Runs are read as they were written, oldest first."""
    written = [make_run(number) for number in range(3)]
    for run in written:
        append_run(tmp_path / LEDGER, run)
    assert list(read_runs(tmp_path)) == written


def test_a_large_ledger_keeps_the_newest_runs(tmp_path: Path) -> None:
    """A ledger over its size limit keeps the newest runs, and only its owner can read it."""
    file = tmp_path / LEDGER
    long = "d" * (LARGEST_BYTES // KEPT_RUNS)
    for number in range(KEPT_RUNS + 5):
        append_run(file, make_run(number, long))
    assert list(read_runs(tmp_path)) == [make_run(number, long) for number in range(5, KEPT_RUNS + 5)]
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [LEDGER]


def test_processes_append_at_once(tmp_path: Path) -> None:
    """Processes that append at once lose and tear no line, also while the ledger is shortened."""
    file = tmp_path / LEDGER
    # so long that the ledger is shortened again and again
    append_run(file, make_run(dataset="d" * (2 * LARGEST_BYTES // KEPT_RUNS)))
    with ExitStack() as stack:
        writers = [stack.enter_context(start_command(str(file), "250", code=WRITER)) for _ in range(3)]
        assert [writer.communicate() for writer in writers] == [("", "")] * 3
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    lines = file.read_bytes().splitlines()
    assert len(set(lines)) == 1
    assert len(lines) >= KEPT_RUNS
    assert len(list(read_runs(tmp_path))) == len(lines)


def test_a_full_disk_leaves_whole_lines(tmp_path: Path) -> None:
    """A line that could not be written in full is removed from the ledger."""
    append_run(tmp_path / LEDGER, make_run())
    before = (tmp_path / LEDGER).read_bytes()
    assert run_command(str(tmp_path / LEDGER), code=FULL) == Outcome(0, "the disk is full\n", "")
    assert (tmp_path / LEDGER).read_bytes() == before


@pytest.mark.parametrize("line", ["", "{", '{"a": 1}', '{"started_at": "yesterday"}'])
def test_lines_of_other_versions_are_skipped(tmp_path: Path, line: str) -> None:
    """Lines of the ledger that cannot be read are skipped."""
    file = tmp_path / LEDGER
    append_run(file, make_run(1))
    file.write_bytes(file.read_bytes() + f"{line}\n".encode())
    append_run(file, make_run(2))
    assert list(read_runs(tmp_path)) == [make_run(1), make_run(2)]
