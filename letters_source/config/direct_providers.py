"""Reads settings as dlt does, without its import, where only the environment and the project's files can hold any."""

import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import Any

ENVIRONMENT = "Environment Variables"
"""dlt's name of this provider."""
OF_DLT = re.compile(
    r"(?!(DLT_DATA_DIR|DLT_LOCAL_DIR)=|RUNTIME__DLTHUB_TELEMETRY=(true|false)$|"
    r"RUNTIME__LOG_LEVEL=(WARNING|ERROR|CRITICAL)$|PROVIDERS__ENABLE_AIRFLOW_SECRETS=false$)"
    r"(DLT|XDG_DATA_HOME|RUNTIME__|PROVIDERS__|WORKSPACE__|ENABLE_|LOG_|SENTRY_|SLACK_|REQUEST_|HTTP_SHOW|HTTP_MAX)"
)
"""Environment variables with which dlt may find other settings, or fail; not those that the command sets."""
SECTIONS = {"sources", "destination", "extract", "normalize", "load"}
"""Sections that configure neither dlt's providers nor its runtime."""


@dataclass(frozen=True, slots=True)
class DirectProvider:
    """The environment or a settings file, with the part of dlt's interface that settings need."""

    name: str
    supports_secrets: bool
    values: Mapping[str, Any] = field(default_factory=dict)
    locations: Sequence[str] = ()
    present_locations: Sequence[str] = ()

    def get_value(self, key: str, _hint: Any, _pipeline: str | None, *sections: str) -> tuple[Any, str]:
        """Return the value of a key in nested sections, or None, and the key."""
        if self.name == ENVIRONMENT:
            return os.environ.get("__".join((*sections, key)).upper()), key
        value: Any = self.values
        for name in (*sections, key):
            value = value.get(name) if isinstance(value, Mapping) else None
        return value, key


def direct_providers() -> list[DirectProvider] | None:
    """Return providers of what dlt's have, in its order; None where dlt itself must read it, or say why it cannot."""
    try:
        if is_dlt_needed():
            return None
        files = [read_file("secrets.toml", supports_secrets=True), read_file("config.toml", supports_secrets=False)]
    except (OSError, ValueError):
        return None
    tops = [top for file in files for top in file.values.items() if top[0] not in SECTIONS]
    # `letters init` writes this one
    is_known = all(top == ("runtime", {"dlthub_telemetry": False}) for top in tops)
    return [DirectProvider(ENVIRONMENT, supports_secrets=True), *files] if is_known else None


def is_dlt_needed() -> bool:
    """Return whether dlt is imported already, or may find settings elsewhere, such as in a vault or in Airflow."""
    home = os.path.expanduser("~/.dlt")  # noqa: PTH111 -- Path.expanduser raises for users without a home
    others = ["/run/secrets", ".dlt/.workspace"]
    others += [
        f"{folder}/{file}.toml"
        for folder in ("/var/dlt", home, f"{gettempdir()}/dlt")
        for file in ("secrets", "config")
    ]
    return bool(
        sys.modules.keys() & {"dlt", "IPython", "streamlit"}
        or any(OF_DLT.match(f"{name}={value}") for name, value in os.environ.items())
        or any(os.access(path, os.F_OK) for path in others)
        or (find_spec("airflow") and os.environ.get("PROVIDERS__ENABLE_AIRFLOW_SECRETS") != "false")
        or entry_points(group="dlt").names - {"dlt"}
    )


def read_file(name: str, *, supports_secrets: bool) -> DirectProvider:
    """Read one of the project's two files, which may be missing."""
    file = Path(".dlt", name)
    values = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    return DirectProvider(name, supports_secrets, values, [str(file)], [str(file)])
