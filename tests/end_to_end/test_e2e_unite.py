"""Accounts loaded into separate files are combined, again and again."""

from pathlib import Path

import pytest
from holdings import change, query
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


OTHERS = """
    CREATE SCHEMA mine;
    CREATE VIEW mine.texas AS FROM letters_data_501.contacts;
    CREATE TABLE zones (id integer PRIMARY KEY);
    CREATE TABLE areas (zone integer REFERENCES zones);
    INSERT INTO zones VALUES (1);
    INSERT INTO areas VALUES (1);
    CREATE SEQUENCE counted;
    CREATE VIEW letters_data_501.broken AS FROM zones;
"""
INSIDE = """
    CREATE VIEW letters_data_501.named AS FROM accounts_501.letters_data_501.contacts;
    CREATE TABLE letters_data_501.a_note (zone integer);
    CREATE TABLE letters_data_501.regions (id integer PRIMARY KEY, twice integer AS (id * 2));
    CREATE TABLE letters_data_501.places (region integer REFERENCES letters_data_501.regions);
    INSERT INTO letters_data_501.regions VALUES (1);
    INSERT INTO letters_data_501.places VALUES (1);
    CREATE UNIQUE INDEX own_index ON letters_data_501.regions (id);
    COMMENT ON VIEW letters_data_501.named IS 'all of them';
"""


def test_only_the_dataset_is_copied(begin: Begin, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Other schemas of an account's file are left out, and one warning names what they hold."""
    world, to = begin(Emulator(60, 3)), tmp_path / "accounts.duckdb"
    rows = load(world, "501", to)
    change(tmp_path / "accounts_501.duckdb", OTHERS)
    for _ in range(3):
        caplog.clear()
        unite_account(to, "501", ACCOUNTS)
        [message] = [line for line in caplog.messages if "lacks" in line]
        names = "main.zones, main.areas, letters_data_501.broken, mine.texas, main.counted"
        assert message == (
            f"{to} lacks {names} of {tmp_path / 'accounts_501.duckdb'}: "
            "only the dataset letters_data_501 is copied, with what needs nothing else."
        )
    assert query(to, "SELECT count(*) FROM letters_data_all.contacts") == [(rows,)]


def test_what_else_the_dataset_holds_is_copied(begin: Begin, tmp_path: Path) -> None:
    """Tables, keys, indexes and views that someone made in the dataset are copied, each time."""
    world, to = begin(Emulator(60, 3)), tmp_path / "accounts.duckdb"
    rows = load(world, "501", to)
    own = tmp_path / "accounts_501.duckdb"
    change(own, INSIDE)
    before = own.read_bytes()
    for _ in range(3):
        unite_account(to, "501", ACCOUNTS)
    assert own.read_bytes() == before
    assert query(to, "SELECT count(*) FROM letters_data_501.named") == [(rows,)]
    assert query(
        to, "SELECT region, twice FROM letters_data_501.places JOIN letters_data_501.regions ON id = region"
    ) == [(1, 2)]
    assert query(to, "SELECT comment FROM duckdb_views() WHERE comment IS NOT NULL") == [("all of them",)]
    assert query(to, "SELECT index_name FROM duckdb_indexes()") == [("own_index",)]


def test_what_someone_made_in_the_combined_file_stays(begin: Begin, tmp_path: Path) -> None:
    """Tables and views that someone made in the combined file stay when an account is copied into it again."""
    world, to = begin(Emulator(60, 3)), tmp_path / "accounts.duckdb"
    rows = load(world, "501", to)
    change(to, f"{OTHERS} CREATE TABLE letters_data_501.kept AS FROM range(3)")
    unite_account(to, "501", ACCOUNTS)
    assert query(to, "SELECT count(*) FROM mine.texas") == [(rows,)]
    assert query(to, "SELECT count(*) FROM letters_data_501.kept") == [(3,)]
