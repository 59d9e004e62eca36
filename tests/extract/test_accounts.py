"""Whether two accounts are one, by the first pages of their listings."""

from collections.abc import Mapping, Sequence

import pytest

from letters_source.errors import (
    LettersError,
    MalformedResponse,
    NotAuthorized,
    ServiceRejected,
    ServiceUnreachable,
    SharedIds,
)
from letters_source.extract.accounts import check_apart, effect_of_account
from letters_source.extract.probe import Effect
from letters_source.service.listings import NOBODY, TEMPLATES
from rows_in_memory import Rows, RowsInMemory
from tasks import task_from

REFUSED = ServiceRejected("contacts: refused", status=400)


def account(name: str) -> str:
    """The query for the rows of an account."""
    return f"meta.account_id={name}"


def test_accounts_with_rows_of_their_own_are_apart(caplog: pytest.LogCaptureFixture) -> None:
    """Accounts are apart if no two share an id on their first pages, which are small where sizes are on trial."""
    listed: Mapping[str, Rows] = {account("1"): [*"ab", {"city": "Bend"}], account("2"): "cd", account("3"): []}
    service = RowsInMemory({"": "abcd", **listed, account("4"): [{"city": "Bend"}]})
    check_apart(task_from(service), ["1", "2", "3", "4"])
    check_apart(task_from(service, page_size=700), ["1"])
    assert service.queries == [account(name) for name in "12341"]
    assert service.windows == [*[(0, 100)] * 4, (0, 700)]
    assert caplog.messages == []


def test_accounts_with_the_same_rows_are_refused() -> None:
    """The error names the first two accounts with the same first pages, and how many ids they share."""
    service = RowsInMemory({"": [], account("1"): "ab", account("2"): "cd", account("3"): "dc"})
    with pytest.raises(SharedIds) as caught:
        check_apart(task_from(service), ["1", "2", "3"])
    assert (caught.value.listing, caught.value.accounts, caught.value.shared) == ("contacts", ("2", "3"), 2)
    assert str(caught.value) == (
        "contacts: the accounts 2 and 3 share 2 ids on their first pages, so the service may ignore the account; "
        "nothing was loaded. If they really share them, turn on sources.letters.allow_shared_ids."
    )


Listed = dict[str, Rows | LettersError]
SAME: Listed = {account("1"): "ab", account("2"): "ab"}
TEMPLATES_SAME: Listed = {f"templates?{name}": rows for name, rows in SAME.items()}
LONG: Rows = ["a", "b", *[{"city": "Bend"} for _ in range(99)]]
SHARED_ROWS: Mapping[str, Listed] = {
    "some": {account("1"): "abc", account("2"): "bcd"},
    "all of one": {account("1"): "abc", account("2"): "bc"},
    "all on the first page": {account("1"): LONG, account("2"): LONG[:-1]},
    "all, with other contacts": TEMPLATES_SAME | {account("1"): "ef", account("2"): "gh"},
    "all, with contacts of one": TEMPLATES_SAME | {account("1"): "ef", account("2"): ""},
}


@pytest.mark.parametrize("listed", SHARED_ROWS.values(), ids=SHARED_ROWS)
def test_accounts_that_share_rows_are_apart(listed: Listed, caplog: pytest.LogCaptureFixture) -> None:
    """If a listing differs between two accounts, they may share rows, which is a warning."""
    check_apart(task_from(RowsInMemory(listed), TEMPLATES), ["1", "2"])
    message = "templates: accounts share 2 ids on their first pages; join on account_id as well as on the id"
    assert caplog.messages == [message]


@pytest.mark.parametrize("rows", ["cd", "", REFUSED], ids=["same", "none", "refused"])
def test_accounts_are_one_if_no_listing_differs(rows: Rows | LettersError) -> None:
    """Equal templates are of one account, unless contacts that are listed differ."""
    service = RowsInMemory({"": rows, **TEMPLATES_SAME})
    with pytest.raises(SharedIds):
        check_apart(task_from(service, TEMPLATES), ["1", "2"])


def test_empty_accounts_are_apart(caplog: pytest.LogCaptureFixture) -> None:
    """Accounts without rows share none, and are loaded."""
    service = RowsInMemory({"": ""})
    check_apart(task_from(service), ["1", "2"])
    assert (len(service.asked), caplog.messages) == (2, [])


def test_a_listing_that_changes_is_no_difference() -> None:
    """If a service ignores the account, its rows may change between two requests, and the pages differ."""
    service = RowsInMemory({"": ""})

    def insert(number: int) -> None:
        service.listed[""] = "abcdefghij"[: 3 + number]

    service.before_answer = insert
    with pytest.raises(SharedIds) as caught:
        check_apart(task_from(service), ["1", "2"])
    assert caught.value.shared == 4


@pytest.mark.parametrize("error", [REFUSED, NotAuthorized("contacts: refused", status=403)])
def test_an_account_that_is_refused_is_not_compared(error: LettersError, caplog: pytest.LogCaptureFixture) -> None:
    """An account that the service refuses is a warning, and the others are compared all the same."""
    service = RowsInMemory({"": "ab", account("1"): error})
    with pytest.raises(SharedIds) as caught:
        check_apart(task_from(service), ["1", "2", "3"])
    assert caught.value.accounts == ("2", "3")
    assert caplog.messages == ["contacts: the service refuses account 1, so its ids are not compared"]


SHARED = (
    "contacts: the accounts 1 and 2 share 2 ids on their first pages, so the service may ignore the account, and a "
    "load is refused. If they really share them, turn on sources.letters.allow_shared_ids."
)


@pytest.mark.parametrize(
    ("accounts", "listed", "requests", "effect"),
    [
        (["1"], {"": [], account("1"): "ab"}, 2, Effect("honored")),
        (["1"], {"": REFUSED, account("1"): "ab"}, 2, Effect("honored")),
        (["1"], {"": "ab"}, 2, Effect("no difference")),
        (["1"], {"": []}, 2, Effect("cannot tell")),
        (["1"], {"": REFUSED}, 2, Effect("cannot tell")),
        (["1", "2"], {"": [], account("2"): "cd"}, 2, Effect("honored")),
        (["1", "2"], {"": "ab"}, 4, Effect("no difference", message=SHARED)),
        (["1", "2"], {"": "ab", f"templates?{account('2')}": "xy"}, 4, Effect("no difference")),
        (["1", "2"], {account("1"): "abc", account("2"): "cde"}, 4, Effect("honored")),
        (["1", "2"], {"": MalformedResponse("odd")}, 1, Effect("failed", message="odd")),
        (["1"], {"": ServiceUnreachable("gone", status=503)}, 1, Effect("failed", 503, "gone")),
    ],
)
def test_the_effect_of_the_account_shows_in_first_pages(
    accounts: Sequence[str], listed: Listed, requests: int, effect: Effect
) -> None:
    """Accounts are compared with each other, and a single one with an account that does not exist.

    If they share ids, a second pair of requests shows whether a difference stays, or whether another listing differs.
    """
    service = RowsInMemory(listed)
    assert effect_of_account(task_from(service), service, accounts) == effect
    others = accounts if len(accounts) > 1 else [*accounts, NOBODY]
    assert service.queries == ([account(name) for name in others] * 2)[:requests]


def test_any_pair_of_accounts_without_a_difference_is_told() -> None:
    """Of several accounts with the same contacts, those with other templates hide no two that a load refuses."""
    service = RowsInMemory({"": "ab", f"templates?{account('2')}": "xy"})
    effect = effect_of_account(task_from(service), service, ["1", "2", "3"])
    assert effect == Effect("no difference", message=SHARED.replace("1 and 2", "1 and 3"))
