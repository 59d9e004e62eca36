"""Where a setting's value comes from (dlt's providers), and its conversion to the declared type.

dlt's own resolution, which `@configspec` uses, falls back from `sources.letters.<key>` to a bare `<key>`: an
`ACCESS_TOKEN` or `ENVIRONMENT` meant for something else must not reach the service.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args, get_origin

import msgspec

from letters_source.config.direct_providers import ENVIRONMENT, DirectProvider, direct_providers
from letters_source.config.messages import expected, is_secret, unknown, unusable, variable_of, wrong
from letters_source.config.settings import Key
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION

if TYPE_CHECKING:
    # imported at run time, dlt would double the time of `letters check`
    from dlt.common.configuration.providers import ConfigProvider
    from dlt.common.configuration.specs import PluggableRunContext

Provider: TypeAlias = "ConfigProvider | DirectProvider"
Providers = Sequence[Provider]


@contextmanager
def readable_files() -> Iterator[None]:
    """Turn dlt's error of an unreadable settings file into ours: dlt reads the files when it is first asked."""
    from dlt.common.configuration.exceptions import ConfigProviderException

    try:
        yield
    except ConfigProviderException as error:
        raise SettingsError(" ".join(str(error).split())) from None


def present_providers() -> Providers:
    """Return dlt's providers, as dlt set them up, or providers of the same settings if dlt is not imported."""
    if direct := direct_providers():
        return direct
    with readable_files():
        return run_context().providers.providers


def fresh_providers() -> Providers:
    """Return providers with their files read again, and those that a program added."""
    if direct := direct_providers():
        return direct
    with readable_files():
        context = run_context()
        fresh = context.context.initial_providers()
    names = {provider.name for provider in fresh}
    return [*fresh, *(provider for provider in context.providers.providers if provider.name not in names)]


def run_context() -> "PluggableRunContext":
    """Return dlt's context, which has its providers."""
    from dlt.common.configuration.container import Container
    from dlt.common.configuration.specs import PluggableRunContext

    return Container()[PluggableRunContext]


def sections_of(environment: str | None, subsection: str = "") -> tuple[str, ...]:
    """Return the sections of settings, or of one of their subsections, in order of precedence."""
    sections = (f"{SECTION}.{environment}", SECTION) if environment else (SECTION,)
    return tuple(f"{section}.{subsection}" for section in sections) if subsection else sections


def look_up(key: Key, sections: Sequence[str], providers: Providers) -> object:
    """Return the value of a key in the first section that has one, converted; None where no provider has one."""
    for section, provider, value in found_values(key.name, sections, providers):
        if value is not None:
            return convert(section, key, value, partial(origin_of, provider, section, key.name))
    return None


def find_origin(key: Key, sections: Sequence[str], providers: Providers) -> str:
    """Return where `look_up` finds a key; empty where no provider has it."""
    found = found_values(key.name, sections, providers)
    return next((origin_of(given, section, key.name) for section, given, value in found if value is not None), "")


def found_values(name: str, sections: Sequence[str], providers: Providers) -> Iterator[tuple[str, Provider, object]]:
    """Yield what each provider has for a key in each section; secrets come only from providers that support them."""
    secret = is_secret(name)
    hint = secret_hint() if secret else Any
    for section in sections:
        for provider in providers:
            if not secret or provider.supports_secrets:
                yield section, provider, provider.get_value(name, hint, None, *section.split("."))[0]


def secret_hint() -> Any:
    """Return the type by which dlt's providers recognize secrets; the direct ones treat all values alike."""
    if "dlt" not in sys.modules:
        return str
    from dlt.common.typing import TSecretStrValue

    return TSecretStrValue


def origin_of(provider: Provider, section: str, name: str) -> str:
    """Return where a provider has a value: its environment variable, or its section and file."""
    if provider.name == ENVIRONMENT:
        return f"{variable_of(f'{section}.{name}')} in the environment"
    files = [Path(file).absolute() for file in provider.present_locations or ()]
    is_global = not isinstance(provider, DirectProvider) and provider.get_value_location(
        name, None, *section.split(".")
    ).startswith("global:")
    place = files[-1 if is_global else 0] if files else provider.name
    return f"{name} under [{section}] in {place}"


def searched_files(key: str, providers: Providers) -> str:
    """Return, as a sentence, in which files a key was searched, and which of them do not exist."""
    name = "secrets.toml" if is_secret(key) else "config.toml"
    files = [Path(file).absolute() for provider in providers for file in provider.locations if provider.name == name]
    # dlt's folder for all projects is news only where it has settings
    shown = [f"{file}{'' if file.exists() else ' (not found)'}" for file in files if file == files[0] or file.exists()]
    return f" Searched {' and '.join(shown)}." if shown else ""


def check_secret_place(key: Key, sections: Sequence[str], providers: Providers) -> None:
    """Raise if a secret is set where secrets are not read, and would be ignored."""
    for section in sections:
        for provider in providers:
            if not provider.supports_secrets and provider.get_value(key.name, Any, None, *section.split("."))[0]:
                raise unusable(key.name, f"is a secret, and ignored in {provider.name}")


def has_value(name: str, section: str, providers: Providers) -> bool:
    """Return whether a provider has a value for a key of a section."""
    return any(value is not None for *_, value in found_values(name, (section,), providers))


def check_section(section: str, providers: Providers, allowed: Sequence[str]) -> None:
    """Raise if a section has an unknown key, which would be ignored, in a file or in the environment."""
    parent, _, name = section.rpartition(".")
    for _, _, values in found_values(name, (parent,), providers):
        if values is not None and not isinstance(values, Mapping):
            raise SettingsError(f"{section} must be a section with keys of its own: {', '.join(allowed)}.", key=section)
    found = names_in(section, providers)
    check_names(section, found, allowed, found)


def names_in(section: str, providers: Providers) -> dict[str, str]:
    """Return the keys of a section, in files and in the environment, and where each is set."""
    parent, _, name = section.rpartition(".")
    prefix = f"{section}.".replace(".", "__").upper()
    found = {
        variable.removeprefix(prefix).lower().partition("__")[0]: f"{variable} in the environment"
        for variable in os.environ
        if variable.startswith(prefix)
    }
    for _, provider, values in found_values(name, (parent,), providers):
        if isinstance(values, Mapping):
            found |= {key: origin_of(provider, section, key) for key in values}
    return found


def check_names(
    section: str, given: Collection[str], allowed: Collection[str], origins: Mapping[str, str] | None = None
) -> None:
    """Raise if a name is unknown, since a misspelled setting would be ignored; `origins` are where names are set."""
    for name in sorted(set(given) - set(allowed)):
        raise unknown(section, name, allowed, (origins or {}).get(name, ""))


def convert(section: str, key: Key, value: object, origin: Callable[[], str] | None = None) -> object:
    """Return a given or configured value as the declared type, within its bounds; secrets lose surrounding blanks.

    `origin` tells where the value came from, for the error; without one, it was given as an argument.
    """
    if value in key.words:
        return value
    try:
        converted = read(key, value)
        return msgspec.convert(converted, Annotated[key.kind, key.about]) if key.kind in (int, float) else converted
    except (ValueError, TypeError, msgspec.ValidationError):
        name = f"{section}.{key.name}".removeprefix(f"{SECTION}.")
        raise wrong(name, expected(key), value, origin() if origin else f"argument {name}") from None


def read(key: Key, value: object) -> object:
    """Return a value as the type of a key; numbers, booleans and choices as dlt reads them."""
    if key.kind is date:
        return read_day(value)
    if key.kind is str:
        return read_text(value).strip() if is_secret(key.name) else read_text(value)
    if get_origin(key.kind) is tuple:
        return read_texts(value)
    if type(value) is key.kind or value in get_args(key.kind):
        return value
    if key.kind is int and isinstance(value, str) and value.isdecimal():
        return int(value)
    from dlt.common.configuration.utils import deserialize_value

    return deserialize_value(key.name, value, key.kind)


def read_day(value: object) -> date:
    """Return the day of a TOML date, or of ISO 8601 text."""
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(str(value))


def read_text(value: object) -> str:
    """Return text, or a whole number that is meant as text."""
    # a bool is an int in Python
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return value if isinstance(value, str) else str(value)


def read_texts(value: object) -> tuple[str, ...]:
    """Return the texts of a TOML list, a JSON list, or a text with commas."""
    if isinstance(value, str):
        text = value.strip()
        value = json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
    if isinstance(value, bytes) or not isinstance(value, Iterable):
        raise TypeError
    return tuple(text for text in map(read_text, value) if text)
