"""Delta and Iceberg tables in a folder or a bucket: each table changes in one commit."""

import json
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from typing import TYPE_CHECKING, Any

from dlt.common.destination import AnyDestination

from letters_source.destination import files, other
from letters_source.destination.cleanup import unfinished
from letters_source.destination.file_tables import FilesSql
from letters_source.destination.loading import STAGED, with_parameters
from letters_source.destination.place import Held, Place, Written
from letters_source.destination.sql import fetch_rows, literal
from letters_source.destination.verify import audits_of
from letters_source.results import Audit
from letters_source.service.listings import DAYS
from letters_source.tables import LOAD_ID, MAILINGS, Table

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from dlt.common.schema.typing import TTableFormat
    from pyiceberg.table import Table as IcebergTable

LIBRARIES = {"delta": "dlt.common.libs.deltalake", "iceberg": "dlt.common.libs.pyiceberg"}

# Delta rejects rows whose metadata differs from the table's, so a changed description would make loads fail
has_schema_metadata = False
clean_up = other.clean_up
restore = other.restore
obstacles = other.obstacles
file_format = other.file_format
load_settings = files.load_settings
open_sql = files.open_sql
find_audits = other.find_audits
writes_changes = other.writes_changes
check_copy = other.check_copy
publish = other.publish
combine = other.combine


def check(place: Place) -> None:
    """Check that a folder is writable and holds tables of this format, or that a bucket is writable."""
    files.check_files(place, form=place.name, library=LIBRARIES[place.name])


@contextmanager
def lock(place: Place, wait: float) -> Iterator[Held]:
    """Lock a local folder while the block runs, without pyiceberg's warning."""
    with files.lock(place, wait) as held, warnings.catch_warnings():
        # about replacing an empty table, as every first load does
        warnings.filterwarnings("ignore", "Delete operation did not match any records", UserWarning)
        yield held


def loading(place: Place, _held: Held) -> AnyDestination:
    """Replace each table in one commit."""
    return with_parameters(place.pipeline.destination, STAGED)


def verify(client: FilesSql, written: Written) -> tuple[Audit, ...]:
    """Delete mailings that the service no longer lists, and verify the load."""
    delete_unlisted(
        client, [audit for audit in audits_of(client, written.load_id) if audit["listing"] == MAILINGS.name]
    )
    return files.verify(client, written)


def delete_unlisted(client: FilesSql, audits: Sequence[Audit]) -> None:
    """Delete mailings of the days that a load read and did not write: dlt only merges rows into these tables."""
    if not audits:
        return
    asked = [json.loads(audit["filters"]) for audit in audits]
    first, last = min(each[DAYS[0]] for each in asked), max(each[DAYS[1]] for each in asked)
    today = min(audit["started_at"] for audit in audits).astimezone(UTC).date().isoformat()
    # a load that reads today replaces all later days too
    until = f" AND mailed_on <= '{last}'" if last < today else ""
    condition = f"mailed_on >= '{first}'{until} AND {LOAD_ID.name} <> '{audits[0]['_dlt_load_id']}'"
    for form in DESCRIBE:
        if client.client.is_open_table(form, MAILINGS.name):
            client.client.load_open_table(form, MAILINGS.name).delete(condition)


def annotate(_place: Place, client: FilesSql, written: Written, audits: Sequence[Audit]) -> None:
    """Take over unchanged rows of unfinished loads, and write missing descriptions."""
    adopt_unfinished(client, written, {audit["listing"] for audit in audits if audit["mode"] == "sync"})
    for table in written.tables:
        for form, describe in DESCRIBE.items():
            if client.client.is_open_table(form, table.name):
                describe(client.client.load_open_table(form, table.name), table)


def adopt_unfinished(client: FilesSql, written: Written, synced: Collection[str]) -> None:
    """Assign unchanged rows of unfinished loads to this load, which is verified, in one commit per table."""
    for table in written.tables:
        if table.listing not in synced or table.origin == "dates":
            continue
        name = client.make_qualified_table_name(table.name)
        found = fetch_rows(client, f"SELECT DISTINCT {LOAD_ID.name} FROM {name} WHERE {unfinished(client)}")
        if found:
            loads = ", ".join(literal(load_id) for [load_id] in found)
            delta = client.client.load_open_table("delta", table.name)
            delta.update({LOAD_ID.name: literal(written.load_id)}, predicate=f"{LOAD_ID.name} IN ({loads})")


def describe_delta(found: "DeltaTable", table: Table) -> None:
    """Describe a Delta table, with one commit per description: deltalake cannot set several at once."""
    if found.metadata().description != table.description:
        found.alter.set_table_description(table.description)
    comments = {field.name: field.metadata.get("comment") for field in found.schema().fields}
    for column in table.loaded:
        if comments[column.name] != column.description:
            found.alter.set_column_metadata(column.name, {"comment": column.description})


def describe_iceberg(found: "IcebergTable", table: Table) -> None:
    """Describe an Iceberg table and set its identifier fields in one commit; pyiceberg skips an unchanged schema."""
    with found.transaction() as transaction:
        if found.properties.get("comment") != table.description:
            transaction.set_properties(comment=table.description)
        with transaction.update_schema() as update:
            for column in table.loaded:
                update.update_column(column.name, doc=column.description)
            update.set_identifier_fields(*table.key)


DESCRIBE: "dict[TTableFormat, Callable[[Any, Table], None]]" = {"delta": describe_delta, "iceberg": describe_iceberg}


def example_code(place: Place, contacts: str, query: str) -> str:
    """Return a query of a local Delta table with the modules deltalake and duckdb; Iceberg needs its catalog."""
    if not place.path or place.name != "delta":
        return ""
    folder = json.dumps(str(place.path / place.dataset / contacts))
    rows = f"deltalake.DeltaTable({folder}).to_pyarrow_dataset()"
    return f'import deltalake, duckdb; contacts = {rows}; duckdb.sql("from contacts {query}").show()'
