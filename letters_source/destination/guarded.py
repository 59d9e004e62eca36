"""May a load still change tables in PostgreSQL? Not once its lock is lost: another load may be in staging by then."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlt.common.configuration.container import Container
from dlt.common.destination import PreparedTableSchema
from dlt.common.destination.client import FollowupJobRequest
from typing_extensions import override

from letters_source.destination.dataset_lock import DatasetLock
from letters_source.destination.together import Together


class Guarded(Together):
    """A client of dlt's for PostgreSQL, to be mixed into one: rows move out of staging only while the lock is held."""

    @override
    def create_table_chain_completed_followup_jobs(
        self, table_chain: Sequence[PreparedTableSchema], completed_table_chain_jobs: Any = None
    ) -> list[FollowupJobRequest]:
        """The job that moves all rows; its transaction fails where the lock was lost by its end."""
        jobs = super().create_table_chain_completed_followup_jobs(table_chain, completed_table_chain_jobs)
        if DatasetLock in Container():
            backend = Container()[DatasetLock].backend
            for job in jobs:
                with Path(job.new_file_path()).open("a", encoding="utf-8") as file:
                    file.write(f"\n{check_held(backend)};\n")
        return jobs


def check_held(backend: int) -> str:
    """A statement that divides by zero unless a process of the server holds an advisory lock."""
    return f"SELECT 1 / count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = {backend}"
