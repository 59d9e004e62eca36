"""Each account is a partition with its own dataset."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

import dagster as dg
import pytest
from dagster_runs import (
    OF_ACCOUNTS,
    check,
    checked,
    failures,
    load_definitions,
    materialize,
    materialized,
    numbers,
    reach,
    requested,
)
from holdings import change, query
from row_changes import set_traits
from worlds import Begin, World, serve_world

from letters_source.dagster import LettersResource
from programmable_emulator import Emulator

COUNT = "select account_id, count(*) from letters_data_all.contacts group by account_id order by account_id"


@dataclass(frozen=True)
class Loaded:
    """A file that Dagster loaded two accounts into, one after the other."""

    place: Path
    instance: dg.DagsterInstance
    results: dict[str, dg.ExecuteInProcessResult]
    counts: list[Any]


def shared_service() -> Emulator:
    """Nine contacts and three templates, of the accounts A, B and C in turn, after two further contacts of A."""
    emulator = Emulator(11, 3)
    for listing in (emulator.contacts, emulator.templates):
        for number, row_id in enumerate(listing.ids()):
            set_traits(
                listing, row_id, account_id="ABC"[max(number - 2, 0) % 3] if len(listing.ids()) > 3 else "ABC"[number]
            )
    return emulator


@contextmanager
def new_instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster that knows the accounts A and B."""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("letters_accounts", ["A", "B"])
        yield instance


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world of that service."""
    return reach(begin(shared_service()), monkeypatch)


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    """A Dagster of a test's own."""
    with new_instance() as instance:
        yield instance


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    """The accounts A and B, loaded in this order for all tests that only read."""
    with (
        serve_world(tmp_path_factory.mktemp("accounts"), emulator=shared_service()) as world,
        pytest.MonkeyPatch.context() as patch,
        new_instance() as instance,
    ):
        reach(world, patch)
        found = Loaded(world.place, instance, {}, [])
        for account in ("A", "B"):
            found.results[account] = load(instance, account)
            found.counts.append(query(world.place, COUNT))
        yield found


@pytest.fixture
def copy(loaded: Loaded, tmp_path: Path) -> Path:
    """A copy of that file, to be changed."""
    return Path(copyfile(loaded.place, tmp_path / "copy.duckdb"))


def load(instance: dg.DagsterInstance, account: str, *tables: str) -> dg.ExecuteInProcessResult:
    """Load an account."""
    return materialize(load_definitions(), OF_ACCOUNTS, *tables, instance=instance, partition_key=account)


def check_copy(copy: Path, instance: dg.DagsterInstance) -> dg.ExecuteInProcessResult:
    """Run the checks on a copy of the file."""
    defs, letters = load_definitions(), LettersResource(to=str(copy))
    of_copy = dg.Definitions(defs.assets, asset_checks=defs.asset_checks, resources={"letters": letters})
    return check(of_copy, OF_ACCOUNTS, instance=instance)


def test_accounts_have_datasets_of_their_own(loaded: Loaded) -> None:
    """Each account is loaded into its own dataset, and views combine those that were loaded."""
    assert {account: result.success for account, result in loaded.results.items()} == {"A": True, "B": True}
    assert loaded.counts == [[("A", 5)], [("A", 5), ("B", 3)]]
    assert query(loaded.place, "select count(*) from letters_data_b.contacts") == [(3,)]


def test_accounts_that_are_not_loaded_yet_fail_no_check(loaded: Loaded) -> None:
    """All checks pass once one of two accounts is loaded, and once both are."""
    assert {account: checked(result) for account, result in loaded.results.items()} == {"A": {}, "B": {}}


def test_materializations_are_of_the_partition(world: World, instance: dg.DagsterInstance) -> None:
    """A table that comes with a selected one is materialized for the same account, and no other table is."""
    load(instance, "B", "contacts__contact_labels")
    for table, expected in (("contacts__contact_labels", {"B"}), ("contacts", {"B"}), ("templates", set())):
        assert instance.get_materialized_partitions(dg.AssetKey(["letters_accounts", table])) == expected


def test_checks_look_at_every_loaded_account(loaded: Loaded, copy: Path) -> None:
    """A check names the account whose table is wrong, also if another one was loaded last."""
    change(copy, "delete from letters_data_a.templates__product")
    change(copy, "delete from letters_data_a.templates__creator")
    change(copy, "delete from letters_data_a.templates")
    assert checked(check_copy(copy, loaded.instance)) == {
        ("templates", "complete"): "A: templates: read 1 row, but the destination holds 0 with 0 ids; load again."
    }


def test_materializations_name_the_account_s_own_table(loaded: Loaded) -> None:
    """The metadata of a materialization name the account's dataset and table."""
    found = {account: materialized(result)["contacts"] for account, result in loaded.results.items()}
    assert {account: (facts["dataset"], facts["dagster/table_name"]) for account, facts in found.items()} == {
        "A": ("letters_data_a", "letters_data_a.contacts"),
        "B": ("letters_data_b", "letters_data_b.contacts"),
    }


def test_checks_have_the_numbers_of_each_account(loaded: Loaded, copy: Path) -> None:
    """A check counts all accounts together and each one; an account whose tables cannot be counted is left out."""
    counted = numbers(loaded.results["B"])["contacts", "complete"]
    names = ("rows_expected", "rows", "distinct_ids", "rejected_expected", "rejected")
    assert {name: counted[name] for name in names} == dict(zip(names, (8, 8, 8, 0, 0), strict=True))
    assert [record.data for record in counted["accounts"].records] == [
        {"account": account, **dict(zip(names, (rows, rows, rows, 0, 0), strict=True))}
        for account, rows in (("A", 5), ("B", 3))
    ]
    change(copy, "drop table letters_data_a.contacts")
    counted = numbers(check_copy(copy, loaded.instance))["contacts", "complete"]
    assert [record.data["account"] for record in counted["accounts"].records] == ["B"]


def test_without_a_loaded_account_checks_fail(world: World, instance: dg.DagsterInstance) -> None:
    """All checks fail while no account is loaded, and where there is no account at all."""
    for accounts in (["A", "B"], []):
        found = checked(check(load_definitions(), OF_ACCOUNTS, instance=instance))
        assert len(found) == 12
        assert set(found.values()) == {"No account is loaded yet."}
        for account in accounts:
            instance.delete_dynamic_partition("letters_accounts", account)


def test_accounts_that_would_share_a_dataset_are_refused(world: World, instance: dg.DagsterInstance) -> None:
    """Accounts whose names give the same dataset are refused before anything is loaded."""
    instance.add_dynamic_partitions("letters_accounts", ["a"])
    assert failures(load(instance, "A")) == [
        "Two of the accounts A, B, a would share a dataset; load one into another dataset."
    ]
    assert not world.place.exists()


def test_the_schedule_requests_a_run_for_each_account() -> None:
    """The schedule requests a run for each account, with a key of its own."""
    assert requested(load_definitions(), "letters_accounts_daily", ["A", "B"]) == {"A": "A", "B": "B"}
