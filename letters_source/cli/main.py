"""The `letters` command and its subcommands."""

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import click

from letters_source.cli.options import (
    LoadCommand,
    check_options_apply,
    connection_options,
    contacts_option,
    dataset_option,
    debug_option,
    filter_options,
    listed,
    named_once,
    naming_options,
    not_empty,
    outcome_options,
    output_options,
    path_option,
    path_or_url,
    quiet_option,
    setting,
    settings_options,
    with_filters,
    without_unset,
)
from letters_source.config.installation import importing_extra
from letters_source.config.settings import PII, SETTINGS, Kind
from letters_source.errors import SettingsError

if TYPE_CHECKING:
    # imported at run time, they would delay --help
    from letters_source.cli.dictionary import DictionaryForm
    from letters_source.cli.query import QueryForm

RUNS_SHOWN = 10
"""How many runs the report lists."""


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="letters-source")
def cli() -> None:
    """Load the templates and contacts of the letter mailing service: complete, or an error.

    Settings come from options, the environment (for example SOURCES__LETTERS__BASE_URL), .dlt/secrets.toml and
    .dlt/config.toml. Try `letters demo` first: it needs no settings.
    """


@cli.command(short_help="Load an emulator of the service, to see a load at work.")
@contacts_option
@path_option("--to", default="letters_demo.duckdb", words="DuckDB file to load into.")
@output_options
@naming_options()
def demo(contacts: int, to: Path, *, quiet: bool, debug: bool) -> None:
    """Start an emulator of the service on this machine, load it into DuckDB, and show the tables."""
    from letters_source.cli.demo import load_demo
    from letters_source.cli.display import start_logging

    start_logging(quiet=quiet, debug=debug)
    load_demo(contacts, to, quiet=quiet)


@cli.command(short_help="Write the settings files, and test them.")
@setting(SETTINGS["base_url"])
@setting(SETTINGS["access_token"], help="Bearer token; without it, a terminal asks. Other users can see options.")
@setting(SETTINGS["refresh_token"], help="Refresh token; without it, a terminal asks. Other users can see options.")
@debug_option
def init(**options: Any) -> None:
    """Write .dlt/config.toml, which lists every setting, and .dlt/secrets.toml for the tokens, then check the service.

    At a terminal it asks for what is not given as an option. Existing files are not changed.
    """
    from letters_source.cli.init import set_up_project

    set_up_project(without_unset(options))


@cli.command(cls=LoadCommand, short_help="Load both listings, complete and verified.")
@click.option(
    "--destination",
    type=click.Choice(get_args(Kind)),
    default="duckdb",
    show_default=True,
    help="delta, iceberg and buckets need the extra `lake`, postgres the extra `postgres`.",
)
@click.option("--to", metavar="PLACE", callback=not_empty, help="DuckDB file, folder of files, or s3://bucket/folder.")
@path_option("--publish", words="DuckDB file for readers, replaced once the load is verified.")
@dataset_option("Schema to load into.")
@click.option("--only", metavar="NAMES", help="Any of templates, contacts and mailings, separated by commas.")
@setting(
    SETTINGS["account_id"],
    multiple=True,
    callback=named_once,
    help="Account to load, into its own dataset; may be repeated.",
)
@settings_options("facets", "history", "sync", "mailings", "mailings_since", "allow_failed_mailings")
@click.option("--pii", metavar="POLICY", callback=not_empty, help=PII)
@settings_options("allow_empty", "max_shrink", "allow_shared_ids", "allow_other_service", "lock_wait", "resume")
@filter_options
@connection_options
@outcome_options
@output_options
def load(*, destination: Kind, to: str | None, only: str | None, quiet: bool, debug: bool, **options: Any) -> None:
    """Load both listings, verify them, and show the tables.

    Credentials of buckets and of PostgreSQL come from dlt's configuration, such as
    DESTINATION__POSTGRES__CREDENTIALS.

    A dataset keeps its filters, account and mode. To load with other ones, use another --dataset.
    """
    from letters_source.cli.display import show_loads, shown_progress, start_logging
    from letters_source.cli.loads import Loads
    from letters_source.cli.outcomes import outcome_reported
    from letters_source.cli.output import results_shown
    from letters_source.telemetry import start_exporting

    start_logging(quiet=quiet, debug=debug)
    start_exporting()
    as_json, on_failure = options.pop("as_json"), options.pop("on_failure")
    loads = Loads.of(destination, to, options.pop("dataset"), options.pop("account_id"))
    with outcome_reported(loads, as_json=as_json, on_failure=on_failure), naming_options():
        names = listed(only)
        settings = with_filters(without_unset(options))
        check_options_apply(settings, names)
        with shown_progress(quiet=quiet) as progress:
            results = loads.run(names, settings, progress)
    if not (quiet or as_json):
        with results_shown():
            show_loads(results, loads.pipelines, settings)


@cli.command(short_help="List the last loads, failed ones too.")
@click.option("--to", metavar="PLACE", callback=not_empty, help="Only loads into this place, as of load.")
@click.option("--dataset", metavar="NAME", callback=not_empty, help="Only loads into this dataset.")
@click.option("--last", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, the newest run first.")
@debug_option
def runs(to: str | None, dataset: str | None, last: int, *, as_json: bool) -> None:
    """List the last loads on this machine, the newest first: when, into what, verdict or error, rows, duration.

    On a narrow terminal, each run takes two lines.
    """
    from letters_source.cli.display import show_runs
    from letters_source.destination.ledger import last_runs

    found = last_runs(last, place=to and path_or_url(to), dataset=dataset)
    show_runs(found, as_json=as_json)


@cli.command(short_help="Show what a load would find, and how long it would take.")
@setting(
    SETTINGS["account_id"],
    multiple=True,
    callback=named_once,
    help="Account to request; of several, whether they share ids.",
)
@click.option("--probe", is_flag=True, help="Also find the largest page size that the service returns.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@connection_options
@output_options
@naming_options()
def check(
    *, account_id: tuple[str, ...], probe: bool, as_json: bool, quiet: bool, debug: bool, **settings: Any
) -> None:
    """Request one page of each listing, and one row with each filter.

    Shows whether the service is reachable and accepts the tokens, how many rows there are, how long a load
    would take, which filters the service honors, and when the access token expires. It ends with 0 if a load
    can work, even if the service refuses a filter or cannot answer a request with it.
    """
    from letters_source.cli.display import start_logging
    from letters_source.cli.findings import check_shown

    start_logging(quiet=quiet, debug=debug)
    check_shown(account_id, without_unset(settings), probe=probe, as_json=as_json, quiet=quiet)


@cli.command(short_help="Print the data dictionary.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json", "mermaid", "dbml", "dbt", "result"]),
    default="text",
    show_default=True,
    help="json for programs; mermaid and dbml for diagrams; dbt for its sources; result: JSON Schema of load --json.",
)
@debug_option
def schema(form: "DictionaryForm | Literal['result']") -> None:
    """Print every table and column: type, key, meaning, and whether it is personal data."""
    from letters_source.cli.dictionary import render
    from letters_source.results import result_schema

    click.echo(json.dumps(result_schema(), indent=2) if form == "result" else render(form))


@cli.command(short_help="Write an HTML report about loaded data.")
@path_option("--html", "page", required=True, words="HTML file to write.")
@path_option("--from", "source", default="letters.duckdb", words="DuckDB file, or folder of Parquet files.")
@dataset_option("Schema of the tables.")
@quiet_option
@debug_option
@naming_options()
def report(page: Path, source: Path, dataset: str | None, *, quiet: bool) -> None:
    """Draw charts of contacts, templates and loads on one self-contained HTML page."""
    from letters_source.destination.ledger import last_runs
    from letters_source.tables import DATASET

    with importing_extra("report"):
        from letters_source.report.page import write_report

    dataset = dataset or DATASET
    found = []
    try:
        found = last_runs(RUNS_SHOWN, place=path_or_url(str(source)), dataset=dataset)
    except SettingsError as error:
        # a report needs neither dlt's configuration nor the ledger
        click.echo(f"letters: the report lists no runs: {error}", err=True)
    size = write_report(page, source, dataset, found)
    if not quiet:
        click.echo(f"{page.absolute()}: {size / 1000:,.0f} kB, to open in a browser.")


@cli.command(short_help="Run a SQL query on loaded tables.")
@click.argument("sql", callback=not_empty)
@path_option("--from", "source", default="letters.duckdb", words="DuckDB file, or folder of Parquet files.")
@dataset_option("Schema of the tables.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="table shows the first 40 rows, csv and json all of them.",
)
@debug_option
@naming_options()
def query(sql: str, source: Path, dataset: str | None, form: "QueryForm") -> None:
    """Open the last load read-only, run a query of DuckDB's SQL, and print its rows.

    Name tables without the dataset; each begins with a column account_id. Tables with row history show current rows.
    A table that was not loaded does not exist: the error names the option that loads it.
    """
    from letters_source.cli.query import print_rows
    from letters_source.tables import DATASET

    print_rows(sql, source, dataset or DATASET, form)


@cli.command(short_help="Serve an emulator of the service.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 picks a free port.")
@contacts_option
@click.option("--latency-ms", type=click.FloatRange(0), default=0.0, show_default=True, help="Delay of responses.")
@debug_option
def serve(port: int, contacts: int, latency_ms: float) -> None:
    """Serve an emulator of the service on this machine until Ctrl-C."""
    from letters_source.cli.display import show_service
    from letters_source.emulator import Emulator

    emulator = Emulator(contacts, latency_ms=latency_ms)
    try:
        emulator.run_forever(port, lambda base_url: show_service(base_url, emulator))
    except OSError as error:
        # not about the port but about the output
        if error.errno == errno.ENOSPC:
            raise
        raise click.UsageError(
            f"Port {port} cannot be used: {os.strerror(error.errno or 0)}; choose another --port."
        ) from None
