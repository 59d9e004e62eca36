"""Which rows are left of loads that never finished? Those that later loads add to, or leave as they are."""

from collections.abc import Collection
from pathlib import Path

import dlt
import pyarrow as pa
import pyarrow.parquet as pq

from letters_source.destination.held import LOADS
from letters_source.destination.pipeline import is_files
from letters_source.destination.sql import open_sql
from letters_source.tables import LISTING_AUDIT, LOAD_ID, REJECTED_ROWS, TABLES, Table


def settle_unfinished(pipeline: dlt.Pipeline, load_id: str, tables: Collection[Table]) -> None:
    """Delete the audits and rejected rows of loads that `_dlt_loads` does not list: what ended them came in between.

    Rows that such a load merged, and this one found unchanged, are this one's. Mailings are not: it may not have asked
    for their days. Files cannot be deleted from, and keep them.

    Args:
        pipeline: where to.
        load_id: the load that has just finished.
        tables: those that it loaded, of which there are rows to look at.
    """
    if is_files(pipeline):
        return
    with open_sql(pipeline) as client:
        loads = client.make_qualified_table_name(LOADS)
        unfinished = f"WHERE {LOAD_ID.name} NOT IN (SELECT load_id FROM {loads})"
        for table in tables:
            name = client.make_qualified_table_name(table.name)
            if table in (REJECTED_ROWS, LISTING_AUDIT):
                client.execute_sql(f"DELETE FROM {name} {unfinished}")
            elif table.part != "window" and disposition(pipeline, table) == "merge":
                client.execute_sql(f"UPDATE {name} SET {LOAD_ID.name} = %s {unfinished}", load_id)


def disposition(pipeline: dlt.Pipeline, table: Table) -> str:
    """How dlt wrote the table."""
    return str(pipeline.default_schema.get_table(table.name).get("write_disposition"))


def remove_stumps(dataset: Path) -> None:
    """Delete the Parquet files that a load was writing when it was ended, or its disk was full: nobody can read them.

    A file that cannot be read of a load that `_dlt_loads` lists is for people to look at.

    Args:
        dataset: the folder of its tables.
    """
    finished = {file.stem.rpartition("__")[2] for file in (dataset / LOADS).glob("*.jsonl")}
    for table in TABLES:
        for file in (dataset / table.name).glob("*.parquet"):
            load_id = ".".join(file.name.split(".")[:2])
            if load_id not in finished and not is_parquet(file):
                file.unlink()


def is_parquet(file: Path) -> bool:
    """Whether a file is whole: what Parquet is known by comes last."""
    try:
        pq.read_metadata(file)
    except pa.ArrowInvalid:
        return False
    return True
