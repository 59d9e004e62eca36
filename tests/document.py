"""The files and the blocks of documents that are generated from the code; run it as a script to write them."""

import re
from collections.abc import Mapping
from dataclasses import MISSING
from pathlib import Path

from letters_source.cli.dictionary import render, to_mermaid
from letters_source.cli.main import cli
from letters_source.config.messages import config_toml, secrets_toml, toml_of
from letters_source.config.settings import FILTERS, SETTINGS, Key
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


def settings_table() -> str:
    """The reference of settings, in Markdown."""
    rows = (f"| `{key.name}` | {default_of(key)} | {key.about.description} |" for key in SETTINGS.values())
    return "\n".join(("| key of `[sources.letters]` | default | meaning |", "|---|---|---|", *rows))


def filters_table(listing: str, options: Mapping[str, str]) -> str:
    """The reference of a listing's filters, in Markdown, with their options of the command."""
    rows = (
        f"| {options.get(key.name, '')} | `{key.name}` | {key.about.description} |" for key in FILTERS[listing].values()
    )
    return "\n".join((f"| option | key | {listing} |", "|---|---|---|", *rows))


def default_of(key: Key) -> str:
    """A setting's default in the reference."""
    if key.default is MISSING:
        return "required"
    return "none" if key.default is None else f"`{toml_of(key.default)}`"


def contact_filters() -> str:
    """The reference of the filters of contacts."""
    return filters_table("contacts", options())


def template_filters() -> str:
    """The reference of the filters of templates, whose `search` is no option."""
    return filters_table("templates", {name: option for name, option in options().items() if name != "search"})


def options() -> dict[str, str]:
    """The options of `letters load`, by setting or filter."""
    named = ((option.name, (*option.opts, *option.secondary_opts)) for option in cli.commands["load"].params)
    return {str(name): ", ".join(f"`{opt}`" for opt in opts) for name, opts in named if name != "account_id"}


FILES = {".dlt/config.toml": config_toml, ".dlt/example.secrets.toml": secrets_toml}
BLOCKS = {
    ("README.md", "settings"): settings_table,
    ("README.md", "contact filters"): contact_filters,
    ("README.md", "template filters"): template_filters,
    ("README.md", "tables"): table_list,
    ("README.md", "diagram"): diagram,
    ("letters_source/README.md", "dictionary"): dictionary,
}


def block_pattern(marker: str) -> re.Pattern[str]:
    """Matches what lies between a block's markers."""
    return re.compile(f"(?<=<!-- {marker} -->\n).*?(?=<!-- /{marker} -->)", re.DOTALL)


def main() -> None:
    """Write every file and block."""
    for name, write in FILES.items():
        (ROOT / name).write_text(write())
    for (name, marker), write in BLOCKS.items():
        path = ROOT / name
        old = block_pattern(marker).search(path.read_text())
        assert old, f"{name} has no block {marker}"
        path.write_text(f"{old.string[: old.start()]}{write()}\n{old.string[old.end() :]}")


if __name__ == "__main__":
    main()
