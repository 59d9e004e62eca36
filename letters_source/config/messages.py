"""How settings are described to people: in errors, and in the commented settings files."""

import json
import os
from collections.abc import Collection, Iterable
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, get_args, get_origin

from letters_source.config.settings import FILTERS, PII, SECRETS, SETTINGS, Key
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION

FOLDER = Path(".dlt")
KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    date: "a day such as 2024-01-31",
    tuple: "a list of texts",
}
CONFIG_TOML = """\
# Settings of letters_source, with their defaults. Each can also be set in the environment, in upper case with double
# underscores: SOURCES__LETTERS__BASE_URL. Secrets go into secrets.toml.

[runtime]
# dlt's anonymous telemetry
dlthub_telemetry = false

[sources.letters]
{settings}

# Filters of contacts; what is not set is not sent
# [sources.letters.contacts]
{contacts}

# Filters of templates; the service may require them
# [sources.letters.templates]
{templates}

# {pii} Set it by column; `all` stands for the others.
# [sources.letters.pii]
# all = "keep"
# email = "drop"

# Settings of one environment, which take precedence when environment = "production"
# [sources.letters.production]
# base_url = "https://..."
"""
SECRETS_TOML = """\
# Secrets of letters_source. Keep secrets.toml out of version control.

[sources.letters]
{secrets}

# [sources.letters.production]
# access_token = ""
# refresh_token = ""
"""


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


def config_toml() -> str:
    """Return the commented config.toml."""
    plain = [key for key in SETTINGS.values() if not key.secret]
    filters = {listing: toml_lines(keys.values()) for listing, keys in FILTERS.items()}
    return CONFIG_TOML.format(settings=toml_lines(plain), pii=PII, **filters)


def secrets_toml() -> str:
    """Return the secrets.toml to fill in; an empty secret counts as not set."""
    secrets = ((SETTINGS[name], "# " if SETTINGS[name].default is None else "") for name in SECRETS)
    lines = (f'{comment}{key.name} = ""  # {key.about.description}' for key, comment in secrets)
    return SECRETS_TOML.format(secrets="\n".join(lines))


def toml_lines(keys: Iterable[Key]) -> str:
    """Return a line for each key, commented out: its example or default, and its meaning."""
    return "\n".join(f"{f'# {key.name} = {toml_of(example_of(key))}':<30}  # {key.about.description}" for key in keys)


def example_of(key: Key) -> object:
    """Return the declared example, else the default, else true."""
    return key.about.examples[0] if key.about.examples else True if key.default is None else key.default


def toml_of(value: object) -> str:
    """Return a value as TOML."""
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value).removesuffix(".0")


def write_settings() -> list[Path]:
    """Write config.toml and secrets.toml where they do not exist; return those written, or raise `SettingsError`."""
    texts = {FOLDER / "config.toml": config_toml(), FOLDER / "secrets.toml": secrets_toml()}
    missing = [path for path in texts if not os.path.lexists(path)]
    try:
        FOLDER.mkdir(exist_ok=True)
        for path in missing:
            path.touch(0o600 if path.stem == "secrets" else 0o644, exist_ok=False)
            path.write_text(texts[path])
    except OSError as error:
        raise SettingsError(f"{error.filename} cannot be written: {error.strerror}.") from None
    return missing
