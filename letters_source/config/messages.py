"""What errors and warnings say of settings: what they accept, where to set them, and which name was probably meant."""

import logging
import os
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from difflib import get_close_matches
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from letters_source.config.settings import FILTERS, SECRETS, SETTINGS, SUBSECTIONS, Environment, Key
from letters_source.errors import SettingsError, verbatim
from letters_source.service.listings import SECTION

if TYPE_CHECKING:
    from letters_source.config.providers import Providers

logger = logging.getLogger("letters_source")

KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    date: "a day such as 2024-01-31",
    tuple: "a list of texts",
}
# allows one wrong, missing or extra letter in ten
TYPO = 0.85
TOP, OURS = SECTION.split(".")
NAMES = {*SETTINGS, *SUBSECTIONS, *get_args(Environment)} | {name for keys in FILTERS.values() for name in keys}
"""What a section of ours can contain."""


def expected(key: Key) -> str:
    """Return what values a key takes, with its bounds."""
    if get_origin(key.kind) is Literal:
        return " or ".join(get_args(key.kind))
    return " or ".join((KINDS[get_origin(key.kind) or key.kind] + bounds(key), *key.words))


def bounds(key: Key) -> str:
    """Return the bounds of a number."""
    low, high = key.about.ge, key.about.le
    if high is not None:
        return f" from {low} to {high}"
    return f" greater than {key.about.gt}" if key.about.gt is not None else "" if low is None else f" of at least {low}"


def unusable(key: str, what: str, searched: str = "") -> SettingsError:
    """Return the error of a setting that is missing or wrong, where to set it, and where it was searched."""
    return SettingsError.about(f"{SECTION}.{key}", what, f"{where_to_set(key)}.{verbatim(searched)}")


def wrong(key: str, should_be: str, value: object, origin: str = "") -> SettingsError:
    """Return the error of an unusable value, and its origin or where to set it.

    It does not quote secrets, nor addresses, which may contain one.
    """
    shown = value.isoformat() if isinstance(value, date) else repr(value)
    got = "" if is_secret(key) or key.endswith("base_url") else f", got {shown}"
    problem = f"must be {should_be}{got}"
    if not origin:
        return unusable(key, problem)
    return SettingsError(f"{origin} {problem}.", key=f"{SECTION}.{key}", problem=problem)


def unknown(section: str, name: str, known: Collection[str], origin: str = "") -> SettingsError:
    """Return the error of an unknown key, with the known one that is most like it, and where it is set."""
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}."
    where = f" It is {origin}." if origin else ""
    return SettingsError(f"unknown setting {section}.{name}; {hint}{where}", key=f"{section}.{name}")


def nearest(name: str, known: Collection[str], likeness: float = 0.6) -> str | None:
    """Return the closest known name, or None if none reaches `likeness` (0 to 1)."""
    return next(iter(get_close_matches(name.lower(), known, 1, likeness)), None)


def where_to_set(key: str) -> str:
    """Return where a user sets a key."""
    *subsections, name = key.split(".")
    section = ".".join((SECTION, *subsections))
    variable = variable_of(f"{section}.{name}")
    file = ".dlt/secrets.toml" if is_secret(name) else ".dlt/config.toml"
    return f"set {variable} in the environment, or {name} under [{section}] in {file}"


def variable_of(key: str) -> str:
    """Return the environment variable of a full key."""
    return key.replace(".", "__").upper()


def is_secret(key: str) -> bool:
    """Return whether a setting's value is a secret."""
    return key.rpartition(".")[2] in SECRETS


def report_misspelled_sections(providers: "Providers") -> None:
    """Warn about sections and variables whose names are almost ours; another source may really have such a name."""
    for wrong, right in (*misspelled_sections(providers), *misspelled_variables()):
        logger.warning("%s is not used; did you mean %s?", wrong, right)


def misspelled_sections(providers: "Providers") -> Iterator[tuple[str, str]]:
    """Yield sections of files with a name that is almost ours and a key that is ours, and the right name."""
    # the singular is the likely slip; providers cannot list the sections at their top
    for provider, top in product(providers, (TOP, TOP.removesuffix("s"))):
        sections = provider.get_value(top, Any, None)[0]
        for name, keys in sections.items() if isinstance(sections, Mapping) else ():
            if is_near(top, name) and isinstance(keys, Mapping) and not NAMES.isdisjoint(keys):
                yield f"section [{top}.{name}] in {provider.name}", f"[{SECTION}]"


def misspelled_variables() -> Iterator[tuple[str, str]]:
    """Yield environment variables in such a section, and the right name."""
    for variable in sorted(os.environ):
        top, _, rest = variable.lower().partition("__")
        name, _, key = rest.partition("__")
        if is_near(top, name) and key.rpartition("__")[2] in NAMES:
            yield variable, variable_of(f"{SECTION}.{key}")


def is_near(top: str, name: str) -> bool:
    """Return whether two parts of a name are almost ours, but not ours."""
    return (top, name) != (TOP, OURS) and bool(nearest(top, (TOP,), TYPO) and nearest(name, (OURS,), TYPO))
