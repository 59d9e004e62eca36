"""Dagster definitions to copy and edit: read one large listing in parts, as dynamic outputs, and load it in one op."""

import os
from collections.abc import Iterator

import dagster as dg

from letters_source import make_pipeline, plan_parts, read_part, run
from letters_source.dagster import SERVICE, dagster_failures

# a folder or a bucket that all workers reach
PARTS = os.environ.get("LETTERS_PARTS", "letters_parts")
RETRIES = dg.RetryPolicy(max_retries=3, delay=60, backoff=dg.Backoff.EXPONENTIAL)


@dg.op(out=dg.DynamicOut(int), retry_policy=RETRIES, config_schema={"number": dg.Field(int, default_value=8)})
def plan(context: dg.OpExecutionContext) -> Iterator[dg.DynamicOutput[int]]:
    """Plan the parts of contacts."""
    with dagster_failures():
        places = plan_parts("contacts", context.op_config["number"], parts=PARTS)
    for place in places:
        yield dg.DynamicOutput(place, mapping_key=str(place))


# each op has its own limit on requests: the service sees at most that limit times the pool's slots
@dg.op(retry_policy=RETRIES, pool="letters_service")
def read(place: int) -> int:
    """Read a part, and return the number of its rows; a retry replaces its file."""
    with dagster_failures():
        return read_part("contacts", place, parts=PARTS)


@dg.op(retry_policy=RETRIES, pool="letters")
def load(context: dg.OpExecutionContext, read: list[int]) -> None:
    """Load the parts if they prove that no row was missed."""
    with dagster_failures():
        result = run(make_pipeline(to=os.environ.get("LETTERS_FILE")), only=("contacts",), parts=PARTS)
    metadata = {"rows": result.tables["contacts"], "parts": len(read)}
    context.log_event(dg.AssetMaterialization("contacts", metadata=metadata))


@dg.job
def letters_parts() -> None:
    """Plan, read each part in an op of its own, and load."""
    load(plan().map(read).collect())


defs = dg.Definitions(assets=[SERVICE], jobs=[letters_parts])
