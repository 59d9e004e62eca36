"""How are the checks of some assets defined?"""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from letters_source.dagster.checks import check_specs
from letters_source.dagster.resource import LettersResource


def letters_checks(assets: dg.AssetsDefinition) -> dg.AssetChecksDefinition:
    """The checks of the assets, in the pool that the assets are in, for DuckDB has one writer."""

    @dg.multi_asset_check(
        name=f"{assets.op.name}_checks", specs=check_specs(assets.specs), can_subset=True, pool=assets.op.pool
    )
    def look(context: dg.AssetCheckExecutionContext, letters: LettersResource) -> Iterator[Any]:
        yield from letters.check(context, assets.partitions_def)

    return look
