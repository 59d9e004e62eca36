"""The blocks of the documents that are written from the code; as a script, it writes them anew."""

import re
from pathlib import Path

from letters_source.tables import LOAD_ID, TABLES, Column, Table

ROOT = Path(__file__).parents[1]


def table_list() -> str:
    """README's list: a line for each table, keys with a star, types where they are not text."""
    return "\n".join(f"- `{table.name}`: {', '.join(map(in_short, table.columns))}" for table in TABLES)


def in_short(column: Column) -> str:
    """A column in a list."""
    star = "*" if column.key else ""
    return f"{column.name}{star}" if column.kind == "text" else f"{column.name}{star} {column.kind}"


def dictionary() -> str:
    """The data dictionary: a table of columns for each table."""
    return "\n\n".join(map(section, TABLES))


def section(table: Table) -> str:
    """One table of the dictionary."""
    lines = [
        f"### {table.name}",
        "",
        table.description,
        "",
        "| column | type | key | meaning |",
        "|---|---|---|---|",
        *(
            f"| `{column.name}` | {column.kind} | {'*' if column.key else ''} | {column.description} |"
            for column in (*table.columns, LOAD_ID)
        ),
    ]
    return "\n".join(lines)


BLOCKS = {("README.md", "tables"): table_list, ("letters_source/README.md", "dictionary"): dictionary}


def block_pattern(marker: str) -> re.Pattern[str]:
    """Matches what lies between a block's markers."""
    return re.compile(f"(?<=<!-- {marker} -->\n).*?(?=<!-- /{marker} -->)", re.DOTALL)


def main() -> None:
    """Write every block."""
    for (name, marker), write in BLOCKS.items():
        path = ROOT / name
        old = block_pattern(marker).search(path.read_text())
        assert old, f"{name} has no block {marker}"
        path.write_text(f"{old.string[: old.start()]}{write()}\n{old.string[old.end() :]}")


if __name__ == "__main__":
    main()
