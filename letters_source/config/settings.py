"""The declaration of every setting: name, type, bounds, default and meaning; lookup, options and docs derive from it.

Nothing here imports dlt, Arrow or NumPy, so that `letters --help` answers at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from datetime import date
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, Union, get_args, get_origin

from msgspec import Meta

from letters_source.pagination.wanted import Count, Duplicates, Proof, Wanted
from letters_source.service.listings import (
    LAST_MAILED_STATUSES,
    ContactFilters,
    DateFormat,
    FilterEncoding,
    FilterForm,
    Filters,
    TemplateFilters,
    Texts,
    about,
)
from letters_source.service.network import Network
from letters_source.service.pacing import Rows
from letters_source.service.tokens import Tokens

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from letters_source.tables import Mode
    from letters_source.transform.privacy import Policy, Privacy

Environment = Literal["demo", "production"]
Kind = Literal["duckdb", "parquet", "delta", "iceberg", "postgres"]
"""The destinations that `make_pipeline` and the command offer."""
*_FIRST, _LAST = get_args(Kind)
KINDS_IN_WORDS = f"{', '.join(_FIRST)} or {_LAST}"
OnUndocumented = Literal["keep", "warn", "fail"]


class Overrides(TypedDict, total=False):
    """Settings given as arguments; text is converted. What is missing or None comes from dlt's configuration.

    Type checkers cannot derive these types from `Settings`; a test compares them.
    """

    base_url: str
    access_token: str
    refresh_token: str
    pii_key: str | None
    proxy: str | None
    environment: Environment | None
    account_id: str | None
    ca_bundle: str | None
    client_cert: str | None
    client_key: str | None
    page_size: Rows
    max_workers: int
    requests_per_second: float | None
    max_walks: int
    proof: Proof
    duplicates: Duplicates
    count: Count
    on_undocumented: OnUndocumented
    known_fields: Sequence[str]
    retry_budget: float
    allow_empty: bool
    max_shrink: float
    allow_shared_ids: bool
    allow_other_service: bool
    lock_wait: float
    resume: bool
    resume_for: float
    parts: str | None
    facets: bool
    last_mailed_statuses: Sequence[str]
    history: bool
    sync: bool
    mailings: bool
    mailings_since: date | None
    mailings_lag: int
    mailings_window: int
    mailings_ahead: int
    allow_failed_mailings: bool
    date_format: DateFormat
    filter_encoding: FilterEncoding
    contact_filters: ContactFilters
    template_filters: TemplateFilters
    pii: "Mapping[str, Policy] | Policy"


def keep_all() -> "Privacy":
    """Return a treatment that keeps personal data."""
    from letters_source.transform.privacy import Privacy

    return Privacy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, resolved; `repr` leaves out secrets."""

    base_url: Annotated[str, about("Address of the service; https, except on localhost.", "https://.../api/v1")]
    access_token: Annotated[str, about("Bearer token.")] = field(repr=False)
    refresh_token: Annotated[str, about("Refresh token, sent with requests for contacts only.")] = field(repr=False)
    pii_key: Annotated[str | None, about("Key to hash personal data with, 16 bytes or more.")] = field(
        default=None, repr=False
    )
    proxy: Annotated[
        str | None, about("Proxy, such as http://host:3128; a user and a password go before the host.")
    ] = field(default=None, repr=False)
    environment: Annotated[
        Environment | None, about("Environment whose section comes first: demo or production.", "production")
    ] = None
    account_id: Annotated[str | None, about("Account to request; by default the token's own.", "...")] = None
    ca_bundle: Annotated[
        str | None,
        about(
            "PEM file or folder of CAs to trust instead of the public ones, relative to the working directory.",
            "ca.pem",
        ),
    ] = None
    client_cert: Annotated[
        str | None, about("PEM file of a client certificate, relative to the working directory.", "client.pem")
    ] = None
    client_key: Annotated[str | None, about("PEM file of its key, unless client_cert contains it.", "key.pem")] = None
    page_size: Annotated[
        Rows, about("Rows to request per page; auto: 1,000, or 100 if such pages fail.", ge=1, le=1_000_000)
    ] = "auto"
    max_workers: Annotated[int, about("Maximum number of concurrent requests.", ge=1, le=1_000)] = 16
    requests_per_second: Annotated[float | None, about("Maximum number of requests per second.", 20, gt=0)] = None
    max_walks: Annotated[int, about("Maximum number of passes over a listing to prove it complete.", ge=1)] = 4
    proof: Annotated[Proof, about("Weakest proof to accept: continuous, or exact, at twice the requests.")] = (
        "continuous"
    )
    duplicates: Annotated[Duplicates, about("If an id is listed more than once: fail, or load it once (drop).")] = (
        "fail"
    )
    count: Annotated[
        Count, about("What the service's count is: exact, or at_least, to read past it until a listing ends.")
    ] = "exact"
    on_undocumented: Annotated[
        OnUndocumented, about("If the service sends an undocumented field: keep it silently, warn once, or fail.")
    ] = "warn"
    known_fields: Annotated[Texts, about("Undocumented fields to accept without a warning.", ["countryCode"])] = ()
    retry_budget: Annotated[float, about("Seconds to keep retrying a page.", gt=0)] = 120.0
    allow_empty: Annotated[bool, about("Accept a listing that has lost all its rows since the last load.")] = False
    max_shrink: Annotated[float, about("Share of its rows that a listing may lose between loads.", ge=0, le=1)] = 0.5
    allow_shared_ids: Annotated[bool, about("Accept accounts that list the same rows.")] = False
    allow_other_service: Annotated[
        bool, about("Accept a base_url other than the last load's, if the service moved.")
    ] = False
    lock_wait: Annotated[float, about("Seconds to wait for a lock on the destination.", ge=0)] = 0.0
    resume: Annotated[
        bool, about("Save pages while they are read, and after a crash continue with those that were saved.")
    ] = False
    resume_for: Annotated[float, about("Hours for which saved pages may be used.", gt=0)] = 24.0
    parts: Annotated[
        str | None, about("Folder or bucket with parts of listings that other tasks have read.", "/shared/parts")
    ] = None
    facets: Annotated[bool, about("Also load data that only filters reveal, such as address statuses.")] = False
    last_mailed_statuses: Annotated[Texts, about("Last mailed statuses to load as a facet.")] = LAST_MAILED_STATUSES
    history: Annotated[bool, about("Keep row history (SCD type 2).")] = False
    sync: Annotated[bool, about("Write only rows that changed, for destinations that charge per write.")] = False
    mailings: Annotated[bool, about("Also load who was last mailed on which day.")] = False
    mailings_since: Annotated[
        date | None, about("First day of mailings; required with mailings.", date(2024, 1, 31))
    ] = None
    mailings_lag: Annotated[int, about("Days before the last loaded day to request again.", ge=0, le=36_500)] = 7
    mailings_window: Annotated[int, about("Days of mailings per request.", ge=1, le=36_500)] = 1
    mailings_ahead: Annotated[int, about("Days after today to request too, for planned mailings.", ge=0, le=36_500)] = 0
    allow_failed_mailings: Annotated[bool, about("Load the listings even if mailings cannot be read.")] = False
    date_format: Annotated[DateFormat, about("How requests write days: %Y-%m-%d or %d-%m-%Y.")] = "%Y-%m-%d"
    filter_encoding: Annotated[FilterEncoding, about("How requests write lists: json or compact (no spaces).")] = "json"
    contact_filters: ContactFilters = field(default_factory=ContactFilters)
    template_filters: TemplateFilters = field(default_factory=TemplateFilters)
    privacy: "Privacy" = field(default_factory=keep_all)

    @property
    def tokens(self) -> Tokens:
        """Both tokens."""
        return Tokens(self.access_token, self.refresh_token)

    @property
    def network(self) -> Network:
        """How to reach the service."""
        return Network(self.proxy or "", self.ca_bundle or "", self.client_cert or "", self.client_key or "")

    @property
    def wanted(self) -> Wanted:
        """What listings must be proven to be."""
        return Wanted(self.proof, self.max_walks, self.duplicates)

    @property
    def mode(self) -> "Mode":
        """How listings are written."""
        return "history" if self.history else "sync" if self.sync else "replace"

    @property
    def only_changes(self) -> bool:
        """Whether rows that the destination holds are to be recognized: tasks that read parts do not know it."""
        return self.mode != "replace" and self.privacy.may_digest and not self.parts

    @property
    def form(self) -> FilterForm:
        """How requests write filters."""
        return FilterForm(self.date_format, self.filter_encoding)

    def filters(self, listing: str) -> Filters:
        """Return the filters of a listing, including its account."""
        filters: Filters = self.contact_filters if listing == "contacts" else self.template_filters
        return replace(filters, account_id=filters.account_id or self.account_id)


@dataclass(frozen=True, slots=True)
class Key:
    """A declared setting or filter: its type without None, and its default, `MISSING` where a value is required."""

    name: str
    kind: Any  # a type, or a form such as Literal[...], for which Python 3.11 has no type
    about: Meta
    default: object = None
    secret: bool = False
    words: tuple[str, ...] = ()  # accepted instead of a number


def keys_of(declaration: "type[DataclassInstance]") -> dict[str, Key]:
    """Return the keys that a dataclass declares by `Annotated` fields."""
    return {key.name: key_of(key) for key in fields(declaration) if get_origin(key.type) is Annotated}


def key_of(declared: Field[object]) -> Key:
    """Return the key of an `Annotated` field of type T, `T | None`, or `T | Literal[...]`."""
    hint, meaning = get_args(declared.type)
    is_union = get_origin(hint) in (Union, UnionType)
    kind, *others = [kind for kind in get_args(hint) if kind is not NoneType] if is_union else [hint]
    words = tuple(word for other in others for word in get_args(other))
    return Key(declared.name, kind, meaning, declared.default, not declared.repr, words)


SETTINGS = keys_of(Settings)
FILTERS = {"contacts": keys_of(ContactFilters), "templates": keys_of(TemplateFilters)}
SECRETS = [key.name for key in SETTINGS.values() if key.secret]
SUBSECTIONS = (*FILTERS, "pii")
"""The sections within `[sources.letters]`, besides those of environments."""
DLT_SUBSECTIONS = ("data_writer", "extract", "schema", "letters")
"""The sections within `[sources.letters]` that dlt reads; the last one is named after the source."""
PII = "How to treat personal data: keep, hash, mask or drop."
