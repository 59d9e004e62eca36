"""Split a listing's rows, with nested children, into the rows of each table."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from letters_source.decode.row_schema import PAGE, POSITION, RAW, REASON, to_int64
from letters_source.tables import REJECTED_ROWS, Table


def to_table(rows: pa.Table, table: Table) -> pa.Table:
    """Return the rows of one table, from rows in the row schema of its listing that have a usable id."""
    if table.origin == "row":
        return accepted(rows).select(table.schema.names).cast(table.schema)
    nested = accepted(rows.select(["id", table.short]))
    return objects_table(nested, table) if table.origin == "object" else elements_table(nested, table)


def accepted(rows: pa.Table) -> pa.Table:
    """Return the rows with a usable id, without a copy if that is all of them."""
    ids = rows["id"]
    return rows.filter(ids.is_valid()) if ids.null_count else rows


def objects_table(rows: pa.Table, table: Table) -> pa.Table:
    """Return one row for each nested object."""
    rows = rows.filter(rows[table.short].is_valid())
    objects = rows[table.short].combine_chunks()
    arrays = [rows["id"], *(pc.struct_field(objects, column.name) for column in table.columns[1:])]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def elements_table(rows: pa.Table, table: Table) -> pa.Table:
    """Return one row for each element of the nested lists with its position; nulls are skipped but counted."""
    lists = rows[table.short].combine_chunks()
    elements, parents = pc.list_flatten(lists), pc.list_parent_indices(lists)
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    positions = np.arange(len(elements)) - (lengths.cumsum() - lengths)[parents.to_numpy()]
    ids = rows["id"].combine_chunks().take(parents)
    columns = (pc.struct_field(elements, column.name) for column in table.columns[2:])
    flat = pa.Table.from_arrays([ids, to_int64(positions), *columns], schema=table.schema)
    return flat.filter(elements.is_valid()) if elements.null_count else flat


def to_rejected(rows: pa.Table, listing: str) -> pa.Table:
    """Return the rows without a usable id as rows of `rejected_rows`."""
    rows = rows.filter(rows["id"].is_null())
    name = pa.repeat(pa.scalar(listing, pa.string()), rows.num_rows)
    return pa.Table.from_arrays(
        [name, *(rows[column] for column in (PAGE, POSITION, REASON, RAW))], schema=REJECTED_ROWS.schema
    )
