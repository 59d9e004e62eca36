"""Queries written for the last release still work.

`released_dictionary.json` has the tables of the version that it names. Each release rewrites it:

    letters schema --format json > tests/cli/released_dictionary.json
"""

import json
import re
from copy import deepcopy
from typing import Any

import pytest
from compare_dictionaries import Dictionary, breaking_changes

from document import ROOT
from letters_source.cli.dictionary import render

RELEASED = (ROOT / "tests" / "cli" / "released_dictionary.json").read_text()


def column(name: str, **changes: Any) -> Dictionary:
    """A column as a dictionary has it, as far as it matters here."""
    return {"name": name, "type": "text", "key": False, "nullable": True, **changes}


CONTACT_ID = column("contact_id", key=True, nullable=False)
POSITION = column("position", key=True, nullable=False)
TITLE = column("title")
LOAD_ID = column("_dlt_load_id", nullable=False)


def dictionary(*columns: Dictionary, name: str = "labels") -> Dictionary:
    """A dictionary of one table."""
    return {"tables": [{"name": name, "columns": list(columns)}]}


LABELS = dictionary(CONTACT_ID, POSITION, TITLE, LOAD_ID)


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (dictionary(CONTACT_ID, POSITION, TITLE, LOAD_ID, name="tags"), ["labels is gone"]),
        ({"tables": []}, ["labels is gone"]),
        (dictionary(CONTACT_ID, POSITION, LOAD_ID), ["labels.title is gone"]),
        (
            dictionary(CONTACT_ID, POSITION, TITLE | {"type": "json"}, LOAD_ID),
            ["labels.title was text, and is json"],
        ),
        (
            dictionary(CONTACT_ID, POSITION | {"key": False}, TITLE, LOAD_ID),
            ["labels: the key was ['contact_id', 'position'], and is ['contact_id']"],
        ),
        (
            dictionary(CONTACT_ID, POSITION, column("page", key=True, nullable=False), TITLE, LOAD_ID),
            ["labels: the key was ['contact_id', 'position'], and is ['contact_id', 'page', 'position']"],
        ),
        (
            dictionary(CONTACT_ID, POSITION, TITLE, LOAD_ID | {"nullable": True}),
            ["labels._dlt_load_id was never null, and may be"],
        ),
        (
            dictionary(CONTACT_ID, column("place"), LOAD_ID | {"type": "bigint", "nullable": True}),
            [
                "labels.position is gone",
                "labels.title is gone",
                "labels._dlt_load_id was text, and is bigint",
                "labels._dlt_load_id was never null, and may be",
                "labels: the key was ['contact_id', 'position'], and is ['contact_id']",
            ],
        ),
    ],
)
def test_changes_that_break_a_query_are_reported(present: Dictionary, expected: list[str]) -> None:
    """A missing table or column, another type or key, and new nulls are breaking changes."""
    assert breaking_changes(LABELS, present) == expected


@pytest.mark.parametrize(
    "present",
    [
        LABELS,
        dictionary(LOAD_ID, TITLE, POSITION, CONTACT_ID),
        dictionary(CONTACT_ID, POSITION, TITLE, column("color"), column("since", nullable=False), LOAD_ID),
        dictionary(CONTACT_ID, POSITION, TITLE | {"nullable": False}, LOAD_ID),
        dictionary(CONTACT_ID, POSITION, TITLE | {"personal": True, "description": "Title.", "wire": "t"}, LOAD_ID),
        {"tables": [*dictionary(CONTACT_ID, name="tags")["tables"], *LABELS["tables"]]},
    ],
)
def test_changes_that_break_nothing_are_not_reported(present: Dictionary) -> None:
    """More tables and columns, another order, fewer nulls and other words are no breaking changes."""
    assert breaking_changes(LABELS, present) == []


def test_every_table_and_column_is_compared() -> None:
    """A dictionary without any one table or column of the released one has a breaking change."""
    released = json.loads(RELEASED)
    for place, table in enumerate(released["tables"]):
        without = deepcopy(released)
        del without["tables"][place]
        assert breaking_changes(released, without) == [f"{table['name']} is gone"]
        for index, gone in enumerate(table["columns"]):
            without = deepcopy(released)
            del without["tables"][place]["columns"][index]
            assert f"{table['name']}.{gone['name']} is gone" in breaking_changes(released, without)


def test_the_present_tables_break_nothing() -> None:
    """The present tables have no breaking change since the released dictionary."""
    assert breaking_changes(json.loads(RELEASED), json.loads(render("json"))) == []


def test_the_released_dictionary_is_of_a_version_in_the_changelog() -> None:
    """The released dictionary is JSON as the command prints it, and the changelog has its version."""
    released = json.loads(RELEASED)
    assert json.dumps(released, indent=2) + "\n" == RELEASED
    versions = re.findall(r"^## (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released["version"] in versions
