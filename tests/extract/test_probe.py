"""Probing which filters the service honors, and its largest page size."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import product

import pytest

from letters_source.config.settings import Settings
from letters_source.errors import (
    LettersError,
    MalformedResponse,
    NotAuthorized,
    ServiceRejected,
    ServiceUnreachable,
)
from letters_source.extract.probe import (
    LARGEST_PAGE,
    TRIALS,
    UNCERTAIN,
    Count,
    Effect,
    ProbeResult,
    count_listing,
    effect_of,
    find_largest_page,
    report_ignored,
    try_filter,
)
from letters_source.service.listings import TEMPLATES, ContactFilters, Filters, TemplateFilters
from rows_in_memory import RowsInMemory
from tasks import task_from

SETTINGS = Settings(base_url="https://letters.example.org/api/v1", access_token="a", refresh_token="r", account_id="7")
PROBE = "letters-source-probe-7f3a"


def trials_of(*counts: int) -> tuple[Iterator[Mapping[str, str]], Callable[[Mapping[str, str]], int]]:
    """Trials, and a function that returns the count of each; a negative count is a refusal."""

    def count(params: Mapping[str, str]) -> int:
        found = counts[int(params["trial"])]
        if found < 0:
            raise ServiceRejected("refused")
        return found

    return iter([{"trial": str(trial)} for trial in range(len(counts))]), count


def try_all(listing: str, settings: Settings, count: Count) -> dict[str, ProbeResult]:
    """The effect of each filter of a listing of nine rows."""
    return {name: try_filter(listing, name, settings, 9, count).verdict for name in TRIALS[listing]}


@pytest.mark.parametrize(
    ("whole", "counts", "verdict"),
    [
        (10, (4,), "honored"),
        (10, (10, 0), "honored"),
        (10, (11,), "honored"),
        (10, (10,), "ignored"),
        (10, (10, 10), "ignored"),
        (10, (-1,), "refused"),
        (10, (10, -1), "refused"),
        (10, (3, -1), "honored"),
        (0, (0, -1), "cannot tell"),
    ],
)
def test_a_filter_s_effect_shows_in_the_count(whole: int, counts: tuple[int, ...], verdict: ProbeResult) -> None:
    """A filter is honored if one of its values changes the count; an empty one shows nothing, and is not requested."""
    trials, count = trials_of(*counts)
    assert effect_of(trials, whole, count).verdict == verdict
    assert whole or next(trials, None) is not None


@pytest.mark.parametrize(
    ("error", "effect", "cell"),
    [
        (ServiceRejected("no", status=400), Effect("refused", 400, "no"), "refused 400"),
        (NotAuthorized("no", status=403), Effect("refused", 403, "no"), "refused 403"),
        (ServiceUnreachable("gone", status=500), Effect("failed", 500, "gone"), "failed 500"),
        (ServiceUnreachable("gone"), Effect("failed", None, "gone"), "failed"),
        (MalformedResponse("odd"), Effect("failed", None, "odd"), "failed"),
    ],
)
def test_a_probe_that_fails_is_a_result(error: LettersError, effect: Effect, cell: str) -> None:
    """The result of a failed probe has the status and message; its cell has the status."""

    def count(params: Mapping[str, str]) -> int:
        raise error

    found = effect_of(iter([{}]), 10, count)
    assert (found, str(found)) == (effect, cell)


@pytest.mark.parametrize("listing", ["contacts", "templates"])
def test_every_filter_is_tried_within_the_account(listing: str) -> None:
    """Every value of every filter is tried within the account; filters that may match every row make no difference."""
    asked: list[Mapping[str, str]] = []

    def count(params: Mapping[str, str]) -> int:
        asked.append(params)
        return 9

    uncertain = {name for where, name in UNCERTAIN if where == listing}
    found = try_all(listing, SETTINGS, count)
    assert found == {name: "no difference" if name in uncertain else "ignored" for name in TRIALS[listing]}
    assert len(asked) == sum(map(len, TRIALS[listing].values()))
    assert all(params["meta.account_id"] == "7" and len(params) == 2 for params in asked)


def test_every_filter_has_its_trials() -> None:
    """Every filter except the account has values to try, and the two days are tried together."""
    contacts = {*ContactFilters.__dataclass_fields__, "last_mailed_date"} - {
        "last_mailed_from",
        "last_mailed_to",
        "account_id",
    }
    assert set(TRIALS["contacts"]) == contacts
    assert set(TRIALS["templates"]) == {*TemplateFilters.__dataclass_fields__} - {"account_id"}


def test_free_texts_are_tried_with_values_that_no_row_has() -> None:
    """Searches and labels are tried with a text that no row has, and days with one before the service existed."""
    asked: list[Mapping[str, str]] = []

    def count(params: Mapping[str, str]) -> int:
        asked.append(params)
        return 9

    try_all("contacts", SETTINGS, count)
    texts = {name: value for params in asked for name, value in params.items() if name in ("search", "lastMailedDate")}
    assert texts == {"search": PROBE, "lastMailedDate": '{"startDate": "1903-07-19", "endDate": "1903-07-19"}'}
    assert {params["tags"] for params in asked if "tags" in params} == {f'["{PROBE}"]'}


def test_filters_are_tried_on_top_of_the_configured_ones() -> None:
    """Each probe also sends the configured filters and the account, because some services require them."""
    chosen = replace(SETTINGS, template_filters=TemplateFilters(search=1, product_types=("Personal Letters",)))
    asked: list[Mapping[str, str]] = []

    def count(params: Mapping[str, str]) -> int:
        asked.append(params)
        return 3

    assert set(try_all("templates", chosen, count).values()) == {"honored"}
    own = {"search": "1", "productTypes": "Personal Letters", "meta.account_id": "7"}
    assert [params.keys() >= own.keys() for params in asked] == [True] * 4


@pytest.mark.parametrize("limit", [1, 2, 37, 99, 100, 101, 128, 199, 200, 201, 777, 5_000, 100_000])
def test_the_largest_page_is_found_where_larger_ones_are_clamped_or_refused(limit: int) -> None:
    """The largest page is the limit or the whole listing, and takes at most 20 requests to find."""
    asked: list[int] = []

    def clamp(size: int) -> int:
        asked.append(size)
        return min(size, limit, count)

    def refuse(size: int) -> int:
        asked.append(size)
        if size > limit:
            raise ServiceRejected("refused")
        return min(size, count)

    for count, service in product([0, 1, 99, 100, 101, 250, 1_000, 5_000], [clamp, refuse]):
        asked.clear()
        assert (count, find_largest_page(count, service)) == (count, min(limit, count))
        assert len(set(asked)) == len(asked) <= 20


def test_no_page_larger_than_makes_sense_is_requested() -> None:
    """The search ends at `LARGEST_PAGE`, however many rows there are."""
    asked: list[int] = []

    def give(size: int) -> int:
        asked.append(size)
        return size

    assert find_largest_page(10_000_000, give) == LARGEST_PAGE
    assert max(asked) == LARGEST_PAGE


def test_a_service_that_refuses_every_page_has_no_largest() -> None:
    """The largest page of a service that refuses every page is 0."""

    def refuse(size: int) -> int:
        raise ServiceRejected("refused")

    assert find_largest_page(1_000, refuse) == 0


@pytest.mark.parametrize("error", [ServiceUnreachable(""), MalformedResponse(""), NotAuthorized("")])
def test_the_search_for_the_largest_page_ends_at_a_failure(error: LettersError) -> None:
    """The search for the largest page ends at a failure with the largest page returned before."""

    def give(size: int) -> int:
        if size > 300:
            raise error
        return size

    assert find_largest_page(1_000, give) == 200


REFUSED = ServiceRejected("contacts: refused", status=400)
EMPTY = "the service returns no rows"


def account(name: str) -> str:
    """The query for the rows of an account."""
    return f"meta.account_id={name}"


@pytest.mark.parametrize(("size", "asked"), [(1, (0, 1)), (None, (0, 50))])
def test_the_count_is_that_of_a_page_of_one_row_or_of_the_usual_size(size: int | None, asked: tuple[int, int]) -> None:
    """The count of the task's filters takes one request, for a page of one row or of the usual size."""
    service = RowsInMemory({"": "abcd", "search=an": "abc"})
    task = task_from(service, page_size=50, contact_filters=ContactFilters(search="an"))
    assert count_listing(task, size) == 3
    assert (service.queries, service.windows) == (["search=an"], [asked])


def log_lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Level and message of each logged line."""
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.mark.parametrize(
    ("filters", "is_first", "lines"),
    [
        (ContactFilters(), True, []),
        (ContactFilters(with_property_addresses=True), True, []),
        (ContactFilters(tags=("4",), search="an"), True, [("WARNING", f"contacts: {EMPTY} with search, tags")]),
        (ContactFilters(tags=("4",)), False, [("INFO", f"contacts: {EMPTY} with tags")]),
        (ContactFilters(account_id="7"), True, [("WARNING", f"contacts: {EMPTY} for account 7")]),
        (ContactFilters(tags=("4",), account_id="7"), True, [("WARNING", f"contacts: {EMPTY} with tags")]),
    ],
)
def test_a_listing_that_is_empty_with_filters_may_be_misspelled(
    filters: ContactFilters, lines: list[tuple[str, str]], caplog: pytest.LogCaptureFixture, *, is_first: bool
) -> None:
    """No rows with filters, or else for an account, are a warning in the first load; nothing is requested."""
    service = RowsInMemory({"": "abc"})
    with caplog.at_level("INFO"):
        report_ignored(task_from(service, contact_filters=filters), 0, is_first=is_first)
    assert (log_lines(caplog), service.asked) == (lines, [])


@pytest.mark.parametrize(
    ("filters", "whole", "queries", "is_logged"),
    [
        (ContactFilters(), "abc", [], False),
        (ContactFilters(with_property_addresses=True), "abc", [], False),
        (ContactFilters(with_property_addresses=False), "abc", [""], True),
        (ContactFilters(with_property_addresses=False), "abcd", [""], False),
        (ContactFilters(with_property_addresses=False, account_id="7"), "abc", [account("7")], True),
    ],
)
def test_filters_that_leave_all_rows_may_be_ignored(
    filters: Filters, whole: str, queries: list[str], caplog: pytest.LogCaptureFixture, *, is_logged: bool
) -> None:
    """Filters that could leave out rows are a warning if the account has as many rows without them."""
    service = RowsInMemory({"": whole})
    report_ignored(task_from(service, contact_filters=filters), 3)
    message = (
        "contacts: the service returns all 3 rows with with_property_addresses as without; it may ignore that filter"
    )
    assert (service.queries, log_lines(caplog)) == (queries, [("WARNING", message)] if is_logged else [])


def test_a_flag_that_enables_search_is_not_compared() -> None:
    """The flag `search` of templates may well match every row, whatever its value."""
    service = RowsInMemory({"": "abc"})
    for flag in (0, 1):
        report_ignored(task_from(service, TEMPLATES, template_filters=TemplateFilters(search=flag)), 3)
    assert service.asked == []


def test_a_service_that_requires_filters_is_not_judged(caplog: pytest.LogCaptureFixture) -> None:
    """If the service refuses requests without filters, that is information, and no warning."""
    service = RowsInMemory({"": REFUSED})
    with caplog.at_level("INFO"):
        report_ignored(task_from(service, contact_filters=ContactFilters(search="an")), 3)
    message = "contacts: could not check whether the service honors the filters: contacts: refused"
    assert log_lines(caplog) == [("INFO", message)]
