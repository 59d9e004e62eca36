"""The loads of one `letters load`: where each account goes, and how each load ended."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import dlt
import msgspec

from letters_source.config.settings import Kind
from letters_source.destination.kinds import place_of
from letters_source.destination.ledger import (
    Stopwatch,
    failed_load,
    finished_load,
    record,
)
from letters_source.destination.pipeline import (
    absolute_place,
    account_dataset,
    account_pipelines,
    make_pipeline,
    schema_of_views,
)
from letters_source.destination.place import ShownPlace
from letters_source.errors import DestinationError, SettingsError
from letters_source.load import each_account, run
from letters_source.pagination.reader import ProgressCallback
from letters_source.results import AccountsResult, LoadResult, Result, failure_of
from letters_source.tables import DATASET


@dataclass
class Loads:
    """The loads of one command: those requested, and the results of those that were started."""

    destination: Kind
    to: str | None
    dataset: str
    accounts: Sequence[str]
    clock: Stopwatch = field(default_factory=Stopwatch)
    pipelines: Mapping[str, dlt.Pipeline] = field(default_factory=dict)
    ended: dict[str, LoadResult] = field(default_factory=dict)

    @classmethod
    def of(cls, destination: Kind, to: str | None, dataset: str | None, accounts: Sequence[str]) -> "Loads":
        """Return the loads that options request; without a dataset, into the default one, or that of the account."""
        # one account goes into the same dataset as when it is one of several
        own = account_dataset(DATASET, accounts[0]) if len(accounts) == 1 else DATASET
        return cls(destination, to, dataset or own, accounts)

    def run(self, only: Sequence[str], settings: Mapping[str, Any], progress: ProgressCallback) -> dict[str, Result]:
        """Load one account or several; return the result of each."""
        self.make_pipelines()
        results = {}
        for account, result in self._each(only=only, progress=progress, **settings):
            results[account] = result
            self.ended[account] = finished_load(place_of(self.pipelines[account]), result)
        return results

    def make_pipelines(self) -> None:
        """Make the pipeline of each account; of the token's own account, whose name is unknown, under an empty name."""
        if len(self.accounts) > 1:
            self.pipelines = account_pipelines(self.destination, self.to, self.dataset, self.accounts)
        else:
            self.pipelines = {"".join(self.accounts): make_pipeline(self.destination, self.to, self.dataset)}

    def fail(self, error: BaseException) -> None:
        """Note the error under the first account without a result; record it if no pipeline was made."""
        account = next((name for name in self.pipelines or self.accounts or ("",) if name not in self.ended), None)
        if account is None:
            return
        before = sum(load.seconds for load in self.ended.values())
        place = place_of(self.pipelines[account]).shown if self.pipelines else self.asked()
        self.ended[account] = failed_load(place, error, self.clock.seconds - before)
        if not self.pipelines:
            # the wrong part of dlt's configuration may be the ledger's folder
            with suppress(SettingsError):
                record(self.ended[account], self.clock.started_at)

    def asked(self) -> ShownPlace:
        """Return where the options say to load, as a place shows it."""
        place = None
        with suppress(DestinationError):
            place = absolute_place(self.destination, self.to) or None
        return {"destination": self.destination, "place": place, "dataset": self.dataset}

    def result(self, error: BaseException | None = None) -> LoadResult | AccountsResult:
        """Return how the command ended: one load, or with several accounts the loads that were started."""
        failure = failure_of(error) if error else msgspec.UNSET
        if len(self.accounts) < 2:
            [load] = self.ended.values()
            return msgspec.structs.replace(load, error=failure)
        return AccountsResult(accounts=self.ended, seconds=self.clock.seconds, error=failure)

    def _each(self, **arguments: Any) -> Iterator[tuple[str, Result]]:
        """Load accounts, and yield each with its result; views combine several."""
        if len(self.accounts) > 1:
            yield from each_account(self.pipelines, views=schema_of_views(self.dataset), **arguments)
            return
        [(account, pipeline)] = self.pipelines.items()
        yield account, run(pipeline, account_id=account or None, **arguments)
