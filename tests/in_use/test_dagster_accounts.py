"""Each account is a partition with its own dataset."""

from collections.abc import Iterator

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
from shelves import retrait
from worlds import Begin, World

from programmable_emulator import Emulator

COUNT = "select account_id, count(*) from letters_data_all.contacts group by account_id order by account_id"


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """Nine contacts and three templates, of the accounts A, B and C in turn, after two contacts that are A's, too."""
    emulator = Emulator(11, 3)
    for shelf in (emulator.contacts, emulator.templates):
        for number, row_id in enumerate(shelf.ids()):
            retrait(shelf, row_id, account_id="ABC"[max(number - 2, 0) % 3] if len(shelf.ids()) > 3 else "ABC"[number])
    return reach(begin(emulator), monkeypatch)


@pytest.fixture
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    """A Dagster that knows the accounts A and B."""
    with dg.instance_for_test(temp_dir=str(tmp_path_factory.mktemp("dagster"))) as instance:
        instance.add_dynamic_partitions("letters_accounts", ["A", "B"])
        yield instance


def load(instance: dg.DagsterInstance, account: str, *tables: str) -> dg.ExecuteInProcessResult:
    """Load an account."""
    return materialize(load_definitions(), OF_ACCOUNTS, *tables, instance=instance, partition_key=account)


def test_accounts_have_datasets_of_their_own(world: World, instance: dg.DagsterInstance) -> None:
    """Views unite those that were loaded."""
    result = load(instance, "A")
    assert result.success
    assert query(world.place, COUNT) == [("A", 5)]
    assert load(instance, "B").success
    assert query(world.place, COUNT) == [("A", 5), ("B", 3)]
    assert query(world.place, "select count(*) from letters_data_b.contacts") == [(3,)]
    assert checked(result) == {}


def test_materializations_are_of_the_partition(world: World, instance: dg.DagsterInstance) -> None:
    """Also of tables that came with a selected one."""
    load(instance, "B", "contacts__contact_labels")
    for table, expected in (("contacts__contact_labels", {"B"}), ("contacts", {"B"}), ("templates", set())):
        assert instance.get_materialized_partitions(dg.AssetKey(["letters_accounts", table])) == expected


def test_checks_look_at_every_loaded_account(world: World, instance: dg.DagsterInstance) -> None:
    """What is wrong names the account, whichever was loaded last; those not loaded yet are left alone."""
    assert load(instance, "A").success
    change(world.place, "delete from letters_data_a.templates__product")
    change(world.place, "delete from letters_data_a.templates")
    result = load(instance, "B")
    assert checked(result)["templates", "complete"] == (
        "A: templates: read 1 rows, but the destination holds 0 with 0 ids; load again."
    )
    assert ("contacts", "complete") not in checked(result)


def test_materializations_tell_the_account_s_own_table(world: World, instance: dg.DagsterInstance) -> None:
    """Its dataset has the account's name."""
    for account, dataset in (("A", "letters_data_a"), ("B", "letters_data_b")):
        facts = materialized(load(instance, account))["contacts"]
        assert (facts["dataset"], facts["dagster/table_name"]) == (dataset, f"{dataset}.contacts")


def test_checks_tell_numbers_of_each_account(world: World, instance: dg.DagsterInstance) -> None:
    """And of all together; an account whose tables cannot be counted is left out."""
    assert load(instance, "A").success
    counted = numbers(load(instance, "B"))["contacts", "complete"]
    names = ("rows_expected", "rows", "distinct_ids", "rejected_expected", "rejected")
    assert {name: counted[name] for name in names} == dict(zip(names, (8, 8, 8, 0, 0), strict=True))
    assert [record.data for record in counted["accounts"].records] == [
        {"account": account, **dict(zip(names, (rows, rows, rows, 0, 0), strict=True))}
        for account, rows in (("A", 5), ("B", 3))
    ]
    change(world.place, "drop table letters_data_a.contacts")
    counted = numbers(check(load_definitions(), OF_ACCOUNTS, instance=instance))["contacts", "complete"]
    assert [record.data["account"] for record in counted["accounts"].records] == ["B"]


def test_without_a_loaded_account_checks_fail(world: World, instance: dg.DagsterInstance) -> None:
    """There is nothing to be sure of; nor where there is no account at all."""
    for accounts in (["A", "B"], []):
        found = checked(check(load_definitions(), OF_ACCOUNTS, instance=instance))
        assert len(found) == 12
        assert set(found.values()) == {"No account is loaded yet."}
        for account in accounts:
            instance.delete_dynamic_partition("letters_accounts", account)


def test_accounts_that_would_share_a_dataset_are_refused(world: World, instance: dg.DagsterInstance) -> None:
    """Before anything is loaded."""
    instance.add_dynamic_partitions("letters_accounts", ["a"])
    assert failures(load(instance, "A")) == [
        "Two of the accounts A, B, a would share a dataset; load one into another dataset."
    ]
    assert not world.place.exists()


def test_the_schedule_asks_for_a_run_for_each_account(instance: dg.DagsterInstance) -> None:
    """As Dagster's daemon evaluates it, which takes several runs only with a key each."""
    assert requested(load_definitions(), "letters_accounts_daily", instance) == {"A": "A", "B": "B"}
