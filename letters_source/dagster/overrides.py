"""Settings given as data, in the YAML of a component or the configuration of a resource."""

from collections.abc import Mapping
from typing import Any, cast

from letters_source.config.messages import unusable
from letters_source.config.providers import check_names
from letters_source.config.resolve import resolve_settings
from letters_source.config.settings import FILTERS, SECRETS, Overrides, Settings
from letters_source.service.listings import SECTION, ContactFilters, TemplateFilters

FILTERS_OF = {"contact_filters": ("contacts", ContactFilters), "template_filters": ("templates", TemplateFilters)}
# a URL and secrets that pass the checks; an empty proxy means none
PLACEHOLDERS = {"base_url": "https://localhost", **dict.fromkeys(SECRETS, "-" * 16), "proxy": ""}
# these may exist only where runs execute
FILES = ("ca_bundle", "client_cert", "client_key")


def to_overrides(given: Mapping[str, Any]) -> Overrides:
    """Return settings as arguments for `run`, or raise `SettingsError`; filters are mappings."""
    for name in SECRETS:
        if name in given:
            raise unusable(name, "is a secret, not for definitions")
    return cast("Overrides", {name: to_filters(name, value) for name, value in given.items()})


def to_filters(name: str, value: Any) -> Any:
    """Return the filters of a listing from a mapping; any other setting unchanged."""
    if name not in FILTERS_OF or not isinstance(value, Mapping):
        return value
    listing, kind = FILTERS_OF[name]
    check_names(f"{SECTION}.{listing}", value, [*FILTERS[listing]])
    return kind(**value)


def check_overrides(given: Mapping[str, Any]) -> Settings:
    """Return the settings as if nothing else were configured, or raise `SettingsError`; looks nothing up."""
    known = {**PLACEHOLDERS, **to_overrides(given), **dict.fromkeys(FILES, "")}
    return resolve_settings(cast("Overrides", known), [])
