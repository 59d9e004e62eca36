"""Each of the eighty faults has a test with its number."""

import ast
import re
from pathlib import Path

FAULTS = set(range(1, 81))


def test_every_fault_has_a_test() -> None:
    """The names of tests have the numbers of all eighty faults, as test_f09_f10_ does."""
    numbers = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        for name in names:
            match = re.match(r"test((?:_f\d\d)+)_", name)
            numbers |= {int(number) for number in re.findall(r"\d\d", match[1])} if match else set()
    assert numbers == FAULTS
