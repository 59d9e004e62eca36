"""Settings given as texts under their names in `[sources.letters]`: `page_size`, `contacts.tags`, `pii.email`."""

from collections.abc import Mapping
from typing import Any, cast

from letters_source.config.messages import unusable
from letters_source.config.providers import check_names, convert
from letters_source.config.resolve import POLICIES
from letters_source.config.settings import FILTERS, SECRETS, SETTINGS, Key, Overrides
from letters_source.service.listings import SECTION, ContactFilters, TemplateFilters

KEYS = {
    **SETTINGS,
    **{f"{listing}.{name}": key for listing, keys in FILTERS.items() for name, key in keys.items()},
    **{f"pii.{name}": key for name, key in POLICIES.items()},
}
"""Every setting but sections, by its name."""


def to_overrides(texts: Mapping[str, str]) -> Overrides:
    """Return texts as arguments for `resolve_settings`, or raise `SettingsError`, also for secrets."""
    for name in SECRETS:
        if name in texts:
            raise unusable(name, "is a secret, and options are shown")
    check_names(SECTION, texts, [name for name in KEYS if name not in SECRETS])
    values = {name: convert_option(name, KEYS[name], text) for name, text in texts.items()}
    overrides = {name: value for name, value in values.items() if "." not in name}
    if contacts := within(values, "contacts"):
        overrides["contact_filters"] = ContactFilters(**contacts)
    if templates := within(values, "templates"):
        overrides["template_filters"] = TemplateFilters(**templates)
    if policies := within(values, "pii"):
        overrides["pii"] = policies
    return cast("Overrides", overrides)


def convert_option(name: str, key: Key, text: str) -> Any:
    """Return an option's text as the declared type, or raise `SettingsError`."""
    return convert(f"{SECTION}.{name}".rpartition(".")[0], key, text, lambda: f"option {name}")


def within(values: Mapping[str, Any], section: str) -> dict[str, Any]:
    """Return the options of a section, such as `contacts.tags`, by the rest of their names."""
    return {name.removeprefix(f"{section}."): value for name, value in values.items() if name.startswith(f"{section}.")}
