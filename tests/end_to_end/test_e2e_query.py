"""`letters query` prints what is loaded."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from terminals import Letters, Outcome
from worlds import Begin, first_load

from letters_source.config.settings import Kind
from programmable_emulator import Emulator

STATES = "SELECT state, count(*) AS contacts FROM contacts GROUP BY state ORDER BY contacts DESC, state"


@pytest.fixture
def emulator(project: Path) -> Emulator:
    """45 contacts and 7 templates, loaded into letters.duckdb."""
    [content] = first_load("duckdb", 45, 7).values()
    (project / "letters.duckdb").write_bytes(content)
    return Emulator(45, 7)


@pytest.fixture
def states(emulator: Emulator) -> list[tuple[str, int]]:
    """The number of contacts in each state, from the emulator's rows."""
    found = [row.document["state"] for row in emulator.contacts.rows()]
    return sorted({(state, found.count(state)) for state in found}, key=lambda item: (-item[1], item[0]))


def test_csv_has_a_header_and_all_rows(letters: Letters, states: list[tuple[str, int]]) -> None:
    """CSV output has a header and the rows of the query."""
    done = letters("query", STATES, "--format", "csv")
    assert (done.code, done.err) == (0, "")
    assert list(csv.reader(io.StringIO(done.out))) == [
        ["state", "contacts"],
        *([state, str(count)] for state, count in states),
    ]


def test_json_is_an_array_with_an_object_per_row(letters: Letters, states: list[tuple[str, int]]) -> None:
    """JSON output is an array with an object for each row, in which numbers are numbers."""
    done = letters("query", STATES, "--format", "json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out) == [{"state": state, "contacts": count} for state, count in states]


@pytest.mark.usefixtures("emulator")
def test_a_column_may_have_any_name(letters: Letters) -> None:
    """A column keeps its name in JSON, whatever it is."""
    assert letters("query", "SELECT count(*) AS rows FROM contacts", "--format", "json").out == '[\n{"rows":45}\n]\n'


@pytest.mark.usefixtures("emulator")
def test_json_has_null_for_what_is_no_number(letters: Letters) -> None:
    """JSON has neither NaN nor infinity; texts that are spelled so stay."""
    query = "SELECT 'nan'::DOUBLE AS a, ['-inf'::FLOAT, 1.5] AS b, 'NaN, Infinity' AS c, 0.1::DECIMAL(38, 20) AS d"
    done = letters("query", query, "--format", "json")
    assert done == Outcome(0, '[\n{"a":null,"b":[null,1.5],"c":"NaN, Infinity","d":0.1}\n]\n', "")


@pytest.mark.usefixtures("emulator")
def test_no_rows_are_an_empty_array_and_a_header_alone(letters: Letters) -> None:
    """A query without rows prints an empty array in JSON, and a header alone in CSV."""
    query = "SELECT id FROM contacts WHERE false"
    assert letters("query", query, "--format", "json") == Outcome(0, "[]\n", "")
    assert letters("query", query, "--format", "csv") == Outcome(0, "id\n", "")


@pytest.mark.usefixtures("emulator")
def test_a_table_is_drawn_by_duckdb(letters: Letters) -> None:
    """Without a format, DuckDB draws a table with names, types and rows, and with times in UTC."""
    done = letters("query", "SELECT TIMESTAMPTZ '2024-01-31 12:00:00+01' AS moment, NULL::INTEGER AS nothing")
    # releases of DuckDB differ in lines and corners
    cells = [re.findall(r"[\w:+ -]*\w", line) for line in done.out.splitlines()]
    assert [[cell.strip() for cell in line] for line in cells if line] == [
        ["moment", "nothing"],
        ["timestamp with time zone", "int32"],
        ["2024-01-31 11:00:00+00", "NULL"],
    ]
    assert (done.code, done.err) == (0, "")


@pytest.mark.usefixtures("emulator")
def test_a_table_may_be_named_with_its_dataset(letters: Letters) -> None:
    """A query that names the dataset, as in a connection to the file itself, returns the same rows."""
    named = letters("query", "SELECT count(*) AS contacts FROM letters_data.contacts", "--format", "csv")
    assert named == letters("query", "SELECT count(*) AS contacts FROM contacts", "--format", "csv")
    assert named.code == 0


@pytest.mark.usefixtures("emulator")
def test_loaded_tables_cannot_be_changed(letters: Letters) -> None:
    """A statement that would change loaded tables exits with code 2 and says that they are read-only."""
    words = "letters: the query failed: loaded tables are read-only, so {} is refused.\n"
    for statement in (
        "DELETE FROM contacts",
        "DELETE FROM stored.letters_data.contacts",
        "DROP TABLE contacts",
        "DROP VIEW contacts",
        "ALTER TABLE contacts ADD COLUMN vip BOOLEAN",
        "SELECT 1; UPDATE contacts SET state = ''",
        "INSERT INTO contacts (id) VALUES ('1')",
        "CREATE TABLE mine AS FROM contacts",
    ):
        word = statement.removeprefix("SELECT 1; ").partition(" ")[0]
        assert letters("query", statement) == Outcome(2, "", words.format(word))


NEVER_MAILED = "SELECT count(*) FROM contacts WHERE NOT EXISTS (FROM mailings WHERE contact_id = contacts.id)"
NOT_LOADED = {
    NEVER_MAILED: ("mailings", "--mailings --mailings-since DAY"),
    "FROM letters_data.contacts__address_statuses": ("contacts__address_statuses", "--facets"),
    "FROM Templates__Shared": ("templates__shared", "--facets"),
}


@pytest.mark.parametrize("query", NOT_LOADED)
@pytest.mark.usefixtures("emulator")
def test_a_table_that_was_not_loaded_is_named_with_its_option(letters: Letters, query: str) -> None:
    """A query about a table that was not loaded has no answer; the error names the option that loads it."""
    table, option = NOT_LOADED[query]
    words = f"letters: the query failed: {table} was not loaded; `letters load {option}` loads it.\n"
    assert letters("query", query) == Outcome(2, "", words)


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_a_listing_that_was_not_loaded_is_named(letters: Letters, begin: Begin, kind: Kind) -> None:
    """The tables of a listing that `--only` left out do not exist; those of the other are there, even if empty."""
    world = begin(Emulator(0, 3), kind)
    world.load(only=("contacts",))
    place = ("--from", str(world.place))
    words = "letters: the query failed: {} was not loaded; `letters load --only templates` loads it.\n"
    for table in ("templates", "templates__product"):
        assert letters("query", f"FROM {table}", *place) == Outcome(2, "", words.format(table))
    for table in ("contacts", "contacts__contact_labels", "rejected_rows"):
        assert letters("query", f"FROM {table}", *place).code == 0


@pytest.mark.usefixtures("emulator")
def test_an_unknown_name_is_reported_with_a_similar_one(letters: Letters) -> None:
    """A misspelled table or column exits with code 2 and one line that suggests the right name."""
    words = 'letters: the query failed: Table with name contact does not exist! Did you mean "contacts"?\n'
    assert letters("query", "FROM contact") == Outcome(2, "", words)
    words = 'letters: the query failed: Referenced column "stat" not found in FROM clause! Candidate bindings: "state'
    done = letters("query", "SELECT stat FROM contacts")
    assert (done.code, done.err[: len(words)], done.err.count("\n")) == (2, words, 1)


@pytest.mark.usefixtures("project")
def test_a_file_that_is_not_there_is_named(letters: Letters) -> None:
    """A missing file is named, together with the option for another one."""
    place = Path("letters.duckdb").absolute()
    words = f"letters: {place} does not exist; load first, or name another --from.\n"
    assert letters("query", "FROM contacts") == Outcome(2, "", words)


@pytest.mark.usefixtures("project")
def test_an_empty_query_is_an_error(letters: Letters) -> None:
    """An empty query, as from an unset variable of a script, exits with code 2."""
    done = letters("query", " ")
    assert (done.code, done.out) == (2, "")
