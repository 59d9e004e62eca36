"""Our parts for Dagster: an asset for each table, a resource that loads them complete or not at all, checks.

Nothing of the service, the destination or dlt's configuration is touched before a run: definitions are data.
"""

from letters_source.extras import needed

with needed("dagster"):
    from letters_source.dagster.definitions import letters_checks
    from letters_source.dagster.resource import LettersResource
    from letters_source.dagster.specs import SERVICE, LettersTranslator, asset_specs

__all__ = ["SERVICE", "LettersResource", "LettersTranslator", "asset_specs", "letters_checks"]
