"""The chain of causes of a load's error has an end."""

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pytest
from rich.console import Console
from rich.traceback import Traceback
from worlds import Begin, World

from letters_source import (
    DestinationError,
    IncompleteListing,
    LettersError,
    ListingShrank,
    ListingUnpaged,
    LoadFailed,
    MalformedResponse,
    NotAuthorized,
    RepeatedIds,
    ServiceRejected,
    ServiceUnreachable,
    SettingsError,
    WrongCount,
)
from programmable_emulator import Behavior, Emulator, Reply, When

CONTACTS = When("contacts")


def answer(reply: Reply) -> Callable[[World], None]:
    """Make the service answer requests for contacts with this reply."""
    return lambda world: world.emulator.canned.always(CONTACTS, reply)


def shrink(world: World) -> None:
    """Load all contacts, and delete them from the service."""
    world.start_loaded()
    for number in world.emulator.contacts.ids():
        world.emulator.contacts.delete(number)


def occupy(world: World) -> None:
    """Put a view into the file where a load would write a table."""
    world.start_loaded()
    with duckdb.connect(str(world.place)) as connection:
        connection.execute("DROP TABLE letters_data.contacts; CREATE VIEW letters_data.contacts AS SELECT 1 AS id")


def ignore_pages(world: World) -> None:
    """Make the service answer each page with the first."""
    world.emulator.behavior = Behavior(ignore_page=True)


def repeat(world: World) -> None:
    """List a contact twice."""
    world.emulator.contacts.insert(world.emulator.contacts.rows()[0])


def unsettle(world: World) -> None:
    """Give each answer another count."""

    def grow(emulator: Emulator, _: int) -> None:
        emulator.contacts.grow()

    world.emulator.before_answer = grow


def hide(world: World) -> None:
    """Make the destination a folder."""
    world.place.mkdir()


FAILURES: dict[type[LettersError], tuple[Callable[[World], Any], dict[str, Any]]] = {
    DestinationError: (hide, {}),
    IncompleteListing: (unsettle, {"page_size": 10, "max_walks": 1}),
    ListingShrank: (shrink, {}),
    ListingUnpaged: (ignore_pages, {"page_size": 10}),
    LoadFailed: (occupy, {}),
    MalformedResponse: (answer(Reply.of({"data": {"count": 9}})), {}),
    NotAuthorized: (answer(Reply(401)), {}),
    RepeatedIds: (repeat, {}),
    ServiceRejected: (answer(Reply(404)), {}),
    ServiceUnreachable: (answer(Reply(500)), {"retry_budget": 0.1}),
    SettingsError: (World.start_loaded, {"account_id": "502"}),
    WrongCount: (answer(Reply.of({"data": {"count": 9, "rows": []}})), {}),
}


def paths(error: BaseException, *before: BaseException) -> Iterator[tuple[BaseException, ...]]:
    """Every way from an error through causes and contexts, hidden ones too, to its end or to where it repeats."""
    way = (*before, error)
    onward = [each for each in (error.__cause__, error.__context__) if each]
    if error in before or not onward:
        yield way
    for each in onward if error not in before else ():
        yield from paths(each, *way)


@pytest.mark.parametrize("kind", FAILURES, ids=lambda kind: kind.__name__)
def test_the_chain_of_an_error_ends(begin: Begin, kind: type[LettersError]) -> None:
    """No cause or context leads back to the error, so that tracebacks of rich end."""
    prepare, settings = FAILURES[kind]
    world = begin(Emulator(40, 2))
    prepare(world)
    with pytest.raises(kind) as caught:
        world.load(**settings)
    assert type(caught.value) is kind
    assert [way for way in paths(caught.value) if len(set(map(id, way))) < len(way)] == []
    console = Console()
    with console.capture() as shown:
        console.print(Traceback.from_exception(kind, caught.value, caught.value.__traceback__))
    assert kind.__name__ in shown.get()
