"""Resolves and checks the settings: arguments first, then dlt's configuration, then defaults."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, replace
from functools import partial
from typing import Any, Literal, TypeVar, cast, get_args

from msgspec import Meta

from letters_source.config.messages import unusable, where_to_set, wrong
from letters_source.config.network import check_network
from letters_source.config.providers import (
    Providers,
    check_names,
    check_secret_place,
    check_section,
    convert,
    find_origin,
    fresh_providers,
    has_value,
    look_up,
    names_in,
    present_providers,
    searched_files,
    sections_of,
)
from letters_source.config.settings import (
    DLT_SUBSECTIONS,
    FILTERS,
    SETTINGS,
    SUBSECTIONS,
    Environment,
    Key,
    Overrides,
    Settings,
)
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION, ContactFilters, TemplateFilters, check_days
from letters_source.service.tokens import Tokens, TokenSource, check_tokens
from letters_source.tables import UNDOCUMENTED
from letters_source.transform.privacy import CHOICES, MIN_KEY_BYTES, PERSONAL, Policy, Privacy

SERVICE_KEYS = ("base_url", "access_token", "refresh_token")
TOKENS = (SETTINGS["access_token"], SETTINGS["refresh_token"])
F = TypeVar("F", ContactFilters, TemplateFilters)
POLICIES = {name: Key(name, Literal[choices], Meta()) for name, choices in {**CHOICES, "all": get_args(Policy)}.items()}
"""The keys of `[sources.letters.pii]`."""


def resolve_settings(overrides: Overrides, providers: Providers | None = None) -> Settings:
    """Resolve the settings, or raise `SettingsError`, which names the key, its environment variable and its file."""
    found = present_providers() if providers is None else providers
    given: dict[str, object] = {**overrides}
    check_names(SECTION, given, Overrides.__annotations__)
    environment = cast("Environment | None", resolve_key(SETTINGS["environment"], given, (SECTION,), found))
    sections = sections_of(environment)
    if environment:
        check_environment(environment, given, found)
    check_section(SECTION, found, [*SETTINGS, *SUBSECTIONS, *get_args(Environment), *DLT_SUBSECTIONS])
    if environment:
        check_section(sections[0], found, [*SETTINGS, *SUBSECTIONS])
    values = resolve_keys(SETTINGS.values(), given, sections, found)
    contacts, templates = resolve_both_filters(overrides, values["account_id"], environment, found)
    settings = Settings(
        **{**values, "environment": environment, "base_url": values["base_url"].rstrip("/")},
        contact_filters=contacts,
        template_filters=templates,
        privacy=resolve_privacy(overrides.get("pii"), values["pii_key"], environment, found),
    )
    check_settings(settings)
    return settings


def check_environment(environment: str, given: Mapping[str, object], providers: Providers) -> None:
    """Raise if an environment has no section of its own, unless the arguments tell which service to load."""
    section = f"{SECTION}.{environment}"
    is_given = all(given.get(name) for name in SERVICE_KEYS)
    if is_given or names_in(section, providers) or any(has_value(name, section, providers) for name in SERVICE_KEYS):
        return
    raise SettingsError(
        f"environment is {environment}, but the section [{section}] does not exist or is empty",
        advice=f"{where_to_set(f'{environment}.base_url')}.",
        key=f"{section}.base_url",
    )


def resolve_keys(
    keys: Collection[Key], given: Mapping[str, object], sections: Sequence[str], providers: Providers
) -> dict[str, Any]:
    """Return the value of each key, or raise `SettingsError`, which names all that are missing."""
    values = {key.name: resolve_key(key, given, sections, providers) for key in keys}
    if missing := [key.name for key in keys if key.default is MISSING and values[key.name] in (MISSING, "")]:
        first, *others = missing
        also = f" {' and '.join(others)} {'is' if len(others) == 1 else 'are'} not set either." if others else ""
        raise unusable(first, "is not set", searched_files(first, providers) + also)
    return values


def resolve_key(key: Key, given: Mapping[str, object], sections: Sequence[str], providers: Providers) -> object:
    """Return the value of a key: as given, or else as configured, or else its default."""
    value = given.get(key.name)
    found = look_up(key, sections, providers) if value is None else convert(sections[-1], key, value)
    if found is None and key.secret:
        check_secret_place(key, sections, providers)
    return key.default if found is None else found


def resolve_section(
    subsection: str, keys: Mapping[str, Key], given: Mapping[str, object], environment: str | None, providers: Providers
) -> dict[str, Any]:
    """Resolve the keys of a subsection of `[sources.letters]`."""
    sections = sections_of(environment, subsection)
    check_names(sections[-1], given, [*keys])
    for section in sections:
        check_section(section, providers, [*keys])
    return resolve_keys(keys.values(), given, sections, providers)


def resolve_both_filters(
    given: Overrides, account: str | None, environment: str | None, providers: Providers
) -> tuple[ContactFilters, TemplateFilters]:
    """Return the filters of both listings; an account given as an argument takes precedence over configured ones."""
    contacts = given.get("contact_filters") or ContactFilters()
    templates = given.get("template_filters") or TemplateFilters()
    is_argument = given.get("account_id") is not None
    others = {str(filters.account_id) for filters in (contacts, templates) if filters.account_id} - {account}
    if is_argument and others:
        raise SettingsError(
            f"account_id is given as {account}, and in filters as {', '.join(sorted(others))}; give one.",
            key=f"{SECTION}.account_id",
        )
    contacts = resolve_filters("contacts", contacts, environment, providers)
    templates = resolve_filters("templates", templates, environment, providers)
    if is_argument:
        # rows of one account must not be stored as those of another
        return replace(contacts, account_id=None), replace(templates, account_id=None)
    return contacts, templates


def resolve_filters(listing: str, given: F, environment: str | None, providers: Providers) -> F:
    """Return the filters given as arguments, and those of the listing's section where none was given."""
    keys = FILTERS[listing]
    values = {name: getattr(given, name) for name, key in keys.items() if getattr(given, name) != key.default}
    return type(given)(**resolve_section(listing, keys, values, environment, providers))


def resolve_privacy(
    given: Mapping[str, Policy] | Policy | None, secret: str | None, environment: str | None, providers: Providers
) -> Privacy:
    """Return the treatment of personal data: as given, else as in `[sources.letters.pii]`, else as for `all`."""
    policies = {"all": given} if isinstance(given, str) else given or {}
    found = resolve_section("pii", POLICIES, policies, environment, providers)
    chosen = {name: found[name] or (found["all"] if name in PERSONAL else None) for name in CHOICES}
    key = (secret or "").encode()
    if "hash" in chosen.values() and len(key) < MIN_KEY_BYTES:
        trouble = f"must have at least {MIN_KEY_BYTES} bytes" if key else "is not set, but the policy hash needs it"
        raise unusable("pii_key", trouble)
    treated = {name: policy for name, policy in chosen.items() if policy not in (None, "keep")}
    # record `keep` only for `undocumented`, which is dropped by default once any column is treated
    if treated and found[UNDOCUMENTED.name] == "keep":
        treated[UNDOCUMENTED.name] = "keep"
    return Privacy(treated, key, frozenset(name for name, policy in chosen.items() if policy == "keep"))


def check_settings(settings: Settings) -> None:
    """Raise if settings contradict each other, or an address, file or account is unusable."""
    check_network(settings.base_url, settings.network)
    accounts = {
        "account_id": settings.account_id,
        "contacts.account_id": settings.contact_filters.account_id,
        "templates.account_id": settings.template_filters.account_id,
    }
    for key, account in accounts.items():
        if account is not None and not account.strip():
            raise SettingsError.about(f"{SECTION}.{key}", "is empty", f"{where_to_set(key)}, or leave it out.")
    if settings.proof == "exact" and settings.max_walks == 1:
        raise wrong("max_walks", "at least 2 with proof exact, which takes two passes", settings.max_walks)
    check_days(settings.contact_filters)
    if settings.history and settings.sync:
        problem = "cannot be combined with sync, which deletes what history keeps"
        raise SettingsError.about(f"{SECTION}.history", problem)


def token_source(settings: Settings, overrides: Overrides) -> TokenSource:
    """Return the tokens of a run, which are read again if the service refuses them."""
    origins = token_origins(settings, overrides, present_providers())
    return TokenSource(
        check_tokens(replace(settings.tokens, origins=origins)), partial(read_tokens_again, settings, overrides)
    )


def read_tokens_again(settings: Settings, overrides: Overrides) -> Tokens:
    """Return the tokens as the secrets hold them now: files are read again, all other settings stay as they are."""
    fresh = fresh_providers()
    access, refresh = resolve_keys(TOKENS, {**overrides}, sections_of(settings.environment), fresh).values()
    return Tokens(access, refresh, token_origins(settings, overrides, fresh))


def token_origins(settings: Settings, overrides: Overrides, providers: Providers) -> tuple[str, ...]:
    """Return where each token was set; empty if both are arguments."""
    given, sections = {**overrides}, sections_of(settings.environment)
    if all(given.get(key.name) is not None for key in TOKENS):
        return ()
    return tuple(
        find_origin(key, sections, providers) if given.get(key.name) is None else f"argument {key.name}"
        for key in TOKENS
    )
