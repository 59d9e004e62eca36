"""Apply the policy of each personal column: keep its values, hash them, mask them or drop them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.row_schema import RAW
from letters_source.tables import TABLES, UNDOCUMENTED, Column, Table, tables_of

Policy = Literal["keep", "hash", "mask", "drop"]
Treatment = Callable[[pa.StringArray], pa.StringArray]

PERSONAL = tuple(dict.fromkeys(column.name for table in TABLES for column in table.columns if column.personal))
"""The names of the personal columns. A name that several tables have, such as full_name, has one policy."""

CHOICES: Mapping[str, tuple[Policy, ...]] = {
    **dict.fromkeys(PERSONAL, get_args(Policy)),
    UNDOCUMENTED.name: ("keep", "drop"),
}
"""The columns that can have a policy, and the policies of each."""

STRICTNESS: tuple[Policy, ...] = ("keep", "mask", "hash", "drop")
"""The policies, the strictest last."""
SEARCHED = tuple(column.name for table in tables_of("contacts") for column in table.columns if column.personal)
MATCHED: Mapping[tuple[str, str], Collection[str]] = {
    ("contacts", "search"): SEARCHED,
    ("contacts", "tags"): ("title",),
    ("templates", "creator"): ("full_name",),
}
"""The personal columns that a listing's filter matches."""

HASH_METHOD, HASH_BYTES = "blake2b", 16
# 128 bits: NIST SP 800-131A asks for 112, and whoever guesses the key can look up every phone number
MIN_KEY_BYTES = 16
HIDDEN = "***"
FILTER = "filter "
"""What is hashed before the value of a filter on columns that are not hashed."""
FINGERPRINT = "pii_key_fingerprint"
"""The name under which audits record a fingerprint of the key: eight digits of the hash of this name."""


@dataclass(frozen=True, slots=True)
class Privacy:
    """How to treat personal data: keep, hash (`hash_texts`), mask (`mask_texts`) or drop (null)."""

    policies: Mapping[str, Policy] = field(default_factory=dict)  # by the names in `CHOICES`; without one is kept
    key: bytes = field(default=b"", repr=False)  # of the hashes, at least `MIN_KEY_BYTES` long
    kept: Collection[str] = frozenset()  # columns with the policy keep; a column without one may have been forgotten

    @property
    def undocumented(self) -> Policy:
        """The policy of `undocumented` and of `raw`, the text of a rejected row: both may hold any value."""
        keeps_all = all(self.policies.get(name, "keep") == "keep" for name in PERSONAL)
        return self.policies.get(UNDOCUMENTED.name, "keep" if keeps_all else "drop")

    @property
    def may_digest(self) -> bool:
        """Whether digests of rows reveal nothing: without a key, values that are not loaded could be guessed."""
        keeps_all = all(policy == "keep" for policy in self.policies.values())
        return keeps_all or len(self.key) >= MIN_KEY_BYTES

    def policy_of(self, column: Column) -> Policy:
        """Return a column's policy."""
        if column.name == UNDOCUMENTED.name:
            return self.undocumented
        return self.policies.get(column.name, "keep") if column.personal else "keep"

    @property
    def recorded(self) -> dict[str, str]:
        """The policies as an audit records them, with the method of hashes, and a fingerprint of their key."""
        if "hash" not in self.policies.values():
            return {**self.policies}
        [digits] = hash_each([FINGERPRINT], self.key)
        return {**self.policies, "hash_method": HASH_METHOD, FINGERPRINT: digits[:8]}

    def recorded_filters(self, listing: str, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Return a listing's filters as they may be written: values as `recorded_value` returns them."""
        return {name: self.recorded_value(listing, name, value) for name, value in filters.items()}

    def recorded_value(self, listing: str, name: str, value: Any) -> Any:
        """Return a filter's value, or its hash if a column that it matches is not kept; `***` without a key.

        Where the column is hashed, it is the column's hash. Elsewhere it is another one, that no column has.
        """
        policy = self.policy_of_filter(listing, name)
        if policy == "keep":
            return value
        return self._hash_filter(value, "" if policy == "hash" else FILTER) if self.key else HIDDEN

    def policy_of_filter(self, listing: str, name: str) -> Policy:
        """Return the strictest policy of the columns that a listing's filter matches."""
        policies = (self.policies.get(column, "keep") for column in MATCHED.get((listing, name), ()))
        return max(policies, key=STRICTNESS.index, default="keep")

    def private_texts(self, listing: str, filters: Mapping[str, Any]) -> list[str]:
        """Return the values of a listing's filters that must not be written."""
        hidden = [value for name, value in filters.items() if self.policy_of_filter(listing, name) != "keep" and value]
        return [text for value in hidden for text in (value if isinstance(value, list) else [value])]

    def may_be(self, held: Any, listing: str, name: str, value: Any) -> bool:
        """Return whether a recorded filter may be this value, whichever policy it was recorded with."""
        if (listing, name) not in MATCHED:
            return bool(held == value)
        hashes = [self._hash_filter(value, kind) for kind in ("", FILTER)] if self.key else []
        return held in (value, HIDDEN, *hashes)

    def _hash_filter(self, value: Any, kind: str) -> Any:
        texts = value if isinstance(value, list) else [value]
        hashes = sorted(hash_each((f"{kind}{text}" for text in texts), self.key))
        return hashes if isinstance(value, list) else hashes[0]

    def treat(self, batch: pa.RecordBatch, listing: str) -> pa.RecordBatch:
        """Return the listing's rows as they may be written; the same batch if nothing has to change."""
        # taking a page of 100 rows apart takes a tenth as long as decoding it
        if all(policy == "keep" for policy in self.policies.values()):
            return batch
        root, *children = tables_of(listing)
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        changed = self._treat_columns(columns, root)
        if self.undocumented == "drop":
            changed[RAW] = drop_texts(columns[RAW])
        for child in children:
            objects = objects_of(columns[child.short])
            members = {member.name: values for member, values in zip(objects.type, objects.flatten(), strict=True)}
            if treated := self._treat_columns(members, child):
                changed[child.short] = with_members(list((members | treated).values()), columns[child.short])
        return pa.RecordBatch.from_arrays(list((columns | changed).values()), schema=batch.schema) if changed else batch

    def _treat_columns(self, columns: Mapping[str, pa.Array], table: Table) -> dict[str, pa.Array]:
        treatments = {column.name: self._treatment_of(column) for column in table.columns}
        return {name: treatment(columns[name]) for name, treatment in treatments.items() if treatment}

    def _treatment_of(self, column: Column) -> Treatment | None:
        treatments: dict[Policy, Treatment | None] = {
            "keep": None,
            "hash": partial(hash_texts, key=self.key),
            "mask": MASKS.get(column.name, mask_texts),
            "drop": drop_texts,
        }
        return treatments[self.policy_of(column)]


def objects_of(nested: pa.Array) -> pa.StructArray:
    """Return the objects of a nested column: itself, or the elements of its lists."""
    return nested.flatten() if pa.types.is_list(nested.type) else nested


def with_members(columns: Sequence[pa.Array], nested: pa.Array) -> pa.Array:
    """Return the nested column with the members of its objects replaced."""
    old = objects_of(nested)
    objects = pa.StructArray.from_arrays(columns, fields=list(old.type), mask=old.is_null())
    if old is nested:
        return objects
    ends = pc.cumulative_sum(pc.list_value_length(nested).fill_null(0))
    offsets = pa.concat_arrays([pa.array([0], ends.type), ends])
    return pa.ListArray.from_arrays(offsets, objects, type=nested.type, mask=nested.is_null())


def hash_texts(values: pa.StringArray, key: bytes) -> pa.StringArray:
    """Return the keyed BLAKE2b hash (RFC 7693) of each text's UTF-8, 128 bits in hexadecimal; null stays null."""
    codes = values.dictionary_encode()
    hashes = pa.array(list(hash_each(codes.dictionary.to_pylist(), key)), pa.string())
    return hashes.take(codes.indices)


def hash_each(texts: Iterable[str], key: bytes) -> Iterator[str]:
    """Yield the hash of each text."""
    # hash the key once: doing so for each text takes a third longer
    keyed = blake2b(key=key if len(key) <= blake2b.MAX_KEY_SIZE else blake2b(key).digest(), digest_size=HASH_BYTES)
    for text in texts:
        state = keyed.copy()
        state.update(text.encode())
        yield state.hexdigest()


def drop_texts(values: pa.StringArray) -> pa.StringArray:
    """Return nulls."""
    return pa.nulls(len(values), values.type)


def mask_texts(values: pa.StringArray, shown: int = 1, stars: str = HIDDEN) -> pa.StringArray:
    """Return the first `shown` characters of each text and asterisks, `A***`; just `***` if that would be all of it."""
    masked = pc.binary_join_element_wise(pc.utf8_slice_codeunits(values, 0, shown), stars, "")
    return keep_empty(values, pc.if_else(pc.greater(pc.utf8_length(values), shown), masked, HIDDEN))


def mask_emails(values: pa.StringArray) -> pa.StringArray:
    """Return the part of each address after its last `@`, `***@example.org`; other text becomes `***`."""
    masked = pc.replace_substring_regex(values, r"(?s)^.+@", f"{HIDDEN}@")
    return keep_empty(values, pc.if_else(pc.match_substring_regex(values, r"(?s)^.+@[^@\s]*$"), masked, HIDDEN))


def keep_empty(values: pa.StringArray, masked: pa.StringArray) -> pa.StringArray:
    """Return the masked texts, except where the original is empty or null."""
    return pc.if_else(pc.equal(values, ""), values, masked)


MASKS: Mapping[str, Treatment] = {"email": mask_emails, "zip": partial(mask_texts, shown=3, stars="**")}
"""Columns with a mask of their own; all others use `mask_texts`."""
