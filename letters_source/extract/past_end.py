"""Look past the end of a listing, where pages that were read do not show it."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from letters_source.decode.page import Page, decode_page
from letters_source.errors import MalformedResponse, ServiceRejected, ServiceUnreachable
from letters_source.extract.task import Task
from letters_source.pagination.chain import edge_of
from letters_source.pagination.ends import Shown, ends_as_counted, full_page
from letters_source.pagination.evidence import Evidence
from letters_source.pagination.reader import to_reading
from letters_source.pagination.readings import Reading, Window
from letters_source.pagination.verdicts import incomplete
from letters_source.service.page_request import PageClient, PageRequest

logger = logging.getLogger("letters_source")

NO_ANSWER = "%s: taken for the end of the listing: %s"
PAST_END = "rows came past its end while it was read"


def look_past(task: Task, client: PageClient, page: int) -> Reading | None:
    """Return what a page past the end tells, without its rows; None if the service refuses it, or has no valid answer.

    How a service answers such a page is not documented (service-interface 4.2).
    """
    try:
        found = get_past(client, task.request(page, task.page_size.rows, purpose="past the end", is_trial=True))
    except (ServiceRejected, MalformedResponse) as error:
        logger.info(NO_ANSWER, task.title, error.what)
        return None
    except ServiceUnreachable as error:
        if not error.may_be_size:
            raise
        logger.warning(NO_ANSWER, task.title, error.what)
        return None
    return to_reading(found, Window(page), 0, asked=-1, answered=-1)


def get_past(client: PageClient, request: PageRequest) -> Page:
    """Return a page on trial, whose failures end soon; a service may repeat its last page, which may be large."""
    try:
        return client.get(request, decode_page)
    except MalformedResponse as error:
        if not error.is_too_large:
            raise
        return client.get(replace(request, is_trial=False), decode_page)


def check_linked(task: Task, linked: Sequence[Evidence]) -> Counter[str]:
    """Raise IncompleteListing if linked parts do not reach the end of the listing; return the requests this took."""
    page_size, last = linked[0].range.page_size, linked[-1]
    edges = [edge.reading for edge in (*last.head, *last.tail)]
    shown = Shown(edges, [True] * len(edges), page_size)
    with task.context.client() as client:
        look, is_exact = partial(look_as_edge, task, client), task.settings.count == "exact"
        # the only page of a listing that is not full has all rows
        is_full = full_page(page_size, last.count, task.page_size.rows) == page_size
        if is_full and last.count and not ends_as_counted(task.title, shown, look, is_exact=is_exact):
            raise incomplete(task.title, PAST_END, edges)
        return client.traffic


def look_as_edge(task: Task, client: PageClient, page: int) -> Reading | None:
    """Look past the end; see `look_past`. The keys are those of edges."""
    found = look_past(task, client, page)
    return found and edge_of(found).reading
