"""Accounts loaded into separate files are combined, again and again."""

from pathlib import Path

import pytest
from holdings import query
from worlds import Begin, World

from letters_source import DestinationError, LoadFailed, run
from letters_source.destination.combine import own_pipeline, unite_account
from programmable_emulator import Emulator

ACCOUNTS = ("501", "502")


def load(world: World, account: str, to: Path) -> int:
    """Load an account into its own file, and from there into the combined file; return how many contacts it has."""
    result = run(own_pipeline(to, account, ACCOUNTS), account_id=account, **world.settings)
    unite_account(to, account, ACCOUNTS)
    return result.tables["contacts"]


def test_a_second_copy_takes_the_place_of_the_first(begin: Begin, tmp_path: Path) -> None:
    """A second copy of an account replaces its first; other accounts, views and comments stay."""
    world, to = begin(Emulator(60, 3)), tmp_path / "accounts.duckdb"
    first = {account: load(world, account, to) for account in ACCOUNTS}
    gone = next(row.id for row in world.emulator.contacts.rows() if row.traits.account_id == "501")
    world.emulator.contacts.delete(gone)
    assert load(world, "501", to) == first["501"] - 1
    counted = dict(query(to, "select account_id, count(*) from letters_data_all.contacts group by all"))
    assert counted == {**first, "501": first["501"] - 1}
    described = "select comment from duckdb_tables() where schema_name = 'letters_data_501' and table_name = 'contacts'"
    assert query(to, described) == [("Recipients and addresses, one row each.",)]
    assert to.stat().st_mode & 0o077 == 0


def test_an_account_that_was_never_loaded_cannot_be_copied(begin: Begin, tmp_path: Path) -> None:
    """Copying an account that was never loaded fails, and the file keeps the other accounts."""
    world, to = begin(Emulator(60, 3)), tmp_path / "accounts.duckdb"
    rows = load(world, "501", to)
    with pytest.raises(LoadFailed) as caught:
        unite_account(to, "502", ACCOUNTS)
    assert str(caught.value) == f"502 is not loaded: {tmp_path / 'accounts_502.duckdb'} does not exist; load it first."
    assert query(to, "select count(*) from letters_data_501.contacts") == [(rows,)]


def test_accounts_that_would_share_a_dataset_are_refused(tmp_path: Path) -> None:
    """`own_pipeline` refuses accounts that would share a dataset."""
    with pytest.raises(DestinationError, match="would share a dataset"):
        own_pipeline(tmp_path / "accounts.duckdb", "a-b", ("a-b", "a_b"))
