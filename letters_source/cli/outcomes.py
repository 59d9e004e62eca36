"""Tells programs how `letters load` ended: one JSON object on stdout, and after a failure on a command's stdin."""

import os
import signal
import subprocess  # nosec B404
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import click
import dlt
import msgspec

from letters_source.cli.output import results_shown
from letters_source.destination.ledger import (
    Place,
    Stopwatch,
    failed_load,
    finished_load,
    place_of,
    record,
    usual_folder,
)
from letters_source.destination.pipeline import (
    Kind,
    absolute_place,
    account_dataset,
    account_pipelines,
    make_pipeline,
)
from letters_source.errors import DestinationError, SettingsError
from letters_source.results import AccountsResult, LoadResult, Result, failure_of
from letters_source.tables import DATASET

SECONDS_FOR_COMMAND = 60


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

    def make_pipelines(self) -> None:
        """Make the pipeline of each account; of the token's own account, whose name is unknown, under an empty name."""
        if len(self.accounts) > 1:
            self.pipelines = account_pipelines(self.destination, self.to, self.dataset, self.accounts)
        else:
            self.pipelines = {"".join(self.accounts): make_pipeline(self.destination, self.to, self.dataset)}

    def finish(self, account: str, result: Result) -> None:
        """Note that the load of an account is verified."""
        self.ended[account] = finished_load(self.pipelines[account], result)

    def fail(self, error: BaseException) -> None:
        """Note the error under the first account without a result; record it if no pipeline was made."""
        account = next((name for name in self.pipelines or self.accounts or ("",) if name not in self.ended), None)
        if account is None:
            return
        before = sum(load.seconds for load in self.ended.values())
        place = place_of(self.pipelines[account]) if self.pipelines else self.asked()
        self.ended[account] = failed_load(place, error, self.clock.seconds - before)
        if not self.pipelines:
            # the wrong part of dlt's configuration may be the ledger's folder
            with suppress(SettingsError):
                record(self.ended[account], self.clock.started_at, usual_folder())

    def asked(self) -> Place:
        """Return where the options say to load, as `place_of` does for a pipeline."""
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


@contextmanager
def outcome_reported(loads: Loads, *, as_json: bool, on_failure: str | None) -> Iterator[None]:
    """Print how the block's loads ended as JSON, if asked, and give it to a command if they failed."""
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        loads.fail(error)
        result = msgspec.json.encode(loads.result(error))
        # the user who pressed Ctrl-C needs no alert
        if on_failure and not isinstance(error, KeyboardInterrupt):
            call(on_failure, result)
        print_json(result, wanted=as_json)
        raise
    with results_shown():
        print_json(msgspec.json.encode(loads.result()), wanted=as_json)


def print_json(result: bytes, *, wanted: bool) -> None:
    """Print a result on a line of stdout, if it is wanted."""
    if wanted:
        # a reader that leaves is no failure; `end_output` discards the rest
        with suppress(BrokenPipeError):
            click.echo(result.decode())


def call(command: str, result: bytes, seconds: float = SECONDS_FOR_COMMAND) -> None:
    """Run a shell command with the result on stdin; its own failure is a line on stderr and nothing more."""
    try:
        code = run_shell(command, result, seconds)
    except subprocess.TimeoutExpired:
        click.echo(f"letters: the --on-failure command was stopped after {seconds} s", err=True)
    except OSError as error:
        click.echo(f"letters: the --on-failure command could not be started: {error.strerror}", err=True)
    else:
        if code:
            click.echo(f"letters: the --on-failure command ended with exit code {code}", err=True)


def run_shell(command: str, stdin: bytes, seconds: float) -> int:
    """Run a shell command; return its exit code. One that takes too long ends with all that it started."""
    # stdout holds nothing but our result; stderr may be closed
    stdout = sys.__stderr__ or subprocess.DEVNULL
    arguments = ["/bin/sh", "-c", command]
    # the user who runs this command wrote that one, too
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=stdout, start_new_session=True) as process:  # noqa: S603  # nosec B603
        try:
            process.communicate(stdin, timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode
