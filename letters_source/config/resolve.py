"""Where do the settings come from? Arguments first, then dlt's configuration, then defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, replace
from functools import partial
from typing import Any, TypeVar, get_args, get_type_hints

from letters_source.config.providers import (
    Providers,
    check_names,
    check_section,
    check_spelling,
    convert,
    fresh_providers,
    look_up,
    present_providers,
    sections_of,
    where_to_set,
    wrong,
)
from letters_source.config.settings import Environment, Overrides, Settings
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION, ContactFilters, TemplateFilters
from letters_source.service.tokens import Tokens, TokenSource, check_tokens
from letters_source.tables import UNDOCUMENTED
from letters_source.transform.privacy import CHOICES, MIN_KEY_BYTES, PERSONAL, Policy, Privacy

SUBSECTIONS = ("contacts", "templates", "pii")
"""The sections within ours, beside those of environments."""
NESTED = ("contact_filters", "template_filters", "privacy")
TYPES = {"pii_key": str, **{key: hint for key, hint in get_type_hints(Settings).items() if key not in NESTED}}
"""The types of the settings that are plain values."""
F = TypeVar("F", ContactFilters, TemplateFilters)


def resolve_settings(overrides: Overrides, providers: Providers | None = None) -> Settings:
    """The settings: arguments first, then dlt's configuration, then defaults.

    Args:
        overrides: what was given as arguments.
        providers: where to look; dlt's, as it set them up, when None.

    Raises:
        SettingsError: one is missing or wrong; the message names the key, its environment variable and its file.
    """
    found = present_providers() if providers is None else providers
    if unknown := overrides.keys() - Overrides.__annotations__.keys():
        known = ", ".join(Overrides.__annotations__)
        raise SettingsError(f"There is no setting {', '.join(sorted(unknown))}, only {known}.")
    given = typed(overrides)
    environment = given.get("environment") or look_up("environment", Environment, (SECTION,), found)
    sections = sections_of(environment)
    for section in sections:
        check_spelling(section, found, (*Overrides.__annotations__, *SUBSECTIONS, *get_args(Environment)))
    plain: dict[str, Any] = {}
    for key in (key for key in fields(Settings) if key.name not in NESTED):
        value = given.get(key.name)
        configured = look_up(key.name, TYPES[key.name], sections, found) if value is None else value
        plain[key.name] = or_default(key, configured)
    plain |= {"environment": environment, "base_url": plain["base_url"].rstrip("/")}
    contacts, templates = resolve_both_filters(given, environment, found)
    privacy = resolve_privacy(given.get("pii", {}), given.get("pii_key"), environment, found)
    return Settings(**plain, contact_filters=contacts, template_filters=templates, privacy=privacy)


def typed(overrides: Overrides) -> dict[str, Any]:
    """The arguments without those that are None, each that is a plain value as its setting's type.

    Raises:
        SettingsError: one is of another type.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    return given | {key: convert(f"{SECTION}.{key}", given[key], TYPES[key]) for key in given if key in TYPES}


def or_default(key: Field[Any], value: Any) -> Any:
    """A setting's value, or its default.

    Raises:
        SettingsError: it has neither.
    """
    if value in (None, "") and key.default is MISSING:
        raise SettingsError(f"{SECTION}.{key.name} is not set: {where_to_set(key.name)}.")
    return key.default if value is None else value


def resolve_both_filters(
    given: Mapping[str, Any], environment: str | None, providers: Providers
) -> tuple[ContactFilters, TemplateFilters]:
    """The filters of both listings; an account that is given as an argument goes before those that are configured.

    Raises:
        SettingsError: one is wrong, or the arguments name two accounts.
    """
    contacts = given.get("contact_filters") or ContactFilters()
    templates = given.get("template_filters") or TemplateFilters()
    account = given.get("account_id")
    others = {str(filters.account_id) for filters in (contacts, templates) if filters.account_id} - {account}
    if account and others:
        raise SettingsError(
            f"account_id is given as {account}, and in filters as {', '.join(sorted(others))}; give one."
        )
    contacts = resolve_filters(contacts, sections_of(environment, "contacts"), providers)
    templates = resolve_filters(templates, sections_of(environment, "templates"), providers)
    if account:
        # one account's rows must not come in under another's name
        return replace(contacts, account_id=None), replace(templates, account_id=None)
    return contacts, templates


def resolve_filters(given: F, sections: Sequence[str], providers: Providers) -> F:
    """The filters that were given as arguments, and those of a listing's section where none was.

    Raises:
        SettingsError: one is wrong, or the section has a key that is no filter.
    """
    for section in sections:
        check_section(section, providers, [key.name for key in fields(given)])
    hints, found = get_type_hints(type(given)), {}
    for key in fields(given):
        value, hint = getattr(given, key.name), hints[key.name]
        if value in (None, key.default):
            found[key.name] = look_up(key.name, hint, sections, providers)
        else:
            found[key.name] = convert(f"{sections[-1]}.{key.name}", value, hint)
    return replace(given, **{name: value for name, value in found.items() if value is not None})


def resolve_privacy(
    given: Mapping[str, Policy] | Policy, key: str | None, environment: str | None, providers: Providers
) -> Privacy:
    """What becomes of personal values: as given, then as `[sources.letters.pii]` says, `all` for columns unnamed.

    A policy alone is that of `all`.

    Raises:
        SettingsError: a column or a policy that there is not, or no key to hash with.
    """
    names = (*CHOICES, "all")
    if isinstance(given, str):
        given = {"all": given}
    check_names("pii", given, names)
    for section in sections_of(environment, "pii"):
        check_section(section, providers, names)
    configured = {name: look_up(name, str, sections_of(environment, "pii"), providers) for name in names}
    found = configured | {name: policy for name, policy in given.items() if policy is not None}
    for name, policy in found.items():
        choices = CHOICES.get(name, get_args(Policy))
        if policy is not None and policy not in choices:
            raise wrong(f"pii.{name}", " or ".join(choices), policy)
    policies = {name: found[name] or (found["all"] if name in PERSONAL else None) for name in CHOICES}
    secret = (key or look_up("pii_key", str, sections_of(environment), providers) or "").encode()
    if "hash" in policies.values() and len(secret) < MIN_KEY_BYTES:
        trouble = f"must be {MIN_KEY_BYTES} bytes or more" if secret else "is not set"
        raise SettingsError(f"{SECTION}.pii_key {trouble}, to hash with: {where_to_set('pii_key')}.")
    treated = {name: policy for name, policy in policies.items() if policy not in (None, "keep")}
    # to keep is no policy, but for what is dropped where others are not kept
    if treated and found[UNDOCUMENTED.name] == "keep":
        treated[UNDOCUMENTED.name] = "keep"
    return Privacy(treated, secret, frozenset(name for name, policy in policies.items() if policy == "keep"))


def token_source(settings: Settings, overrides: Overrides) -> TokenSource:
    """The run's tokens, which are read again where the service refuses them.

    Raises:
        LettersError: as `check_tokens` does.
    """
    return TokenSource(check_tokens(settings.tokens), partial(read_tokens_again, settings, overrides))


def read_tokens_again(settings: Settings, overrides: Overrides) -> Tokens:
    """The run's tokens as the secrets hold them now: files are read again, all other settings stay as they are.

    Raises:
        SettingsError: one of them is not set any more, or a file cannot be read.
    """
    providers, sections = fresh_providers(), sections_of(settings.environment)
    given = typed(overrides)
    access = given.get("access_token") or look_up("access_token", str, sections, providers)
    refresh = given.get("refresh_token") or look_up("refresh_token", str, sections, providers)
    if not (access and refresh):
        raise SettingsError(f"{SECTION} holds no tokens any more: {where_to_set('access_token')}.")
    return Tokens(access, refresh)
