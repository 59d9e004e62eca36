"""Writes the files and blocks that come from the code or from the benchmarks: `python tests/document.py`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING
from pathlib import Path

from destination_table import destinations_table
from letters_source import errors
from letters_source.cli.dictionary import render, to_mermaid
from letters_source.cli.main import cli
from letters_source.config.settings import FILTERS, SETTINGS, Key
from letters_source.config.settings_files import config_toml, secrets_toml, toml_of
from letters_source.errors import LettersError
from letters_source.tables import TABLES, Column

ROOT = Path(__file__).parents[1]
DOCS = "letters_source/docs"
BENCHMARKS = ROOT / "tests" / "benchmarks" / "README.md"

OTHER_CODES = (
    (0, "", "", "The load was verified.", ""),
    (1, "", "", "An unexpected error.", ""),
    (2, "", "", "The command line is wrong.", ""),
    (130, "", "", "The command was interrupted.", ""),
)


def overview() -> str:
    """Return the table of tables, each with its description."""
    rows = (f"| `{table.name}` | {table.description} |" for table in TABLES)
    return "\n".join(["| table | contents |", "|---|---|", *rows])


def table_list() -> str:
    """Return a line for each table: keys have a star, columns that are not text their type."""
    return "\n".join(f"- `{table.name}`: {', '.join(map(in_short, table.columns))}" for table in TABLES)


def in_short(column: Column) -> str:
    """Return a column as the list of tables shows it."""
    star = "*" if column.key else ""
    return f"{column.name}{star}" if column.kind == "text" else f"{column.name}{star} {column.kind}"


def diagram() -> str:
    """Return the diagram of tables, without the meanings, which are in the data dictionary."""
    return f"```mermaid\n{to_mermaid(TABLES, described=False)}\n```"


def dictionary() -> str:
    """Return the data dictionary: a table of columns for each table."""
    return render("markdown")


def dbt_sources() -> str:
    """Return the sources of the dbt project."""
    return render("dbt") + "\n"


def exit_codes() -> str:
    """Return the table of exit codes and errors."""
    rows = sorted((*OTHER_CODES, *map(error_cells, subclasses(LettersError))), key=lambda row: row[0])
    head = "| code | error | kind of | what happened | retry later |"
    return "\n".join([head, "|---" * 5 + "|", *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def subclasses(error: type[LettersError]) -> Iterator[type[LettersError]]:
    """Yield the subclasses of an error, each before its own subclasses."""
    for child in error.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from subclasses(child)


def error_cells(error: type[LettersError]) -> tuple[int, str, str, str, str]:
    """Return the row of an error in the table of exit codes."""
    meaning = str(error.__doc__).partition("\n")[0]
    return error.exit_code, f"`{error.__name__}`", f"`{error.__bases__[0].__name__}`", meaning, "yes" * error.may_pass


def speed() -> str:
    """Return the sentence about speed, with the figures of the benchmarks."""
    small, large = measured("main"), measured("million")
    ours, rest_api, million = small["ours"], small["rest_api"], large["ours"]
    return (
        f"100,000 contacts load in {ours[0]} s on two cores, {float(rest_api[3]):.0f} times as fast as with dlt's "
        f"`rest_api` source.\nA million load in {million[0]} s, with at most {million[5]} MB of memory."
    )


def measured(section: str) -> dict[str, list[str]]:
    """Return the rows of a section of the benchmarks, by the load that they are about."""
    text = BENCHMARKS.read_text().split(f"<!-- {section} -->\n")[1].split("<!-- ")[0]
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {name: cells for name, *cells in rows}


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


FILES = {
    ".dlt/config.toml": config_toml,
    ".dlt/example.secrets.toml": secrets_toml,
    "pipelines/dbt/models/staging/letters.yml": dbt_sources,
}
BLOCKS = {
    ("README.md", "overview"): overview,
    ("README.md", "speed"): speed,
    (f"{DOCS}/tables.md", "tables"): table_list,
    (f"{DOCS}/tables.md", "diagram"): diagram,
    (f"{DOCS}/dictionary.md", "dictionary"): dictionary,
    (f"{DOCS}/destinations.md", "destinations"): destinations_table,
    (f"{DOCS}/errors.md", "errors"): exit_codes,
    (f"{DOCS}/settings.md", "settings"): settings_table,
    (f"{DOCS}/filters.md", "contacts"): contact_filters,
    (f"{DOCS}/filters.md", "templates"): template_filters,
}


def block_pattern(marker: str) -> re.Pattern[str]:
    """Return the pattern of what is between a block's markers."""
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
