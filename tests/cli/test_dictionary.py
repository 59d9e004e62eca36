"""The data dictionary in each of its formats."""

import json
import re
import subprocess
import sys
from importlib.metadata import version
from typing import get_args

import click
import pytest
from click.testing import CliRunner

from letters_source.cli.dictionary import DictionaryForm, render, to_mermaid
from letters_source.cli.main import cli
from letters_source.tables import LOAD_ID, TABLES, Column, Reference, Table, find_references

CAMPS = Table(
    "camps",
    "Camps, one row each.",
    (
        Column("id", "id", 'An "id".', key=True),
        Column("host", "hostName", "Whose it is.", personal=True),
        Column("size", "size", "Small | large.", "bigint", required=True),
    ),
    listing="camps",
)
CAMPS__TENTS = Table(
    "camps__tents",
    "Tents.",
    (
        Column("camp_id", "", "The camp, camps.id.", key=True),
        Column("position", "", r"A camp's place, a\b.", "bigint", key=True),
    ),
    listing="camps",
    origin="list",
    wire="tents",
)
NOTES = Table("notes", "What we noticed.", (Column("seen_at", "", "When.", "timestamp"),))
SMALL = (CAMPS, CAMPS__TENTS, NOTES)

TEXT = """\
camps: Camps, one row each.
  column        type    key  personal  meaning
  id            text    *              An "id".
  host          text         yes       Whose it is.
  size          bigint                 Small | large.
  _dlt_load_id  text                   The load that wrote the row, _dlt_loads.load_id.

camps__tents: Tents.
  column        type    key  personal  meaning
  camp_id       text    *              The camp, camps.id.
  position      bigint  *              A camp's place, a\\b.
  _dlt_load_id  text                   The load that wrote the row, _dlt_loads.load_id.

notes: What we noticed.
  column        type       key  personal  meaning
  seen_at       timestamp                 When.
  _dlt_load_id  text                      The load that wrote the row, _dlt_loads.load_id."""

MARKDOWN = """\
### camps

Camps, one row each.

| column | type | key | personal | meaning |
|---|---|---|---|---|
| `id` | text | * |  | An "id". |
| `host` | text |  | yes | Whose it is. |
| `size` | bigint |  |  | Small \\| large. |
| `_dlt_load_id` | text |  |  | The load that wrote the row, _dlt_loads.load_id. |

### notes

What we noticed.

| column | type | key | personal | meaning |
|---|---|---|---|---|
| `seen_at` | timestamp |  |  | When. |
| `_dlt_load_id` | text |  |  | The load that wrote the row, _dlt_loads.load_id. |"""

MERMAID = """\
erDiagram
  camps ||--o{ camps__tents : camp_id
  camps {
    text id PK "An 'id'."
    text host "Personal: Whose it is."
    bigint size "Small | large."
    text _dlt_load_id "The load that wrote the row, _dlt_loads.load_id."
  }
  camps__tents {
    text camp_id PK, FK "The camp, camps.id."
    bigint position PK "A camp's place, a\\b."
    text _dlt_load_id "The load that wrote the row, _dlt_loads.load_id."
  }
  notes {
    timestamp seen_at "When."
    text _dlt_load_id "The load that wrote the row, _dlt_loads.load_id."
  }"""

UNDESCRIBED = """\
erDiagram
  camps {
    text id PK
    text host "personal"
    bigint size
    text _dlt_load_id
  }"""

DBML = """\
Table camps {
  id text [pk, note: 'An "id".']
  host text [note: 'Personal: Whose it is.']
  size bigint [not null, note: 'Small | large.']
  _dlt_load_id text [not null, note: 'The load that wrote the row, _dlt_loads.load_id.']
  Note: 'Camps, one row each.'
}

Table camps__tents {
  camp_id text [not null, note: 'The camp, camps.id.']
  position bigint [not null, note: 'A camp\\'s place, a\\\\b.']
  _dlt_load_id text [not null, note: 'The load that wrote the row, _dlt_loads.load_id.']
  indexes {
    (camp_id, position) [pk]
  }
  Note: 'Tents.'
}

Table notes {
  seen_at timestamp [note: 'When.']
  _dlt_load_id text [not null, note: 'The load that wrote the row, _dlt_loads.load_id.']
  Note: 'What we noticed.'
}

Ref: camps.id < camps__tents.camp_id"""

IN_KEY = {"type": "text", "key": True, "nullable": False, "personal": False, "wire": ""}
IN_NO_KEY = {"type": "text", "key": False, "nullable": True, "personal": False, "wire": ""}
ID = {**IN_KEY, "name": "id", "description": 'An "id".', "wire": "id"}
HOST = {**IN_NO_KEY, "name": "host", "personal": True, "description": "Whose it is.", "wire": "hostName"}
SIZE = {
    **IN_NO_KEY,
    "name": "size",
    "type": "bigint",
    "nullable": False,
    "description": "Small | large.",
    "wire": "size",
}
CAMP_ID = {**IN_KEY, "name": "camp_id", "description": "The camp, camps.id."}
POSITION = {**IN_KEY, "name": "position", "type": "bigint", "description": r"A camp's place, a\b."}
LOADED = {**IN_NO_KEY, "name": "_dlt_load_id", "nullable": False, "description": LOAD_ID.description}

ATTRIBUTE = re.compile(r'    (\w+) (\w+)(?: (PK|FK|PK, FK))?(?: "([^"]+)")?')
FIELD = re.compile(r"  (\w+) (\w+) \[(pk, |not null, |)note: '((?:[^'\\]|\\.)+)'\]")

ALL = [(table.name, column.name) for table in TABLES for column in (*table.columns, LOAD_ID)]
PERSONAL = [(table.name, column.name) for table in TABLES for column in table.columns if column.personal]


def blocks(text: str, opening: str) -> dict[str, list[str]]:
    """The lines of each block between braces, under the name in its opening line."""
    found = re.findall(rf"^ *{opening}(\w+) {{\n(.*?)\n *}}$", text, re.MULTILINE | re.DOTALL)
    assert len(dict(found)) == len(found)
    return {name: lines.split("\n") for name, lines in found}


def fields(text: str, opening: str, pattern: re.Pattern[str]) -> list[tuple[str, ...]]:
    """The table of each line that is a column, and what the pattern finds in it."""
    lines = ((name, pattern.fullmatch(line)) for name, body in blocks(text, opening).items() for line in body)
    return [(name, *(group or "" for group in match.groups())) for name, match in lines if match]


@pytest.mark.parametrize(
    ("form", "tables", "expected"),
    [
        ("text", SMALL, TEXT),
        ("markdown", (CAMPS, NOTES), MARKDOWN),
        ("mermaid", SMALL, MERMAID),
        ("dbml", SMALL, DBML),
        ("dbml", (NOTES,), DBML.split("\n\n")[2]),
    ],
)
def test_a_form_is_exact(form: DictionaryForm, tables: tuple[Table, ...], expected: str) -> None:
    """Each format of small tables is exactly the expected text, with special characters escaped."""
    assert render(form, tables) == expected


def test_an_undescribed_diagram_marks_what_is_personal() -> None:
    """The diagram has no other comments."""
    assert to_mermaid((CAMPS,), described=False) == UNDESCRIBED


def test_json_says_everything() -> None:
    """The JSON has the version, every property of each column, and the references."""
    reference = {
        "child": "camps__tents",
        "column": "camp_id",
        "parent": "camps",
        "parent_column": "id",
        "single": False,
    }
    assert json.loads(render("json", (CAMPS, CAMPS__TENTS))) == {
        "version": version("letters-source"),
        "tables": [
            {"name": "camps", "description": "Camps, one row each.", "columns": [ID, HOST, SIZE, LOADED]},
            {"name": "camps__tents", "description": "Tents.", "columns": [CAMP_ID, POSITION, LOADED]},
        ],
        "references": [reference],
    }


def test_json_becomes_the_tables_again() -> None:
    """The JSON has the properties of every table, column and reference of the schema."""
    read = json.loads(render("json"))
    assert [
        (table["name"], table["description"], [tuple(column.values()) for column in table["columns"]])
        for table in read["tables"]
    ] == [
        (
            table.name,
            table.description,
            [(c.name, c.kind, c.key, c.nullable, c.personal, c.description, c.wire) for c in (*table.columns, LOAD_ID)],
        )
        for table in TABLES
    ]
    assert [Reference(**reference) for reference in read["references"]] == list(find_references(TABLES))


def test_every_child_names_its_parent() -> None:
    """Each child table refers to its parent, and a reference is single where the parent's key is the child's key."""
    assert {(r.child, r.column, r.parent, r.parent_column, r.single) for r in find_references(TABLES)} == {
        ("templates__creator", "template_id", "templates", "id", True),
        ("templates__product", "template_id", "templates", "id", True),
        ("templates__shared", "template_id", "templates", "id", True),
        ("contacts__contact_labels", "contact_id", "contacts", "id", False),
        ("contacts__address_statuses", "contact_id", "contacts", "id", False),
        ("contacts__last_mailed_statuses", "contact_id", "contacts", "id", False),
        ("contacts__return_addresses", "contact_id", "contacts", "id", True),
        ("mailings", "contact_id", "contacts", "id", False),
    }


def test_mermaid_has_every_table_column_and_reference_once() -> None:
    """The Mermaid diagram has each table, column and reference once, and marks personal columns."""
    text = render("mermaid")
    found = fields(text, "", ATTRIBUTE)
    assert [(table, column) for table, _, column, _, _ in found] == ALL
    assert [(table, column) for table, _, column, _, comment in found if comment.startswith("Personal: ")] == PERSONAL
    references = find_references(TABLES)
    foreign = [(table, column) for table, _, column, keys, _ in found if "FK" in keys]
    assert foreign == [(r.child, r.column) for r in references]
    relations = re.findall(r"^  (\w+) \|\|--(o\||o\{) (\w+) : (\w+)$", text, re.MULTILINE)
    assert relations == [(r.parent, "o|" if r.single else "o{", r.child, r.column) for r in references]
    assert len(text.splitlines()) == 1 + len(relations) + len(ALL) + 2 * len(TABLES)


def test_dbml_has_every_table_column_and_reference_once() -> None:
    """The DBML has each table, column and reference once, and each key at its column or as an index of several."""
    text = render("dbml")
    found = fields(text, "Table ", FIELD)
    assert [(table, column) for table, column, *_ in found] == ALL
    assert [(table, column) for table, column, *_, note in found if note.startswith("Personal: ")] == PERSONAL
    keys = {table: (column,) for table, column, _, constraint, _ in found if constraint == "pk, "}
    indexes = re.findall(r"^Table (\w+) {[^}]*?\n  indexes {\n    \((.+)\) \[pk\]\n  }$", text, re.MULTILINE)
    compound = {table: tuple(names.split(", ")) for table, names in indexes}
    assert keys | compound == {table.name: table.key for table in TABLES if table.key}
    assert set(keys) & set(compound) == set()
    assert re.findall(r"^Ref: (.+)$", text, re.MULTILINE) == [
        f"{r.parent}.{r.parent_column} {'-' if r.single else '<'} {r.child}.{r.column}" for r in find_references(TABLES)
    ]


@pytest.mark.parametrize(
    ("form", "heading", "line"),
    [
        ("text", r"(\w+): .+", r"  (\w+) +\w+ +\*? +(yes)?.*"),
        ("markdown", r"### (\w+)", r"\| `(\w+)` \| \w+ \| \*? \| (yes)? \| .+"),
    ],
)
def test_lists_have_every_column_and_mark_what_is_personal(form: DictionaryForm, heading: str, line: str) -> None:
    """The text and the Markdown list every column below its table, in order, and mark personal ones."""
    name, found = "", []
    for text in render(form).splitlines():
        if title := re.fullmatch(heading, text):
            name = title[1]
        elif (column := re.fullmatch(line, text)) and column[1] != "column":
            found.append((name, column[1], column[2] == "yes"))
    assert found == [(*place, place in PERSONAL) for place in ALL]


@pytest.mark.parametrize("form", get_args(DictionaryForm))
def test_a_form_ends_without_a_newline(form: DictionaryForm) -> None:
    """No rendered dictionary begins or ends with white space, and none of its lines ends with spaces."""
    text = render(form)
    assert [line for line in text.split("\n") if line != line.rstrip()] == []
    assert text == text.strip()


@pytest.mark.parametrize("form", get_args(DictionaryForm))
def test_the_command_prints_a_form(form: DictionaryForm) -> None:
    """`letters schema --format` prints the rendered dictionary unchanged, with a newline at the end."""
    result = CliRunner().invoke(cli, ["schema", "--format", form])
    assert (result.exit_code, result.output) == (0, render(form) + "\n")


def test_the_command_knows_every_form_and_prints_text_by_default() -> None:
    """`letters schema` offers every format and the schema of results, and prints text by default."""
    [option] = [param for param in cli.commands["schema"].params if "--format" in param.opts]
    assert isinstance(option.type, click.Choice)
    assert (tuple(option.type.choices), option.default) == ((*get_args(DictionaryForm), "result"), "text")
    assert CliRunner().invoke(cli, ["schema"]).output == render("text") + "\n"


def test_the_dictionary_needs_neither_dlt_nor_requests() -> None:
    """Importing the dictionary imports neither dlt, requests, DuckDB nor rich."""
    heavy = {"dlt", "requests", "duckdb", "rich"}
    code = f"import sys, letters_source.cli.dictionary; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "[]\n"
