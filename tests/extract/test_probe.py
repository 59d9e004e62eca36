"""Probing which filters the service honors, and its largest page size."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest

from letters_source.config.settings import Settings
from letters_source.errors import LettersError, MalformedResponse, NotAuthorized, ServiceRejected, ServiceUnreachable
from letters_source.extract.probe import (
    LARGEST_PAGE,
    TRIALS,
    UNCERTAIN,
    Count,
    Effect,
    ProbeResult,
    effect_of,
    find_largest_page,
    try_filter,
)
from letters_source.service.listings import ContactFilters, TemplateFilters

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
    """A filter is honored if one of its values changes the count; an empty listing cannot tell, and is not asked."""
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


def test_free_texts_are_tried_with_what_nobody_has() -> None:
    """Searches and labels are tried with a text that nobody has, and days with one before the service existed."""
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


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250, 1_000, 5_000])
@pytest.mark.parametrize("limit", [1, 2, 37, 99, 100, 101, 128, 199, 200, 201, 777, 5_000, 100_000])
def test_the_largest_page_is_found_where_larger_ones_are_clamped_or_refused(count: int, limit: int) -> None:
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

    for service in (clamp, refuse):
        asked.clear()
        assert find_largest_page(count, service) == min(limit, count)
        assert len(set(asked)) == len(asked) <= 20


def test_no_larger_page_is_asked_for_than_makes_sense() -> None:
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
