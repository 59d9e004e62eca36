"""The `letters` command: arguments and words only."""

import sys
from contextlib import nullcontext
from inspect import currentframe
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

import click

from letters_source.cli.options import (
    check_options_apply,
    day,
    debug_option,
    filter_options,
    flag,
    guard_options,
    listed,
    not_empty,
    output_options,
    settings_options,
    several,
    with_filters,
    without_unset,
)
from letters_source.cli.process import ending_at_once, owns_process, set_up
from letters_source.errors import LettersError

INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="letters-source")
def cli() -> None:
    """Load templates and contacts of the letter mailing service: complete, or an error.

    Settings come from .dlt/config.toml, .dlt/secrets.toml or the environment, for example
    SOURCES__LETTERS__BASE_URL. Try `letters demo` first: it needs none.
    """


@cli.command(short_help="Load a stand-in of the service, to see it work.")
@click.option("--contacts", type=click.IntRange(min=0), default=2000, show_default=True, help="Contacts to invent.")
@click.option(
    "--to", type=click.Path(path_type=Path), default="letters_demo.duckdb", show_default=True, help="The file."
)
@output_options
def demo(contacts: int, to: Path, *, quiet: bool, debug: bool) -> None:
    """Start a stand-in of the service on this machine, load it into DuckDB, and show what is there."""
    from letters_source.cli.demo import load_demo
    from letters_source.cli.display import start_logging

    start_logging(quiet=quiet, debug=debug)
    load_demo(contacts, to, quiet=quiet)


@cli.command(short_help="Load both listings, complete and verified.")
@click.option(
    "--destination",
    type=click.Choice(["duckdb", "parquet", "delta", "iceberg", "postgres"]),
    default="duckdb",
    show_default=True,
    help="delta, iceberg and buckets need the extra lake, postgres the extra postgres.",
)
@click.option(
    "--to", metavar="PLACE", callback=not_empty, help="The DuckDB file; for files the folder, or s3://bucket/folder."
)
@click.option("--publish", type=click.Path(path_type=Path), help="A DuckDB file for readers, put in place at the end.")
@click.option(
    "--dataset", metavar="NAME", callback=not_empty, help="The schema that the tables go to.  [default: letters_data]"
)
@click.option("--only", metavar="PARTS", help="templates, contacts or mailings, with commas.")
@several("--account-id", metavar="ID", words="The account; several go to a dataset each.")
@flag("--facets", "Also what can be filtered by but is not in the rows, such as statuses.")
@flag("--history", "Keep former versions of rows, with the time from when and until when.")
@flag("--sync", "Write changed rows only, for destinations that charge by write.")
@flag("--mailings", "Also who was last mailed on which day, since the last load.")
@click.option("--mailings-since", type=day, help="The first day of mailings.")
@click.option(
    "--pii", metavar="POLICY", callback=not_empty, help="What becomes of personal values: keep, hash, mask or drop."
)
@guard_options
@filter_options
@settings_options
@output_options
def load(*, destination: Any, to: str | None, only: str | None, quiet: bool, debug: bool, **options: Any) -> None:
    """Load both listings, verify them, and show what is there.

    Credentials of buckets and of PostgreSQL are dlt's settings, such as DESTINATION__POSTGRES__CREDENTIALS.

    A dataset remembers its filters, account and mode: rows that were chosen otherwise go to another --dataset.
    """
    from letters_source.cli.display import load_accounts_shown, load_shown, start_logging
    from letters_source.destination.pipeline import account_pipelines, make_pipeline, schema_of_views
    from letters_source.tables import DATASET

    start_logging(quiet=quiet, debug=debug)
    parts = listed(only)
    dataset, accounts = options.pop("dataset") or DATASET, options.pop("account_id")
    settings = with_filters(without_unset(options))
    check_options_apply(settings, parts)
    if len(accounts) > 1:
        pipelines = account_pipelines(destination, to, dataset, accounts)
        load_accounts_shown(pipelines, parts, {**settings, "views": schema_of_views(dataset)}, quiet=quiet)
    else:
        settings["account_id"] = next(iter(accounts), None)
        load_shown(make_pipeline(destination, to, dataset), parts, settings, quiet=quiet)


@cli.command(short_help="See what a load would find and take.")
@click.option("--account-id", metavar="ID", callback=not_empty, help="The account.")
@click.option(
    "--probe", is_flag=True, help="Ask for larger and larger pages too, to find the largest that the service gives."
)
@settings_options
@output_options
def check(*, probe: bool, quiet: bool, debug: bool, **settings: Any) -> None:
    """Ask the service for a page of each listing, and for a row with each filter.

    Tells whether it can be reached and accepts the tokens, how many rows there are, how long a load takes, which
    filters it heeds, and when the access token expires.
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
    type=click.Choice(["text", "markdown", "json", "mermaid", "dbml"]),
    default="text",
    show_default=True,
    help="json for programs; mermaid and dbml for diagrams.",
)
@debug_option
def schema(form: Any) -> None:
    """Print every table and column: type, key, meaning, and whether it tells something about a person."""
    from letters_source.cli.dictionary import render

    click.echo(render(form))


@cli.command(short_help="Draw what was loaded, as a page to open in a browser.")
@click.option("--html", "page", type=click.Path(path_type=Path), required=True, help="The page to write.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    default="letters.duckdb",
    show_default=True,
    help="The DuckDB file, or the folder of Parquet files.",
)
@click.option(
    "--dataset", metavar="NAME", callback=not_empty, help="The schema that the tables are in.  [default: letters_data]"
)
@click.option("--quiet", is_flag=True, help="Show nothing but errors.")
@debug_option
def report(page: Path, source: Path, dataset: str | None, *, quiet: bool) -> None:
    """Draw contacts, templates and loads on one page, which needs nothing else, from nowhere, to be seen."""
    from letters_source.extras import needed
    from letters_source.tables import DATASET

    with needed("report"):
        from letters_source.report.page import write_report

    size = write_report(page, source, dataset or DATASET)
    if not quiet:
        click.echo(f"{page.absolute()}: {size / 1000:,.0f} kB, to open in a browser.")


@cli.command(short_help="Serve a stand-in of the service.")
@click.option("--port", type=click.IntRange(0, 65535), default=8765, show_default=True, help="0 takes a free one.")
@click.option("--contacts", type=click.IntRange(min=0), default=2000, show_default=True, help="Contacts to invent.")
@click.option("--latency-ms", type=click.FloatRange(min=0), default=0.0, show_default=True, help="Wait before answers.")
@debug_option
def serve(port: int, contacts: int, latency_ms: float) -> None:
    """Serve a stand-in of the service on this machine until Ctrl-C."""
    from letters_source.cli.display import show_service
    from letters_source.emulator import Emulator

    emulator = Emulator(contacts, latency_ms=latency_ms)
    try:
        emulator.run_forever(port, lambda base_url: show_service(base_url, emulator))
    except OSError as error:
        raise click.UsageError(f"Port {port} cannot be used: {error.strerror}; choose another --port.") from None


def program() -> NoReturn:
    """What the installed script calls: `main`, after which nothing is left to do."""
    with ending_at_once() if owns_process(currentframe()) else nullcontext():
        main()


def main() -> NoReturn:
    """Run the command; every error ends in a line on stderr and its exit code, `--debug` adds the traceback."""
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
        tell("interrupted; if tables were being written just then, load again")
        code = INTERRUPTED
    except LettersError as error:
        if debug:
            sys.excepthook(type(error), error, error.__traceback__)
        else:
            tell(str(error))
        code = error.exit_code
    sys.exit(code or 0)


def tell(message: str) -> None:
    """A line on stderr."""
    click.echo(f"letters: {message}", err=True)


def tell_usage(error: click.UsageError) -> None:
    """A line that leads to the help; where nothing was asked for, the help itself."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    command = error.ctx.command_path if error.ctx else "letters"
    tell(f"{error.format_message()} See {command} --help.")


def tell_unexpected(kind: type[BaseException], error: BaseException, _: TracebackType | None) -> None:
    """A line instead of the traceback of an error that is not ours."""
    tell(f"unexpected {kind.__name__}: {str(error).partition(chr(10))[0]}; run again with --debug to see where.")
