"""The options that commands share; those that mirror a setting are made from its declaration."""

import os
from collections.abc import Callable, Collection
from datetime import date
from pathlib import Path
from typing import Any, Protocol, TypeVar, get_origin

import click

from letters_source.config.settings import FILTERS, SETTINGS, Key
from letters_source.service.listings import ContactFilters, TemplateFilters

T = TypeVar("T", None, str, tuple[str, ...])
Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)


class Option(Protocol):
    """A decorator that adds options to a command."""

    def __call__(self, command: Command, /) -> Command:
        """Return the command with the options."""


NAMES = {
    "tags": "--tag",
    "with_property_addresses": "--with-property-addresses/--without-property-addresses",
    "is_return_address": "--return-addresses/--no-return-addresses",
    "product_types": "--product-type",
    "is_shared": "--shared/--not-shared",
}
"""The options that are named otherwise than their settings."""


class WholeNumber(click.IntRange):
    """A whole number within bounds, or one of some words."""

    def __init__(self, low: int | None, high: int | None, words: Collection[str]) -> None:
        super().__init__(low, high)
        self.words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number or word; click calls this."""
        if value in self.words:
            return value
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            others = "".join(f" {word} is also allowed." for word in self.words)
            raise click.BadParameter(f"{error.message}{others}", ctx, param) from None


def day(text: str) -> date:
    """Convert an option's value to a day."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(f"expected a day such as 2024-01-31, got {text}.") from None


def listed(text: str | None) -> tuple[str, ...]:
    """Split the value of --only at its commas; empty where the option was not given."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    if text is not None and not names:
        raise click.UsageError("--only is empty: leave it out to load both listings.")
    return names


def not_empty(_context: click.Context, _option: click.Parameter, given: T) -> T:
    """Return an option's value, or raise if it is empty, as a shell makes it from a variable that is not set."""
    texts = (given,) if isinstance(given, str) else given or ()
    if not all(map(str.strip, texts)):
        raise click.BadParameter("it is empty.")
    return given


def setting(key: Key, **changes: Any) -> Option:
    """Return the option of a setting or filter; without it, the configuration decides."""
    name = NAMES.get(key.name, f"--{key.name.replace('_', '-')}")
    words = f"{key.about.description}{' May be repeated.' if get_origin(key.kind) is tuple else ''}"
    shown = f"{key.default}".removesuffix(".0") if key.kind in (int, float) and key.default is not None else False
    return click.option(
        name, key.name, **{"help": words, "default": None, "show_default": shown, **value_of(key), **changes}
    )


def value_of(key: Key) -> dict[str, Any]:
    """Return how click reads the value of an option; bounds are the setting's own."""
    low, high, above = key.about.ge, key.about.le, key.about.gt
    if key.kind is int:
        whole: Any = WholeNumber
        return {"type": whole(low, high, key.words), "metavar": "|".join(("N", *key.words))}
    if key.kind is float:
        kind = click.FloatRange(low if above is None else above, high, min_open=above is not None)
        return {"type": kind, "metavar": "X"}
    if key.kind in (bool, date):
        return {"is_flag": True} if key.kind is bool else {"type": day}
    return {"metavar": "TEXT", "callback": not_empty, "multiple": get_origin(key.kind) is tuple}


def settings_options(*names: str) -> Option:
    """Return the options of some settings, in this order."""
    return together(*(setting(SETTINGS[name]) for name in names))


def filter_options(command: Command) -> Command:
    """Return the options that choose contacts and templates; both have a `search`, but only contacts can use text."""
    keys = [key for listing in FILTERS.values() for key in listing.values() if key.name != "account_id"]
    return together(*(setting(key) for key in keys if key is not FILTERS["templates"]["search"]))(command)


def together(*options: Option) -> Option:
    """Return several options as one decorator."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


contacts_option = click.option(
    "--contacts", type=click.IntRange(0), default=2000, show_default=True, help="Number of contacts."
)
connection_options = settings_options("environment", "requests_per_second", "max_workers", "page_size")
quiet_option = click.option("--quiet", is_flag=True, help="Show only warnings and errors.")
debug_option = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
output_options = together(
    quiet_option, click.option("--debug", is_flag=True, help="Log every page; show the traceback of an error.")
)

outcome_options = together(
    click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object, instead of tables."),
    click.option(
        "--on-failure",
        metavar="COMMAND",
        callback=not_empty,
        help="Shell command to run if the load fails; gets the JSON object on stdin.",
    ),
)


def dataset_option(words: str) -> Option:
    """Return the option of the dataset; its default is not declared here, in a module that imports Arrow."""
    return click.option("--dataset", metavar="NAME", callback=not_empty, help=f"{words}  [default: letters_data]")


def path_option(name: str, *names: str, words: str, **more: Any) -> Option:
    """Return an option that is a path; its default, if any, is shown."""
    return click.option(name, *names, type=click.Path(path_type=Path), show_default=True, help=words, **more)


def path_or_url(place: str) -> str:
    """Return a place as the ledger of runs has it: a path without links, or a URL unchanged."""
    return place if "://" in place else os.path.realpath(place)


def without_unset(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given as options; the configuration decides about the others."""
    return {name: value for name, value in settings.items() if value not in (None, ())}


READ_BY = {
    "contact_filters": {"contacts", "mailings"},
    "template_filters": {"templates"},
    "facets": {"contacts", "templates"},
    "mailings": {"mailings"},
}
"""Which parts of a load use what options set."""


def check_options_apply(settings: dict[str, Any], parts: Collection[str]) -> None:
    """Raise if an option is about a part that is not loaded; no `parts` are all parts."""
    for name, read_by in READ_BY.items():
        value = settings.get(name)
        is_given = value is not None and value != type(value)()
        if is_given and parts and read_by.isdisjoint(parts):
            raise click.UsageError(f"--only leaves out {min(read_by)}, but other options are about them.")


def with_filters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, with the options that choose contacts and templates gathered into filters."""
    rest = dict(options)
    contacts, templates = ({name: rest.pop(name) for name in keys if name in rest} for keys in FILTERS.values())
    return rest | {"contact_filters": ContactFilters(**contacts), "template_filters": TemplateFilters(**templates)}
