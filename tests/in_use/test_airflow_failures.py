"""What Airflow learns of an error."""

import json
from typing import Any

import pytest
from terminals import run_python

ERRORS: dict[str, tuple[dict[str, object], str]] = {
    "LoadFailed": ({"table": "contacts", "counts": {"rows": 29}}, "AirflowException"),
    "SettingsError": ({"key": "dataset", "problem": "is taken"}, "AirflowFailException"),
}
"""By kind: the attributes of an error of ours, and the failure that it becomes."""
CODE = """
import json, sys, traceback
from letters_source import errors
from letters_source.airflow import airflow_failures

learned = {}
for kind, attributes in json.loads(sys.argv[1]).items():
    error = getattr(errors, kind)("what happened", **attributes)
    try:
        with airflow_failures():
            try:
                raise ValueError("canary")
            except ValueError as driver:
                raise error from driver
    except Exception as failure:
        cause = failure.__cause__
        shown = "".join(traceback.format_exception(failure))
        learned[kind] = [type(failure).__name__, str(failure), type(cause).__name__, str(cause), vars(cause), shown]
print(json.dumps(learned))
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What Airflow learns of each error, in a process of its own, because Airflow sets up logging and warnings."""
    errors = json.dumps({kind: attributes for kind, (attributes, _) in ERRORS.items()})
    ended = run_python("-c", CODE, errors, cwd=tmp_path_factory.mktemp("failures"))
    assert ended.code == 0, ended.err
    learned: dict[str, list[Any]] = json.loads(ended.out.splitlines()[-1])
    return learned


@pytest.mark.parametrize("kind", ERRORS)
def test_a_failure_has_our_error_and_not_what_caused_it(failures: dict[str, list[Any]], kind: str) -> None:
    """A failure's cause has the class, message and attributes of our error; its traceback shows no driver's text."""
    attributes, failure = ERRORS[kind]
    *found, shown = failures[kind]
    carried = {"what": "what happened", "advice": "", **attributes}
    assert found == [failure, "what happened", kind, "what happened", carried]
    assert f"{kind}: what happened" in shown
    assert "canary" not in shown
