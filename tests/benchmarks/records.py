"""The rows that the emulator held at each moment, to compare with a file."""

from dataclasses import dataclass, field
from pathlib import Path

import duckdb
from fingerprints import state_held, state_of
from holdings import DATASET

from programmable_emulator import Emulator, Row

LISTINGS = ("contacts", "templates")


@dataclass
class Record:
    """What the emulator held: every row there ever was, and the ids of each listing at each moment of a load."""

    rows: dict[str, dict[str, Row]] = field(default_factory=lambda: {name: {} for name in LISTINGS})
    moments: dict[str, list[frozenset[str]]] = field(default_factory=dict)

    def begin(self, emulator: Emulator) -> None:
        """Clear the moments of the previous load."""
        self.moments = {name: [frozenset()] for name in LISTINGS}
        self.note(emulator)
        for moments in self.moments.values():
            del moments[0]

    def note(self, emulator: Emulator) -> None:
        """Record what the emulator holds now, if it changed."""
        for name in LISTINGS:
            rows = getattr(emulator, name).rows()
            ids = frozenset(row.id for row in rows)
            if ids != self.moments[name][-1]:
                self.moments[name].append(ids)
                self.rows[name].update((row.id, row) for row in rows)

    def compare(self, file: Path) -> tuple[int, int, bool]:
        """Rows that a file lacks and rows too many, by the moment nearest to it, and whether all values are right."""
        held, lost, extra = {}, 0, 0
        for name in LISTINGS:
            ids = ids_in(file, name)
            nearest = min(self.moments[name], key=lambda moment: len(moment ^ ids))
            lost, extra = lost + len(nearest - ids), extra + len(ids - nearest)
            held[name] = [row for row_id, row in self.rows[name].items() if row_id in ids]
        return lost, extra, state_of(file) == state_held(held)


def ids_in(file: Path, listing: str) -> frozenset[str]:
    """The ids of a listing in a file."""
    with duckdb.connect(str(file), read_only=True) as connection:
        return frozenset(row_id for (row_id,) in connection.sql(f"select id from {DATASET}.{listing}").fetchall())
