"""dlt source for a letter mailing service: templates and contacts, complete or an error."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from letters_source.destination.combine import own_pipeline, unite_account
    from letters_source.destination.pipeline import account_pipelines, make_pipeline
    from letters_source.errors import (
        DestinationError,
        DestinationInUse,
        DestinationUnreachable,
        IncompleteListing,
        LettersError,
        ListingShrank,
        ListingUnpaged,
        LoadFailed,
        MalformedResponse,
        NotAuthorised,
        NotAuthorized,
        RepeatedIds,
        ServiceError,
        ServiceRejected,
        ServiceUnreachable,
        SettingsError,
        SharedIds,
        UndocumentedFields,
        UnusableFile,
        WrongCount,
    )
    from letters_source.extract.parts.tasks import plan_parts, read_part
    from letters_source.load import run, run_accounts
    from letters_source.results import Result
    from letters_source.service.listings import ContactFilters, TemplateFilters
    from letters_source.source import letters

__all__ = [
    "ContactFilters",
    "DestinationError",
    "DestinationInUse",
    "DestinationUnreachable",
    "IncompleteListing",
    "LettersError",
    "ListingShrank",
    "ListingUnpaged",
    "LoadFailed",
    "MalformedResponse",
    "NotAuthorised",
    "NotAuthorized",
    "RepeatedIds",
    "Result",
    "ServiceError",
    "ServiceRejected",
    "ServiceUnreachable",
    "SettingsError",
    "SharedIds",
    "TemplateFilters",
    "UndocumentedFields",
    "UnusableFile",
    "WrongCount",
    "account_pipelines",
    "letters",
    "make_pipeline",
    "own_pipeline",
    "plan_parts",
    "read_part",
    "run",
    "run_accounts",
    "unite_account",
]

_HOMES = {
    "ContactFilters": "service.listings",
    "Result": "results",
    "TemplateFilters": "service.listings",
    "account_pipelines": "destination.pipeline",
    "letters": "source",
    "make_pipeline": "destination.pipeline",
    "own_pipeline": "destination.combine",
    "plan_parts": "extract.parts.tasks",
    "read_part": "extract.parts.tasks",
    "run": "load",
    "run_accounts": "load",
    "unite_account": "destination.combine",
}


def __dir__() -> list[str]:
    """Return the public names, so that they can be completed before they are used."""
    return [*globals(), *__all__]


def __getattr__(name: str) -> Any:
    """Import public names on first use: importing dlt takes half a second, which `letters --help` does not need."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
