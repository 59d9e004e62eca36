"""A dataset remembers which service it was loaded from, and refuses another one."""

from collections.abc import Iterator
from typing import Any

import pytest
from holdings import change, query
from terminals import Letters, Outcome
from worlds import ACCESS, REFRESH, Begin, World

from letters_source import SettingsError
from letters_source.config.settings import Kind
from programmable_emulator import Emulator


@pytest.fixture
def other() -> Iterator[str]:
    """The address of another service, which takes the same tokens."""
    emulator = Emulator(5, 2)
    emulator.access_token, emulator.refresh_token = ACCESS, REFRESH
    with emulator.serve() as base_url:
        yield base_url


def refusal(world: World, **changes: Any) -> str:
    """Return the message of a load that is refused before any request."""
    sent = len(world.emulator.hits)
    with pytest.raises(SettingsError) as caught:
        world.load(**changes)
    assert world.emulator.hits[sent:] == []
    assert caught.value.key == "sources.letters.base_url"
    return str(caught.value)


def words(listing: str, held: str, wanted: str) -> str:
    """The message that names both services and what to do."""
    return (
        f"{listing}: the dataset letters_data was loaded from {held}, and base_url is {wanted}. Check base_url; "
        "to keep both, choose another dataset; if the service moved, turn on "
        "sources.letters.allow_other_service for one load, which replaces the current rows."
    )


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_another_service_is_refused(begin: Begin, other: str, kind: Kind) -> None:
    """A load from another service is refused even if no environment is named, and the tables stay."""
    world = begin(Emulator(9, 3), kind)
    if kind == "duckdb":
        world.start_loaded()
    else:
        world.load()
    assert refusal(world, base_url=other) == words("templates", world.settings["base_url"], other)
    assert world.is_exact()


def test_a_service_that_moved_is_accepted_once(begin: Begin, other: str) -> None:
    """Once another service is accepted, loads from it need no option, and loads from the previous one are refused."""
    world = begin(Emulator(9, 3))
    world.start_loaded(history=True)
    world.load(history=True, base_url=other, allow_other_service=True)
    world.load(only=("contacts",), history=True, base_url=other)
    assert refusal(world, history=True) == words("templates", other, world.settings["base_url"])
    services = "select service, count(*) from letters_data.listing_audit group by all order by min(started_at)"
    assert query(world.place, services) == [(world.settings["base_url"], 2), (other, 3)]


def test_another_spelling_is_the_same_service(begin: Begin) -> None:
    """Another spelling of the address is the same service, and the audit has one spelling of it."""
    world = begin(Emulator(9, 3))
    world.start_loaded()
    world.load(base_url=world.settings["base_url"].replace("http:", "HTTP:") + "/")
    assert query(world.place, "select distinct service from letters_data.listing_audit") == [
        (world.settings["base_url"],)
    ]


def test_a_listing_that_was_not_loaded_before_is_refused_too(begin: Begin, other: str) -> None:
    """Contacts of one service are not loaded next to templates of another."""
    world = begin(Emulator(9, 3))
    world.start_loaded(only=("templates",))
    assert refusal(world, only=("contacts",), base_url=other) == words("contacts", world.settings["base_url"], other)


def test_a_dataset_of_the_first_release_takes_any_service(begin: Begin, other: str) -> None:
    """A dataset without the service in its audit accepts any, and remembers it from the next load on."""
    world = begin(Emulator(9, 3))
    world.start_loaded()
    change(world.place, "update letters_data.listing_audit set service = null")
    world.load(base_url=other)
    assert refusal(world) == words("templates", other, world.settings["base_url"])


def test_rows_of_a_killed_history_load_are_not_mixed_with_another_service(begin: Begin, other: str) -> None:
    """History rows of a killed load, which dlt has not noted, refuse another service."""
    world = begin(Emulator(9, 3))
    world.start_loaded(history=True)
    change(world.place, "delete from letters_data._dlt_loads")
    assert refusal(world, history=True, base_url=other) == words("templates", world.settings["base_url"], other)


def test_the_command_takes_the_option(
    letters: Letters, begin: Begin, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command exits with code 2 and one line for another service, unless the option accepts it."""
    world = begin(Emulator(9, 3))
    world.configure(monkeypatch)
    world.start_loaded()
    monkeypatch.setenv("SOURCES__LETTERS__BASE_URL", other)
    refused = words("templates", world.settings["base_url"], other)
    refused = refused.replace("sources.letters.allow_other_service", "--allow-other-service")
    line = f"letters: {refused.replace('another dataset', 'another --dataset')}\n"
    assert letters("load", "--quiet") == Outcome(2, "", line)
    assert letters("load", "--quiet", "--allow-other-service") == Outcome(0, "", "")


def test_an_environment_without_a_section_ends_with_2(
    letters: Letters, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment without settings of its own exits with code 2 and sends no token; one setting is enough."""
    world = begin(Emulator(9, 3))
    world.configure(monkeypatch)
    done = letters("load", "--quiet", "--environment", "production")
    assert done == Outcome(
        2,
        "",
        "letters: environment is production, but the section [sources.letters.production] does not exist or is empty; "
        "set SOURCES__LETTERS__PRODUCTION__BASE_URL in the environment, or base_url under "
        "[sources.letters.production] in .dlt/config.toml.\n",
    )
    assert world.emulator.hits == []
    monkeypatch.setenv("SOURCES__LETTERS__PRODUCTION__BASE_URL", world.settings["base_url"])
    assert letters("load", "--quiet", "--environment", "production") == Outcome(0, "", "")
