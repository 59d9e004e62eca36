"""Dagster integration: an asset for each table, a resource that loads and checks them, and asset checks.

Definitions are data: before a run, nothing touches the service, the destination or dlt's configuration.
"""

from letters_source.errors import importing_extra

with importing_extra("dagster"):
    from letters_source.dagster.resource import LettersResource, letters_checks
    from letters_source.dagster.specs import SERVICE, LettersTranslator, asset_specs

__all__ = ["SERVICE", "LettersResource", "LettersTranslator", "asset_specs", "letters_checks"]
