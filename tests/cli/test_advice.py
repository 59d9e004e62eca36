"""Advice names what the command has an option for, so that the option's name can take its place."""

import ast
import re
from collections.abc import Iterator
from string import Template

from document import ROOT
from letters_source.cli.main import cli
from letters_source.config.settings import SETTINGS
from letters_source.errors import ARGUMENTS

PACKAGE = ROOT / "letters_source"
OPTIONS = {str(param.name) for command in cli.commands.values() for param in command.params}


def texts() -> Iterator[tuple[str, str]]:
    """Yield each text of the package but docstrings, with its file."""
    for file in PACKAGE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                yield str(file.relative_to(PACKAGE)), node.value


def test_advice_names_settings_and_arguments() -> None:
    """Each name after a dollar sign is that of a setting or an argument."""
    named = {(file, name) for file, text in texts() for name in Template(text).get_identifiers()}
    assert {name for _, name in named} >= {"dataset", "to", "max_shrink", "lock_wait"}
    # keywords of JSON Schema
    others = {("results.py", "schema"), ("results.py", "defs")}
    assert {(file, name) for file, name in named if name not in {**SETTINGS, **ARGUMENTS}} == others


def test_no_advice_spells_out_a_setting() -> None:
    """Only a line of the log, about later loads, a hint of the check, and a reason name settings in full."""
    spelled = {(file, name) for file, text in texts() for name in re.findall(r"sources\.letters\.(\w+)", text)}
    assert {(file, name) for file, name in spelled if name in SETTINGS} == {
        ("cli/findings.py", "count"),
        ("extract/listing.py", "page_size"),
        ("pagination/verdicts.py", "proof"),
    }


def test_the_command_has_an_option_for_each_argument() -> None:
    """Options have the keys of the arguments that advice may name."""
    assert set(ARGUMENTS) - OPTIONS == set()
