"""Recognize rows by a digest of their bytes: those that a destination holds already need no decoding."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

DIGEST_SIZE = 16
Digests = npt.NDArray[np.uint64]
"""Digests of 128 bits, as two columns of 64."""
Halves = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """The rows that a destination holds: their ids, and the digests by which they are recognized.

    `digests` are in the order of their first halves, and belong to the first `ids`; rows without a digest follow.
    """

    key: bytes  # of the digests: it stands for all that decides what is stored of a row
    ids: pa.StringArray
    digests: Digests
    halves: Halves

    @classmethod
    def of(cls, held: Iterable[tuple[pa.Array, pa.Array]], key: bytes) -> "Known":
        """Return the known rows of batches with their ids and digests in hexadecimal digits, null if they have none."""
        ids, digests, others = [NO_IDS], [np.empty((0, 2), np.uint64)], []
        for names, texts in held:
            ids.append(names.filter(texts.is_valid()))
            others.append(names.filter(texts.is_null()))
            digests.append(to_digests(bytes.fromhex("".join(texts.drop_null().to_pylist()))))
        found = np.concatenate(digests)
        order = np.argsort(found[:, 0])
        found = found[order]
        ordered = pa.concat_arrays(ids).take(pa.array(order))
        return cls(key, pa.concat_arrays([ordered, *others]), found, np.ascontiguousarray(found[:, 0]))

    def digest(self, rows: Sequence[Any]) -> Digests:
        """Return the digests of rows as the service sent them."""
        key = self.key
        return to_digests(b"".join([blake2b(row, digest_size=DIGEST_SIZE, key=key).digest() for row in rows]))

    def find(self, digests: Digests) -> Places:
        """Return the place in `ids` of each row with such a digest, -1 where it is not known."""
        if not len(self.halves):
            return np.full(len(digests), -1)
        # half a digest finds the place; should two rows share it, one of them is read as if it had changed
        places = np.searchsorted(self.halves, digests[:, 0]).clip(max=len(self.halves) - 1)
        return np.where((self.digests[places] == digests).all(axis=1), places, -1)

    @property
    def state(self) -> str:
        """A digest of what is known."""
        return blake2b(self.digests.tobytes(), key=self.key, digest_size=DIGEST_SIZE).hexdigest()


def to_digests(joined: bytes) -> Digests:
    """Return the digests in bytes."""
    return np.frombuffer(joined, ">u8").astype(np.uint64).reshape(-1, 2)


def to_hex(digests: Digests) -> list[str]:
    """Return each digest in hexadecimal digits."""
    digits, width = digests.astype(">u8").tobytes().hex(), 2 * DIGEST_SIZE
    return [digits[start : start + width] for start in range(0, len(digits), width)]
