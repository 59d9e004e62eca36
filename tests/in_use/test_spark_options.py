"""What does Spark's format make of its options, before Spark reads anything?"""

import sys
from pathlib import Path

import pytest
from terminals import run_python
from worlds import World

from letters_source import SettingsError
from letters_source.config.installation import how_to_add_extra
from letters_source.config.settings import SECRETS, SETTINGS
from letters_source.extract.parts.tasks import task_of
from letters_source.spark.sessions import check_has_package
from letters_source.spark.tables import (
    ABOUT_LOADS,
    READABLE,
    LettersDataSource,
    LettersReader,
    ListingPartition,
    to_selection,
)
from letters_source.tables import CONTACTS

NO_ACCOUNTS = "option accounts must name at least one account, and excludes account_id."
USEFUL = {
    "base_url",
    "environment",
    "account_id",
    "ca_bundle",
    "client_cert",
    "client_key",
    "page_size",
    "max_workers",
    "requests_per_second",
    "max_walks",
    "proof",
    "duplicates",
    "count",
    "on_undocumented",
    "known_fields",
    "retry_budget",
    "allow_shared_ids",
    "last_mailed_statuses",
    "date_format",
    "filter_encoding",
}


def test_a_python_of_tasks_without_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for a Python that lacks the package says which variable to set; one that has it is accepted."""
    monkeypatch.chdir(tmp_path)
    bare, whole = tmp_path / "bare", tmp_path / "whole"
    for file, option in ((bare, "-IS"), (whole, "")):
        file.write_text(f'#!/bin/sh\nexec {sys.executable} {option} "$@"\n')
        file.chmod(0o700)
    for python in (str(whole), sys.executable, "no-such-python"):
        check_has_package(python)
    with pytest.raises(SettingsError) as caught:
        check_has_package(str(bare))
    assert str(caught.value) == (
        f"Spark runs its tasks with {bare}, which does not have letters_source: set PYSPARK_PYTHON to "
        f"{sys.executable} before the session starts."
    )


def test_columns_have_their_descriptions() -> None:
    """The columns of a DataFrame have their descriptions as comments, and keys are never null."""
    columns = LettersDataSource({"table": "contacts"}).schema()
    assert {one.name: one.metadata for one in columns} == {
        one.name: {"comment": one.description} for one in CONTACTS.columns
    }
    assert [one.name for one in columns if not one.nullable] == ["id"]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, f"option table must be one of {', '.join(READABLE)}, got ''."),
        ({"table": "mailings"}, f"option table must be one of {', '.join(READABLE)}, got 'mailings'."),
        ({"pagesize": "9"}, "unknown setting sources.letters.pagesize; did you mean page_size?"),
        ({"page_size": "0"}, "option page_size must be a whole number from 1 to 1000000 or auto, got '0'."),
        ({"history": "true"}, "option history is about loads, and Spark only reads; leave it out."),
        ({"accounts": " ,"}, NO_ACCOUNTS),
        ({"accounts": "A", "account_id": "A"}, NO_ACCOUNTS),
    ],
)
def test_unusable_options_are_refused(options: dict[str, str], error: str) -> None:
    """The error for an unusable option says what is wrong, before anything is read."""
    given = options if options.get("table") or not options else {"table": "contacts", **options}
    with pytest.raises(SettingsError) as caught:
        LettersDataSource(given).schema()
    assert str(caught.value) == error
    assert (caught.value.key or "").rpartition(".")[2] in {"table", *given}


def test_every_other_setting_is_an_option() -> None:
    """Every setting is an option, except secrets and settings about loads."""
    assert set(ABOUT_LOADS) < set(SETTINGS)
    assert set(SETTINGS) - set(SECRETS) - set(ABOUT_LOADS) == USEFUL


@pytest.mark.parametrize(
    ("slots", "accounts", "at_once"), [(None, "A,B,C", 3), (2, "A,B,C", 2), (8, "A,B,C", 3), (8, "A", 1)]
)
def test_tasks_at_once_are_partitions_that_fit_the_cores(slots: int | None, accounts: str, at_once: int) -> None:
    """As many partitions are read at once as there are cores, or all where cores are unknown."""
    reader = LettersReader(to_selection({"table": "contacts", "accounts": accounts}), slots)
    assert reader.partitions() == [ListingPartition("contacts", account, at_once) for account in accounts.split(",")]


def test_a_table_of_both_listings_has_a_partition_for_each() -> None:
    """A table that both listings fill has a partition for each, of the token's own account."""
    reader = LettersReader(to_selection({"table": "rejected_rows"}), None)
    assert reader.partitions() == [ListingPartition("templates", None, 2), ListingPartition("contacts", None, 2)]


def test_tasks_share_the_limits_on_requests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks at once share the limits on requests equally, and each may send at least one request."""
    world.configure(monkeypatch)
    half = task_of("contacts", {"account_id": "A", "requests_per_second": 5.0, "max_workers": 7}, 2)
    assert (half.context.throttle.workers, half.context.throttle.rate.most) == (3, 2.5)
    assert half.filters.account_id == "A"
    least = task_of("contacts", {}, 40)
    assert (least.context.throttle.workers, least.context.throttle.rate.most) == (1, None)


def test_without_pyspark_the_extra_is_named() -> None:
    """Importing the Spark part without PySpark is an error that says what to install."""
    ended = run_python("-c", "import sys; sys.modules['pyspark.sql'] = None; import letters_source.spark")
    assert ended.err.splitlines()[-1] == (
        "letters_source.errors.SettingsError: pyspark.sql is not installed; add the extra spark: "
        + how_to_add_extra("spark")
    )
