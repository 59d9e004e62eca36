"""What a load writes into PostgreSQL, and what stops it."""

from collections.abc import Iterator
from datetime import UTC, date
from threading import Event, Thread
from typing import Any

import dlt
import orjson
import psycopg2
import pytest
from holdings import COLUMNS, KEYS, LISTED, Rows, held_tables, in_order, parsed, typed_columns
from planned_letters import load_each_night
from postgres import PASSWORD, cut_after_commit, free_port, serve_postgres
from row_changes import amend, clear
from terminals import Letters, Outcome, run_command
from worlds import Begin, World, verify

from letters_source import (
    DestinationError,
    DestinationInUse,
    IncompleteListing,
    LoadFailed,
    Result,
    SettingsError,
    make_pipeline,
    run,
    run_accounts,
)
from letters_source.config.installation import how_to_add_extra
from letters_source.destination import postgres
from letters_source.destination.kinds import place_of
from letters_source.destination.pipeline import account_pipelines
from letters_source.service.listings import ContactFilters
from letters_source.tables import TABLES, tables_of
from programmable_emulator import Behavior, Emulator

KINDS = {
    "VARCHAR": "character varying",
    "JSON": "jsonb",
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
    "DOUBLE": "double precision",
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a server for all tests here."""
    with serve_postgres() as url:
        yield url


@pytest.fixture
def configured(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The server's URL, which is in dlt's environment too; what was loaded before is gone."""
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", server)
    found = query(server, "select nspname from pg_namespace where nspname !~ '^(pg_|information_schema)'")
    for [name] in found:
        change(server, f'drop schema "{name}" cascade')
    return server


@pytest.fixture
def load(configured: str, begin: Begin) -> "Load":
    """A world whose loads go to the server."""
    return Load(begin(Emulator(60, 8)), configured)


class Load:
    """Loads from a world into PostgreSQL."""

    def __init__(self, world: World, url: str) -> None:
        self.world, self.url = world, url
        self.contacts = world.emulator.contacts

    def __call__(self, dataset: str = "letters_data", **settings: Any) -> Result:
        """Load, with some settings changed."""
        return run(make_pipeline("postgres", dataset=dataset), **{**self.world.settings, **settings})

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query."""
        return query(self.url, sql)

    def tables(self) -> dict[str, Rows]:
        """What the tables of both listings hold."""
        return {name: in_order(name, map(parsed, self.rows(name))) for name in LISTED}

    def rows(self, table: str) -> Rows:
        """A table's rows as JSON's texts, moments in UTC."""
        names = [name for name, _ in typed_columns(table)]
        texts = [f"{name}::text" if kind == "JSON" else name for name, kind in typed_columns(table)]
        found = self.query(f"select {', '.join(texts)} from letters_data.{table}")
        return [utc(dict(zip(names, row, strict=True))) for row in found]


def utc(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its moment in UTC."""
    return {**row, "created_at": row["created_at"].astimezone(UTC)} if row.get("created_at") else row


def query(url: str, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query."""
    connection = psycopg2.connect(url)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(sql)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found
    finally:
        connection.close()


def change(url: str, sql: str) -> None:
    """Run a statement."""
    query(url, f"{sql}; select 1")


def test_rows_columns_comments_and_keys_arrive(load: Load) -> None:
    """Every row arrives with every value; columns have their types, order, comments and primary keys."""
    amend(
        load.contacts, "1", firstName="", lastName=None, city='a\'b\\c\n"q" \t é 😀, ;', state="NULL", zip="\\N %s {}"
    )
    result = load()
    assert load.tables() == held_tables(load.world.emulator)
    columns = load.query(
        "select table_name, column_name, data_type, col_description(format('%I.%I', table_schema, "
        "table_name)::regclass, ordinal_position) from information_schema.columns where table_schema = 'letters_data' "
        "and table_name !~ '^_dlt' order by table_name, ordinal_position"
    )
    expected = [(table, *column) for table in sorted(COLUMNS) for column in typed_columns(table)]
    assert [row[:3] for row in columns] == [(*row[:2], KINDS.get(row[2], row[2].lower())) for row in expected]
    meanings = {(table.name, column.name): column.description for table in TABLES for column in table.loaded}
    assert [row[3] for row in columns] == [meanings[row[:2]] for row in expected]
    described = "select relname, obj_description(oid) from pg_class where relnamespace = 'letters_data'::regnamespace"
    assert dict(load.query(f"{described} and relkind = 'r' and relname !~ '^_dlt'")) == {
        table.name: table.description for table in TABLES if table.name in COLUMNS
    }
    assert primary_keys(load) == KEYS
    assert dict(result.tables) == {**{name: len(rows) for name, rows in load.tables().items()}, **SHARED}


SHARED = {"rejected_rows": 0, "listing_audit": 2}


def primary_keys(load: Load, dataset: str = "letters_data") -> dict[str, tuple[str, ...]]:
    """The columns of each table's primary key."""
    found = load.query(
        "select relname, array_agg(attname order by array_position(indkey::int[], attnum::int)) from pg_index join "
        "pg_class on pg_class.oid = indrelid join pg_attribute on attrelid = indrelid and attnum = any(indkey) where "
        f"indisprimary and relnamespace = '{dataset}'::regnamespace group by relname"
    )
    return {name: tuple(columns) for name, columns in found}


def test_readers_see_the_old_rows_until_all_new_ones_are_there(load: Load) -> None:
    """Readers see the rows of one load or of the next, never a part, and a failed load changes nothing."""
    load()
    seen: set[int] = set()
    done = Event()

    def read() -> None:
        while not done.is_set():
            seen.add(load.query("select count(*) from letters_data.contacts")[0][0])

    reader = Thread(target=read)
    reader.start()
    try:
        for _ in range(2):
            load.contacts.grow()
            load()
    finally:
        done.set()
        reader.join()
    assert {60, 62} <= seen <= {60, 61, 62}
    load.world.emulator.behavior = Behavior(ignore_page=True)
    before = load.tables()
    with pytest.raises(IncompleteListing):
        load(page_size=10)
    assert load.tables() == before


def test_readers_block_no_load_and_keep_what_they_see(load: Load) -> None:
    """A reader's open transaction blocks no load and keeps its snapshot, also of tables it has not read yet."""
    load()
    reader = psycopg2.connect(load.url)
    reader.set_session(isolation_level="REPEATABLE READ")
    with reader.cursor() as cursor:
        cursor.execute("select count(*) from letters_data.contacts")
        load.contacts.grow()
        load()
        for table, rows in {"contacts": 60, "templates": 8}.items():
            cursor.execute(f"select count(*) from letters_data.{table}")
            assert cursor.fetchall() == [(rows,)]
    reader.close()
    assert load.tables() == held_tables(load.world.emulator)


@pytest.mark.parametrize("mode", ["replace", "history"])
def test_a_load_that_lost_its_lock_changes_nothing(load: Load, mode: str) -> None:
    """A load that lost its lock changes nothing, since another may share its staging, and the next load works."""
    settings: dict[str, Any] = {} if mode == "replace" else {mode: True}
    load(**settings)
    before = load.tables()
    load.contacts.grow()

    def end_lock(*_: object) -> None:
        change(load.url, "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory'")

    with pytest.raises(LoadFailed, match=r"^The PostgreSQL connection that held the lock on the dataset letters"):
        load(progress=end_lock, **settings)
    assert load.tables() == before
    load(**settings)
    assert load.tables() == held_tables(load.world.emulator)


@pytest.mark.parametrize(
    ("mode", "table"),
    [
        ("replace", 'letters_data_staging"."contacts'),
        ("history", 'letters_data"."listing_audit'),
    ],
)
def test_rows_whose_commit_was_not_confirmed_are_not_loaded_twice(
    load: Load, monkeypatch: pytest.MonkeyPatch, mode: str, table: str
) -> None:
    """After a commit without an answer the load fails with no or all tables changed, and the next one is exact."""
    settings: dict[str, Any] = {} if mode == "replace" else {mode: True}
    load.contacts.grow()
    with cut_after_commit(load.url, f'insert into "{table}"(') as url:
        monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", url)
        with pytest.raises(
            LoadFailed, match=r"^load: PostgreSQL: server closed the connection unexpectedly; load again"
        ):
            load(**settings)
    assert load.tables() in ({name: [] for name in LISTED}, held_tables(load.world.emulator))
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", load.url)
    load(**settings)
    assert load.tables() == held_tables(load.world.emulator)
    assert load.query("select count(*) from letters_data.listing_audit") == [(2,)]


def test_a_dataset_remembers_what_it_was_loaded_with(load: Load) -> None:
    """A load with other filters than the dataset's is refused before the first request."""
    load(only=("contacts",), contact_filters=ContactFilters(search="a"))
    asked = len(load.world.emulator.hits)
    with pytest.raises(SettingsError, match=r'^contacts: the dataset letters_data was loaded with search="a"'):
        load(only=("contacts",))
    assert load.world.emulator.hits[asked:] == []


def test_a_table_that_lost_rows_is_noticed(load: Load) -> None:
    """Verification counts the rows of the database itself, and finds children that have lost their parents."""
    load_id = load(only=("contacts",)).load_id
    pipeline = make_pipeline("postgres")
    change(load.url, "delete from letters_data.contacts where id = '1'")
    with pytest.raises(LoadFailed, match=r"^contacts: read 60 rows, but the destination holds 59 with 59 ids"):
        verify(pipeline, load_id, tables_of("contacts"))
    load_id = load(only=("templates",)).load_id
    change(load.url, "update letters_data.templates set id = 'another' where id = '1'")
    with pytest.raises(LoadFailed, match=r"^templates__creator: 1 row without a row in templates; load again"):
        verify(pipeline, load_id, tables_of("templates"))


def test_history_keeps_versions(load: Load) -> None:
    """Row history keeps each version from the load that brought it, which is part of the key."""
    load(history=True)
    amend(load.contacts, "1", city="Elsewhere")
    load.contacts.delete(load.contacts.ids().index("2"))
    load(history=True)
    present = "select count(*) from letters_data.contacts where _dlt_valid_to is null"
    assert load.query(present) == [(59,)]
    assert load.query("select id, count(*) from letters_data.contacts group by id having count(*) > 1") == [("1", 2)]
    assert load.query("select _dlt_valid_to is not null from letters_data.contacts where id = '2'") == [(True,)]
    assert primary_keys(load) == {name: (*key, "_dlt_valid_from") for name, key in KEYS.items()}


def test_sync_writes_changed_rows_alone(load: Load) -> None:
    """A sync deletes rows that are gone, and leaves unchanged rows with the load that wrote them."""
    first = load(sync=True)
    load.contacts.delete(load.contacts.ids().index("2"))
    amend(load.contacts, "1", city="Elsewhere")
    second = load(sync=True)
    assert load.tables() == held_tables(load.world.emulator)
    loads = dict(load.query("select _dlt_load_id, count(*) from letters_data.contacts group by 1"))
    assert loads == {first.load_id: 58, second.load_id: 1}


@pytest.mark.parametrize("mode", ["replace", "sync", "history"])
def test_merges_and_verification_join_rows_above_work_mem(configured: str, begin: Begin, mode: str) -> None:
    """Rows are joined even above the server's work_mem; NOT IN would compare each row with all others."""
    load = Load(begin(Emulator(20_000, 8)), configured)
    flags: dict[str, Any] = {mode: True} if mode != "replace" else {}
    # a statement takes half a second, and 40 where it compares 20,000 rows with as many
    limits = {"work_mem": "64kB", "hash_mem_multiplier": 1, "statement_timeout": "20s"}
    change(configured, "; ".join(f"alter database postgres set {name} = '{value}'" for name, value in limits.items()))
    try:
        load(**flags)
        # autovacuum would do this at some point
        change(configured, "analyze")
        # changes the key of digests, so that no row is recognized
        result = load(**flags, known_fields=["another"])
    finally:
        change(configured, "; ".join(f"alter database postgres reset {name}" for name in limits))
    assert result.tables["contacts"] == 20_000
    assert load.query("select count(distinct id) from letters_data.contacts") == [(20_000,)]


def test_mailings_and_facets_are_loaded(load: Load) -> None:
    """Mailings and facets have tables with keys, and days that are requested again add no row twice."""
    since: dict[str, Any] = {"mailings": True, "mailings_since": date(2024, 1, 1), "mailings_window": 365}
    first = load(facets=True, **since)
    again = load(facets=True, mailings_lag=400, **since)
    assert first.tables["mailings"] > 0
    assert first.tables["contacts__address_statuses"] > 0
    assert {**again.tables, "listing_audit": 0} == {**first.tables, "listing_audit": 0}
    assert {"mailings", "contacts__address_statuses", "templates__shared"} < set(primary_keys(load))


def test_nights_of_planned_postponed_and_canceled_letters(load: Load) -> None:
    """After each of eight nights, mailings are what the service lists for every day that was read again."""
    gone = load_each_night(
        load.contacts,
        lambda: load(only=("mailings",), mailings=True),
        lambda: set(load.query("select contact_id, mailed_on from letters_data.mailings")),
        nights=8,
    )
    assert gone > 8


def test_what_was_dropped_is_made_again(load: Load) -> None:
    """A load makes a dropped table and a dropped column again."""
    load()
    change(load.url, "drop table letters_data.contacts; alter table letters_data.templates drop column title")
    load()
    assert load.tables() == held_tables(load.world.emulator)


def test_an_empty_account_has_every_table_and_fills_later(load: Load) -> None:
    """An empty account has every table, with rows in the audit alone, and the tables fill later."""
    clear(load.contacts)
    clear(load.world.emulator.templates)
    assert dict(load().tables) == {**dict.fromkeys(COLUMNS, 0), "listing_audit": 2}
    load.contacts.grow()
    load.world.emulator.templates.grow()
    load()
    assert load.tables() == held_tables(load.world.emulator)


def test_a_user_s_own_pipeline_works(load: Load) -> None:
    """A pipeline that dlt made, with credentials from the script, loads all rows and keys."""
    pipeline = dlt.pipeline("mine", destination=dlt.destinations.postgres(load.url), dataset_name="mine")
    run(pipeline, **load.world.settings)
    assert load.query("select count(*) from mine.contacts") == [(60,)]
    assert primary_keys(load, "mine") == KEYS


def test_a_dataset_takes_one_load_at_a_time(load: Load) -> None:
    """A second load into a dataset is refused before the first request, and one into another dataset is not."""
    with postgres.lock(place_of(make_pipeline("postgres")), 0):
        with pytest.raises(
            DestinationInUse, match=r"^A load into the dataset letters_data is already running; load again when"
        ):
            load()
        assert load.world.emulator.hits == []
        load("letters_other", only=("templates",))
    load(only=("templates",))


def test_a_user_s_own_constraint_is_named(load: Load) -> None:
    """The error of a load that violates a user's own constraint names it, and not the value."""
    templates: Any = {"only": ("templates",)}
    load(**templates)
    change(load.url, "alter table letters_data.templates add constraint no_growth check (id::int < 9)")
    load.world.emulator.templates.grow()
    with pytest.raises(
        LoadFailed, match=r"^load: PostgreSQL: CheckViolation \(no_growth\), probably because of the constraint"
    ):
        load(**templates)


TRIGGER = """
    CREATE FUNCTION letters_data.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {} END $$;
    CREATE TRIGGER mine BEFORE INSERT ON letters_data.contacts FOR EACH ROW EXECUTE FUNCTION letters_data.stop();
"""
CONTACTS = "letters_data.contacts"
NOTES = "CREATE TABLE letters_data.notes (contact text CONSTRAINT mine REFERENCES letters_data.contacts)"


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (TRIGGER.format("RAISE EXCEPTION 'no';"), "load: PostgreSQL: no, probably because of the trigger mine"),
        (TRIGGER.format("RETURN NULL;"), "with 0 ids, probably because of the trigger mine"),
        (f"{NOTES}; INSERT INTO letters_data.notes VALUES ('1')", "(mine), probably because of the foreign key mine"),
        (
            f"ALTER TABLE {CONTACTS} ADD mine int NOT NULL DEFAULT 1; ALTER TABLE {CONTACTS} ALTER mine DROP DEFAULT",
            "load: PostgreSQL: NotNullViolation, probably because of the NOT NULL column mine",
        ),
        (
            "CREATE RULE mine AS ON INSERT TO letters_data.contacts DO INSTEAD NOTHING",
            "with 0 ids, probably because of the rule mine",
        ),
    ],
)
def test_what_stops_a_load_is_named(load: Load, statements: str, words: str) -> None:
    """The error of a load that triggers, keys or columns of someone else stop names them."""
    contacts: Any = {"only": ("contacts",)}
    load(**contacts)
    change(load.url, statements)
    with pytest.raises(LoadFailed) as caught:
        load(**contacts)
    advice = "drop it, or make a foreign key DEFERRABLE INITIALLY DEFERRED, and load again."
    assert str(caught.value).endswith(f"{words} on letters_data.contacts; {advice}")


@pytest.mark.parametrize("mode", ["sync", "history"])
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (
            "DROP TABLE letters_data.contacts__contact_labels",
            "lacks contacts__contact_labels, which earlier loads made",
        ),
        (f"ALTER TABLE {CONTACTS} DROP phone_no", "lacks contacts.phone_no, which earlier loads made"),
        (f"ALTER TABLE {CONTACTS} ALTER id TYPE bigint USING id::bigint", "has contacts.id as bigint, not text"),
        (f"ALTER TABLE {CONTACTS} ALTER city TYPE int USING null", "has contacts.city as bigint, not text"),
    ],
)
def test_what_was_dropped_or_has_another_type_is_named(load: Load, mode: str, statement: str, words: str) -> None:
    """The error of a load that keeps rows names the table or column that someone dropped, or whose type changed."""
    contacts: Any = {"only": ("contacts",), mode: True}
    load(**contacts)
    change(load.url, statement)
    load.contacts.grow(2)
    advice = "restore all its tables from one copy" if "lacks" in words else "change the type back"
    with pytest.raises(
        DestinationError, match=f"the dataset letters_data {words}; {advice}, or choose another dataset.$"
    ):
        load(**contacts)


def test_what_stops_no_load_stays(load: Load) -> None:
    """A unique index, a view, a materialized view and a generated column of someone else stop no load, and stay."""
    contacts: Any = {"only": ("contacts",)}
    load(**contacts)
    change(
        load.url,
        "create unique index mine on letters_data.contacts (id); create view letters_data.cities as select city from "
        "letters_data.contacts; create materialized view letters_data.ids as select id from letters_data.contacts; "
        "alter table letters_data.contacts add mine text generated always as (upper(id)) stored",
    )
    load.contacts.insert({"id": "new"})
    load(**contacts)
    assert load.query("select count(*) from letters_data.cities") == [(61,)]
    assert load.query("select mine from letters_data.contacts where id = 'new'") == [("NEW",)]
    assert load.query("select count(*) from letters_data.ids") == [(60,)]


@pytest.mark.parametrize("action", ["cascade", "set null"])
def test_rows_of_others_are_not_deleted_or_changed_with_ours(load: Load, action: str) -> None:
    """A foreign key that would delete or change others' rows is refused at once, and a deferred one is not."""
    contacts: Any = {"only": ("contacts",)}
    load(**contacts)
    change(
        load.url,
        "create schema mine; create table mine.notes (contact text constraint about references letters_data.contacts "
        f"on delete {action}); insert into mine.notes values ('1')",
    )
    asked = len(load.world.emulator.hits)
    with pytest.raises(SettingsError, match=r"rows through the foreign key about of mine\.notes: make it ON"):
        load(**contacts)
    assert len(load.world.emulator.hits) == asked
    change(
        load.url,
        "alter table mine.notes drop constraint about, add foreign key (contact) references letters_data.contacts "
        "deferrable initially deferred",
    )
    load(**contacts)
    assert load.query("select contact from mine.notes") == [("1",)]


def test_three_connections_are_enough(configured: str, clerk: str, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with three connections can load everything."""
    for name in ("letters_data", "letters_data_staging"):
        change(configured, f"create schema {name} authorization clerk")
    change(configured, "alter role clerk connection limit 3")
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", clerk)
    for _ in range(2):
        load(facets=True)
    assert load.tables() == held_tables(load.world.emulator)


def test_values_that_a_database_cannot_hold_are_kept(load: Load) -> None:
    """Years beyond 1 to 9999 and numbers of too many decimals are kept in `undocumented`."""
    load.contacts.insert({"id": "odd", "createdAt": "0000-01-01T00:00:00Z", "x": orjson.Fragment("1e-20000")})
    load(only=("contacts",))
    kept = load.query("select created_at, undocumented from letters_data.contacts where id = 'odd'")
    assert kept == [(None, {"createdAt": "0000-01-01T00:00:00Z", "x": "1e-20000"})]


def test_accounts_have_a_dataset_each(load: Load) -> None:
    """Each account is loaded into its own dataset."""
    pipelines = account_pipelines("postgres", None, "post", ["a", "b"])
    run_accounts(pipelines, only=("templates",), **load.world.settings)
    schemas = load.query("select nspname from pg_namespace where nspname ~ '^post_.$' order by 1")
    assert schemas == [("post_a",), ("post_b",)]


# the command, and what stops it


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world that the command's environment names."""
    world = begin(Emulator(9, 3))
    world.configure(monkeypatch)
    return world


def test_the_command_loads_and_shows_no_password(configured: str, world: World, letters: Letters) -> None:
    """The command prints the server and dataset that it loaded into, without the password."""
    done = letters("load", "--destination", "postgres", "--dataset", "post")
    assert done.code == 0, done.err
    assert configured.replace(PASSWORD, "***") + ", dataset post" in done.out
    assert PASSWORD not in done.out + done.err
    assert query(configured, "select count(*) from post.contacts") == [(9,)]


@pytest.mark.parametrize("wrong", ["password", "port", "database"])
def test_a_server_that_cannot_be_used_is_one_line_that_names_the_setting(
    server: str, world: World, letters: Letters, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    """Wrong credentials end the command with one line that names the setting, before any request to the service."""
    start, _, rest = server.partition("@127.0.0.1:")
    port = rest.partition("/")[0]
    urls = {
        "password": server.replace(PASSWORD, "guess-77"),
        "port": f"{start}@127.0.0.1:{free_port()}/postgres",
        "database": f"{start}@127.0.0.1:{port}/nowhere",
    }
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", urls[wrong])
    done = letters("load", "--destination", "postgres")
    # only a server that does not answer is worth a retry
    assert (done.code, done.out) == (7 if wrong == "port" else 2, "")
    assert done.err.startswith("letters: postgresql://letters:***@127.0.0.1:")
    assert done.err.endswith("; set DESTINATION__POSTGRES__CREDENTIALS.\n")
    assert done.err.count("\n") == 1
    assert not {PASSWORD, "guess-77"} & set(done.err.split())
    assert world.emulator.hits == []


@pytest.fixture
def clerk(configured: str) -> Iterator[str]:
    """The URL of a user without the right to create anything."""
    change(configured, f"create role clerk login password '{PASSWORD}'")
    yield configured.replace("//letters:", "//clerk:")
    change(configured, "drop owned by clerk; drop role clerk")


def test_a_database_that_cannot_be_written_is_one_line(
    configured: str, clerk: str, world: World, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only database or missing rights end the command with one line, before any request to the service."""
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", f"{clerk}?options=-cdefault_transaction_read_only%3Don")
    done = letters("load", "--destination", "postgres")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "is read-only; set DESTINATION__POSTGRES__CREDENTIALS to a writable server." in done.err
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", clerk)
    done = letters("load", "--destination", "postgres")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert (
        ": the user can neither use nor create letters_data and letters_data_staging: create these schemas" in done.err
    )
    change(configured, "create schema letters_data authorization clerk; create schema letters_data_staging")
    done = letters("load", "--destination", "postgres")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert ": the user can neither use nor create letters_data_staging" in done.err
    assert world.emulator.hits == []


def test_schemas_that_were_made_for_a_user_are_enough(
    configured: str, clerk: str, world: World, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user who may create nothing can load into schemas that were created for the user."""
    for name in ("letters_data", "letters_data_staging"):
        change(configured, f"create schema {name} authorization clerk")
    monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", clerk)
    for _ in range(2):
        done = letters("load", "--destination", "postgres")
        assert done.code == 0, done.err
    assert query(clerk, "select count(*) from letters_data.contacts") == [(9,)]


def test_missing_credentials_are_named(world: World, letters: Letters) -> None:
    """Without credentials, or with `--to`, the command ends with one line that names the variable to set."""
    assert letters("load", "--destination", "postgres") == Outcome(
        2, "", "letters: The destination postgres is not configured: set DESTINATION__POSTGRES__CREDENTIALS.\n"
    )
    assert letters("load", "--destination", "postgres", "--to", "somewhere") == Outcome(
        2,
        "",
        "letters: option --to does not apply to postgres: "
        "set DESTINATION__POSTGRES__CREDENTIALS to postgresql://host/database.\n",
    )
    assert world.emulator.hits == []


def test_a_missing_extra_is_one_line(configured: str, world: World) -> None:
    """Without the driver, the command ends with one line that says what to install."""
    code = "import sys; sys.modules['psycopg2'] = None; from letters_source.cli.process import main; main()"
    done = run_command("load", "--destination", "postgres", code=code)
    assert done == Outcome(2, "", f"letters: postgres is not installed: {how_to_add_extra('postgres')}\n")
