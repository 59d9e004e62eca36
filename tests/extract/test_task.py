"""Tasks of one load share its limits, and say what they read."""

from dataclasses import replace

import pytest

from letters_source.config.settings import Settings
from letters_source.errors import SettingsError
from letters_source.extract.task import LoadContext, listing_named, listing_task
from letters_source.pagination.reader import no_progress
from letters_source.service.listings import CONTACTS, TEMPLATES, ContactFilters, TemplateFilters
from letters_source.service.tokens import TokenSource

SETTINGS = Settings(
    base_url="https://letters.example.org",
    access_token="a",
    refresh_token="r",
    account_id="7",
    max_workers=2,
    page_size=700,
    contact_filters=ContactFilters(search="an"),
)
TOKENS = TokenSource(SETTINGS.tokens, lambda: SETTINGS.tokens)


def test_the_tasks_of_a_load_share_its_limits() -> None:
    """The throttle has the limit of the settings and is that of all tasks; each has the filters of its listing."""
    context = LoadContext.of(SETTINGS, TOKENS)
    contacts, templates = (listing_task(listing, context) for listing in (CONTACTS, TEMPLATES))
    assert contacts.context.throttle is templates.context.throttle
    assert context.throttle.limit == 2
    assert contacts.filters == ContactFilters(search="an", account_id="7")
    assert templates.filters == TemplateFilters(account_id="7")
    assert [task.page_size.rows for task in (contacts, templates)] == [700, 700]


def test_a_silent_context_reports_no_progress() -> None:
    """Progress goes to the callback of the load, and to none from tasks that are silent, which share all else."""
    reported = list[tuple[object, ...]]()
    context = LoadContext.of(SETTINGS, TOKENS, lambda *figures: reported.append(figures))
    context.progress("contacts", 1, 2, 3)
    assert reported == [("contacts", 1, 2, 3)]
    assert context.silent() == replace(context, progress=no_progress)


def test_a_task_is_named_after_its_detail() -> None:
    """The title of a task is its name, and the detail if it has one."""
    task = listing_task(CONTACTS, LoadContext.of(SETTINGS, TOKENS))
    titles = [each.title for each in (task, replace(task, name="mailings", detail="2024-01-31"))]
    assert titles == ["contacts", "mailings 2024-01-31"]


def test_listings_are_known_by_their_names() -> None:
    """The error for an unknown listing names those that there are."""
    assert [listing_named(name) for name in ("contacts", "templates")] == [CONTACTS, TEMPLATES]
    with pytest.raises(SettingsError) as caught:
        listing_named("letters")
    assert str(caught.value) == "listing must be one of templates, contacts, got 'letters'."
    assert caught.value.key == "listing"
