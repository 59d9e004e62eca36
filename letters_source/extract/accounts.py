"""Find out whether the service tells accounts apart: the first pages of two accounts share no id."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from letters_source.errors import NotAuthorised, ServiceError, ServiceRejected, SharedIds
from letters_source.extract.listing import fetch_page
from letters_source.extract.probe import Effect
from letters_source.extract.task import Task
from letters_source.pagination.readings import Window
from letters_source.service.client import Client
from letters_source.service.listings import NOBODY
from letters_source.service.pacing import FEW_ROWS

FirstIds = Mapping[str, frozenset[str]]
"""The ids on the first page of each account."""


def check_apart(task: Task, accounts: Iterable[str]) -> None:
    """Raise `SharedIds` if two accounts list the same ids on their first pages."""
    with task.context.client() as client:
        found = first_ids(task, client, accounts)
    for one, other in combinations(found, 2):
        if shared := found[one] & found[other]:
            raise SharedIds(task.name, (one, other), len(shared))


def effect_of_account(task: Task, client: Client, accounts: Sequence[str]) -> Effect:
    """Return whether the service honors the account; of a single one, compared with an account that does not exist."""
    others = accounts if len(accounts) > 1 else (*accounts, NOBODY)
    try:
        found = first_ids(task, client, others)
    except ServiceError as error:
        return Effect("failed", getattr(error, "status", None), str(error))
    if any(found[one] & found[other] for one, other in combinations(found, 2)):
        return Effect("no difference")
    return Effect("honored" if any(found.values()) else "cannot tell")


def first_ids(task: Task, client: Client, accounts: Iterable[str]) -> FirstIds:
    """Return the ids on the first page of each account."""
    return {account: ids_of(task.narrowed(account_id=account), client) for account in map(str, accounts)}


def ids_of(task: Task, client: Client) -> frozenset[str]:
    """Return the ids on a task's first page; none if the service refuses it, which a load reports itself."""
    size = FEW_ROWS if task.page_size.is_trial else task.page_size.rows
    try:
        page = fetch_page(task, client, Window(0, size))
    except (ServiceRejected, NotAuthorised):
        return frozenset()
    return frozenset(page.rows["id"].drop_null().to_pylist())
