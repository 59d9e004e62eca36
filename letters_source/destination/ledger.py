"""Keeps the ledger of runs: one line of JSON for each load, verified or failed, in dlt's folder of pipelines."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from fcntl import LOCK_EX, flock
from io import FileIO
from pathlib import Path
from time import monotonic

import msgspec
from dlt.common.pipeline import get_dlt_pipelines_dir

from letters_source.config.providers import readable_files
from letters_source.destination.audits import opened
from letters_source.destination.local_files import unusable_directory
from letters_source.destination.place import Place, ShownPlace
from letters_source.results import Listing, LoadResult, Result, Run, failure_of, run_of
from letters_source.tables import LISTING_AUDIT
from letters_source.wording import reason

logger = logging.getLogger("letters_source")

LEDGER = "letters_runs.jsonl"
# a year of nightly loads; a line takes about half a kilobyte
KEPT_RUNS = 500
LARGEST_BYTES = 2**19


class Stopwatch:
    """When a load began, and how long ago that is."""

    def __init__(self) -> None:
        self.started_at, self._start = datetime.now(UTC), monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the load began."""
        return monotonic() - self._start


def finished_load(place: Place, result: Result) -> LoadResult:
    """Return a verified load as programs read it."""
    audits = map(opened, map(dict, result.audits))
    return LoadResult(
        **place.shown,
        load_id=result.load_id,
        tables=dict(result.tables),
        listings=tuple(Listing(**{name: audit[name] for name in LISTING_AUDIT.schema.names}) for audit in audits),
        seconds=result.seconds,
    )


def failed_load(place: ShownPlace, error: BaseException, seconds: float) -> LoadResult:
    """Return a failed load as programs read it."""
    return LoadResult(**place, load_id=None, tables={}, listings=(), seconds=seconds, error=failure_of(error))


@contextmanager
def failures_recorded(place: Place, clock: Stopwatch, dataset: str | None = None) -> Iterator[None]:
    """Add a failed load to the ledger if the block fails; the dataset is the place's unless another is given."""
    try:
        yield
    except BaseException as error:
        failed = failed_load({**place.shown, "dataset": dataset or place.dataset}, error, clock.seconds)
        record(failed, clock.started_at)
        raise


def record(load: LoadResult, started_at: datetime) -> None:
    """Add a load to the ledger in dlt's folder of pipelines; if that fails, the load does not."""
    file = usual_folder() / LEDGER
    try:
        append_run(file, run_of(load, started_at))
    except (OSError, UnicodeError) as error:
        # a folder that cannot be written has made the load fail, and its error says so
        level = logging.WARNING if load.load_id else logging.DEBUG
        logger.log(level, "The run was not recorded in %s: %s", file, reason(error))


def append_run(file: Path, run: Run) -> None:
    """Append a line, whole or not at all, readable by the owner only; of a large file, keep the newest runs."""
    line = msgspec.json.encode(run) + b"\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    # unbuffered: each write is one call of the system
    with open(file, "ab", buffering=0, opener=private) as ledger:
        flock(ledger, LOCK_EX)
        if not is_at(ledger, file):
            # another process has shortened the ledger while this one waited
            append_run(file, run)
            return
        size = os.fstat(ledger.fileno()).st_size
        if ledger.write(line) < len(line):
            ledger.truncate(size)
            raise OSError("the disk is full")
        if size > LARGEST_BYTES:
            keep_newest(file)


def private(path: str, flags: int) -> int:
    """Open a file; a new one is readable by its owner only."""
    return os.open(path, flags, 0o600)


def is_at(ledger: FileIO, file: Path) -> bool:
    """Return whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(ledger.fileno()), file.stat())
    except FileNotFoundError:
        return False


def keep_newest(file: Path) -> None:
    """Replace the ledger by one of the newest runs; its lock must be held."""
    partial = file.with_name(f".{file.name}.partial")
    partial.unlink(missing_ok=True)
    with open(partial, "wb", opener=private) as shortened:
        shortened.writelines(file.read_bytes().splitlines(keepends=True)[-KEPT_RUNS:])
    partial.replace(file)


@readable_files()
def usual_folder() -> Path:
    """Return dlt's folder of pipelines, or raise `SettingsError`: dlt reads its configuration to find it."""
    return Path(get_dlt_pipelines_dir())


def read_runs(folder: Path) -> Iterator[Run]:
    """Yield the runs of a ledger, oldest first."""
    try:
        lines = (folder / LEDGER).read_bytes().splitlines()
    except FileNotFoundError:
        return
    except OSError as error:
        raise unusable_directory(error) from error
    for line in lines:
        # other versions of this package may write other lines
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            yield msgspec.json.decode(line, type=Run)


def last_runs(number: int, place: str | None = None, dataset: str | None = None) -> list[Run]:
    """Return the last runs of the ledger, newest first; only those into a place and a dataset, where given."""
    runs = read_runs(usual_folder())
    wanted = [run for run in runs if run.place == (place or run.place) and run.dataset == (dataset or run.dataset)]
    return wanted[: -number - 1 : -1]
