"""How errors describe settings, and where to set them."""

from collections.abc import Collection
from datetime import date
from difflib import get_close_matches
from typing import Literal, get_args, get_origin

from letters_source.config.settings import SECRETS, Key
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION

KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    date: "a day such as 2024-01-31",
    tuple: "a list of texts",
}


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
    return SettingsError(
        f"{SECTION}.{key} {what}: {where_to_set(key)}.{searched}", key=f"{SECTION}.{key}", problem=what
    )


def wrong(key: str, should_be: str, value: object, origin: str = "") -> SettingsError:
    """Return the error of an unusable value, and its origin or where to set it.

    It does not quote secrets, nor addresses, which may contain one.
    """
    got = "" if is_secret(key) or key.endswith("base_url") else f", got {value!r}"
    problem = f"must be {should_be}{got}"
    if not origin:
        return unusable(key, problem)
    return SettingsError(f"{origin} {problem}.", key=f"{SECTION}.{key}", problem=problem)


def unknown(section: str, name: str, known: Collection[str]) -> SettingsError:
    """Return the error of an unknown key, with the known one that is most like it."""
    near = nearest(name, known)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}."
    return SettingsError(f"unknown setting {section}.{name}; {hint}", key=f"{section}.{name}")


def nearest(name: str, known: Collection[str], likeness: float = 0.6) -> str | None:
    """Return the closest known name, or None if none reaches `likeness` (0 to 1)."""
    return next(iter(get_close_matches(name.lower(), known, 1, likeness)), None)


def where_to_set(key: str) -> str:
    """Return where a user sets a key."""
    *parts, name = key.split(".")
    section = ".".join((SECTION, *parts))
    variable = variable_of(f"{section}.{name}")
    file = ".dlt/secrets.toml" if is_secret(name) else ".dlt/config.toml"
    return f"set {variable} in the environment, or {name} under [{section}] in {file}"


def variable_of(key: str) -> str:
    """Return the environment variable of a full key."""
    return key.replace(".", "__").upper()


def is_secret(key: str) -> bool:
    """Return whether a setting's value is a secret."""
    return key.rpartition(".")[2] in SECRETS
