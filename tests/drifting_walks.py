"""Runs walks over HTTP while rows change, and judges them by the emulator's record of each answer."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs

from letters_source.config.settings import Settings
from letters_source.errors import IncompleteListing
from letters_source.extract.listing import read_until_whole
from letters_source.extract.task import Task
from letters_source.pagination.coding import Coded
from letters_source.pagination.completeness import certify
from letters_source.pagination.readings import Reading
from letters_source.pagination.verdicts import Verdict, VerdictName
from letters_source.pagination.wanted import Proof
from programmable_emulator import Behavior, Drift, Emulator
from simulated_service import accepted_rows
from tasks import contacts_task

Kind = Literal["insert", "delete", "swap"]
Place = Literal["front", "end", "anywhere"]
Set = frozenset[str]


@dataclass(frozen=True, slots=True)
class Case:
    """How the contacts change before each answer, with probability `rate`, and the proof required of the walk."""

    kind: Kind
    place: Place
    rate: float
    proof: Proof = "continuous"
    rows: int = 160
    page_size: int = 10


@dataclass(frozen=True, slots=True)
class Walked:
    """How a walk ended; `wrong` is true if the rows accepted were not the service's at the moment of their proof."""

    ending: VerdictName | Literal["refused"]
    wrong: bool
    requests: int


@dataclass(slots=True)
class Record:
    """For each answer, by its number from 1 on: the ids of its page, and all ids that there were just then."""

    shown: list[tuple[str, ...]] = field(default_factory=list)
    held: list[Set] = field(default_factory=list)

    def watch(self, emulator: Emulator, _: int) -> None:
        """Record the previous answer: rows change only during an answer."""
        answered = len(self.held)
        if len(emulator.hits) > answered:
            asked = parse_qs(emulator.hits[answered].query)
            page, size = int(asked["page"][0]), int(asked["pageSize"][0])
            ids = emulator.contacts.ids()
            self.shown.append(tuple(ids[page * size :][:size]))
            self.held.append(frozenset(ids))

    def moments(self, reading: Reading) -> Iterator[Set]:
        """Yield the sets of ids held at the answers that look like a reading."""
        keys = tuple(reading.keys.to_pylist())
        for shown, held in zip(self.shown, self.held, strict=True):
            if shown == keys and len(held) == reading.count:
                yield held

    def agrees(self, verdict: Verdict) -> bool:
        """Whether the rows accepted, each once, are those of the verdict's moment, or include all that stayed."""
        accepted = accepted_rows(verdict)
        if verdict.name == "continuous":
            stayed, listed = frozenset.intersection(*self.held), frozenset.union(*self.held)
            return len(accepted) == len(set(accepted)) and stayed <= set(accepted) <= listed
        certificate = certify(Coded.of(verdict.readings)) if verdict.name == "exact" else None
        moments = self.moments(verdict.readings[certificate.at]) if certificate else iter(self.held)
        return len(accepted) == len(set(accepted)) and frozenset(accepted) in set(moments)


def walk_over_http(case: Case, seed: int) -> Walked:
    """Walk the contacts of a served emulator; the same case and seed give the same drift."""
    drift = Drift(case.kind, case.place, case.rate)
    emulator = Emulator(case.rows, 1, seed=seed, behavior=Behavior(drift=[drift]))
    record = Record()
    emulator.before_answer = record.watch
    with emulator.serve() as base_url:
        try:
            verdict = read_until_whole(task_for(base_url, emulator, case)).verdict
        except IncompleteListing:
            return Walked("refused", wrong=False, requests=len(emulator.hits))
    record.watch(emulator, 0)
    return Walked(verdict.name, not record.agrees(verdict), len(emulator.hits))


def task_for(base_url: str, emulator: Emulator, case: Case) -> Task:
    """The contacts, read by four workers."""
    return contacts_task(
        Settings(
            base_url=base_url,
            access_token=emulator.access_token,
            refresh_token=emulator.refresh_token,
            proof=case.proof,
            page_size=case.page_size,
            max_workers=4,
        )
    )
