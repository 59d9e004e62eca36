"""The blocks of the documents that are written from the code; as a script, it writes them anew."""

import re
from pathlib import Path

from letters_source.cli.dictionary import render, to_mermaid
from letters_source.tables import TABLES, Column

ROOT = Path(__file__).parents[1]


def table_list() -> str:
    """README's list: a line for each table, keys with a star, types where they are not text."""
    return "\n".join(f"- `{table.name}`: {', '.join(map(in_short, table.columns))}" for table in TABLES)


def in_short(column: Column) -> str:
    """A column in a list."""
    star = "*" if column.key else ""
    return f"{column.name}{star}" if column.kind == "text" else f"{column.name}{star} {column.kind}"


def diagram() -> str:
    """README's diagram: without meanings, which the data dictionary has."""
    return f"```mermaid\n{to_mermaid(TABLES, described=False)}\n```"


def dictionary() -> str:
    """The data dictionary: a table of columns for each table."""
    return render("markdown")


BLOCKS = {
    ("README.md", "tables"): table_list,
    ("README.md", "diagram"): diagram,
    ("letters_source/README.md", "dictionary"): dictionary,
}


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
