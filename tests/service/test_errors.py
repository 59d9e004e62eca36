"""The tree of errors is the documented one, and processes can hand errors on."""

import inspect
import pickle
from copy import copy
from itertools import takewhile

import pytest

from letters_source import errors
from letters_source.errors import (
    DestinationInUse,
    IncompleteListing,
    LettersError,
    ListingShrank,
    ListingUnpaged,
    LoadFailed,
    MalformedResponse,
    NotAuthorized,
    ServiceUnreachable,
    SettingsError,
    SharedIds,
    UndocumentedFields,
    UnusableFile,
)

FOUND = {"count": 36, "received": 10, "walks": 1}


def documented() -> dict[str, str]:
    """Return each error in the module's docstring, and the one above it in the tree."""
    above: list[tuple[int, str]] = []
    found = {}
    for line in takewhile(str.strip, (inspect.getdoc(errors) or "").splitlines()[2:]):
        name = line.lstrip(" │├└─").partition(" ")[0]
        depth = line.index(name)
        above = [(at, parent) for at, parent in above if at < depth]
        found[name] = above[-1][1] if above else "Exception"
        above.append((depth, name))
    return found


def test_the_tree_in_the_docstring_is_that_of_the_classes() -> None:
    """Each error is documented below the class that it extends."""
    classes = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, LettersError)]
    assert documented() == {kind.__name__: kind.__mro__[1].__name__ for kind in classes}


@pytest.mark.parametrize(
    "error",
    [
        SettingsError("page_size must be a whole number.", key="sources.letters.page_size", problem="must be"),
        DestinationInUse("letters.duckdb is open in another process"),
        NotAuthorized("templates page 0: refused", status=401),
        IncompleteListing("contacts", "rows are missing", **FOUND),
        ListingUnpaged("contacts", "page 3 repeats page 0", **FOUND),
        ListingShrank("contacts", 36, 10, "set sources.letters.max_shrink to 1"),
        SharedIds("contacts", ("A", "B"), 10),
        LoadFailed("contacts: a row is missing", table="contacts", counts={"rows": 29}),
        ServiceUnreachable("gave up", may_be_size=True, status=503),
        MalformedResponse("no envelope", transient=True),
        UndocumentedFields("contacts", {"zip": 2}),
        UnusableFile("parts/contacts.json is missing.", file="parts/contacts.json"),
    ],
)
@pytest.mark.parametrize("protocol", [0, pickle.HIGHEST_PROTOCOL])
def test_an_error_of_another_process_is_the_same(error: LettersError, protocol: int) -> None:
    """A pickled or copied error keeps its class, message and attributes."""
    for other in (pickle.loads(pickle.dumps(error, protocol)), copy(error)):  # noqa: S301 -- what was just written
        assert type(other) is type(error)
        assert (str(other), vars(other)) == (str(error), vars(error))
