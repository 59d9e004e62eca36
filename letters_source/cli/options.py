"""The options that commands share; those that mirror a setting are made from its declaration."""

import os
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar, get_args, get_origin

import click
import msgspec
from click.core import ParameterSource

from letters_source.config.messages import expected
from letters_source.config.settings import FILTERS, SETTINGS, Key
from letters_source.errors import ARGUMENTS, LettersError, Names, SettingsError
from letters_source.service.listings import ContactFilters, TemplateFilters

FILTER_NAMES = tuple(dict.fromkeys(name for listing in FILTERS.values() for name in listing))
LOAD_SECTIONS = {
    "What to load": ("only", "account_id", "facets", "mailings", "mailings_since", *FILTER_NAMES),
    "Where to": ("destination", "to", "dataset", "publish"),
    "How to write": ("history", "sync", "pii"),
    "When to refuse": (
        "allow_failed_mailings",
        "allow_empty",
        "max_shrink",
        "allow_shared_ids",
        "allow_other_service",
        "lock_wait",
    ),
    "Requests": ("environment", "requests_per_second", "max_workers", "page_size", "resume"),
}
"""The sections of the help of `letters load`, each with the names of its options; the others are about output."""

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
"""Options whose names differ from their settings'."""
METAVARS = {int: "N", float: "X", date: "DAY"}


class WrongOption(click.BadParameter):
    """An option has a wrong value; the message continues the option's name."""

    def format_message(self) -> str:
        """Return the message; click calls this."""
        return f"option {self.param.opts[0] if self.param else ''} {self.message}"


class LoadCommand(click.Command):
    """A command whose help has its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section; click calls this."""
        records = {param.name: param.get_help_record(ctx) for param in self.get_params(ctx)}
        chosen = {heading: [records.pop(name, None) for name in names] for heading, names in LOAD_SECTIONS.items()}
        for heading, found in {**chosen, "Output": records.values()}.items():
            with formatter.section(heading):
                formatter.write_dl([record for record in found if record])


class Value(click.ParamType):  # type: ignore[type-arg]  # later versions of click are generic
    """A value as its setting declares it, within the setting's bounds."""

    def __init__(self, key: Key) -> None:
        self.key, self.name = key, key.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value in the setting's type; click calls this."""
        if value in self.key.words:
            return value
        if value == "":
            raise WrongOption("is empty.", ctx, param)
        try:
            return msgspec.convert(value, Annotated[self.key.kind, self.key.about], strict=False)
        except msgspec.ValidationError:
            raise WrongOption(f"must be {expected(self.key)} (got {value}).", ctx, param) from None


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
        raise WrongOption("is empty.")
    return given


def named_once(context: click.Context, option: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Return an option's values, or raise if one is empty or repeated: another one was probably meant."""
    for value in not_empty(context, option, given):
        if given.count(value) > 1:
            raise WrongOption(f"names {value} more than once.", context, option)
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
    if key.kind is bool:
        return {"is_flag": True}
    if get_origin(key.kind) is Literal:
        return {"type": Value(key), "metavar": "|".join(get_args(key.kind))}
    if key.kind in METAVARS:
        return {"type": Value(key), "metavar": "|".join((METAVARS[key.kind], *key.words))}
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
"""What each option is about."""


def check_options_apply(settings: dict[str, Any], names: Collection[str]) -> None:
    """Raise if an option is about what is not loaded; without names, all is loaded."""
    for name, read_by in READ_BY.items():
        value = settings.get(name)
        is_given = value is not None and value != type(value)()
        if is_given and names and read_by.isdisjoint(names):
            raise click.UsageError(f"--only leaves out {min(read_by)}, but other options are about them.")


def with_filters(options: dict[str, Any]) -> dict[str, Any]:
    """Return the settings, with the options that choose contacts and templates gathered into filters."""
    rest = dict(options)
    contacts, templates = ({name: rest.pop(name) for name in keys if name in rest} for keys in FILTERS.values())
    return rest | {"contact_filters": ContactFilters(**contacts), "template_filters": TemplateFilters(**templates)}


@contextmanager
def naming_options() -> Iterator[None]:
    """Let an error name options: that of a wrong value if it was typed, and those that the message says to change."""
    try:
        yield
    except LettersError as error:
        # the same error, not a copy: programs read its class and attributes
        error.args = (with_options(error, click.get_current_context()),)
        raise


def with_options(error: LettersError, context: click.Context) -> str:
    """Return the message of an error, with the command's options as names."""
    options = {str(param.name): param.opts[0] for param in context.command.params}
    names = Names(ARGUMENTS | options)
    key, problem = (error.key, error.problem) if isinstance(error, SettingsError) else (None, "")
    name = (key or "").rpartition(".")[2]
    # --pii sets the policy of all columns
    name = "pii" if name == "all" else name
    if not problem or name not in options:
        return error.worded(names)
    if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
        return f"option {options[name]} {problem}."
    return error.worded(names, before=f"give {options[name]}, or ")
