"""Mailings grow without missing or repeating a day, even if loads are interrupted."""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from commands import Command, start_command
from holdings import COLUMNS, DATASET, change, query, table_names
from planned_letters import scheduled
from row_changes import clear
from worlds import Begin, World

from letters_source import LoadFailed, ServiceError, ServiceRejected, SettingsError, letters, make_pipeline, run
from letters_source.service.listings import LONG_AGO, ContactFilters
from programmable_emulator import Emulator, Hit, Reply, Traits, When

Mailing = tuple[str, date, date]
Span = tuple[date, date]

ONLY = ("mailings",)
OURS = {"mailings", "listing_audit"}
BAD_REQUEST = Reply.of({"message": "no"}, 400)


@pytest.fixture
def today() -> date:
    """The day that a load which starts now ends with; a test that runs over midnight (UTC) sees two."""
    return datetime.now(UTC).date()


def days_from(first: date, last: date) -> list[date]:
    """The days from the first to the last."""
    return [first + timedelta(days=day) for day in range((last - first).days + 1)]


def single(days: Iterable[date]) -> list[Span]:
    """Days as windows of one day."""
    return [(day, day) for day in days]


def windows_requested(hits: Iterable[Hit]) -> list[Span]:
    """The requested windows of mailings, in order; a request for anything else would show by its day.

    Without the days by which each load tests if days are honored: a day long ago, one far ahead, and then, where
    there are several windows, all days at once.
    """
    periods = [json.loads(dict(parse_qsl(hit.query))["lastMailedDate"]) for hit in hits]
    spans = [(date.fromisoformat(each["startDate"]), date.fromisoformat(each["endDate"])) for each in periods]
    kept, checked = [], False
    for span, following in zip(spans, [*spans[1:], None], strict=True):
        is_together = checked and following is not None and span[0] == following[0] and span != following
        is_check = span == (LONG_AGO, LONG_AGO) or span[0] > datetime.now(UTC).date() + timedelta(days=300)
        if not (is_check or is_together):
            kept.append(span)
        checked = is_check
    return kept


def mailings(world: World) -> set[Mailing]:
    """Return the rows of the table, in which no contact and window may be twice."""
    rows = query(world.place, f"select contact_id, mailed_on, mailed_until from {DATASET}.mailings")
    assert len(rows) == len({row[:2] for row in rows})
    return set(rows)


def read_mailings(world: World, *others: str, **settings: Any) -> set[Mailing]:
    """Return the rows that a source yields, which no pipeline loads; no contact and window may be twice."""
    found = world.read("mailings", *others, mailings=True, **settings)["mailings"]
    rows = [tuple(row.values())[:3] for row in found]
    assert {row["is_planned"] for row in found} <= {False}
    assert len(rows) == len({row[:2] for row in rows})
    return set(rows)


def contents(world: World) -> dict[str, Any]:
    """Every row of every table, dlt's own too."""
    tables = sorted(table_names(world.place))
    return {f"{schema}.{name}": query(world.place, f"from {schema}.{name} order by all") for schema, name in tables}


def shown(emulator: Emulator, first: date, length: int = 1) -> set[Mailing]:
    """The mailings that the service shows from a day on, by windows of a length."""
    mailed = ((row.id, row.traits.last_mailed_date) for row in emulator.contacts.rows())
    return {(contact, *window_of(day, length)) for contact, day in mailed if day and day >= first}


def window_of(day: date, length: int) -> Span:
    """The aligned window that holds a day; today ends a window early."""
    start = date.fromordinal(day.toordinal() // length * length)
    return start, min(start + timedelta(days=length - 1), datetime.now(UTC).date())


def mail(emulator: Emulator, days: Iterable[date | None]) -> None:
    """Add these contacts to the service, each last mailed on its day."""
    clear(emulator.contacts)
    for number, day in enumerate(days):
        emulator.contacts.insert({"id": str(number)}, traits=Traits(last_mailed_date=day))


def mailed_until(day: date, since: date) -> list[date | None]:
    """The last mailings of 70 contacts as they are on a day: most are mailed twice, some before, some never."""
    plans = [(since + timedelta(days=n % 30), since + timedelta(days=n * 7 % 30)) for n in range(60)]
    plans += [(since - timedelta(days=3),) * 2 for _ in range(5)]
    return [*(max((one for one in plan if one <= day), default=None) for plan in plans), *[None] * 5]


def state_of(world: World) -> Any:
    """Return dlt's state of the mailings, or None if there is none yet."""
    resources = world.pipeline.state.get("sources", {}).get("letters", {}).get("resources", {})
    return resources.get("mailings_windows", {}).get("incremental", {}).get("day")


def rewind(world: World, day: date) -> None:
    """Make the dataset what it was when the last load was on that day: loads end today, and tests cannot wait."""
    change(world.place, f"delete from {DATASET}.mailings where mailed_on > '{day}'")
    later = f"(filters->>'last_mailed_from') > '{day}'"
    noon = f"update {DATASET}.listing_audit set started_at = least(started_at, '{day} 12:00:00+00')"
    change(world.place, f"delete from {DATASET}.listing_audit where listing = 'mailings' and {later}; {noon}")
    with world.pipeline.managed_state() as state:
        remembered: Any = state["sources"]["letters"]["resources"]["mailings_windows"]
        remembered["incremental"]["day"]["last_value"] = day


def stop_in_the_middle(world: World, settings: dict[str, Any]) -> None:
    """The service refuses a window after others were read."""
    before = contents(world)
    world.emulator.canned.once(When(number=len(world.emulator.hits) + 9), BAD_REQUEST)
    with pytest.raises(ServiceRejected):
        world.load(**settings)
    assert contents(world) == before
    assert not world.pipeline.has_pending_data


def normalize_alone(world: World, settings: dict[str, Any]) -> None:
    """Extract, normalize and stop there, like a process that ends before it has loaded anything."""
    only, sources = settings["only"], {**world.settings, **settings}
    source = letters(**{name: value for name, value in sources.items() if name != "only"})
    world.pipeline.extract(source.with_resources(*only, "mailings__listing_audit"))
    assert world.pipeline.has_pending_data
    world.pipeline.normalize()
    assert world.pipeline.has_pending_data


def fail_to_merge(world: World, settings: dict[str, Any]) -> None:
    """The destination fails at the mailings, after the audit may have been written."""
    fail_to_load(world, settings, "mailings")


def fail_to_audit(world: World, settings: dict[str, Any]) -> None:
    """The destination fails at the audit, after the mailings may have been written."""
    fail_to_load(world, settings, "listing_audit")


def fail_to_load(world: World, settings: dict[str, Any], table: str) -> None:
    """Let a load fail because a view has a table's place; no row stays pending."""
    name = f"{DATASET}.{table}"
    change(world.place, f"alter table {name} rename to away; create view {name} as from {DATASET}.away")
    with pytest.raises(LoadFailed, match=r"^load: "):
        world.load(**settings)
    change(world.place, f"drop view {name}; alter table {DATASET}.away rename to {table}")
    assert not world.pipeline.has_pending_data


def test_thirty_days_in_three_loads_with_stopped_ones_between(begin: Begin, today: date) -> None:
    """Each load requests the days of the lag and the new days, and no mailing is missing or twice."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=29)
    first, second = today - timedelta(days=20), today - timedelta(days=10)
    settings = {"only": ONLY, "mailings": True, "mailings_since": since, "mailings_lag": 5}
    starts = {first: since, second: first - timedelta(days=5), today: second - timedelta(days=5)}
    stops = {second: stop_in_the_middle, today: fail_to_merge}
    expected: set[Mailing] = set()
    kept = 0
    for day, start in starts.items():
        mail(world.emulator, mailed_until(day, since))
        if day in stops:
            stops[day](world, settings)
        sent = len(world.emulator.hits)
        world.load(**settings)
        assert windows_requested(world.emulator.hits[sent:]) == single(days_from(start, today))
        earlier = {row for row in expected if row[1] < start}
        kept += len(earlier - shown(world.emulator, since))
        expected = earlier | shown(world.emulator, start)
        assert mailings(world) == expected
        assert state_of(world)["last_value"] == today
        if day != today:
            rewind(world, day)
    assert kept > 0
    assert not world.pipeline.has_pending_data


@pytest.mark.parametrize("stop", [normalize_alone, fail_to_audit])
def test_what_was_read_and_not_loaded_is_read_again(
    begin: Begin, today: date, stop: Callable[[World, dict[str, Any]], None]
) -> None:
    """A load requests all days since the last finished load, even if dlt's state is already newer."""
    world, since, last = begin(Emulator(0, 0)), today - timedelta(days=14), today - timedelta(days=9)
    settings = {"only": ONLY, "mailings": True, "mailings_since": since, "mailings_lag": 2}
    mail(world.emulator, days_from(since, last))
    world.load(**settings)
    rewind(world, last)
    mail(world.emulator, days_from(since, today))
    stop(world, settings)
    sent = len(world.emulator.hits)
    world.load(**settings)
    assert windows_requested(world.emulator.hits[sent:]) == single(days_from(last - timedelta(days=2), today))
    assert mailings(world) == shown(world.emulator, since)


def test_a_killed_load_is_followed_by_a_whole_one(begin: Begin, today: date) -> None:
    """After a load is killed while reading, the next one requests all its days again."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=19)
    mail(world.emulator, days_from(since, today))
    settings = {"mailings": "true", "mailings_since": since.isoformat(), "retry_budget": "2"}
    variables = world.variables(**settings)
    arguments = ("load", "--only", "mailings", "--to", str(world.place), "--quiet")
    with start_command(*arguments, env={**os.environ, **variables}) as process:
        world.emulator.before_answer = lambda _, number: kill_at(process, number)
    assert process.returncode == -signal.SIGKILL
    world.emulator.before_answer = None
    sent = len(world.emulator.hits)
    # what its working folder keeps of that load is read by a new pipeline of the same name
    run(make_pipeline("duckdb", world.place), only=ONLY, mailings=True, mailings_since=since, **world.settings)
    assert windows_requested(world.emulator.hits[sent:]) == single(days_from(since, today))
    assert mailings(world) == shown(world.emulator, since)


def kill_at(process: Command, number: int) -> None:
    """End the process at one of its requests."""
    if number == 8:
        process.kill()


def test_a_contact_that_is_mailed_again_keeps_its_earlier_mailing(begin: Begin, today: date) -> None:
    """The service returns only the last mailing; the table keeps those of days that are not read again."""
    world = begin(Emulator(0, 0))
    old, recent = today - timedelta(days=15), today - timedelta(days=2)
    settings = {"only": ONLY, "mailings": True, "mailings_since": today - timedelta(days=20), "mailings_lag": 5}
    mail(world.emulator, [old, recent, recent])
    world.load(**settings)
    mail(world.emulator, [today, today, recent])
    world.load(**settings)
    expected = {("0", old), ("2", recent), ("0", today), ("1", today)}
    assert mailings(world) == {(contact, day, day) for contact, day in expected}


def test_days_that_the_service_ignores_make_no_mailings(begin: Begin, today: date) -> None:
    """A service that ignores days is an error; once it honors them, mailings are loaded."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=4)
    mail(world.emulator, days_from(since, today))
    rows = [row.document for row in world.emulator.contacts.rows()]
    world.emulator.canned.always(When("contacts"), Reply.of({"data": {"count": len(rows), "rows": rows}}))
    settings = {"only": ONLY, "mailings": True, "mailings_since": since}
    with pytest.raises(ServiceError, match=r"^mailings: the service ignores the days of the last mailing, so that all"):
        world.load(**settings)
    assert not world.place.exists()
    assert len(world.emulator.hits) == 3
    world.emulator.canned.clear()
    world.load(**settings)
    assert mailings(world) == shown(world.emulator, since)


def counted(*counts: int) -> list[Reply]:
    """A page for each number, of as many contacts that were not in those before."""
    names = iter(range(sum(counts)))
    return [Reply.of({"data": {"count": n, "rows": [{"id": str(next(names))} for _ in range(n)]}}) for n in counts]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (
            (0, 3, 3, 3),
            "mailings: the service ignores the days of the last mailing, so that all contacts would seem to be",
        ),
        (
            (0, 0, 3, 0, 0, 0, 3),
            "mailings: the service counts 3 contacts for all days at once, and 0 in windows of 1 days, as if it left",
        ),
    ],
)
def test_days_that_are_honored_by_half_make_no_mailings(
    begin: Begin, today: date, counts: tuple[int, ...], message: str
) -> None:
    """A service that honors only one end of a window is an error, and no file is made."""
    world = begin(Emulator(0, 0))
    world.emulator.canned.once(When("contacts"), *counted(*counts))
    with pytest.raises(ServiceError) as caught:
        world.load(only=ONLY, mailings=True, mailings_since=today - timedelta(days=2), page_size=10)
    assert str(caught.value).startswith(message)
    assert len(world.emulator.hits) == len(counts)
    assert not world.place.exists()


def read(world: World, today: date, **settings: Any) -> int:
    """The number of mailings of the last three days that a source yields, which no pipeline loads."""
    since = today - timedelta(days=2)
    source = letters(**{**world.settings, "mailings": True, "mailings_since": since, "page_size": 10, **settings})
    return sum(table.num_rows for table in source.resources["mailings"])


@pytest.mark.parametrize("counts", [(0, 0, 3, 1, 0, 1, 2), (0, 0, 3, 1, 1, 2), (0, 0, 5, 2, 1, 1, 5)])
def test_contacts_that_go_or_are_mailed_meanwhile_are_no_days_left_out(
    begin: Begin, today: date, counts: tuple[int, ...]
) -> None:
    """Contacts that are deleted or mailed again while days are compared are no missing days."""
    world = begin(Emulator(0, 0))
    world.emulator.canned.once(When("contacts"), *counted(*counts))
    found = read(world, today)
    assert len(world.emulator.hits) == len(counts)
    assert found == sum(counts[3:6])


def test_a_service_that_refuses_many_days_at_once_is_read_by_windows(begin: Begin, today: date) -> None:
    """A service that refuses many days at once is read by windows, without a comparison."""
    world = begin(Emulator(0, 0))
    none, *some = counted(0, 1, 1, 1)
    world.emulator.canned.once(When("contacts"), none, none, BAD_REQUEST, *some)
    found = read(world, today)
    assert len(world.emulator.hits) == 6
    assert found == 3


@pytest.mark.parametrize("failures", [(1,), (2,), (0, 1, 2)])
def test_a_service_that_fails_over_days_which_are_not_loaded_stops_no_load(
    begin: Begin, today: date, failures: tuple[int, ...]
) -> None:
    """Failures of the requests that only compare days do not fail a load."""
    world = begin(Emulator(0, 0))
    replies = counted(0, 0, 3, 1, 1, 1)
    for place in failures:
        # with a Retry-After as long as the retry budget
        replies[place] = Reply(500, headers={"Retry-After": "1"})
    world.emulator.canned.once(When("contacts"), *replies)
    found = read(world, today, retry_budget=1.0)
    assert len(world.emulator.hits) == 6
    assert found == 3


@pytest.mark.parametrize("reply", [BAD_REQUEST, Reply(500, headers={"Retry-After": "1"})])
def test_missing_days_are_reported_even_if_a_second_count_fails(begin: Begin, today: date, reply: Reply) -> None:
    """Missing days are an error even if the second count fails."""
    world = begin(Emulator(0, 0))
    world.emulator.canned.once(When("contacts"), *counted(0, 0, 3, 0, 0, 0), reply)
    with pytest.raises(ServiceError, match="counts 3 contacts for all days at once, and 0 in windows"):
        world.load(only=ONLY, mailings=True, mailings_since=today - timedelta(days=2), page_size=10, retry_budget=1.0)
    assert not world.place.exists()


def test_loading_the_lag_again_writes_nothing_twice(begin: Begin, today: date) -> None:
    """The second load requests the days of the lag and today, and writes their rows; other rows keep their load."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=9)
    settings = {"only": ONLY, "mailings": True, "mailings_since": since, "mailings_lag": 3}
    mail(world.emulator, [day for day in days_from(since, today) for _ in range(3)])
    first = world.load(**settings)
    once = mailings(world)
    second = world.load(**settings)
    assert windows_requested(world.emulator.hits)[10:] == single(days_from(today - timedelta(days=3), today))
    assert mailings(world) == once == shown(world.emulator, since)
    assert first.tables["mailings"] == second.tables["mailings"] == 30
    loads = dict(query(world.place, f"select mailed_on, any_value(_dlt_load_id) from {DATASET}.mailings group by all"))
    lag = days_from(today - timedelta(days=3), today)
    assert loads == {day: (second if day in lag else first).load_id for day in days_from(since, today)}


def test_without_a_lag_the_last_day_is_requested_again(begin: Begin, today: date) -> None:
    """Without a lag, the last loaded day is requested again, because it was not over."""
    world = begin(Emulator(0, 0))
    settings = {"only": ONLY, "mailings": True, "mailings_since": today - timedelta(days=3), "mailings_lag": 0}
    world.load(**settings)
    mail(world.emulator, [today])
    world.load(**settings)
    assert windows_requested(world.emulator.hits)[4:] == [(today, today)]
    assert mailings(world) == {("0", today, today)}


def test_a_day_of_several_pages_is_read_whole(begin: Begin) -> None:
    """A day of several pages is read completely, with two requests that check that days are honored."""
    world, day = begin(Emulator(0, 0)), date(2024, 5, 17)
    mail(world.emulator, [day] * 25)
    with scheduled(day, day + timedelta(days=1)):
        found = read_mailings(world, page_size=10)
    pages = sorted(dict(parse_qsl(hit.query))["page"] for hit in world.emulator.hits)
    assert pages == ["0", "0", "0", "0", "1", "2", "2"]
    assert found == shown(world.emulator, day)


def test_windows_of_seven_days_are_the_same_wherever_loads_start(begin: Begin) -> None:
    """Loads that start on different weekdays request aligned windows, which follow each other and never overlap."""
    world = begin(Emulator(600, 0))
    settings = {"only": ONLY, "mailings": True, "mailings_window": 7}
    requested = []
    for first, end in ((date(2024, 3, 6), date(2024, 3, 21)), (date(2024, 3, 19), date(2024, 4, 2))):
        before = len(world.emulator.hits)
        with scheduled(first, end):
            world.load(**settings)
        requested.append(windows_requested(world.emulator.hits[before:]))
    sundays = [date(2024, 3, day) for day in (3, 10, 17, 24, 31)]
    weeks = [(sunday, sunday + timedelta(days=6)) for sunday in sundays]
    assert requested == [weeks[:3], weeks[2:]]
    assert all(later[0] - earlier[1] == timedelta(days=1) for earlier, later in pairwise(weeks))
    whole = shown(world.emulator, sundays[0], 7)
    assert mailings(world) == {row for row in whole if row[1:] in weeks}


def test_windows_of_seven_days_continue_after_the_last_load(begin: Begin, today: date) -> None:
    """The next load requests the window of the lag's first day and all windows after it."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=30)
    mail(world.emulator, days_from(since - timedelta(days=10), today))
    settings = {"only": ONLY, "mailings": True, "mailings_since": since, "mailings_window": 7, "mailings_lag": 9}
    world.load(**settings)
    weeks = sorted({window_of(day, 7) for day in days_from(since, today)})
    assert windows_requested(world.emulator.hits) == weeks
    world.load(**settings)
    again = sorted({window_of(day, 7) for day in days_from(today - timedelta(days=9), today)})
    assert windows_requested(world.emulator.hits)[len(weeks) :] == again
    assert mailings(world) == shown(world.emulator, weeks[0][0], 7)


def test_windows_of_another_length_are_refused(begin: Begin) -> None:
    """Another window length is an error, because it would load the same mailing twice."""
    world, first = begin(Emulator(50, 0)), date(2024, 3, 6)
    with scheduled(first, first + timedelta(days=9)):
        world.load(only=ONLY, mailings=True, mailings_window=7)
        before, sent = contents(world), len(world.emulator.hits)
        for length in (1, 8):
            with pytest.raises(SettingsError) as caught:
                world.load(only=ONLY, mailings=True, mailings_window=length)
            assert str(caught.value) == (
                "mailings: the dataset letters_data was loaded in mode merge, windows of 7 days, and this load is in "
                f"mode merge, windows of {length} days; to keep both, choose another dataset."
            )
            assert caught.value.exit_code == 2
    assert contents(world) == before
    assert len(world.emulator.hits) == sent


def test_a_lost_working_folder_is_restored_from_the_destination(begin: Begin, today: date) -> None:
    """After the working folder is lost, the next load requests only the lag and today."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=14)
    mail(world.emulator, days_from(since, today))
    settings: dict[str, Any] = {**world.settings, "only": ONLY, "mailings": True, "mailings_since": since}
    world.load(only=ONLY, mailings=True, mailings_since=since)
    shutil.rmtree(Path(os.environ["DLT_DATA_DIR"]))
    run(make_pipeline("duckdb", world.place), **settings, mailings_lag=4)
    assert windows_requested(world.emulator.hits)[15:] == single(days_from(today - timedelta(days=4), today))
    assert mailings(world) == shown(world.emulator, since)


def test_a_removed_file_is_filled_from_the_first_day(begin: Begin, today: date) -> None:
    """After the file is removed, the next load requests all days from the first one."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=14)
    mail(world.emulator, days_from(since, today))
    settings: dict[str, Any] = {**world.settings, "only": ONLY, "mailings": True, "mailings_since": since}
    run(world.pipeline, **settings)
    world.place.unlink()
    run(make_pipeline("duckdb", world.place), **settings)
    assert windows_requested(world.emulator.hits)[15:] == single(days_from(since, today))
    assert mailings(world) == shown(world.emulator, since)


def test_only_mailings_requests_nothing_else(begin: Begin, today: date) -> None:
    """`only` with mailings makes their table and the audit alone, without the setting `mailings`."""
    world, since = begin(Emulator(0, 5)), today - timedelta(days=2)
    mail(world.emulator, [since, today, today])
    result = world.load(only=ONLY, mailings_since=since)
    assert set(result.tables) == OURS
    assert {name for schema, name in table_names(world.place) if schema == DATASET and name[0] != "_"} == OURS
    assert windows_requested(world.emulator.hits) == single(days_from(since, today))
    assert [
        (audit["listing"], json.loads(audit["filters"]), audit["mode"], audit["rows_yielded"], audit["adds_up"])
        for audit in result.audits
    ] == [
        ("mailings", {"last_mailed_from": f"{day}", "last_mailed_to": f"{day}"}, "merge", rows, None)
        for day, rows in zip(days_from(since, today), (1, 0, 2), strict=True)
    ]


def test_mailings_come_with_the_listings(begin: Begin, today: date) -> None:
    """The setting `mailings` adds their table, which otherwise does not exist."""
    world = begin(Emulator(20, 5))
    world.start_loaded()
    assert (DATASET, "mailings") not in table_names(world.place)
    both = world.load(mailings=True, mailings_since=today)
    assert set(both.tables) == {*COLUMNS, "mailings"}
    assert [audit["listing"] for audit in both.audits] == ["templates", "contacts", "mailings"]


def test_a_first_day_that_is_not_set_is_named(begin: Begin, today: date) -> None:
    """The error for a missing first day says where to set it; nothing is requested, and no file is made."""
    world = begin(Emulator(0, 0))
    mail(world.emulator, [today - timedelta(days=1), today])
    with pytest.raises(SettingsError) as caught:
        world.load(only=ONLY)
    assert str(caught.value) == (
        "sources.letters.mailings_since is not set; set SOURCES__LETTERS__MAILINGS_SINCE in the environment, "
        "or mailings_since under [sources.letters] in .dlt/config.toml."
    )
    assert world.emulator.hits == []
    assert not world.place.exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCES__LETTERS__MAILINGS_SINCE", f"{today - timedelta(days=1)}")
        world.load(only=ONLY)
    assert mailings(world) == shown(world.emulator, today - timedelta(days=1))


def test_mailings_are_those_of_the_contacts_that_are_loaded(begin: Begin) -> None:
    """The contacts' filters are sent with every window."""
    world = begin(Emulator(400, 0))
    first, end = date(2024, 3, 1), date(2024, 3, 11)
    with scheduled(first, end):
        chosen = {"mailings": True, "contact_filters": ContactFilters(address_status=("Failed",))}
        tables = world.read("contacts", "mailings", **chosen)
    failed = {row.id for row in world.emulator.contacts.rows() if row.traits.address_status == "Failed"}
    expected = {row for row in shown(world.emulator, first) if row[0] in failed and row[1] < end}
    assert {tuple(row.values())[:3] for row in tables["mailings"]} == expected
    assert 0 < len(expected) < len({row for row in shown(world.emulator, first) if row[1] < end})
    assert {row["id"] for row in tables["contacts"]} == failed


def test_intervals_request_their_days_and_store_no_state(begin: Begin) -> None:
    """Intervals of a scheduler load their days in any order, and change no state."""
    world, since = begin(Emulator(0, 0)), date(2024, 2, 1)
    end = since + timedelta(days=24)
    mail(world.emulator, days_from(since - timedelta(days=5), end + timedelta(days=5)))
    starts = [since + timedelta(days=8 * number) for number in (0, 2, 1)]
    for start in starts:
        with scheduled(start, start + timedelta(days=8)):
            if start == starts[1]:
                stop_in_the_middle(world, {"only": ONLY, "mailings": True})
            sent = len(world.emulator.hits)
            world.load(only=ONLY, mailings=True)
        assert windows_requested(world.emulator.hits[sent:]) == single(days_from(start, start + timedelta(days=7)))
        assert state_of(world) is None
    expected = {row for row in shown(world.emulator, since) if row[1] < end}
    assert mailings(world) == expected
    assert {row[1] for row in expected} == set(days_from(since, end - timedelta(days=1)))


def test_an_interval_leaves_what_other_loads_remember(begin: Begin, today: date) -> None:
    """An interval does not change where the next load without an interval continues."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=400)
    settings = {"only": ONLY, "mailings": True, "mailings_lag": 2}
    mail(world.emulator, days_from(today - timedelta(days=4), today))
    world.load(**settings, mailings_since=today - timedelta(days=4))
    before, sent = state_of(world), len(world.emulator.hits)
    mail(world.emulator, [since, today])
    with scheduled(since, since + timedelta(days=3)):
        world.load(**settings, mailings_since=since)
    assert windows_requested(world.emulator.hits[sent:]) == single(days_from(since, since + timedelta(days=2)))
    assert state_of(world) == before
    sent = len(world.emulator.hits)
    world.load(**settings, mailings_since=today - timedelta(days=4))
    assert windows_requested(world.emulator.hits[sent:]) == single(days_from(today - timedelta(days=2), today))
    assert mailings(world) >= {("0", since, since), ("1", today, today)}


def test_a_clock_that_was_ahead_hides_no_days(begin: Begin, today: date) -> None:
    """Days that a load with a fast clock recorded are requested again."""
    world, since = begin(Emulator(0, 0)), today - timedelta(days=40)
    settings = {"only": ONLY, "mailings": True, "mailings_since": since}
    world.load(**settings)
    later = "strftime((filters->>'last_mailed_{0}')::date + 30, '%Y-%m-%d')"
    window = f"json_object('last_mailed_from', {later.format('from')}, 'last_mailed_to', {later.format('to')})"
    ahead = f"select * replace (started_at + interval 30 day as started_at, {window} as filters)"
    change(world.place, f"insert into {DATASET}.listing_audit {ahead} from {DATASET}.listing_audit")
    with world.pipeline.managed_state() as state:
        remembered: Any = state["sources"]["letters"]["resources"]["mailings_windows"]
        remembered["incremental"]["day"]["last_value"] = today + timedelta(days=30)
    sent = len(world.emulator.hits)
    world.load(**settings)
    assert windows_requested(world.emulator.hits[sent:]) == single(days_from(today - timedelta(days=7), today))


def test_an_interval_begins_with_the_first_day_that_is_set(begin: Begin) -> None:
    """An interval starts at the first day of the settings, with that day's whole window."""
    world = begin(Emulator(400, 0))
    with scheduled(date(2024, 2, 20), date(2024, 3, 12)):
        found = read_mailings(world, mailings_since=date(2024, 3, 5), mailings_window=7)
    weeks = [(date(2024, 3, 3), date(2024, 3, 9)), (date(2024, 3, 10), date(2024, 3, 16))]
    assert windows_requested(world.emulator.hits) == weeks
    assert found == {row for row in shown(world.emulator, weeks[0][0], 7) if row[1:] in weeks}


INTERVALS: tuple[tuple[date | str, date | str], ...] = (
    (date(2024, 2, 20), date(2024, 3, 3)),
    (date(2024, 3, 3), date(2024, 3, 4)),
    ("2024-03-06T05:00:00Z", "2024-03-06T06:00:00Z"),
)
"""Before the first day; before it, in the week that holds it; some hours of a day after it."""


def test_an_interval_without_a_whole_day_requests_no_mailings(begin: Begin) -> None:
    """An interval without a whole day changes no mailings, and other listings are loaded."""
    world = begin(Emulator(60, 0))
    settings = {"mailings": True, "mailings_since": date(2024, 3, 5), "mailings_window": 7}
    with scheduled(date(2024, 3, 5), date(2024, 4, 5)):
        world.load(**settings, only=ONLY)
    before, sent = mailings(world), len(world.emulator.hits)
    first, *others = INTERVALS
    with scheduled(*first):
        result = world.load(**settings, only=("contacts", "mailings"))
    assert [audit["listing"] for audit in result.audits] == ["contacts"]
    assert mailings(world) == before != set()
    for interval in others:
        with scheduled(*interval):
            tables = world.read("contacts", "mailings", **settings)
        assert [audit["listing"] for audit in tables["listing_audit"]] == ["contacts"]
        assert tables["mailings"] == []
    assert [hit.query for hit in world.emulator.hits[sent:]] == ["page=0&pageSize=100"] * 3


def test_the_last_hours_of_a_day_load_that_day(begin: Begin) -> None:
    """An interval of a day's last hours requests that day."""
    world, day = begin(Emulator(400, 0)), date(2024, 3, 5)
    with scheduled(f"{day}T23:00:00Z", day + timedelta(days=1)):
        read_mailings(world)
    assert windows_requested(world.emulator.hits) == [(day, day)]


def test_plain_files_are_refused(begin: Begin, today: date) -> None:
    """Mailings in plain files are an error, because dlt would append the lag's days with every load."""
    world = begin(Emulator(20, 5), "parquet")
    with pytest.raises(SettingsError, match=r"^mailings: loading mailings is not supported for plain files") as caught:
        world.load(only=ONLY, mailings_since=today)
    assert caught.value.exit_code == 2
    assert world.emulator.hits == []
    assert not world.place.exists()


def test_another_file_is_filled_from_the_first_day(begin: Begin, today: date) -> None:
    """dlt's state about one file does not apply to another existing file."""
    world, since = begin(Emulator(0, 1)), today - timedelta(days=14)
    other = world.place.with_name("other.duckdb")
    world.start_loaded(only=("templates",))
    shutil.copy(world.place, other)
    mail(world.emulator, days_from(since, today))
    settings = {**world.settings, "only": ONLY, "mailings": True, "mailings_since": since}
    run(make_pipeline("duckdb", world.place), **settings)
    sent = len(world.emulator.hits)
    run(make_pipeline("duckdb", other), **settings)
    assert windows_requested(world.emulator.hits[sent:]) == single(days_from(since, today))
    assert len(query(other, f"from {DATASET}.mailings")) == 15


def test_a_restored_file_is_filled_up(begin: Begin, today: date) -> None:
    """dlt's state does not apply to a restored copy of the file."""
    world, since = begin(Emulator(0, 1)), today - timedelta(days=14)
    mail(world.emulator, days_from(since, today))
    world.start_loaded(only=("templates",))
    shutil.copy(world.place, world.place.with_name("backup"))
    settings = {**world.settings, "only": ONLY, "mailings": True, "mailings_since": since}
    run(make_pipeline("duckdb", world.place), **settings)
    shutil.copy(world.place.with_name("backup"), world.place)
    run(make_pipeline("duckdb", world.place), **settings)
    assert mailings(world) == shown(world.emulator, since)


def test_an_earlier_first_day_is_loaded_too(begin: Begin, today: date) -> None:
    """Setting an earlier first day loads the earlier days."""
    world, since = begin(Emulator(0, 1)), today - timedelta(days=30)
    mail(world.emulator, days_from(since, today))
    world.load(only=ONLY, mailings_since=today - timedelta(days=10))
    world.load(only=ONLY, mailings_since=since)
    assert mailings(world) == shown(world.emulator, since)


def test_a_first_day_to_come_is_refused_and_not_remembered(begin: Begin, today: date) -> None:
    """A first day in the future is an error, and later loads skip no days."""
    world, since = begin(Emulator(0, 1)), today - timedelta(days=19)
    mail(world.emulator, days_from(since, today))
    with pytest.raises(SettingsError):
        world.load(only=ONLY, mailings_since=today + timedelta(days=3))
    world.load(only=ONLY, mailings_since=since)
    assert mailings(world) == shown(world.emulator, since)


@pytest.mark.parametrize("only", [ONLY, ("contacts", "mailings")])
def test_a_first_interval_without_a_whole_day_makes_empty_tables(begin: Begin, only: tuple[str, ...]) -> None:
    """A first interval of a few hours makes empty tables."""
    world = begin(Emulator(5, 1))
    for _ in range(2):
        with scheduled("2024-03-06T05:00:00Z", "2024-03-06T06:00:00Z"):
            world.load(only=only, mailings=True)
    assert mailings(world) == set()
    assert (DATASET, "listing_audit") in table_names(world.place)
    with scheduled(date(2024, 3, 6), date(2024, 3, 7)):
        world.load(only=only, mailings=True)


@pytest.mark.parametrize(("kind", "is_set"), [("parquet", True), ("duckdb", False)])
def test_what_is_refused_is_refused_before_the_listings_are_read(
    begin: Begin, today: date, kind: str, *, is_set: bool
) -> None:
    """Settings that are refused are refused before the first request."""
    world = begin(Emulator(300, 30), kind)
    with pytest.raises(SettingsError):
        world.load(page_size=10, mailings=True, mailings_since=today if is_set else None)
    assert world.emulator.hits == []
