"""Read a single table: the rows of its listing, or of a facet, that belong to it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from letters_source.extract.facets import read_facet
from letters_source.extract.listing import read_listing
from letters_source.extract.probe import count_listing, report_ignored
from letters_source.extract.task import ListingRows, TableRows, Task
from letters_source.tables import REJECTED_ROWS, Table
from letters_source.transform.flatten import to_rejected, to_table


def read_table(task: Task, table: Table, folder: Path | None) -> Iterator[pa.Table]:
    """Yield the rows of a table other than mailings once its listing is proven complete; they wait in `folder`."""
    for item in read_items(task, table, folder):
        rows = rows_of(item, table)
        if rows is not None:
            yield rows


def read_items(task: Task, table: Table, folder: Path | None) -> Iterator[ListingRows | TableRows]:
    """Yield the items of a reading that has the table's rows, those of other tables included."""
    if table.origin == "facet":
        yield from read_facet(task, table, count_listing(task))
        return
    count = yield from read_listing(task, folder, ())
    report_ignored(task, count)


def rows_of(item: ListingRows | TableRows, table: Table) -> pa.Table | None:
    """Return the table's rows in an item; None if it has those of other tables."""
    if isinstance(item, TableRows):
        return item.rows if item.table == table.name else None
    if table.name == REJECTED_ROWS.name:
        return to_rejected(item.rows, item.listing)
    return to_table(item.rows, table) if item.listing == table.listing else None
