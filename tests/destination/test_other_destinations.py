"""Destinations of a user's own: what they cannot do is refused in our words, before the first request."""

import sqlite3
import sys
from datetime import UTC, date, datetime, timedelta
from functools import partial
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import dlt
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from dlt.common.data_writers.writers import resolve_best_writer_spec
from dlt.common.destination.reference import AnyDestination_CO
from dlt.destinations.impl.ducklake.configuration import DuckLakeCredentials
from planned_letters import plan, scheduled
from worlds import Begin

from destination_table import DESTINATIONS
from letters_source import ContactFilters, run
from letters_source.config.installation import how_to_install
from letters_source.destination.audits import opened
from letters_source.destination.kinds import place_of
from letters_source.destination.modes import check_mode
from letters_source.destination.place import Held
from letters_source.destination.preflight import REFUSAL
from letters_source.errors import DestinationError, SettingsError
from letters_source.tables import ARROW_TYPES, MERGE, TABLES, WriteMode
from programmable_emulator import Emulator

DATABASES = {name: made for name, made in DESTINATIONS.items() if made.destination_name != "filesystem"}


@pytest.fixture
def work(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that tests work in; dlt keeps its own files in another one below it."""
    monkeypatch.setenv("DLT_DATA_DIR", str(project / "dlt"))
    Container()[PluggableRunContext].reload_providers()
    return project


def discard(items: Any, table: Any) -> None:
    """A destination function, which discards rows."""


def pipeline_to(destination: AnyDestination_CO) -> dlt.Pipeline:
    """A pipeline of the user's own."""
    return dlt.pipeline("mine", destination=destination, dataset_name="my_data")


def refusal(destination: AnyDestination_CO) -> str:
    """The message with which a pipeline to a destination is refused."""
    pipeline = pipeline_to(destination)
    to = place_of(pipeline)
    with pytest.raises(DestinationError) as caught:
        to.kind.check(to)
    return str(caught.value)


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("name", ["dummy", "lance", "lancedb", "qdrant", "weaviate", "sink"])
def test_a_destination_without_staging_tables_is_refused(name: str) -> None:
    """A destination without staging tables is refused, whether its driver is installed or not."""
    make: Any = getattr(dlt.destinations, name, partial(dlt.destination, discard, name="sink"))
    assert refusal(make()) == (
        f"{name} has no staging tables, which run() needs to replace tables and to verify them with SQL; choose "
        "another destination, or load without verification: pipeline.run(letters())."
    )


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("ClickHouse", "sync", "contacts: sync is not supported for clickhouse; turn off sources.letters.sync"),
        ("Redshift", "sync", "contacts: sync is not supported for redshift; turn off sources.letters.sync"),
        (
            "Iceberg",
            "history",
            "contacts: history is not supported for iceberg files; turn off sources.letters.history",
        ),
        (
            "Parquet",
            MERGE,
            "contacts: loading mailings is not supported for plain files; turn off sources.letters.mailings",
        ),
    ],
)
def test_a_mode_that_dlt_cannot_merge_is_refused(name: str, mode: WriteMode, words: str) -> None:
    """The error for a mode that dlt cannot merge names the setting, and has its key."""
    pipeline = dlt.pipeline("mine", destination=DESTINATIONS[name], dataset_name="my_data")
    with pytest.raises(SettingsError) as caught:
        check_mode(place_of(pipeline), "contacts", mode)
    assert str(caught.value) == f"{words}, or choose another destination."
    assert caught.value.key == words.rpartition(" ")[2]


@pytest.mark.usefixtures("work")
def test_names_that_unquoted_sql_would_not_find_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snowflake with a case-sensitive naming convention is refused, as unquoted SQL would not find its names."""
    monkeypatch.setenv("SCHEMA__NAMING", "sql_cs_v1")
    assert refusal(dlt.destinations.snowflake()) == (
        "snowflake reads unquoted names in upper case, and the naming convention sql_cs_v1 creates them in lower case: "
        "set SCHEMA__NAMING to snake_case."
    )


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    ("destination", "key"),
    [
        (dlt.destinations.snowflake(), "DESTINATION__SNOWFLAKE__CREDENTIALS"),
        (dlt.destinations.clickhouse(destination_name="warehouse"), "DESTINATION__WAREHOUSE__CREDENTIALS"),
        (dlt.destinations.bigquery(), "DESTINATION__BIGQUERY__CREDENTIALS"),
        (dlt.destinations.athena(), "DESTINATION__FILESYSTEM__BUCKET_URL"),
    ],
)
def test_missing_credentials_are_named(destination: AnyDestination_CO, key: str) -> None:
    """The error for missing credentials names the environment variable that sets them."""
    kind = destination.destination_type.rpartition(".")[2]
    assert refusal(destination) == f"The destination {kind} is not configured: set {key}."


@pytest.mark.usefixtures("work")
def test_credentials_of_a_server_are_not_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error for unusable credentials of a server names their variable, and not --to."""
    monkeypatch.setenv("DESTINATION__DATABRICKS__CREDENTIALS__CATALOG", "main")
    assert refusal(dlt.destinations.databricks()) == (
        "The destination cannot be used: Authentication failed: No valid authentication method detected. Provide "
        "either `client_id` and `client_secret` for OAuth authentication, or `access_token` for token-based "
        "authentication; set DESTINATION__DATABRICKS__CREDENTIALS."
    )


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    ("name", "credentials", "driver"),
    [
        ("clickhouse", "clickhouse://user@127.0.0.1:9/letters", "clickhouse_driver"),
        ("mssql", "mssql://user@127.0.0.1:9/letters", "pyodbc"),
    ],
)
def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch, name: str, credentials: str, driver: str) -> None:
    """The error for a missing driver has the command that installs it."""
    # an import of it fails, also where it is installed
    monkeypatch.setitem(sys.modules, driver, None)
    monkeypatch.setenv(f"DESTINATION__{name.upper()}__CREDENTIALS", credentials)
    made: AnyDestination_CO = getattr(dlt.destinations, name)()
    assert refusal(made) == f"{name} is not installed: {how_to_install(f'dlt[{name}]')}"


@pytest.mark.parametrize(
    ("words", "is_refusal"),
    [
        ('FATAL:  password authentication failed for user "letters"', True),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "letters", database "letters"', True),
        ("fe_sendauth: no password supplied", True),
        ('FATAL:  database "nowhere" does not exist', True),
        ('invalid dsn: invalid integer value "x" for connection option "port"', True),
        ("Access denied for user 'letters'@'localhost'", True),
        ("Login failed for user 'letters'.", True),
        ("connection refused", False),
        ('could not translate host name "nowhere" to address: Name or service not known', False),
        ("timeout expired", False),
        ("FATAL:  the database system is starting up", False),
        ("FATAL:  sorry, too many clients already", False),
    ],
)
def test_a_server_that_refuses_is_distinguished_from_one_that_does_not_answer(words: str, *, is_refusal: bool) -> None:
    """A refused user, database or address is an error of the settings; anything else may pass."""
    assert bool(REFUSAL.search(words)) is is_refusal


def test_dlt_has_an_extra_for_each_driver_that_is_advised() -> None:
    """dlt has an extra with the name of each destination."""
    named = {made.destination_name for made in DESTINATIONS.values()}
    assert named - set(metadata("dlt").get_all("Provides-Extra", [])) == set()


def test_a_missing_extension_of_duckdb_is_named(work: Path) -> None:
    """The error for a missing extension of DuckDB that cannot be downloaded says how to install it."""
    credentials = DuckLakeCredentials("lake", catalog=f"sqlite:///{work}/lake.sqlite", storage=str(work / "lake"))
    nowhere = "http://127.0.0.1:1"
    credentials.global_config = {"extension_directory": str(work), "custom_extension_repository": nowhere}
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.ducklake(credentials), dataset_name="my_data")
    lake = place_of(pipeline)
    with pytest.raises(DestinationError) as caught:
        lake.kind.check(lake)
    # no retry brings the extension
    assert type(caught.value) is DestinationError
    place, _, words = str(caught.value).partition(" cannot be reached: ")
    assert place == f"lake@sqlite:///{work}/lake.sqlite@{(work / 'lake').as_uri()}"
    assert words.startswith(f'Failed to download extension "ducklake" at URL "{nowhere}/')
    assert words.endswith("; run INSTALL ducklake in DuckDB once, with network access.")


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("name", DATABASES)
def test_every_type_of_column_can_be_loaded(name: str) -> None:
    """Every database accepts each type of our columns in the file format of a load."""
    capabilities = DATABASES[name].capabilities()
    formats = capabilities.supported_loader_file_formats or []
    default = resolve_best_writer_spec("arrow", formats, capabilities.preferred_loader_file_format).file_format
    place = place_of(pipeline_to(DATABASES[name]))
    chosen = place.kind.file_format(place) or default
    assert chosen in formats
    mapper = capabilities.get_type_mapper()
    for kind in ARROW_TYPES:
        column: Any = {"name": kind, "data_type": kind, "nullable": True}
        # dlt's client adds Databricks' way of loading
        table: Any = {"name": "table", "columns": {kind: column}, "x-insert-api": "copy_into"}
        assert mapper.to_destination_type(column, table)
        mapper.ensure_supported_type(column, table, chosen)


@pytest.mark.parametrize("name", DATABASES)
def test_every_name_fits_and_is_unique_in_any_case(name: str) -> None:
    """Names of tables and columns fit every database, and those of columns are lowercase and unique."""
    capabilities = DATABASES[name].capabilities()
    assert max(len(table.name) for table in TABLES) <= capabilities.max_identifier_length
    for table in TABLES:
        names = [column.name for column in table.loaded]
        assert max(map(len, names)) <= capabilities.max_column_identifier_length
        assert names == list(dict.fromkeys(name.lower() for name in names))


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize(
    ("name", "transactions", "truncates"),
    [("Redshift", True, False), ("Snowflake", True, False), ("BigQuery", None, True), ("ClickHouse", False, True)],
)
def test_tables_change_in_transactions_where_dlt_has_them(
    name: str, *, transactions: bool | None, truncates: bool
) -> None:
    """Loads do not use TRUNCATE where dlt has transactions."""
    place = place_of(pipeline_to(DATABASES[name]))
    capabilities = place.kind.loading(place, Held()).capabilities()
    assert (capabilities.supports_transactions, capabilities.supports_truncate_command) == (transactions, truncates)


@pytest.mark.parametrize("text", ['{"search": "a"}', '"{\\"search\\": \\"a\\"}"'])
@pytest.mark.parametrize(
    "time",
    ["2024-05-01 12:00:00", datetime(2024, 5, 1, 12), datetime(2024, 5, 1, 12, tzinfo=UTC)],  # noqa: DTZ001
)
def test_audits_are_read_alike_from_all_databases(text: str, time: datetime | str) -> None:
    """Audits are read alike in every form in which databases return JSON and times."""
    audit = {"listing": "contacts", "filters": text, "pii": None, "started_at": time}
    noon = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert opened(audit) == {"listing": "contacts", "filters": {"search": "a"}, "pii": None, "started_at": noon}


def test_a_database_of_dlts_is_loaded_again_and_again(begin: Begin) -> None:
    """Loads into SQLite replace rows and keep each audit, and other filters are refused."""
    world = begin(Emulator(9, 3))
    file = world.place.with_name("letters.sqlite")
    destination = dlt.destinations.sqlalchemy(f"sqlite:///{file}")
    pipeline = dlt.pipeline("mine", destination=destination, dataset_name="my_data")
    first = run(pipeline, **world.settings)
    world.emulator.contacts.delete(world.emulator.contacts.rows()[0].id)
    second = run(pipeline, **world.settings)
    assert (first.tables["contacts"], second.tables["contacts"]) == (9, 8)
    with sqlite3.connect(file.with_name("letters__my_data.sqlite")) as connection:
        audits = connection.execute("select _dlt_load_id, rows_yielded from listing_audit where listing = 'contacts'")
        assert audits.fetchall() == [(first.load_id, 9), (second.load_id, 8)]
    with pytest.raises(SettingsError, match="the dataset my_data was loaded without search"):
        run(pipeline, **world.settings, contact_filters=ContactFilters(search="a"), only=["contacts"])


def test_a_database_of_dlts_has_the_mailings_that_the_service_lists(begin: Begin) -> None:
    """A day that is read again and lists nobody has no mailings in SQLite, and other days keep theirs."""
    world, first, second = begin(Emulator(0, 0)), date(2024, 3, 5), date(2024, 3, 6)
    destination = dlt.destinations.sqlalchemy(f"sqlite:///{world.place.with_name('letters.sqlite')}")
    pipeline = dlt.pipeline("mine", destination=destination, dataset_name="my_data")
    for night, days in (
        (first, [first, first]),
        (second, [None, second]),
        (second, [None, second + timedelta(days=3)]),
    ):
        plan(world.emulator.contacts, days)
        with scheduled(night, night + timedelta(days=1)):
            run(pipeline, **world.settings, mailings=True, only=["mailings"])
    with sqlite3.connect(world.place.with_name("letters__my_data.sqlite")) as connection:
        found = connection.execute("select contact_id, mailed_on from mailings order by 1").fetchall()
    assert found == [("0", f"{first}"), ("1", f"{first}")]
