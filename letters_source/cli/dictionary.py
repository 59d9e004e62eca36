"""Renders the data dictionary as text, Markdown, JSON, Mermaid, DBML or sources of dbt."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Any, Literal

from letters_source.cli.dbt import to_dbt
from letters_source.tables import TABLES, Column, Reference, Table, find_references

DictionaryForm = Literal["text", "markdown", "json", "mermaid", "dbml", "dbt"]
Tables = Sequence[Table]

HEADINGS = ("column", "type", "key", "personal", "meaning")


def render(form: DictionaryForm, tables: Tables = TABLES) -> str:
    """Render the dictionary of the tables, without a trailing newline."""
    return WRITERS[form](tables)


def cells(column: Column) -> tuple[str, ...]:
    """Return the cells of a column's row."""
    key, personal = "*" if column.key else "", "yes" if column.personal else ""
    return column.name, column.kind, key, personal, column.description


def note(column: Column) -> str:
    """Return a column's meaning, marked if it is personal data."""
    return f"Personal: {column.description}" if column.personal else column.description


def text_section(table: Table) -> str:
    """Return one table as plain text, with an aligned line for each column."""
    rows = [HEADINGS, *map(cells, table.loaded)]
    widths = [max(map(len, texts)) for texts in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join([f"{table.name}: {table.description}", *(f"  {line}" for line in lines)])


def markdown_section(table: Table) -> str:
    """Return one table as a section of a document, with a row for each column."""
    rows = [HEADINGS, *map(markdown_cells, table.loaded)]
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([f"### {table.name}", "", table.description, "", head, "|---" * len(HEADINGS) + "|", *body])


def markdown_cells(column: Column) -> tuple[str, ...]:
    """Return the cells of a column, its name as code, and pipes escaped."""
    name, *others = (cell.replace("|", r"\|") for cell in cells(column))
    return f"`{name}`", *others


def to_json(tables: Tables) -> str:
    """Return the tables as JSON, with the version of the package."""
    document = {
        "version": version("letters-source"),
        "tables": [
            {"name": table.name, "description": table.description, "columns": list(map(json_column, table.loaded))}
            for table in tables
        ],
        "references": list(map(asdict, find_references(tables))),
    }
    return json.dumps(document, indent=2)


def json_column(column: Column) -> dict[str, Any]:
    """Return one column as a JSON object."""
    return {
        "name": column.name,
        "type": column.kind,
        "key": column.key,
        "nullable": column.nullable,
        "personal": column.personal,
        "description": column.description,
        "wire": column.wire,
    }


def to_mermaid(tables: Tables, *, described: bool = True) -> str:
    """Return the tables as an entity relationship diagram without descriptions; comments mark personal columns."""
    references = find_references(tables)
    foreign = {(reference.child, reference.column) for reference in references}
    lines = ["erDiagram", *map(mermaid_relation, references)]
    for table in tables:
        attributes = (
            mermaid_attribute(column, foreign=(table.name, column.name) in foreign, described=described)
            for column in table.loaded
        )
        lines += [f"  {table.name} {{", *attributes, "  }"]
    return "\n".join(lines)


def mermaid_relation(reference: Reference) -> str:
    """Return one foreign key: a parent has zero or one, or zero or more, such rows."""
    many = "o|" if reference.single else "o{"
    return f"  {reference.parent} ||--{many} {reference.child} : {reference.column}"


def mermaid_attribute(column: Column, *, foreign: bool, described: bool) -> str:
    """Return one column; its comment is in double quotes, which cannot be escaped."""
    keys = ", ".join(mark for mark, holds in (("PK", column.key), ("FK", foreign)) if holds)
    comment = note(column).replace('"', "'") if described else "personal" if column.personal else ""
    quoted = f'"{comment}"' if comment else ""
    return "    " + " ".join(filter(None, (column.kind, column.name, keys, quoted)))


def to_dbml(tables: Tables) -> str:
    """Return the tables as DBML, for dbdiagram.io and similar tools."""
    references = "\n".join(map(dbml_reference, find_references(tables)))
    return "\n\n".join(filter(None, [*map(dbml_table, tables), references]))


def dbml_table(table: Table) -> str:
    """Return one table; a composite key is an index."""
    compound = f"  indexes {{\n    ({', '.join(table.key)}) [pk]\n  }}\n" if len(table.key) > 1 else ""
    columns = "".join(dbml_column(column, alone=len(table.key) == 1) for column in table.loaded)
    return f"Table {table.name} {{\n{columns}{compound}  Note: {dbml_text(table.description)}\n}}"


def dbml_column(column: Column, *, alone: bool) -> str:
    """Return one column; `alone` says that the key is a single column."""
    constraint = "pk, " if column.key and alone else "" if column.nullable else "not null, "
    return f"  {column.name} {column.kind} [{constraint}note: {dbml_text(note(column))}]\n"


def dbml_text(text: str) -> str:
    """Return text in single quotes."""
    escaped = text.replace("\\", r"\\").replace("'", r"\'")
    return f"'{escaped}'"


def dbml_reference(reference: Reference) -> str:
    """Return one foreign key: a parent has one such row, or many."""
    has = "-" if reference.single else "<"
    return f"Ref: {reference.parent}.{reference.parent_column} {has} {reference.child}.{reference.column}"


WRITERS: Mapping[DictionaryForm, Callable[[Tables], str]] = {
    "text": lambda tables: "\n\n".join(map(text_section, tables)),
    "markdown": lambda tables: "\n\n".join(map(markdown_section, tables)),
    "json": to_json,
    "mermaid": to_mermaid,
    "dbml": to_dbml,
    "dbt": to_dbt,
}
