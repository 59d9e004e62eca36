"""Reads listings in Spark: a table in `spark.read.format("letters")`, one huge listing by `snapshot`.

A task reads a whole listing, or a range of it into a file of its own, so Spark may run a task twice. Spark shows
options and sends them around, so secrets are refused.
"""

from letters_source.spark.snapshots import Snapshot, read_snapshot, snapshot
from letters_source.spark.tables import register

__all__ = ["Snapshot", "read_snapshot", "register", "snapshot"]
