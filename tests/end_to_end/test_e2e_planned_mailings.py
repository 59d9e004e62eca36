"""Mailings follow the service: letters are planned, postponed and canceled, and days keep what they list."""

import logging
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from holdings import DATASET, change, query
from planned_letters import Mailings, load_each_night, plan
from worlds import Begin, World

from letters_source import ServiceError, ServiceRejected
from letters_source.compatibility import held_window
from programmable_emulator import Emulator, Reply, When
from tasks import audit_with

ONLY = ("mailings",)


@pytest.fixture
def today() -> date:
    """The day that a load which starts now ends with; a test that runs over midnight (UTC) sees two."""
    return datetime.now(UTC).date()


def mailings(world: World) -> Mailings:
    """The contact and the first day of each row."""
    rows = query(world.place, f"select contact_id, mailed_on from {DATASET}.mailings")
    assert len(rows) == len(set(rows))
    return set(rows)


def rows(world: World) -> set[tuple[Any, ...]]:
    """Every row, without the load's id."""
    found = query(world.place, f"select contact_id, mailed_on, mailed_until, is_planned from {DATASET}.mailings")
    assert len(found) == len(set(found))
    return set(found)


def test_forty_nights_of_planned_postponed_and_canceled_letters(begin: Begin) -> None:
    """After each night, mailings are what the service lists for every day that was read again."""
    world = begin(Emulator(0, 0))
    gone = load_each_night(
        world.emulator.contacts, lambda: world.load(only=ONLY, mailings=True), lambda: mailings(world)
    )
    assert gone > 40


@pytest.mark.parametrize("ahead", [30, 366, 367])
def test_letters_that_are_planned_far_ahead_stop_no_load(begin: Begin, today: date, ahead: int) -> None:
    """A contact with a letter planned for a day by which the load checks the service is loaded like any other."""
    world = begin(Emulator(0, 3))
    plan(world.emulator.contacts, [today, today + timedelta(days=ahead), *[None] * 38])
    result = world.load(mailings=True, mailings_since=today - timedelta(days=20))
    assert mailings(world) == {("0", today)}
    assert (result.tables["contacts"], result.tables["templates"]) == (40, 3)


def test_all_letters_may_be_planned_for_one_day_far_ahead(begin: Begin, today: date) -> None:
    """A day that has all contacts is no sign of ignored days, as the next one has none."""
    world = begin(Emulator(0, 0))
    plan(world.emulator.contacts, [today + timedelta(days=366)] * 5)
    world.load(only=ONLY, mailings=True, mailings_since=today)
    assert mailings(world) == set()


def test_a_window_ends_today(begin: Begin, today: date) -> None:
    """A letter planned for tomorrow is no mailing, although today and tomorrow share a window."""
    world = begin(Emulator(0, 0))
    # a window that does not end today
    length = next(length for length in (7, 8) if (today.toordinal() + 1) % length)
    first = date.fromordinal(today.toordinal() // length * length)
    settings = {"only": ONLY, "mailings": True, "mailings_window": length, "mailings_since": first}
    plan(world.emulator.contacts, [today, today + timedelta(days=1)])
    world.load(**settings)
    assert rows(world) == {("0", first, today, False)}
    plan(world.emulator.contacts, [today, None])
    world.load(**settings)
    assert rows(world) == {("0", first, today, False)}


@pytest.mark.parametrize(
    ("held", "days", "found"),
    [
        ([((3, 3), (3, 9)), ((3, 10), (3, 12))], 7, 7),
        ([((3, 3), (3, 9)), ((3, 10), (3, 12))], 14, 7),
        ([((3, 3), (3, 9)), ((3, 10), (3, 12))], 1, 7),
        ([((3, 10), (3, 12)), ((3, 13), (3, 16)), ((3, 17), (3, 18))], 7, 7),
        ([((3, 10), (3, 16))], 7, 7),
        ([((3, 10), (3, 16))], 1, 7),
        ([((3, 10), (3, 10)), ((3, 11), (3, 11)), ((3, 12), (3, 12))], 7, 1),
        ([((3, 12), (3, 12))], 7, 7),
    ],
)
def test_the_length_of_windows_is_that_of_those_before_today(
    held: list[tuple[tuple[int, int], tuple[int, int]]], days: int, found: int
) -> None:
    """Today and the last day ahead cut windows short; loads of the former version did not."""
    filters = [
        {"last_mailed_from": f"{date(2024, *first)}", "last_mailed_to": f"{date(2024, *last)}"} for first, last in held
    ]
    started_at = datetime(2024, 3, 12, 3, tzinfo=UTC)
    assert held_window([audit_with(filters=each, started_at=started_at) for each in filters], days) == found


def test_a_letter_that_was_postponed_leaves_its_day(begin: Begin, today: date) -> None:
    """A day that is read again and lists nobody has no mailings."""
    world = begin(Emulator(0, 0))
    settings = {"only": ONLY, "mailings": True, "mailings_since": today}
    plan(world.emulator.contacts, [today])
    world.load(**settings)
    assert mailings(world) == {("0", today)}
    plan(world.emulator.contacts, [today + timedelta(days=5)])
    world.load(**settings)
    assert mailings(world) == set()


@pytest.mark.parametrize("length", [1, 7, 8])
def test_planned_letters_are_marked_if_they_are_asked_for(begin: Begin, today: date, length: int) -> None:
    """Days ahead are read too, and again in each load; without the setting, they are gone."""
    world = begin(Emulator(0, 0))
    settings = {"only": ONLY, "mailings": True, "mailings_since": today, "mailings_window": length}
    near, far = today + timedelta(days=2), today + timedelta(days=9)
    before, after = [today, near, far], [today, far, near]
    found = []
    for days, ahead in ((before, 8), (after, 8), (after, 9), (after, 0)):
        plan(world.emulator.contacts, days)
        world.load(**settings, mailings_ahead=ahead)
        found.append({(row[0], row[3]) for row in rows(world)})
        assert all(row[1] > today or row[2] <= today for row in rows(world))
    mailed = ("0", False)
    assert found == [{mailed, ("1", True)}, {mailed, ("2", True)}, {mailed, ("1", True), ("2", True)}, {mailed}]


def test_days_ahead_are_read_again_once_they_have_come(begin: Begin, today: date) -> None:
    """Planned days do not count as loaded: the next load starts as if they had not been read."""
    world = begin(Emulator(0, 0))
    settings = {"only": ONLY, "mailings": True, "mailings_since": today - timedelta(days=3), "mailings_lag": 1}
    world.load(**settings, mailings_ahead=30)
    plan(world.emulator.contacts, [today - timedelta(days=1), today, today - timedelta(days=2)])
    world.load(**settings)
    assert mailings(world) == {("0", today - timedelta(days=1)), ("1", today)}


def test_mailings_of_a_dataset_without_planned_ones_go_on(begin: Begin, today: date) -> None:
    """The column is added to a table that lacks it, where earlier rows have no value; whole windows are accepted."""
    world = begin(Emulator(0, 0))
    settings = {"only": ONLY, "mailings": True, "mailings_lag": 0, "mailings_since": today - timedelta(days=30)}
    plan(world.emulator.contacts, [today - timedelta(days=20), today])
    world.load(**settings)
    change(world.place, f"alter table {DATASET}.mailings drop column is_planned")
    change(world.place, f"delete from {DATASET}._dlt_version")
    world.load(**settings)
    assert rows(world) == {
        ("0", today - timedelta(days=20), today - timedelta(days=20), None),
        ("1", today, today, False),
    }


REFUSED = Reply.of({"message": "no"}, 400)


def test_mailings_that_fail_stop_the_load(begin: Begin, today: date) -> None:
    """A load that cannot have the mailings that it was asked for is an error, and no file is made."""
    world = begin(Emulator(5, 2))
    world.emulator.canned.always(When("contacts", query="lastMailedDate"), REFUSED)
    with pytest.raises(ServiceRejected):
        world.load(mailings=True, mailings_since=today)
    assert not world.place.exists()


def test_listings_load_without_mailings_that_fail_if_that_is_allowed(
    begin: Begin, today: date, caplog: pytest.LogCaptureFixture
) -> None:
    """The table of mailings stays as it was, a warning says why, and the next load goes on where it was."""
    world = begin(Emulator(0, 2))
    settings = {"mailings": True, "mailings_since": today - timedelta(days=1), "allow_failed_mailings": True}
    plan(world.emulator.contacts, [today])
    world.load(**settings)
    plan(world.emulator.contacts, [None, today])
    world.emulator.canned.always(When("contacts", query="lastMailedDate"), REFUSED)
    with caplog.at_level(logging.WARNING):
        result = world.load(**settings)
    assert result.tables["contacts"] == 2
    assert [audit["listing"] for audit in result.audits] == ["templates", "contacts"]
    assert mailings(world) == {("0", today)}
    assert any(message.startswith("mailings: not loaded") for message in caplog.messages)
    world.emulator.canned.clear()
    world.load(**settings)
    assert mailings(world) == {("1", today)}


def test_failed_mailings_alone_are_an_error(begin: Begin, today: date) -> None:
    """If nothing else is loaded, the setting does not turn a failure into a success."""
    world = begin(Emulator(5, 2))
    world.emulator.canned.always(When("contacts"), REFUSED)
    with pytest.raises(ServiceError):
        world.load(only=ONLY, mailings=True, mailings_since=today, allow_failed_mailings=True)
