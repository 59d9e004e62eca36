"""Find out whether the service tells accounts apart, by the first pages of their listings."""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from letters_source.errors import NotAuthorized, ServiceError, ServiceRejected, SharedIds
from letters_source.extract.listing import fetch_page
from letters_source.extract.probe import Effect
from letters_source.extract.task import Task, listing_task
from letters_source.pagination.readings import Window
from letters_source.service.listings import LISTINGS, NOBODY
from letters_source.service.pacing import FEW_ROWS
from letters_source.service.page_request import PageClient
from letters_source.wording import counted

logger = logging.getLogger("letters_source")


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The service's count of a listing, and the ids on its first page."""

    count: int
    ids: frozenset[str]


FirstPages = Mapping[str, FirstPage | None]
"""The first page of each account; None for an account that the service refuses."""


def check_apart(task: Task, accounts: Iterable[str]) -> dict[str, int]:
    """Raise `SharedIds` if two accounts list the same rows, as far as their first pages show; warn of shared ids.

    Returns:
        For each account that the service does not refuse, how many ids on its first page are on another one's, too.
    """
    with task.context.client() as client:
        found = first_pages(task, client, accounts)
        for account, page in found.items():
            if page is None:
                logger.warning("%s: the service refuses account %s, so its ids are not compared", task.title, account)
        for pair, shared in alike(task, client, found):
            if not differ_elsewhere(task, client, pair):
                raise SharedIds(task.name, pair, shared)
    repeated = ids_of_several(found)
    if repeated:
        message = "%s: accounts share %s on their first pages; join on account_id as well as on the id"
        logger.warning(message, task.title, counted(len(repeated), "id"))
    return {account: len(page.ids & repeated) for account, page in found.items() if page}


def effect_of_account(task: Task, client: PageClient, accounts: Sequence[str]) -> Effect:
    """Return whether the service honors the account; of a single one, compared with an account that does not exist."""
    others = accounts if len(accounts) > 1 else (*accounts, NOBODY)
    try:
        found = first_pages(task, client, others)
        pairs = dict(alike(task, client, found))
        refused = (pair for pair in pairs if len(accounts) > 1 and not differ_elsewhere(task, client, pair))
        if pair := next(refused, None):
            refusal = SharedIds(task.name, pair, pairs[pair], ", and a load is refused")
            return Effect("no difference", message=str(refusal))
        if pairs:
            return Effect("no difference")
    except ServiceError as error:
        return Effect("failed", error.status, str(error))
    return Effect("honored" if any(page and page.ids for page in found.values()) else "cannot tell")


def alike(task: Task, client: PageClient, found: FirstPages) -> Iterator[tuple[tuple[str, str], int]]:
    """Yield each pair of accounts whose first pages may be of one listing, and how many ids they share.

    Pages that share only some ids are requested again: rows may have changed in between. A difference that stays is one
    between accounts, such as templates that only some of them share.
    """
    sharing = {
        (one, other): len(page.ids & another.ids)
        for (one, page), (other, another) in combinations(found.items(), 2)
        if page and another and page.ids & another.ids
    }
    differing = {account for one, other in sharing if found[one] != found[other] for account in (one, other)}
    again = first_pages(task, client, sorted(differing))
    for (one, other), shared in sharing.items():
        if found[one] == found[other] or any(found[account] != again[account] for account in (one, other)):
            yield (one, other), shared


def differ_elsewhere(task: Task, client: PageClient, accounts: Sequence[str]) -> bool:
    """Return whether first pages of another listing show two accounts apart."""
    for listing in LISTINGS.values():
        if listing != task.listing:
            other = listing_task(listing, task.context)
            found = first_pages(other, client, accounts)
            one, another = found.values()
            if one and another and one != another and not any(alike(other, client, found)):
                return True
    return False


def ids_of_several(found: FirstPages) -> set[str]:
    """Return the ids that are on the first pages of more than one account."""
    times = Counter(key for page in found.values() if page for key in page.ids)
    return {key for key, number in times.items() if number > 1}


def first_pages(task: Task, client: PageClient, accounts: Iterable[str]) -> FirstPages:
    """Return the first page of each account; None for an account that the service refuses."""
    return {account: first_page(task.narrowed(account_id=account), client) for account in map(str, accounts)}


def first_page(task: Task, client: PageClient) -> FirstPage | None:
    """Return a task's first page; None if the service refuses it."""
    size = FEW_ROWS if task.page_size.is_trial else task.page_size.rows
    try:
        page = fetch_page(task, client, Window(0, size))
    except (ServiceRejected, NotAuthorized):
        return None
    return FirstPage(page.count, frozenset(page.rows["id"].drop_null().to_pylist()))
