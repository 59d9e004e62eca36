"""Does a DuckDB file hold exactly what the emulator holds? Each table has a fingerprint, which DuckDB computes.

The emulator's rows are read as the JSON that it sends, by DuckDB alone: none of our code is involved.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
from holdings import COLUMNS, DATASET, LISTED

from programmable_emulator import Row

Fingerprint = tuple[int, int]
"""How many rows a table has, and the sum of their hashes, in which order does not matter."""
State = tuple[Fingerprint, ...]
"""The fingerprint of each listed table."""

FIELDS: dict[str, dict[str, str]] = {
    "templates": {
        **dict.fromkeys(("id", "title", "templateUrl", "templateType", "thumbnailUrl"), "VARCHAR"),
        "creator": "STRUCT(id VARCHAR, fullName VARCHAR)",
        "product": (
            "STRUCT(id VARCHAR, paperType VARCHAR, paperSize VARCHAR, deliveryType VARCHAR, productType VARCHAR, "
            'envelopeType VARCHAR, postageType VARCHAR, "name" VARCHAR, meta JSON)'
        ),
    },
    "contacts": {
        **dict.fromkeys(("id", "firstName", "lastName", "fullName", "companyName", "address1", "address2"), "VARCHAR"),
        **dict.fromkeys(("city", "state", "zip", "phoneNo", "extension", "websiteUrl", "orgId", "email"), "VARCHAR"),
        **dict.fromkeys(("isVerified", "isLiveMode"), "BOOLEAN"),
        "createdAt": "TIMESTAMPTZ",
        "ContactLabels": "STRUCT(id VARCHAR, title VARCHAR)[]",
    },
}
# the values of each table's row in the order of its columns, of which the last is what was not documented
VALUES = {
    "templates": ("*columns(* exclude (creator, product)), null", "templates"),
    "templates__creator": ("id, creator.id, creator.fullName, null", "templates"),
    "templates__product": ("id, *columns(product.*), null", "templates where product is not null"),
    "contacts": ("*columns(* exclude ContactLabels), null", "contacts"),
    "contacts__contact_labels": (
        "id, place - 1, label.id, label.title, null",
        "(select id, unnest(ContactLabels) as label, unnest(range(1, len(ContactLabels) + 1)) as place from contacts)",
    ),
}


def fingerprint(connection: duckdb.DuckDBPyConnection, values: str, relation: str) -> Fingerprint:
    """Return the fingerprint of the given values of a relation."""
    sql = f"select count(*), coalesce(sum(hash({values})::hugeint), 0)::varchar from {relation}"
    [(rows, total)] = connection.sql(sql).fetchall()
    return rows, int(total)


def state_of(file: Path) -> State:
    """Return the fingerprints of a file's tables, as a reader sees them."""
    with duckdb.connect(str(file), read_only=True) as connection:
        return tuple(fingerprint(connection, columns_of(table), f"{DATASET}.{table}") for table in LISTED)


def columns_of(table: str) -> str:
    """A table's columns, but for the load that brought a row."""
    return ", ".join(f'"{column.partition(":")[0]}"' for column in COLUMNS[table].split())


def state_held(rows: Mapping[str, Iterable[Row]]) -> State:
    """Return the fingerprints that a file must have after loading these rows of the listings."""
    with TemporaryDirectory() as folder, duckdb.connect() as connection:
        for listing, fields in FIELDS.items():
            file = Path(folder, listing)
            file.write_bytes(b"\n".join(row.wire for row in rows[listing]))
            connection.read_json(str(file), columns=fields, format="newline_delimited").to_table(listing)
        return tuple(fingerprint(connection, *VALUES[table]) for table in LISTED)
