"""Where does a setting's value come from, and is it, or an argument, of the setting's type?

dlt's own providers are asked (environment variables, config.toml, secrets.toml, vaults) for exactly
`sources.letters.<environment>.<key>`, then `sources.letters.<key>`. dlt's further fallback to a bare `<key>` is left
out on purpose: an `ACCESS_TOKEN` or `ENVIRONMENT` meant for something else must not reach the service.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args, get_origin

from dlt.common.configuration.container import Container
from dlt.common.configuration.exceptions import ConfigProviderException
from dlt.common.configuration.providers import ConfigProvider
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.configuration.utils import deserialize_value
from dlt.common.typing import TSecretStrValue

from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION

EXPECTED = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    date: "a day such as 2024-01-31",
    tuple: "a list of texts",
}
SECRETS = ("access_token", "refresh_token", "pii_key")
# how like a setting a key must be to be taken for it misspelt: one letter of ten wrong, missing or too many
NEAR = 0.85

Providers = Sequence[ConfigProvider]


@contextmanager
def readable_files() -> Iterator[None]:
    """Turn dlt's error of a settings file that cannot be read into ours: dlt reads them when it is first asked.

    Raises:
        SettingsError: a file cannot be read, such as one that is no TOML; the message has the file and the place in it.
    """
    try:
        yield
    except ConfigProviderException as error:
        raise SettingsError(" ".join(str(error).split())) from None


@readable_files()
def present_providers() -> Providers:
    """dlt's providers, as it set them up.

    Raises:
        SettingsError: a file cannot be read.
    """
    return Container()[PluggableRunContext].providers.providers


@readable_files()
def fresh_providers() -> Providers:
    """dlt's providers with files read again; those that a program added stay.

    Raises:
        SettingsError: a file cannot be read.
    """
    context = Container()[PluggableRunContext]
    fresh = context.context.initial_providers()
    names = {provider.name for provider in fresh}
    return [*fresh, *(provider for provider in context.providers.providers if provider.name not in names)]


def sections_of(environment: str | None, part: str = "") -> tuple[str, ...]:
    """The sections that hold settings, or one part of them, the ones to look into first in front."""
    sections = (f"{SECTION}.{environment}", SECTION) if environment else (SECTION,)
    return tuple(f"{section}.{part}" for section in sections) if part else sections


def look_up(key: str, hint: Any, sections: Sequence[str], providers: Providers) -> Any:
    """The first section's value of a key, of the hinted type; None where no provider has one.

    Raises:
        SettingsError: it is of another type.
    """
    for section, value in found_values(key, sections, providers):
        if value is not None:
            return convert(f"{section}.{key}", value, hint)
    return None


def found_values(key: str, sections: Sequence[str], providers: Providers) -> Iterator[tuple[str, Any]]:
    """What each provider has for a key in each section; secrets come from those that keep secrets."""
    secret = is_secret(key)
    for section in sections:
        for provider in providers:
            if not secret or provider.supports_secrets:
                yield section, provider.get_value(key, TSecretStrValue if secret else Any, None, *section.split("."))[0]


def check_section(section: str, providers: Providers, allowed: Sequence[str]) -> None:
    """See that a section is one, and has only keys that there are, in files and in the environment.

    Raises:
        SettingsError: it has another, or is a plain value, which would go unheeded.
    """
    parent, _, name = section.rpartition(".")
    for _, values in found_values(name, (parent,), providers):
        if values is not None and not isinstance(values, Mapping):
            raise SettingsError(f"{section} must be a section with keys of its own: {', '.join(allowed)}.")
    check_names(section.removeprefix(f"{SECTION}."), names_in(section, providers), allowed)


def check_spelling(section: str, providers: Providers, known: Collection[str]) -> None:
    """See that no key of a section is nearly one that there is; others may be there for dlt.

    Raises:
        SettingsError: one is, and would go unheeded.
    """
    for name in sorted(names_in(section, providers) - set(known)):
        if near := get_close_matches(name.lower(), known, 1, NEAR):
            raise SettingsError(f"{section}.{name} is no setting: did you mean {near[0]}?")


def names_in(section: str, providers: Providers) -> set[str]:
    """The keys of a section, in files and in the environment."""
    parent, _, name = section.rpartition(".")
    mappings = (values for _, values in found_values(name, (parent,), providers) if isinstance(values, Mapping))
    prefix = f"{section}.".replace(".", "__").upper()
    variables = (name.removeprefix(prefix).lower() for name in os.environ if name.startswith(prefix))
    return {name for values in mappings for name in values} | {name.partition("__")[0] for name in variables}


def check_names(section: str, given: Collection[str], allowed: Sequence[str]) -> None:
    """See that a section has only keys that there are: a misspelt one would go unheeded.

    Raises:
        SettingsError: it has another.
    """
    if unknown := sorted(set(given) - set(allowed)):
        raise SettingsError(f"{SECTION}.{section} knows {', '.join(allowed)}; got {', '.join(unknown)}.")


def convert(key: str, value: Any, hint: Any) -> Any:
    """A given or configured value as the hinted type, which may be optional; secrets lose the blanks around them.

    Raises:
        SettingsError: it is of another.
    """
    kind = get_args(hint)[0] if NoneType in get_args(hint) else hint
    try:
        if kind is date:
            return read_day(value)
        if kind is str:
            return read_text(value).strip() if is_secret(key) else read_text(value)
        return read_texts(value) if get_origin(kind) is tuple else deserialize_value(key, value, kind)
    except (ValueError, TypeError):
        expected = EXPECTED.get(get_origin(kind) or kind) or " or ".join(get_args(kind))
        raise wrong(key.removeprefix(f"{SECTION}."), expected, value) from None


def is_secret(key: str) -> bool:
    """Whether a setting's value is a secret."""
    return key.rpartition(".")[2] in SECRETS


def read_day(value: Any) -> date:
    """A TOML date, or an ISO 8601 text."""
    if isinstance(value, datetime):
        return value.date()
    return value if isinstance(value, date) else date.fromisoformat(str(value))


def read_text(value: Any) -> str:
    """A text, or a whole number that is meant as one."""
    # a bool is an int to Python, but no text to anyone
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return value if isinstance(value, str) else str(value)


def read_texts(value: Any) -> tuple[str, ...]:
    """A TOML list, a JSON list, or texts with commas between them."""
    if isinstance(value, str):
        text = value.strip()
        value = json.loads(text) if text.startswith("[") else [part.strip() for part in text.split(",")]
    if isinstance(value, bytes):
        raise TypeError
    return tuple(text for text in map(read_text, value) if text)


def wrong(key: str, expected: str, value: object) -> SettingsError:
    """The error of a value that cannot be used; secrets, and addresses that may hold one, are not quoted."""
    got = "" if is_secret(key) or key.endswith("base_url") else f", got {value!r}"
    return SettingsError(f"{SECTION}.{key} must be {expected}{got}: {where_to_set(key)}.")


def where_to_set(key: str) -> str:
    """Where a user sets a key."""
    *parts, name = key.split(".")
    section = ".".join((SECTION, *parts))
    variable = f"{section}.{name}".replace(".", "__").upper()
    file = ".dlt/secrets.toml" if is_secret(name) else ".dlt/config.toml"
    return f"set {variable} in the environment, or {name} under [{section}] in {file}"
