"""Reads the ranges of the emulator's contacts over HTTP, each in a process of its own, and judges them in another."""

import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import Manager, get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory
from threading import Barrier
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from letters_source.config.settings import Settings
from letters_source.errors import IncompleteListing
from letters_source.extract.parts.joined import judge_parts, planned_parts
from letters_source.extract.parts.reading import store_plan, write_part
from letters_source.extract.task import LoadContext, Task, listing_task
from letters_source.service.listings import CONTACTS
from letters_source.service.tokens import TokenSource

SPAWN = get_context("spawn")


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of all until the parts are judged, of reading and writing the slowest part, of judging; peaks in MB."""

    seconds: float
    reading: float
    writing: float
    judging: float
    worker_peak: float
    judge_peak: float
    fault: str = ""


def read_ranges(settings: Mapping[str, Any], workers: int) -> Measured:
    """Read and judge all contacts. Starting processes and planning are not counted."""
    pools = ProcessPoolExecutor(workers, SPAWN), ProcessPoolExecutor(1, SPAWN)
    with TemporaryDirectory() as folder, Manager() as manager, pools[0] as readers, pools[1] as judges:
        # its process has imported all it needs before the clock starts
        judges.submit(peak).result()
        own = {**settings, "parts": f"{folder}/parts"}
        places = range(len(store_plan(task_of(own), own["parts"], workers).ranges))
        gate = manager.Barrier(len(places) + 1)
        reading = [readers.submit(read_one, own, place, gate) for place in places]
        gate.wait()
        start = monotonic()
        read, written, peaks = zip(*(one.result() for one in reading), strict=True)
        judged, judge_peak, fault = judges.submit(judge, own).result()
        seconds = monotonic() - start
    return Measured(seconds, max(read), max(written), judged, max(peaks), judge_peak, fault)


def task_of(settings: Mapping[str, Any]) -> Task:
    """All contacts."""
    chosen = Settings(**settings)
    return listing_task(CONTACTS, LoadContext.of(chosen, TokenSource(chosen.tokens, lambda: chosen.tokens)))


def read_one(settings: Mapping[str, Any], place: int, gate: Barrier) -> tuple[float, float, float]:
    """The seconds of reading and of writing a part, and the peak."""
    gate.wait()
    start = monotonic()
    part = write_part(task_of(settings), settings["parts"], place)
    return part.seconds, monotonic() - start - part.seconds, peak()


def judge(settings: Mapping[str, Any]) -> tuple[float, float, str]:
    """The seconds of judging, the peak, and why the parts prove nothing, if so."""
    start, fault = monotonic(), ""
    try:
        if planned := planned_parts(task_of(settings)):
            judge_parts(*planned)
    except IncompleteListing as error:
        fault = str(error)
    return monotonic() - start, peak(), fault


def peak() -> float:
    """The most memory of this process until now, in MB."""
    return getrusage(RUSAGE_SELF).ru_maxrss / 1024
