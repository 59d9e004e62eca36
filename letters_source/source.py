"""What can be loaded? The dlt source and its resources; wiring only."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Unpack

import dlt
import pyarrow as pa
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs.base_configuration import NotResolved
from dlt.common.pipeline import PipelineContext
from dlt.common.schema import Schema
from dlt.common.schema.typing import TTableSchemaColumns
from dlt.common.schema.utils import new_table
from dlt.common.storages.exceptions import CurrentLoadPackageStateNotAvailable
from dlt.common.storages.load_package import load_package_state
from dlt.extract import DltResource

from letters_source.errors import SettingsError
from letters_source.extract import Audit, Job, Rows, read_listing
from letters_source.flatten import to_rejected, to_table
from letters_source.listing import LISTINGS, Listing
from letters_source.reader import Watch
from letters_source.settings import Overrides, read_tokens_again, resolve_settings, resolve_template_filters
from letters_source.tables import LISTING_AUDIT, LOAD_ID, REJECTED_ROWS, TABLES, Table, tables_of
from letters_source.tokens import TokenSource, check_tokens

SHARED = (REJECTED_ROWS, LISTING_AUDIT)
JSON_COLUMNS = {column.name for table in TABLES for column in table.columns if column.kind == "json"}


def ignore(listing: str, walk: int, rows: int, count: int) -> None:
    """The watch of who does not watch."""


@dlt.source(name="letters", section="letters")
def letters(watch: Annotated[Watch, NotResolved()] = ignore, **settings: Unpack[Overrides]) -> list[DltResource]:
    """Templates and contacts of the letter mailing service, complete or an error.

    Resources: for each listing its tables (`templates`, `templates__creator`, `templates__product`; `contacts`,
    `contacts__contact_labels`), its rows without a usable id, and its audit. Pages are read once for all of them.

    Args:
        watch: told of each response: listing, number of the walk, rows in it, the service's count.
        **settings: as in `Settings`; what is not given comes from dlt's configuration, `[sources.letters]`.

    Raises:
        LettersError: a setting is wrong, or a listing cannot be shown to be whole; nothing is loaded then.
    """
    declare_tables(dlt.current.source_schema())
    resolved = resolve_settings(settings)
    tokens = TokenSource(check_tokens(resolved.tokens), partial(read_tokens_again, resolved, settings))
    jobs = [
        Job(listing, resolved, tokens, filters_of(listing, resolved.account_id), watch) for listing in LISTINGS.values()
    ]
    return [resource for job in jobs for resource in listing_resources(job)]


def declare_tables(schema: Schema) -> None:
    """Put all tables into the schema, so that their columns have one order whatever comes first.

    Only tables that are loaded reach the destination.
    """
    for table in TABLES:
        schema.update_table(new_table(table.name, columns=list(column_hints(table).values())))


def filters_of(listing: Listing, account_id: str | None) -> dict[str, str]:
    """The configured parameters that select a listing's rows."""
    filters = resolve_template_filters().encode() if listing.name == "templates" else {}
    return filters | ({"meta.account_id": account_id} if account_id else {})


def listing_resources(job: Job) -> Iterator[DltResource]:
    """A hidden resource that reads the listing, and for each table a transformer that takes its part of that."""
    name = job.listing.name
    pages = dlt.resource(read_pages, name=f"{name}_pages", selected=False)(job)
    yield pages
    for table in tables_of(name):
        yield described(pages | dlt.transformer(take_table, **hints(table), write_disposition="replace")(table), table)
    for table, take in ((REJECTED_ROWS, take_rejected), (LISTING_AUDIT, take_audit)):
        yield described(pages | dlt.transformer(take, **hints(table, name), write_disposition="append"), table)


def described(resource: DltResource, table: Table) -> DltResource:
    """The resource with the table's description in its schema."""
    return resource.apply_hints(additional_table_hints={"description": table.description})


def resource_names(listing: str) -> list[str]:
    """The resources of a listing that load tables."""
    return [*(table.name for table in tables_of(listing)), *(f"{listing}__{table.name}" for table in SHARED)]


def hints(table: Table, listing: str = "") -> dict[str, Any]:
    """dlt's hints of a table; one that all listings share has a resource for each, named after both."""
    parent, child = table.name.partition("__")[::2]
    reference = {"referenced_table": parent, "columns": list(table.key[:1]), "referenced_columns": ["id"]}
    return {
        "name": f"{listing}__{table.name}" if listing else table.name,
        "table_name": table.name,
        "primary_key": table.key or None,
        "references": [reference] if child else None,
        "columns": column_hints(table),
    }


def column_hints(table: Table) -> TTableSchemaColumns:
    """dlt's hints of a table's columns."""
    return {
        column.name: {
            "name": column.name,
            "data_type": column.kind,
            "description": column.description,
            "nullable": column.nullable,
        }
        for column in (*table.columns, LOAD_ID)
    }


def read_pages(job: Job) -> Iterator[Rows | Audit]:
    """The listing's rows once they are shown to be whole.

    Raises:
        SettingsError: `add_limit` was set, which would make a part look like the whole.
    """
    if dlt.current.resource().limit:
        raise SettingsError(
            f"add_limit would load a part of {job.listing.name} as if it were the whole, so it is refused; "
            "to try things out, load from the emulator: letters serve."
        )
    yield from read_listing(job, working_folder())


def working_folder() -> Path | None:
    """The running pipeline's working folder: on a disk for data, which the system's folder for files may not be."""
    context = Container()[PipelineContext]
    return Path(context.pipeline().working_dir) if context.is_active() else None


def take_table(item: Rows | Audit, table: Table) -> pa.Table | None:
    """A table's part of what was read."""
    return stamped(to_table(item.rows, table)) if isinstance(item, Rows) else None


def take_rejected(item: Rows | Audit) -> pa.Table | None:
    """The rows without a usable id; at the end an empty table, which sees to it that theirs exists."""
    if isinstance(item, Audit):
        return stamped(REJECTED_ROWS.schema.empty_table())
    return stamped(to_rejected(item.rows, item.listing)) if item.rows["id"].null_count else None


def take_audit(item: Rows | Audit) -> pa.Table | None:
    """The audit."""
    return stamped(item.row) if isinstance(item, Audit) else None


def stamped(table: pa.Table) -> pa.Table:
    """The table as dlt shall see it: with the load that brought it, and JSON columns without any value left to dlt.

    dlt knows Arrow's text only and warns, batch by batch, that it keeps our hint of JSON; a column of nulls it takes as
    hinted. Outside a pipeline there is no load.
    """
    for index, field in enumerate(table.schema):
        if field.name in JSON_COLUMNS and table[index].null_count == table.num_rows:
            table = table.set_column(index, field.name, pa.nulls(table.num_rows))
    try:
        load_id = load_package_state()["load_id"]
    except CurrentLoadPackageStateNotAvailable:
        return table
    loads = pa.repeat(pa.scalar(load_id), table.num_rows)
    return table.append_column(pa.field(LOAD_ID.name, loads.type, nullable=False), loads)
