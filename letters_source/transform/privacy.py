"""Which personal values are written, which as their hash or mask, and which not at all?

A decoded page is treated before its rows go anywhere. Columns stay where they are, whatever becomes of their values.
"""

from binascii import b2a_base64
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import accumulate
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.row_schema import RAW
from letters_source.tables import TABLES, UNDOCUMENTED, Column, tables_of

Policy = Literal["keep", "hash", "mask", "drop"]
Treatment = Callable[[pa.StringArray], pa.StringArray]
Place = tuple[str, str]
"""A table's name and a column's."""

PERSONAL = tuple(dict.fromkeys(column.name for table in TABLES for column in table.columns if column.personal))
"""The names of the personal columns; one that is in several tables, such as full_name, has one policy."""

CHOICES: Mapping[str, tuple[Policy, ...]] = {
    **dict.fromkeys(PERSONAL, get_args(Policy)),
    UNDOCUMENTED.name: ("keep", "drop"),
}
"""What can have a policy, and which."""

# 128 bits: NIST SP 800-131A asks for 112, and who guesses the key can look up every phone number
MIN_KEY_BYTES = 16
# SHA-256 reads its input in blocks of 64 bytes (FIPS 180-4)
BLOCK_BYTES = 64
HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Privacy:
    """What becomes of personal values: keep, hash (see `hash_texts`), mask (see `mask_texts`) or drop (null).

    `undocumented` may hold anything, and so may the text of a rejected row, `raw`: both are dropped, in all tables, as
    soon as one personal column is not kept, unless the policy of `undocumented` says keep.

    Args:
        policies: by the names in `CHOICES`; a personal column without one is kept.
        key: what hashes are made with, secret, `MIN_KEY_BYTES` or longer.
        kept: columns whose policy is keep, as against those without any, which may have been forgotten.
    """

    policies: Mapping[str, Policy] = field(default_factory=dict)
    key: bytes = field(default=b"", repr=False)
    kept: Collection[str] = frozenset()

    @property
    def undocumented(self) -> Policy:
        """What becomes of `undocumented` and `raw`."""
        keeps_all = all(self.policies.get(name, "keep") == "keep" for name in PERSONAL)
        return self.policies.get(UNDOCUMENTED.name, "keep" if keeps_all else "drop")

    def policy_of(self, column: Column) -> Policy:
        """What becomes of a column's values."""
        if column.name == UNDOCUMENTED.name:
            return self.undocumented
        return self.policies.get(column.name, "keep") if column.personal else "keep"

    def treat(self, batch: pa.RecordBatch, listing: str) -> pa.RecordBatch:
        """The rows as they may be written; the same batch where all is kept.

        Args:
            batch: in the row shape of the listing.
            listing: whose rows they are.
        """
        lots = self._plan(listing)
        if not lots:
            return batch
        columns = take_apart(batch, listing)
        for treatment, places in lots.items():
            treated = treat_together([columns[place] for place in places], treatment)
            columns |= zip(places, treated, strict=True)
        return put_together(batch, listing, columns)

    def _plan(self, listing: str) -> dict[Treatment, list[Place]]:
        lots: dict[Treatment, list[Place]] = defaultdict(list)
        for table in tables_of(listing):
            for column in table.columns:
                if treatment := self._treatment_of(column):
                    lots[treatment].append((table.name, column.name))
        if self.undocumented == "drop":
            lots[drop_texts].append((listing, RAW))
        return lots

    def _treatment_of(self, column: Column) -> Treatment | None:
        treatments: dict[Policy, Treatment | None] = {
            "keep": None,
            "hash": self._hash,
            "mask": MASKS.get(column.name, mask_texts),
            "drop": drop_texts,
        }
        return treatments[self.policy_of(column)]

    def _hash(self, values: pa.StringArray) -> pa.StringArray:
        return hash_texts(values, self.key)


def take_apart(batch: pa.RecordBatch, listing: str) -> dict[Place, pa.Array]:
    """The columns of a listing's rows and of what is nested in them."""
    root, *children = tables_of(listing)
    columns = {(root.name, name): values for name, values in zip(batch.schema.names, batch.columns, strict=True)}
    for child in children:
        objects = objects_of(batch[child.short])
        members = zip(objects.type, objects.flatten(), strict=True)
        columns |= {(child.name, member.name): values for member, values in members}
    return columns


def put_together(batch: pa.RecordBatch, listing: str, columns: Mapping[Place, pa.Array]) -> pa.RecordBatch:
    """The rows of these columns, nested as in the batch that was taken apart."""
    root, *children = tables_of(listing)
    arrays = {name: columns[root.name, name] for name in batch.schema.names}
    for child in children:
        nested = batch[child.short]
        members = list(objects_of(nested).type)
        arrays[child.short] = nest([columns[child.name, member.name] for member in members], nested)
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=batch.schema)


def objects_of(nested: pa.Array) -> pa.StructArray:
    """The objects of a nested part; of lists their elements, without any that no list holds."""
    return nested.flatten() if pa.types.is_list(nested.type) else nested


def nest(columns: Sequence[pa.Array], nested: pa.Array) -> pa.Array:
    """The columns of the objects of a nested part, nested alike."""
    old = objects_of(nested)
    objects = pa.StructArray.from_arrays(columns, fields=list(old.type), mask=old.is_null())
    if old is nested:
        return objects
    ends = pc.cumulative_sum(pc.list_value_length(nested).fill_null(0))
    offsets = pa.concat_arrays([pa.array([0], ends.type), ends])
    return pa.ListArray.from_arrays(offsets, objects, type=nested.type, mask=nested.is_null())


def treat_together(texts: Sequence[pa.StringArray], treatment: Treatment) -> list[pa.StringArray]:
    """Each column treated, all in one go.

    One by one they take twice as long in a load: each of Arrow's functions releases the interpreter's lock, and the
    workers wait for one another to get it back.
    """
    treated = treatment(pa.concat_arrays(texts))
    starts = accumulate(map(len, texts), initial=0)
    return [treated.slice(start, len(column)) for start, column in zip(starts, texts, strict=False)]


def hash_texts(values: pa.StringArray, key: bytes) -> pa.StringArray:
    """HMAC-SHA256 of each text's UTF-8, as `in_base64` writes it.

    Equal texts stay equal, and only who has the key can try guesses.

    Null stays null; the empty text has a hash like any other.
    """
    codes = values.dictionary_encode()
    hashes = hmac_each(codes.dictionary.cast(pa.binary()).to_pylist(), key)
    return in_base64(list(hashes)).take(codes.indices)


def hmac_each(texts: Iterable[bytes], key: bytes) -> Iterator[bytes]:
    """HMAC-SHA256 (RFC 2104) of each text.

    What depends on the key alone is hashed once; `hmac` takes over twice as long, and 1.6 times with copies of one.
    """
    block = (sha256(key).digest() if len(key) > BLOCK_BYTES else key).ljust(BLOCK_BYTES, b"\0")
    inner, outer = (sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))
    for text in texts:
        first, last = inner.copy(), outer.copy()
        first.update(text)
        last.update(first.digest())
        yield last.digest()


def in_base64(hashes: Sequence[bytes]) -> pa.StringArray:
    """The first half of each hash of 32 bytes as text: 128 bits in 22 characters, base64 without its padding.

    RFC 2104 (5) holds half to be enough; the whole takes a tenth of a load longer to write. All are made into text at
    once, each filled up to a multiple of three bytes.
    """
    filled = b"".join(each[:16] + b"\0\0" for each in hashes)
    letters = np.frombuffer(b2a_base64(filled, newline=False), np.uint8).reshape(-1, 24)[:, :22]
    ends = np.arange(0, letters.size + 1, 22, dtype=np.int32)
    return pa.StringArray.from_buffers(len(hashes), pa.py_buffer(ends), pa.py_buffer(letters.tobytes()))


def drop_texts(values: pa.StringArray) -> pa.StringArray:
    """Nulls."""
    return pa.nulls(len(values), values.type)


def mask_texts(values: pa.StringArray, shown: int = 1, stars: str = HIDDEN) -> pa.StringArray:
    """The first character of each text, then asterisks: `A***`; one that would be shown whole is `***`.

    Null stays null, and empty empty. Postal codes show three characters, `627**`; e-mail addresses see `mask_emails`.
    """
    masked = pc.binary_join_element_wise(pc.utf8_slice_codeunits(values, 0, shown), stars, "")
    return keep_empty(values, pc.if_else(pc.greater(pc.utf8_length(values), shown), masked, HIDDEN))


def mask_emails(values: pa.StringArray) -> pa.StringArray:
    """The domain of each address, what follows the last `@`: `***@example.org`.

    What is no address is `***`: without `@`, with nothing before the last one, or with blanks after it.
    """
    masked = pc.replace_substring_regex(values, r"(?s)^.+@", f"{HIDDEN}@")
    return keep_empty(values, pc.if_else(pc.match_substring_regex(values, r"(?s)^.+@[^@\s]*$"), masked, HIDDEN))


def keep_empty(values: pa.StringArray, masked: pa.StringArray) -> pa.StringArray:
    """The masked texts, empty where the text is, null where there is none."""
    return pc.if_else(pc.equal(values, ""), values, masked)


MASKS: Mapping[str, Treatment] = {"email": mask_emails, "zip": partial(mask_texts, shown=3, stars="**")}
"""The masks of columns that are not masked as other texts are."""
