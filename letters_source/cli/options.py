"""Which options do commands share, and which settings do they give?"""

from collections.abc import Callable, Collection
from datetime import date
from typing import Any, TypeVar

import click

from letters_source.service.listings import ContactFilters, TemplateFilters

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", None, str, tuple[str, ...])


def day(text: str) -> date:
    """An option's day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"expected a day such as 2024-01-31, got {text}.") from None


def listed(text: str | None) -> tuple[str, ...]:
    """What an option lists, with commas; nothing where it was not given.

    Raises:
        click.UsageError: it lists nothing.
    """
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if text is not None and not names:
        raise click.UsageError("--only names nothing: leave it out to load both listings.")
    return names


def not_empty(_context: click.Context, _option: click.Parameter, given: T) -> T:
    """What an option was given, nothing, a text or texts; an empty one is what a shell makes of a variable not set.

    Raises:
        click.BadParameter: one is empty.
    """
    texts = (given,) if isinstance(given, str) else given or ()
    if not all(map(str.strip, texts)):
        raise click.BadParameter("it is empty.")
    return given


def flag(name: str, words: str) -> Callable[[F], F]:
    """An option that raises a setting; without it, the configuration decides."""
    return click.option(name, is_flag=True, default=None, help=words)


def several(*names: str, metavar: str, words: str) -> Callable[[F], F]:
    """An option that may be repeated."""
    return click.option(*names, metavar=metavar, multiple=True, callback=not_empty, help=words)


def settings_options(command: Any) -> Any:
    """The options that are settings; all other settings come from dlt's configuration."""
    for option in (
        click.option(
            "--environment", metavar="NAME", callback=not_empty, help="Whose settings go first: demo or production."
        ),
        click.option("--requests-per-second", type=float, metavar="R", help="Requests started in a second, at most."),
        click.option("--max-workers", type=int, metavar="N", help="Requests under way at once, at most."),
        click.option("--page-size", type=int, metavar="N", help="Rows to ask for in a page."),
    ):
        command = option(command)
    return command


CONTACT_OPTIONS = (
    click.option("--search", metavar="TEXT", callback=not_empty, help="Contacts that this text finds."),
    several("--address-status", metavar="STATUS", words="Contacts with it: Failed or Verified."),
    several("--last-mailed-status", metavar="STATUS", words="Contacts with it, for example Mailed."),
    click.option("--last-mailed-from", type=day, help="Contacts last mailed from this day."),
    click.option("--last-mailed-to", type=day, help="Contacts last mailed until this day."),
    several("--tag", "tags", metavar="LABEL", words="Contacts with this label, by id or title."),
    click.option(
        "--with-property-addresses/--without-property-addresses", default=None, help="Whether to include them."
    ),
    click.option(
        "--return-addresses/--no-return-addresses", "is_return_address", default=None, help="Only these, or none."
    ),
)
TEMPLATE_OPTIONS = (
    several("--product-type", "product_types", metavar="TYPE", words="Templates of this product."),
    click.option("--creator", metavar="NAME", callback=not_empty, help="Templates by this creator."),
    click.option("--shared/--not-shared", "is_shared", default=None, help="Templates that are shared, or are not."),
)


def filter_options(command: Any) -> Any:
    """The options that choose contacts and templates."""
    for option in reversed((*CONTACT_OPTIONS, *TEMPLATE_OPTIONS)):
        command = option(command)
    return command


def guard_options(command: Any) -> Any:
    """The options that allow what a load refuses in doubt."""
    for option in (
        click.option("--lock-wait", type=float, metavar="S", help="Seconds to wait for whoever uses the place."),
        click.option("--max-shrink", type=float, metavar="X", help="The share of its rows that a listing may lose."),
        flag("--allow-empty", "A listing may have lost all its rows."),
    ):
        command = option(command)
    return command


debug_option = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")


def output_options(command: Any) -> Any:
    """The options about what is shown."""
    command = click.option("--debug", is_flag=True, help="Log every page; show the traceback of an error.")(command)
    return click.option("--quiet", is_flag=True, help="Show nothing but warnings and errors.")(command)


def without_unset(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that options gave; a flag that was not raised is left to the configuration."""
    return {name: value for name, value in settings.items() if value not in (None, ())}


READ_BY = {
    "contact_filters": {"contacts", "mailings"},
    "template_filters": {"templates"},
    "facets": {"contacts", "templates"},
    "mailings": {"mailings"},
}
"""Which parts of a load heed what options ask for."""


def check_options_apply(settings: dict[str, Any], parts: Collection[str]) -> None:
    """See that no option is about what is not loaded.

    Args:
        settings: as `with_filters` gives them.
        parts: what is loaded; all when empty.

    Raises:
        click.UsageError: one is.
    """
    for name, read_by in READ_BY.items():
        value = settings.get(name)
        is_asked = value is not None and value != type(value)()
        if is_asked and parts and read_by.isdisjoint(parts):
            raise click.UsageError(f"--only leaves out {min(read_by)}, which other options are about.")


def with_filters(options: dict[str, Any]) -> dict[str, Any]:
    """The settings, with the options that choose contacts and templates gathered into filters."""
    contacts = {name: value for name, value in options.items() if name in ContactFilters.__dataclass_fields__}
    rest = {name: value for name, value in options.items() if name not in contacts}
    templates = {name: rest.pop(name) for name in TemplateFilters.__dataclass_fields__ if name in rest}
    filters = {"contact_filters": ContactFilters(**contacts), "template_filters": TemplateFilters(**templates)}
    return rest | filters
