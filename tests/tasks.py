"""Tasks of reading a listing, for tests."""

from letters_source.config.settings import Settings
from letters_source.extract.task import LoadContext, Task, listing_task
from letters_source.service.listings import CONTACTS
from letters_source.service.throttle import Throttle
from letters_source.service.tokens import TokenSource


def contacts_task(settings: Settings) -> Task:
    """All contacts."""
    tokens = TokenSource(settings.tokens, lambda: settings.tokens)
    return listing_task(CONTACTS, LoadContext(settings, tokens, Throttle(settings.max_workers)))
