"""What Airflow learns of an error."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import json, traceback
from letters_source.airflow import airflow_failures
from letters_source.errors import {kind}

error = {kind}("what happened", **{attributes!r})
try:
    with airflow_failures():
        try:
            raise ValueError("canary")
        except ValueError as driver:
            raise error from driver
except Exception as failure:
    cause = failure.__cause__
    told = "".join(traceback.format_exception(failure))
    print(json.dumps([type(failure).__name__, str(failure), type(cause).__name__, str(cause), vars(cause), told]))
"""


@pytest.mark.parametrize(
    ("kind", "attributes", "failure"),
    [
        ("LoadFailed", {"table": "contacts", "counts": {"rows": 29}}, "AirflowException"),
        ("SettingsError", {"key": "dataset", "problem": "is taken"}, "AirflowFailException"),
    ],
)
def test_a_failure_has_our_error_and_not_what_caused_it(
    tmp_path: Path, kind: str, attributes: dict[str, object], failure: str
) -> None:
    """A failure's cause has the class, message and attributes of our error; its traceback shows no driver's text."""
    code = CODE.format(kind=kind, attributes=attributes)
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
    )
    *found, told = json.loads(ended.stdout.splitlines()[-1])
    carried = {"what": "what happened", "advice": "", **attributes}
    assert found == [failure, "what happened", kind, "what happened", carried]
    assert f"{kind}: what happened" in told
    assert "canary" not in told
