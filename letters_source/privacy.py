"""Which personal values are written, which as their hash or mask, and which not at all?

A decoded page is treated before its rows go anywhere. Columns stay where they are, whatever becomes of their values.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.errors import SettingsError
from letters_source.shape import RAW
from letters_source.tables import TABLES, UNDOCUMENTED, Column, Table, tables_of

Policy = Literal["keep", "hash", "mask", "drop"]

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

    Raises:
        SettingsError: a name or a policy is not among `CHOICES`, or the key is too short for hash.
    """

    policies: Mapping[str, Policy] = field(default_factory=dict)
    key: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        for name, policy in self.policies.items():
            if name not in CHOICES:
                raise SettingsError(f"There is no policy for {name!r}, only for {', '.join(CHOICES)}.")
            if policy not in CHOICES[name]:
                raise SettingsError(f"The policy for {name} must be {' or '.join(CHOICES[name])}.")
        if "hash" in self.policies.values() and len(self.key) < MIN_KEY_BYTES:
            raise SettingsError(f"The policy hash needs a key of {MIN_KEY_BYTES} bytes or more.")

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
        root, *children = tables_of(listing)
        treated = {column.name: self._treat_texts(batch[column.name], column) for column in self._treated(root)}
        for child in filter(self._treated, children):
            treated[child.short] = self._treat_part(batch[child.short], child)
        if self.undocumented == "drop":
            treated[RAW] = pa.nulls(batch.num_rows, pa.string())
        if not treated:
            return batch
        arrays = [treated.get(name, values) for name, values in zip(batch.schema.names, batch.columns, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)

    def _treated(self, table: Table) -> list[Column]:
        return [column for column in table.columns if self.policy_of(column) != "keep"]

    def _treat_part(self, values: pa.Array, table: Table) -> pa.Array:
        if table.part == "object":
            return self._treat_objects(values, table)
        # flattened, as values outside the slice or under a null would be written too
        objects = self._treat_objects(values.flatten(), table)
        ends = pc.cumulative_sum(pc.list_value_length(values).fill_null(0))
        offsets = pa.concat_arrays([pa.array([0], ends.type), ends])
        return pa.ListArray.from_arrays(offsets, objects, type=values.type, mask=values.is_null())

    def _treat_objects(self, objects: pa.StructArray, table: Table) -> pa.StructArray:
        columns = {column.name: column for column in table.columns}
        fields = list(objects.type)
        members = zip(fields, objects.flatten(), strict=True)
        arrays = [self._treat_texts(values, columns[member.name]) for member, values in members]
        return pa.StructArray.from_arrays(arrays, fields=fields, mask=objects.is_null())

    def _treat_texts(self, values: pa.Array, column: Column) -> pa.Array:
        match self.policy_of(column):
            case "hash":
                return hash_texts(values, self.key)
            case "mask":
                return mask_texts(values, column.name)
            case "drop":
                return pa.nulls(len(values), values.type)
            case _:
                return values


def hash_texts(values: pa.StringArray, key: bytes) -> pa.StringArray:
    """HMAC-SHA256 of each text's UTF-8, in hex: equal texts stay equal, and only who has the key can try guesses.

    Null stays null; the empty text has a hash like any other.
    """
    codes = values.dictionary_encode()
    hashes = pa.array(hmac_each(codes.dictionary.cast(pa.binary()).to_pylist(), key), pa.string())
    return hashes.take(codes.indices)


def hmac_each(texts: Iterable[bytes], key: bytes) -> Iterator[str]:
    """HMAC-SHA256 (RFC 2104) of each text, in hex.

    What depends on the key alone is hashed once, which takes half as long as `hmac` with a copy for each text.
    """
    block = (sha256(key).digest() if len(key) > BLOCK_BYTES else key).ljust(BLOCK_BYTES, b"\0")
    inner, outer = (sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))
    for text in texts:
        first, last = inner.copy(), outer.copy()
        first.update(text)
        last.update(first.digest())
        yield last.hexdigest()


def mask_texts(values: pa.StringArray, name: str) -> pa.StringArray:
    """The beginning of each text, then asterisks; null stays null, empty stays empty.

    Of an e-mail address the domain is shown: `***@example.org`; of a postal code the first three characters: `627**`;
    of all else the first: `A***`. A text that would be shown whole is `***`: one letter, a postal code of three
    characters or fewer. So is what should be an e-mail address and is none: without `@`, with nothing before the last
    `@`, or with blanks after it.
    """
    if name == "email":
        masked = mask_emails(values)
    else:
        masked = mask_ends(values, 3, "**") if name == "zip" else mask_ends(values, 1, HIDDEN)
    return pc.if_else(pc.equal(values, ""), values, masked)


def mask_ends(values: pa.StringArray, shown: int, stars: str) -> pa.StringArray:
    """The first characters of each text, then the asterisks."""
    masked = pc.binary_join_element_wise(pc.utf8_slice_codeunits(values, 0, shown), stars, "")
    return pc.if_else(pc.greater(pc.utf8_length(values), shown), masked, HIDDEN)


def mask_emails(values: pa.StringArray) -> pa.StringArray:
    """The domain of each address."""
    masked = pc.replace_substring_regex(values, r"(?s)^.+@", f"{HIDDEN}@")
    return pc.if_else(pc.match_substring_regex(values, r"(?s)^.+@[^@\s]*$"), masked, HIDDEN)
