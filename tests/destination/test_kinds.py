"""The write disposition of each mode."""

import pytest

from letters_source.destination.modes import write_disposition
from letters_source.tables import CONTACTS, CONTACTS__CONTACT_LABELS, TEMPLATES__SHARED, Table


def test_each_mode_is_written_in_its_way() -> None:
    """History and sync are merged by the row hash, and sync skips rows with the same hash."""
    hashed = {"disposition": "merge", "row_version_column_name": "row_hash"}
    assert write_disposition(CONTACTS, "replace") == {"disposition": "replace"}
    assert write_disposition(CONTACTS, "history") == {**hashed, "strategy": "scd2"}
    assert write_disposition(CONTACTS, "sync") == {**hashed, "strategy": "cdc", "skip_unchanged_rows": True}


@pytest.mark.parametrize(
    ("table", "key"), [(CONTACTS, "id"), (CONTACTS__CONTACT_LABELS, "contact_id"), (TEMPLATES__SHARED, "template_id")]
)
def test_history_with_filters_ends_versions_of_what_is_listed(table: Table, key: str) -> None:
    """With filters, history ends only versions of contacts and templates that the staging table lists."""
    assert write_disposition(table, "history", filtered=True) == {
        "disposition": "merge",
        "strategy": "scd2",
        "row_version_column_name": "row_hash",
        "destination_scope": f"{key} IN (SELECT {key} FROM {{staging_table}})",
        "source_filter": "row_hash <> 'listed'",
    }
