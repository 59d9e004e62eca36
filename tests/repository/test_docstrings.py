"""Docstrings name their subjects, so that they can be read before a test's name or its code."""

import ast
import re

from document import ROOT

POINTING_BACK = re.compile(
    r"(it|its|they|their|them|this|that|these|those|he|his|she|her|and|or|but|so|also|otherwise|such|there|whoever)\b",
    re.IGNORECASE,
)
WITH_DOCSTRINGS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def test_no_docstring_begins_with_a_word_that_points_back() -> None:
    """No docstring begins with a pronoun or a conjunction, which need something said before."""
    found = [
        f"{file.relative_to(ROOT)}: {text}"
        for folder in ("letters_source", "pipelines", "tests")
        for file in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, WITH_DOCSTRINGS) and (text := ast.get_docstring(node)) and POINTING_BACK.match(text)
    ]
    assert found == []
