"""Which settings are there, and are they right?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from ipaddress import ip_address
from typing import Literal, TypedDict
from urllib.parse import urlsplit

from letters_source.config.providers import where_to_set, wrong
from letters_source.errors import SettingsError
from letters_source.pagination.walk import Proof
from letters_source.service.listings import (
    LAST_MAILED_STATUSES,
    SECTION,
    ContactFilters,
    DateFormat,
    FilterEncoding,
    Filters,
    Form,
    TemplateFilters,
    check_days,
)
from letters_source.service.tokens import Tokens
from letters_source.tables import Mode
from letters_source.transform.privacy import Policy, Privacy

Environment = Literal["demo", "production"]

ABOVE_ZERO = ("page_size", "max_workers", "requests_per_second", "max_walks", "retry_budget", "mailings_window")
# far beyond any use; more rows, threads or days would end in somebody else's words
LARGEST = {"page_size": 1_000_000, "max_workers": 1_000, "mailings_lag": 36_500, "mailings_window": 36_500}


class Overrides(TypedDict, total=False):
    """Settings given as arguments; what is not given, or None, comes from dlt's configuration.

    Texts become numbers, days and so on as they do there, since schedulers often have nothing else to give.
    """

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
    allow_empty: bool
    max_shrink: float
    lock_wait: float
    facets: bool
    last_mailed_statuses: Sequence[str]
    history: bool
    sync: bool
    mailings: bool
    mailings_since: date | None
    mailings_lag: int
    mailings_window: int
    date_format: DateFormat
    filter_encoding: FilterEncoding
    contact_filters: ContactFilters
    template_filters: TemplateFilters
    pii: Mapping[str, Policy] | Policy
    pii_key: str


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
        allow_empty: whether a listing that had rows in the last load may have none now.
        max_shrink: the share of its rows that a listing may have lost since the last load; 0.5 is half of them.
        lock_wait: seconds to wait for another run, or for a DuckDB file that another process holds.
        facets: whether to load what can be filtered by but is not in the rows.
        last_mailed_statuses: the statuses that the facet of last mailed statuses asks for.
        history: whether tables keep former versions of their rows.
        sync: whether rows that did not change are left untouched, for destinations that charge by write.
        mailings: whether to load who was mailed on which day.
        mailings_since: the first day of mailings; needed with `mailings`.
        mailings_lag: days before the last loaded one that are asked for again.
        mailings_window: days that are asked for at once.
        date_format: how requests write days; the interface leaves it open.
        filter_encoding: how requests write lists and objects; the interface allows both.
        contact_filters: which contacts to load.
        template_filters: which templates to load.
        privacy: what becomes of personal values, from `pii` and `pii_key`.
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
    allow_empty: bool = False
    max_shrink: float = 0.5
    lock_wait: float = 0.0
    facets: bool = False
    last_mailed_statuses: tuple[str, ...] = LAST_MAILED_STATUSES
    history: bool = False
    sync: bool = False
    mailings: bool = False
    mailings_since: date | None = None
    mailings_lag: int = 7
    mailings_window: int = 1
    date_format: DateFormat = "%Y-%m-%d"
    filter_encoding: FilterEncoding = "json"
    contact_filters: ContactFilters = field(default_factory=ContactFilters)
    template_filters: TemplateFilters = field(default_factory=TemplateFilters)
    privacy: Privacy = field(default_factory=Privacy)

    def __post_init__(self) -> None:
        check_base_url(self.base_url)
        accounts = {
            "account_id": self.account_id,
            "contacts.account_id": self.contact_filters.account_id,
            "templates.account_id": self.template_filters.account_id,
        }
        for key, account in accounts.items():
            if account is not None and not account.strip():
                raise SettingsError(f"{SECTION}.{key} is empty: {where_to_set(key)}, or leave it out.")
        check_numbers(self)
        if self.proof == "certified" and self.max_walks == 1:
            raise wrong("max_walks", "2 or more with proof certified, which takes two readings", self.max_walks)
        check_days(self.contact_filters)
        if self.history and self.sync:
            raise SettingsError(
                f"{SECTION}.history and sync exclude each other: history keeps what sync would delete; set one."
            )

    @property
    def tokens(self) -> Tokens:
        """Both tokens."""
        return Tokens(self.access_token, self.refresh_token)

    @property
    def mode(self) -> Mode:
        """How listings are written."""
        return "history" if self.history else "sync" if self.sync else "replace"

    @property
    def form(self) -> Form:
        """How requests write filters."""
        return Form(self.date_format, self.filter_encoding)

    def filters(self, listing: str) -> Filters:
        """The filters of a listing, its account among them."""
        filters: Filters = self.contact_filters if listing == "contacts" else self.template_filters
        return replace(filters, account_id=filters.account_id or self.account_id)


def check_numbers(settings: Settings) -> None:
    """See that each number is one that a load can do with.

    Raises:
        SettingsError: one is not.
    """
    for key in ABOVE_ZERO:
        value = getattr(settings, key)
        if value is not None and not value > 0:
            raise wrong(key, "more than 0", value)
    for key in ("mailings_lag", "lock_wait"):
        if not getattr(settings, key) >= 0:
            raise wrong(key, "0 or more", getattr(settings, key))
    for key, largest in LARGEST.items():
        if getattr(settings, key) > largest:
            raise wrong(key, f"{largest} or less", getattr(settings, key))
    if not 0 <= settings.max_shrink <= 1:
        raise wrong("max_shrink", "from 0 to 1", settings.max_shrink)


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
