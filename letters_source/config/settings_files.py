"""The settings files: config.toml, which lists every setting, and secrets.toml."""

import json
import os
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path

from letters_source.config.settings import FILTERS, PII, SECRETS, SETTINGS, Key
from letters_source.errors import UnusableFile

FOLDER = Path(".dlt")
CONFIG, SECRET = FOLDER / "config.toml", FOLDER / "secrets.toml"
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


def config_toml(given: Mapping[str, str] | None = None) -> str:
    """Return config.toml: the given settings, and all others commented out."""
    plain = [key for key in SETTINGS.values() if not key.secret]
    filters = {listing: toml_lines(keys.values(), {}) for listing, keys in FILTERS.items()}
    return CONFIG_TOML.format(settings=toml_lines(plain, given or {}), pii=PII, **filters)


def secrets_toml(given: Mapping[str, str] | None = None) -> str:
    """Return secrets.toml with the given secrets; an empty secret counts as not set."""
    secrets = ((SETTINGS[name], "# " if SETTINGS[name].default is None else "") for name in SECRETS)
    lines = (
        f"{comment}{key.name} = {toml_of((given or {}).get(key.name, ''))}  # {key.about.description}"
        for key, comment in secrets
    )
    return SECRETS_TOML.format(secrets="\n".join(lines))


def toml_lines(keys: Iterable[Key], given: Mapping[str, str]) -> str:
    """Return a line for each key: what is given, or commented out its example or default; then its meaning."""
    return "\n".join(f"{toml_line(key, given):<30}  # {key.about.description}" for key in keys)


def toml_line(key: Key, given: Mapping[str, str]) -> str:
    """Return the assignment of a key."""
    if key.name in given:
        return f"{key.name} = {toml_of(given[key.name])}"
    example = key.about.examples[0] if key.about.examples else True if key.default is None else key.default
    return f"# {key.name} = {toml_of(example)}"


def toml_of(value: object) -> str:
    """Return a value as TOML."""
    if isinstance(value, date):
        return value.isoformat()
    return json.dumps(value).removesuffix(".0")


def missing_files() -> list[Path]:
    """Return which of the two settings files do not exist."""
    return [path for path in (CONFIG, SECRET) if not os.path.lexists(path)]


def write_settings(given: Mapping[str, str] | None = None) -> list[Path]:
    """Write the settings files that do not exist; return those written, or raise `UnusableFile`."""
    texts = {CONFIG: config_toml(given), SECRET: secrets_toml(given)}
    missing = missing_files()
    try:
        FOLDER.mkdir(exist_ok=True)
        for path in missing:
            path.touch(0o600 if path == SECRET else 0o644, exist_ok=False)
            path.write_text(texts[path])
    except OSError as error:
        raise UnusableFile(f"{error.filename} cannot be written: {error.strerror}.", file=str(error.filename)) from None
    return missing
