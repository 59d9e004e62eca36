"""Which settings are there, where do they come from, and are they right?

dlt's own providers are asked (environment variables, config.toml, secrets.toml, vaults) for exactly
`sources.letters.<environment>.<key>`, then `sources.letters.<key>`. dlt's further fallback to a bare `<key>` is left
out on purpose: an `ACCESS_TOKEN` or `ENVIRONMENT` meant for something else must not reach the service.
"""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field, fields
from ipaddress import ip_address
from types import NoneType
from typing import Any, Literal, TypedDict, get_args, get_type_hints
from urllib.parse import urlsplit

from dlt.common.configuration.container import Container
from dlt.common.configuration.exceptions import ConfigProviderException
from dlt.common.configuration.providers import ConfigProvider
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.configuration.utils import deserialize_value
from dlt.common.typing import TSecretStrValue

from letters_source.errors import SettingsError
from letters_source.listing import TemplateFilters
from letters_source.tokens import Tokens
from letters_source.walk import Proof

SECTION = "sources.letters"
Environment = Literal["demo", "production"]
EXPECTED = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


class Overrides(TypedDict, total=False):
    """Settings given as arguments; what is not given, or None, comes from dlt's configuration."""

    base_url: str
    access_token: str
    refresh_token: str
    environment: Environment | None
    account_id: str | None
    page_size: int
    max_workers: int
    requests_per_second: float | None
    max_walks: int
    proof: Proof
    retry_budget: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, resolved and checked.

    Args:
        base_url: where the service is, ending in /api/v1.
        access_token: the bearer token.
        refresh_token: the refresh token, sent to contacts alone.
        environment: demo or production, the section whose settings go before the general ones.
        account_id: the account to ask for; None for the token's own.
        page_size: rows to ask for in a page.
        max_workers: requests under way at once, at most.
        requests_per_second: requests started in a second, at most; None for no limit.
        max_walks: how often a listing may be read before it counts as incomplete.
        proof: fenced, or certified also when the listing is quiet, at twice the requests.
        retry_budget: seconds after which a page is not asked for again.
    """

    base_url: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    environment: Environment | None = None
    account_id: str | None = None
    page_size: int = 100
    max_workers: int = 8
    requests_per_second: float | None = None
    max_walks: int = 4
    proof: Proof = "fenced"
    retry_budget: float = 120.0

    def __post_init__(self) -> None:
        check_base_url(self.base_url)
        for key in ("page_size", "max_workers", "requests_per_second", "max_walks", "retry_budget"):
            value = getattr(self, key)
            if value is not None and not value > 0:
                raise wrong(key, "more than 0", value)
        if self.proof == "certified" and self.max_walks == 1:
            raise wrong("max_walks", "2 or more with proof certified, which takes two readings", self.max_walks)
        for key, choices in (("environment", get_args(Environment)), ("proof", get_args(Proof))):
            value = getattr(self, key)
            if value is not None and value not in choices:
                raise wrong(key, " or ".join(choices), value)

    @property
    def tokens(self) -> Tokens:
        """Both tokens."""
        return Tokens(self.access_token, self.refresh_token)

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections that these settings come from."""
        return sections_of(self.environment)


def resolve_settings(overrides: Overrides, providers: Sequence[ConfigProvider] | None = None) -> Settings:
    """The settings: arguments first, then dlt's configuration, then defaults.

    Args:
        overrides: what was given as arguments.
        providers: where to look; dlt's, as it set them up, when None.

    Raises:
        SettingsError: one is missing or wrong; the message names the key, its environment variable and its file.
    """
    found = Container()[PluggableRunContext].providers.providers if providers is None else providers
    given: dict[str, Any] = dict(overrides)
    environment = given.get("environment") or look_up("environment", Environment, (SECTION,), found)
    sections = sections_of(environment)
    hints = get_type_hints(Settings)
    for key in fields(Settings):
        value = given.get(key.name)
        if value is None:
            value = look_up(key.name, hints[key.name], sections, found)
        if value in (None, "") and key.default is MISSING:
            raise SettingsError(f"{SECTION}.{key.name} is not set: {where_to_set(key.name)}.")
        given[key.name] = key.default if value is None else value
    return Settings(**{**given, "environment": environment, "base_url": given["base_url"].rstrip("/")})


def resolve_template_filters() -> TemplateFilters:
    """The filters of templates, from `[sources.letters.templates]`."""
    section, hints = (f"{SECTION}.templates",), get_type_hints(TemplateFilters)
    providers = Container()[PluggableRunContext].providers.providers
    return TemplateFilters(**{key: look_up(key, hint, section, providers) for key, hint in hints.items()})


def read_tokens_again(settings: Settings, overrides: Overrides) -> Tokens:
    """The run's tokens as the secrets hold them now: files are read again, all other settings stay as they are.

    Raises:
        SettingsError: one of them is not set any more, or a file cannot be read.
    """
    context = Container()[PluggableRunContext]
    try:
        fresh = context.context.initial_providers()
    except ConfigProviderException as error:
        raise SettingsError(f"The configuration cannot be read again: {type(error).__name__}.") from None
    names = {provider.name for provider in fresh}
    providers = [*fresh, *(provider for provider in context.providers.providers if provider.name not in names)]
    access = overrides.get("access_token") or look_up("access_token", str, settings.sections, providers)
    refresh = overrides.get("refresh_token") or look_up("refresh_token", str, settings.sections, providers)
    if not (access and refresh):
        raise SettingsError(f"{SECTION} holds no tokens any more: {where_to_set('access_token')}.")
    return Tokens(access, refresh)


def sections_of(environment: str | None) -> tuple[str, ...]:
    """The sections that hold settings, the ones to look into first in front."""
    return (f"{SECTION}.{environment}", SECTION) if environment else (SECTION,)


def look_up(key: str, hint: Any, sections: Sequence[str], providers: Sequence[ConfigProvider]) -> Any:
    """The first section's value of a key, of the hinted type; None where no provider has one."""
    secret = key.endswith("_token")
    plain = get_args(hint)[0] if NoneType in get_args(hint) else hint
    for section in sections:
        for provider in providers:
            if secret and not provider.supports_secrets:
                continue
            value, _ = provider.get_value(key, TSecretStrValue if secret else plain, None, *section.split("."))
            if value is not None:
                return convert(f"{section}.{key}", value, plain)
    return None


def convert(key: str, value: Any, hint: Any) -> Any:
    """A configured value as the hinted type."""
    if key.endswith("_token"):
        return str(value).strip()
    try:
        return deserialize_value(key, value, hint)
    except ValueError:
        expected = EXPECTED.get(hint) or " or ".join(get_args(hint))
        raise wrong(key.removeprefix(f"{SECTION}."), expected, value) from None


def wrong(key: str, expected: str, value: object) -> SettingsError:
    """The error of a value that cannot be used; never for a secret."""
    return SettingsError(f"{SECTION}.{key} must be {expected}, got {value!r}: {where_to_set(key)}.")


def where_to_set(key: str) -> str:
    """Where a user sets a key."""
    *parts, name = key.split(".")
    section = ".".join((SECTION, *parts))
    variable = f"{section}.{name}".replace(".", "__").upper()
    file = ".dlt/secrets.toml" if name.endswith("_token") else ".dlt/config.toml"
    return f"set {variable} in the environment, or {name} under [{section}] in {file}"


def check_base_url(base_url: str) -> None:
    """Tokens go over https, or to this machine, and nowhere that the address itself does not plainly name.

    Raises:
        SettingsError: another scheme, no host, or user information, a query or a fragment in it.
    """
    try:
        url = urlsplit(base_url)
        plain = url.hostname and url.port != 0 and base_url.isprintable() and not set(base_url) & set(" ?#@\\")
    except ValueError:
        plain = False
    if not plain or url.scheme not in ("http", "https"):
        raise SettingsError(
            f"{SECTION}.base_url must be an address such as https://host/api/v1, without user, query or fragment: "
            f"{where_to_set('base_url')}."
        )
    if url.scheme == "http" and not is_loopback(str(url.hostname)):
        raise SettingsError(
            f"{SECTION}.base_url must begin with https://, as tokens are sent there: {where_to_set('base_url')}."
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
