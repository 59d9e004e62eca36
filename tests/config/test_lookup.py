"""Looking up a setting in its section, and converting it to its type."""

from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Literal

import dlt
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from msgspec import Meta

from letters_source.config.messages import where_to_set, wrong
from letters_source.config.providers import check_names, convert, look_up, present_providers, sections_of
from letters_source.config.settings import Key
from letters_source.errors import SettingsError

Texts = tuple[str, ...]
Choice = Literal["one", "two"]
Configure = Callable[[str], None]


@pytest.fixture
def configure(project: Path) -> Configure:
    """Writes config.toml, and has dlt read it."""

    def write(text: str) -> None:
        (project / ".dlt/config.toml").write_text(text)
        Container()[PluggableRunContext].reload_providers()

    return write


def key_of(name: str, kind: Any) -> Key:
    """A key without bounds."""
    return Key(name, kind, Meta())


def problem(key: str, value: Any, kind: Any) -> str:
    """The part of a value's error that says what was expected and what came."""
    section, _, name = f"sources.letters.{key}".rpartition(".")
    with pytest.raises(SettingsError) as caught:
        convert(section, key_of(name, kind), value)
    assert caught.value.__suppress_context__
    return str(caught.value).removeprefix(f"argument {key} must be ").removesuffix(".")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["Failed", "Verified"], ("Failed", "Verified")),
        ([4, "office"], ("4", "office")),
        ([], ()),
        ('["Failed", "Verified"]', ("Failed", "Verified")),
        ('["buyers, past", 4]', ("buyers, past", "4")),
        ("[]", ()),
        ("Failed,Verified", ("Failed", "Verified")),
        (" In Transit , Mailed ,", ("In Transit", "Mailed")),
        ("Mailed", ("Mailed",)),
        ("", ()),
        (",", ()),
        (' ["Failed"]', ("Failed",)),
        ('\n["buyers, past", "", 4]\n', ("buyers, past", "4")),
        (["office", ""], ("office",)),
        ("true, 4.5, null", ("true", "4.5", "null")),
        ("9" * 5000, ("9" * 5000,)),
        (iter(["Failed", "Verified"]), ("Failed", "Verified")),
    ],
)
def test_a_list_is_one_of_toml_of_json_or_has_commas(value: object, expected: Texts) -> None:
    """A list may be a TOML list, JSON, or text with commas; a value with a comma requires TOML or JSON."""
    assert convert("sources.letters.contacts", key_of("tags", Texts), value) == expected


@pytest.mark.parametrize("value", ['["Failed"', "[Failed]", " [4", "[4]x", 4, True, b"ab"])
def test_what_is_no_list_is_named(value: object) -> None:
    """Text that begins like JSON must be JSON, and a number is not a list."""
    assert problem("contacts.tags", value, Texts) == f"a list of texts, got {value!r}"


def test_a_day_is_named_as_toml_writes_it() -> None:
    """A day is not a list; the message shows it as the file has it."""
    assert problem("contacts.tags", date(2024, 1, 31), Texts) == "a list of texts, got 2024-01-31"


@pytest.mark.parametrize(
    "value",
    [
        [True], ["office", False], [4.5], [["office"]], [{"id": 4}], [date(2024, 1, 31)],
        "[true]", "[4.5]", "[null]", '[["office"]]', '[{"id": 4}]', f"[{'9' * 5000}]",
    ],
)  # fmt: skip
def test_a_list_of_anything_but_texts_and_whole_numbers_is_named(value: object) -> None:
    """A list with other values than texts and whole numbers is an error that quotes the list."""
    assert problem("contacts.tags", value, Texts) == f"a list of texts, got {value!r}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (date(2024, 1, 31), date(2024, 1, 31)),
        (datetime(2024, 1, 31, 23, 59, tzinfo=UTC), date(2024, 1, 31)),
        ("2024-01-31", date(2024, 1, 31)),
        ("20240131", date(2024, 1, 31)),
    ],
)
def test_a_day_is_one_of_toml_or_of_iso_8601(value: object, expected: date) -> None:
    """A day may be a TOML day, a TOML time, or ISO 8601 text, and the result has no time."""
    found = convert("sources.letters", key_of("mailings_since", date), value)
    assert (found, isinstance(found, datetime)) == (expected, False)


@pytest.mark.parametrize("value", ["31-01-2024", "2024-02-30", "2024-01-31T00:00:00", "yesterday", "", 2024, True])
def test_what_is_no_day_is_named(value: object) -> None:
    """Text that is not a day in ISO 8601 is an error, also with the day first, which is ambiguous."""
    assert problem("mailings_since", value, date) == f"a day such as 2024-01-31, got {value!r}"


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("7", int, 7),
        ("0.5", float, 0.5),
        ("true", bool, True),
        ("False", bool, False),
        (7, str, "7"),
        ("one", Choice, "one"),
    ],
)
def test_other_values_become_their_types(value: object, hint: Any, expected: object) -> None:
    """A value is converted to the declared type of its setting."""
    found = convert("sources.letters", key_of("x", hint), value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("many", int, "a whole number, got 'many'"),
        ("fast", float, "a number, got 'fast'"),
        ("maybe", bool, "true or false, got 'maybe'"),
        (4.5, str, "text, got 4.5"),
        (True, str, "text, got True"),
    ],
)
def test_a_value_of_another_type_is_named(value: object, hint: Any, expected: str) -> None:
    """The error for a value of another type says what was expected and what came."""
    assert problem("x", value, hint) == expected


def test_secrets_are_text_without_blanks_around() -> None:
    """Secrets are stripped of white space, and numbers among them become text."""
    for key in ("access_token", "refresh_token", "pii_key"):
        assert [convert("sources.letters", key_of(key, str), value) for value in (" a\n", 7)] == ["a", "7"]


@pytest.mark.parametrize(
    ("environment", "part", "sections"),
    [
        (None, "", ("sources.letters",)),
        ("demo", "", ("sources.letters.demo", "sources.letters")),
        ("production", "", ("sources.letters.production", "sources.letters")),
        (None, "contacts", ("sources.letters.contacts",)),
        ("demo", "templates", ("sources.letters.demo.templates", "sources.letters.templates")),
    ],
)
def test_an_environments_own_section_goes_before_the_general_one(
    environment: str | None, part: str, sections: Texts
) -> None:
    """An environment's section is searched before the general one, for settings and for each subsection."""
    assert sections_of(environment, part) == sections


def test_a_value_is_found_in_the_first_section_that_has_it(configure: Configure) -> None:
    """The result is None if no section has one; null counts as none."""
    configure(
        '[sources.letters.contacts]\nsearch = "all"\ntags = [4]\n[sources.letters.demo.contacts]\nsearch = "some"\n'
    )
    sections, providers = sections_of("demo", "contacts"), present_providers()
    assert look_up(key_of("search", str), sections, providers) == "some"
    assert look_up(key_of("tags", Texts), sections, providers) == ("4",)
    assert look_up(key_of("is_return_address", bool), sections, providers) is None
    assert look_up(key_of("search", str), sections_of(None, "contacts"), providers) == "all"
    assert look_up(key_of("search", str), sections, []) is None


def test_days_of_a_file_are_plain_days(configure: Configure) -> None:
    """A day in a TOML file becomes a plain `date`."""
    configure("[sources.letters]\nmailings_since = 2024-01-31\n")
    assert look_up(key_of("mailings_since", date), sections_of(None), present_providers()) == date(2024, 1, 31)


def test_a_value_set_by_hand_is_found(configure: Configure) -> None:
    """A value assigned to `dlt.config` is found and keeps its type."""
    configure("")
    dlt.config["sources.letters.contacts.tags"] = ["4", "office, old"]
    found = look_up(key_of("tags", Texts), sections_of(None, "contacts"), present_providers())
    assert found == ("4", "office, old")


def test_a_misspelled_key_is_named() -> None:
    """The error for an unknown key suggests the closest name, or lists all."""
    section, known = "sources.letters.pii", ("email", "all")
    with pytest.raises(SettingsError, match=r"^unknown setting sources\.letters\.pii\.emial; did you mean email\?$"):
        check_names(section, {"phone": "hash", "emial": "drop", "email": "keep"}, known)
    with pytest.raises(SettingsError, match=r"^unknown setting sources\.letters\.pii\.phone; known are email, all\.$"):
        check_names(section, {"phone": "hash"}, known)
    check_names(section, {"email": "drop"}, known)
    check_names(section, {}, ())


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("page_size", ("PAGE_SIZE", "page_size", "sources.letters", "config")),
        ("demo.contacts.tags", ("DEMO__CONTACTS__TAGS", "tags", "sources.letters.demo.contacts", "config")),
        ("access_token", ("ACCESS_TOKEN", "access_token", "sources.letters", "secrets")),
        ("pii_key", ("PII_KEY", "pii_key", "sources.letters", "secrets")),
    ],
)
def test_a_message_says_where_to_set_a_key(key: str, place: tuple[str, str, str, str]) -> None:
    """A message names the variable, section and file of a key; secrets have their own file and are not quoted."""
    variable, name, section, file = place
    expected = f"set SOURCES__LETTERS__{variable} in the environment, or {name} under [{section}] in .dlt/{file}.toml"
    assert where_to_set(key) == expected
    got = ", got 7" if file == "config" else ""
    assert str(wrong(key, "right", 7)) == f"sources.letters.{key} must be right{got}; {expected}."
