"""The `letters` command: its subcommands, and how each one ends."""

import json
import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import click

from letters_source.cli.options import (
    check_options_apply,
    connection_options,
    contacts_option,
    dataset_option,
    debug_option,
    filter_options,
    listed,
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
from letters_source.config.settings import PII, SETTINGS
from letters_source.errors import INTERRUPTED, INTERRUPTION, LettersError, SettingsError, importing_extra

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
def demo(contacts: int, to: Path, *, quiet: bool, debug: bool) -> None:
    """Start an emulator of the service on this machine, load it into DuckDB, and show the tables."""
    from letters_source.cli.demo import load_demo
    from letters_source.cli.display import start_logging

    start_logging(quiet=quiet, debug=debug)
    load_demo(contacts, to, quiet=quiet)


@cli.command(short_help="Write commented settings files to fill in.")
@debug_option
def init() -> None:
    """Write .dlt/config.toml, which lists every setting, and .dlt/secrets.toml for the tokens.

    Existing files are not changed.
    """
    from letters_source.config.messages import FOLDER, write_settings

    for path in write_settings():
        click.echo(f"Created {path}")
    click.echo(
        f"Set base_url in {FOLDER}/config.toml and both tokens in {FOLDER}/secrets.toml, then run: letters check\n"
        f"Keep {FOLDER}/secrets.toml out of version control."
    )


@cli.command(short_help="Load both listings, complete and verified.")
@click.option(
    "--destination",
    type=click.Choice(["duckdb", "parquet", "delta", "iceberg", "postgres"]),
    default="duckdb",
    show_default=True,
    help="delta, iceberg and buckets need the extra `lake`, postgres the extra `postgres`.",
)
@click.option("--to", metavar="PLACE", callback=not_empty, help="DuckDB file, folder of files, or s3://bucket/folder.")
@path_option("--publish", words="DuckDB file for readers, replaced once the load is verified.")
@dataset_option("Schema to load into.")
@click.option("--only", metavar="PARTS", help="Any of templates, contacts and mailings, separated by commas.")
@setting(SETTINGS["account_id"], multiple=True, help="Account to request; of several, each gets its own dataset.")
@settings_options("facets", "history", "sync", "mailings", "mailings_since")
@click.option("--pii", metavar="POLICY", callback=not_empty, help=PII)
@settings_options("allow_empty", "max_shrink", "lock_wait")
@filter_options
@connection_options
@outcome_options
@output_options
def load(*, destination: Any, to: str | None, only: str | None, quiet: bool, debug: bool, **options: Any) -> None:
    """Load both listings, verify them, and show the tables.

    Credentials of buckets and of PostgreSQL come from dlt's configuration, such as
    DESTINATION__POSTGRES__CREDENTIALS.

    A dataset keeps its filters, account and mode. To load with other ones, use another --dataset.
    """
    from letters_source.cli.display import load_accounts_shown, load_shown, start_logging
    from letters_source.cli.exporting import start_exporting
    from letters_source.cli.outcomes import Loads, told
    from letters_source.destination.pipeline import account_pipelines, make_pipeline, schema_of_views
    from letters_source.tables import DATASET

    start_logging(quiet=quiet, debug=debug)
    start_exporting()
    as_json, on_failure = options.pop("as_json"), options.pop("on_failure")
    dataset, accounts = options.pop("dataset") or DATASET, options.pop("account_id")
    loads = Loads(destination, to, dataset, accounts)
    with told(loads, as_json=as_json, on_failure=on_failure):
        parts = listed(only)
        settings = with_filters(without_unset(options))
        check_options_apply(settings, parts)
        if len(accounts) > 1:
            loads.pipelines = account_pipelines(destination, to, dataset, accounts)
            settings["views"] = schema_of_views(dataset)
            load_accounts_shown(loads, parts, settings, quiet=quiet, as_table=not as_json)
        else:
            settings["account_id"] = account = next(iter(accounts), None)
            loads.pipelines = {account or "": make_pipeline(destination, to, dataset)}
            result = load_shown(loads.pipelines[account or ""], parts, settings, quiet=quiet, as_table=not as_json)
            loads.finish(account or "", result)


@cli.command(short_help="List the last loads, failed ones too.")
@click.option("--to", metavar="PLACE", callback=not_empty, help="Only loads into this place, as of load.")
@click.option("--dataset", metavar="NAME", callback=not_empty, help="Only loads into this dataset.")
@click.option("--last", metavar="N", type=click.IntRange(1), default=20, show_default=True, help="How many.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array, the newest run first.")
@debug_option
def runs(to: str | None, dataset: str | None, last: int, *, as_json: bool) -> None:
    """List the last loads on this machine, the newest first: when, into what, verdict or error, rows, duration."""
    from letters_source.cli.display import show_runs
    from letters_source.destination.ledger import last_runs

    found = last_runs(last, place=to and path_or_url(to), dataset=dataset)
    show_runs(found, as_json=as_json)


@cli.command(short_help="Show what a load would find, and how long it would take.")
@settings_options("account_id")
@click.option("--probe", is_flag=True, help="Also find the largest page size that the service returns.")
@connection_options
@output_options
def check(*, probe: bool, quiet: bool, debug: bool, **settings: Any) -> None:
    """Request one page of each listing, and one row with each filter.

    Shows whether the service is reachable and accepts the tokens, how many rows there are, how long a load
    would take, which filters the service honors, and when the access token expires.
    """
    from letters_source.cli.display import show_findings, start_logging
    from letters_source.extract.check import check_service

    start_logging(quiet=quiet, debug=debug)
    found = check_service(probe=probe, **without_unset(settings))
    if not quiet:
        show_findings(found)


@cli.command(short_help="Print the data dictionary.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "markdown", "json", "mermaid", "dbml", "result"]),
    default="text",
    show_default=True,
    help="json for programs; mermaid and dbml for diagrams; result for the JSON Schema of load --json.",
)
@debug_option
def schema(form: Any) -> None:
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
def report(page: Path, source: Path, dataset: str | None, *, quiet: bool) -> None:
    """Draw charts of contacts, templates and loads on one self-contained HTML page."""
    from letters_source.destination.ledger import last_runs
    from letters_source.tables import DATASET

    with importing_extra("report"):
        from letters_source.report.page import write_report

    dataset = dataset or DATASET
    found = []
    # a report needs no configuration of dlt's
    with suppress(SettingsError):
        found = last_runs(RUNS_SHOWN, place=path_or_url(str(source)), dataset=dataset)
    size = write_report(page, source, dataset, found)
    if not quiet:
        click.echo(f"{page.absolute()}: {size / 1000:,.0f} kB, to open in a browser.")


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
        raise click.UsageError(f"Port {port} cannot be used: {error.strerror}; choose another --port.") from None


def set_up(*, debug: bool) -> None:
    """Set what dlt, Arrow and NumPy read when they are first imported, unless the environment already does."""
    defaults = (
        ("RUNTIME__DLTHUB_TELEMETRY", "false"),
        # where Airflow is installed, dlt would read its variables, which takes ten seconds and creates ~/airflow
        ("PROVIDERS__ENABLE_AIRFLOW_SECRETS", "false"),
        ("RUNTIME__LOG_LEVEL", "WARNING" if debug else "CRITICAL"),
        # with Arrow's own allocator, which keeps freed memory, a load takes 3 to 4 % longer and 40 MB more
        ("ARROW_DEFAULT_MEMORY_POOL", "system"),
        # NumPy's linear algebra library, which is never used, starts a thread per core that spins for 0.1 s
        ("OPENBLAS_NUM_THREADS", "1"),
    )
    for name, value in defaults:
        os.environ.setdefault(name, value)
    # dlt warns of it in each process
    warnings.filterwarnings("ignore", "XDG_DATA_HOME is set", UserWarning)


def main() -> NoReturn:
    """Run the command. An error is one line on stderr and an exit code; `--debug` adds the traceback."""
    debug = "--debug" in sys.argv
    set_up(debug=debug)
    if not debug:
        sys.excepthook = tell_unexpected
    try:
        code = cli.main(standalone_mode=False)
    except click.UsageError as error:
        tell_usage(error)
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        tell(INTERRUPTION)
        code = INTERRUPTED
    except LettersError as error:
        if debug:
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            tell(str(error))
        code = error.exit_code
    sys.exit(code or 0)


def tell(message: str) -> None:
    """Print one line to stderr."""
    click.echo(f"letters: {message}", err=True)


def tell_usage(error: click.UsageError) -> None:
    """Print a line that points to the help; without a command, print the help itself."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    command = error.ctx.command_path if error.ctx else "letters"
    tell(f"{error.format_message()} See {command} --help.")


def tell_unexpected(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    """Print one line instead of the traceback of an unexpected error."""
    tell(f"unexpected {kind.__name__}: {str(error).partition(chr(10))[0]}; run again with --debug for the traceback.")
