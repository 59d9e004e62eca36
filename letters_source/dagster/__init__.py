"""Dagster integration: an asset for each table, a resource that loads and checks them, asset checks, and a component.

Definitions are data: before a run, nothing touches the service or the destination, and no configured value is read.
"""

from letters_source.config.installation import importing_extra

with importing_extra("dagster"):
    from letters_source.dagster.assets import SERVICE, LettersTranslator, asset_specs
    from letters_source.dagster.component import LettersComponent
    from letters_source.dagster.resource import LettersResource, dagster_failures, letters_checks

__all__ = [
    "SERVICE",
    "LettersComponent",
    "LettersResource",
    "LettersTranslator",
    "asset_specs",
    "dagster_failures",
    "letters_checks",
]
