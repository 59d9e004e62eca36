"""Personal values that are not kept are written nowhere."""

import json
import logging
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from holdings import DATASET, change, query, read_tables
from terminals import run_command
from worlds import Begin, World

from letters_source import LettersError, ServiceRejected, SettingsError, letters
from letters_source.service.listings import LISTINGS, ContactFilters, TemplateFilters
from letters_source.transform.privacy import PERSONAL, Policy
from programmable_emulator import Behavior, Emulator, Reply, When

KEY = "a key of more than sixteen bytes"
CANARY = "canary5b7e"
WIRES = {
    "firstName": "first_name", "lastName": "last_name", "fullName": "full_name", "companyName": "company_name",
    "address1": "address1", "address2": "address2", "city": "city", "zip": "zip", "phoneNo": "phone_no",
    "extension": "extension", "websiteUrl": "website_url", "email": "email",
}  # fmt: skip


def mark(emulator: Emulator) -> None:
    """Put the canary into every personal value, and into values that are kept because they do not fit."""
    marked = {wire: f"Xx {CANARY} {wire}@example.org" for wire in WIRES}
    label = {"id": "9", "title": f"label {CANARY}", "note": CANARY}
    emulator.contacts.insert({"id": "c-1", **marked, "ContactLabels": [label], "nickName": f"nick {CANARY}"})
    emulator.contacts.insert({"id": "c-2", "firstName": {"given": CANARY}, "createdAt": CANARY})
    emulator.contacts.insert({"id": None, **marked})
    emulator.templates.insert({"id": "t-1", "creator": {"id": "1", "fullName": f"Zz {CANARY}", "mail": CANARY}})


def written(folder: Path) -> Iterator[str]:
    """The text of all files below a folder, as bytes and, for Parquet and DuckDB, as their values."""
    for path in filter(Path.is_file, folder.rglob("*")):
        yield path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            yield str(pq.read_table(path).to_pylist())
        if path.suffix == ".duckdb":
            yield from stored(path)


def stored(path: Path) -> Iterator[str]:
    """The rows of each table of a DuckDB file."""
    with duckdb.connect(str(path), read_only=True) as connection:
        names = connection.sql("select table_schema, table_name from information_schema.tables").fetchall()
        for schema, name in names:
            yield str(connection.sql(f'from "{schema}"."{name}"').fetchall())


def hits(folder: Path) -> int:
    """The number of those texts that hold the canary."""
    return sum(CANARY in text for text in written(folder))


def documents(world: World) -> dict[str, dict[str, Any]]:
    """The contacts as the service has them, by id."""
    return {row.document["id"]: row.document for row in world.emulator.contacts.rows()}


def text_of(value: object) -> str | None:
    """The value if it is a text; other values do not fit the column."""
    return value if isinstance(value, str) else None


def hashed(text: str) -> str:
    """The keyed BLAKE2b hash of the standard library, 128 bits in hexadecimal."""
    return blake2b(text.encode(), key=KEY.encode(), digest_size=16).hexdigest()


@pytest.fixture
def world(begin: Begin, request: pytest.FixtureRequest) -> World:
    """Marked rows among others, into the destination of the test."""
    world = begin(
        Emulator(30, 5, behavior=Behavior(extra_fields={"secret": CANARY})), getattr(request, "param", "duckdb")
    )
    mark(world.emulator)
    return world


@pytest.mark.parametrize(
    ("world", "policy"),
    [("duckdb", "hash"), ("duckdb", "mask"), ("duckdb", "drop"), ("parquet", "hash")],
    indirect=["world"],
)
def test_no_personal_value_is_written(
    world: World, policy: Policy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """No personal value reaches the destination, the files of dlt, or the log at level DEBUG."""
    # a mask shows the domain of an e-mail, which holds no canary
    with caplog.at_level(logging.DEBUG):
        world.load(pii={"all": policy}, pii_key=KEY)
    assert hits(tmp_path) == 0
    assert CANARY not in caplog.text
    assert len(world.tables()["contacts"]) == 32
    assert len(world.tables()["rejected_rows"]) == 1


PERSONAL_FILTERS: dict[str, Any] = {
    "contact_filters": ContactFilters(search=CANARY, tags=(f"label {CANARY}",)),
    "template_filters": TemplateFilters(creator=f"Zz {CANARY}"),
}


@pytest.mark.parametrize("world", ["duckdb", "parquet"], indirect=True)
@pytest.mark.parametrize(("policy", "key"), [("hash", KEY), ("drop", KEY), ("mask", None)])
def test_no_personal_filter_is_written(
    world: World, policy: Policy, key: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A filter on personal columns is in no file and no message, and still tells whether a load selects other rows."""
    settings: dict[str, Any] = {"pii": {"all": policy}, "pii_key": key, **PERSONAL_FILTERS}
    # urllib3 logs URLs at level DEBUG
    with caplog.at_level(logging.DEBUG, "letters_source"):
        world.load(facets=True, **settings)
        world.load(facets=True, **settings)
    assert (hits(tmp_path), CANARY in caplog.text) == (0, False)
    assert {row["id"] for row in world.tables()["contacts"]} == {"c-1"}
    if key:
        with pytest.raises(SettingsError) as caught:
            world.load(**{**settings, "template_filters": TemplateFilters(creator=CANARY)})
        assert str(caught.value) == (
            "templates: the dataset letters_data was loaded with creator=(hidden), and this load is with "
            "creator=(hidden); to keep both, choose another dataset."
        )


def test_a_filter_in_clear_of_a_former_release_is_recognized(world: World) -> None:
    """Audits with filters in clear accept the same filters, and the error for others does not quote them."""
    settings: dict[str, Any] = {"pii": {"all": "hash"}, "pii_key": KEY, "only": ("contacts",)}
    contacts = {"contact_filters": PERSONAL_FILTERS["contact_filters"]}
    world.load(**settings, **contacts)
    clear = json.dumps({"search": CANARY, "tags": [f"label {CANARY}"]})
    change(world.place, f"UPDATE {DATASET}.listing_audit SET filters = '{clear}'")
    with pytest.raises(SettingsError) as caught:
        world.load(**settings)
    assert str(caught.value) == (
        "contacts: the dataset letters_data was loaded with search=(hidden), tags=(hidden), and this load is without "
        "search and tags; to keep both, choose another dataset."
    )
    world.load(**settings, **contacts)
    [_, [recorded]] = query(world.place, f"SELECT filters FROM {DATASET}.listing_audit ORDER BY started_at")
    assert json.loads(recorded) == {"search": hashed(CANARY), "tags": [hashed(f"label {CANARY}")]}


def test_no_error_quotes_a_personal_filter(world: World) -> None:
    """What the service says is left out of an error if it repeats a personal filter."""
    refusal = Reply.of({"message": f"cannot search for {CANARY.upper()}"}, status=400)
    world.emulator.canned.always(When("contacts", 0), refusal)
    with pytest.raises(ServiceRejected, match="cannot search for CANARY"):
        world.load(only=("contacts",), contact_filters=ContactFilters(search=CANARY))
    with pytest.raises(ServiceRejected) as caught:
        world.load(only=("contacts",), contact_filters=ContactFilters(search=CANARY), pii={"email": "drop"})
    assert "canary" not in str(caught.value).lower()


def test_what_is_kept_would_be_found(world: World, tmp_path: Path) -> None:
    """The scan for the canary finds it in the database where no policy is set."""
    world.load(only=("contacts",))
    assert hits(tmp_path) > 0


def test_the_command_writes_none_either(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--debug` writes no personal value to its output or to files, even when the service fails."""
    for key, value in {**world.settings, "pii_key": KEY}.items():
        monkeypatch.setenv(f"SOURCES__LETTERS__{key.upper()}", str(value))
    done = run_command("load", "--pii", "hash", "--debug", "--page-size", "10")
    assert (done.code, CANARY in done.out + done.err, hits(tmp_path)) == (0, False, 0)
    world.emulator.canned.always(When("contacts", 2), Reply.of({"data": {"count": CANARY, "rows": CANARY}}))
    monkeypatch.setenv("SOURCES__LETTERS__RETRY_BUDGET", "1")
    failed = run_command("load", "--pii", "hash", "--debug", "--page-size", "10")
    assert failed.code != 0
    assert hits(tmp_path) == 0


def rows_read(world: World, **settings: Any) -> list[dict[str, Any]]:
    """The rows of contacts that a load would write."""
    tables = letters(**world.settings, **settings).resources["contacts"]
    return [row for table in tables for row in table.to_pylist()]


def test_hashes_join_across_loads_and_tables(world: World) -> None:
    """A text has the same hash in every column under the same key: a keyed BLAKE2b hash of the text alone."""
    plain = documents(world)
    for row in rows_read(world, pii={"all": "hash"}, pii_key=KEY):
        for wire, name in WIRES.items():
            value = text_of(plain[row["id"]].get(wire))
            assert row[name] == (None if value is None else hashed(value))


def test_columns_have_policies_of_their_own(world: World) -> None:
    """A policy for a column overrides `all`, and columns that are not personal stay as they are."""
    plain = documents(world)
    for row in rows_read(world, pii={"all": "drop", "city": "keep", "zip": "mask"}):
        before = plain[row["id"]]
        assert row["city"] == before.get("city")
        assert row["zip"] == (f"{before['zip'][:3]}**" if before.get("zip") else None)
        assert {row[name] for name in PERSONAL if name in row} <= {None, row["city"], row["zip"]}
        assert (row["state"], row["org_id"]) == (before.get("state"), before.get("orgId"))


def test_undocumented_fields_can_be_allowed(world: World) -> None:
    """Undocumented fields are dropped once a personal column is not kept, unless they have a policy that keeps them."""
    kept = rows_read(world, pii={"email": "drop", "undocumented": "keep"})
    assert [json.loads(row["undocumented"])["secret"] for row in kept] == [CANARY] * 32
    assert {row["undocumented"] for row in rows_read(world, pii={"email": "drop"})} == {None}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"pii": {"all": "hash"}},
            "sources.letters.pii_key is not set, but the policy hash needs it; set SOURCES__LETTERS__PII_KEY",
        ),
        ({"pii": {"all": "hash"}, "pii_key": "short"}, "sources.letters.pii_key must have at least 16 bytes"),
        (
            {"pii": {"email": "encrypt"}},
            "argument pii.email must be keep or hash or mask or drop, got 'encrypt'",
        ),
        ({"pii": {"undocumented": "hash"}}, "argument pii.undocumented must be keep or drop, got 'hash'"),
        ({"pii": {"state": "drop"}}, "unknown setting sources.letters.pii.state; "),
    ],
)
def test_a_wrong_policy_is_named(world: World, settings: dict[str, Any], message: str) -> None:
    """A wrong policy is refused before any request, with its column and the policies allowed."""
    with pytest.raises(SettingsError) as caught:
        world.load(**settings)
    assert str(caught.value).startswith(message)
    assert world.emulator.hits == []


def test_a_misspelled_column_in_a_file_is_an_error(world: World) -> None:
    """A misspelled column in a settings file is an error, since its values would be kept unchanged."""
    Path(".dlt").mkdir()
    Path(".dlt/config.toml").write_text('[sources.letters.pii]\nall = "drop"\ne_mail = "keep"\n')
    Container()[PluggableRunContext].reload_providers()
    with pytest.raises(LettersError) as caught:
        world.load()
    assert str(caught.value) == (
        "unknown setting sources.letters.pii.e_mail; did you mean email? "
        f"It is e_mail under [sources.letters.pii] in {Path.cwd() / '.dlt/config.toml'}."
    )


@pytest.mark.parametrize("variable", ["PII", "PII__EMIAL", "CONTACTS", "CONTACTS__SERCH"])
def test_what_is_no_setting_of_a_section_is_an_error(
    world: World, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """An unknown policy or filter is an error before any request, since ignoring it would load too much."""
    monkeypatch.setenv(f"SOURCES__LETTERS__{variable}", "mask")
    with pytest.raises(SettingsError, match=r"must be a section|^unknown setting "):
        world.load()
    assert world.emulator.hits == []


def test_omitting_a_policy_is_an_error(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Omitting a policy that the last load used is an error; replacing it with another is only a warning."""
    world.load(pii={"email": "drop", "phone_no": "mask", "city": "keep"})
    before, sent = read_tables(world.place), len(world.emulator.hits)
    with pytest.raises(SettingsError) as caught:
        world.load(pii={"phone_no": "hash"}, pii_key="k" * 16)
    assert str(caught.value) == (
        "templates: the last load used the policy drop for email, but this one sets none; to use it again, or keep to "
        "write values unchanged, set SOURCES__LETTERS__PII__EMAIL in the environment, or email under "
        "[sources.letters.pii] in .dlt/config.toml."
    )
    with pytest.raises(SettingsError) as caught:
        world.load()
    assert str(caught.value) == (
        "templates: the last load used the policy mask for phone_no and 1 more, but this one sets none; to use it "
        "again, or keep to write values unchanged, set SOURCES__LETTERS__PII__ALL in the environment, or all under "
        "[sources.letters.pii] in .dlt/config.toml."
    )
    assert (read_tables(world.place), world.emulator.hits[sent:]) == (before, [])
    with caplog.at_level(logging.WARNING, "letters_source"):
        world.load(pii={"all": "keep"})
    assert treated_differently(caplog) == list(LISTINGS)
    world.load()
    assert f"Xx {CANARY} email@example.org" in [row["email"] for row in read_tables(world.place)["contacts"]]


@pytest.mark.parametrize(("first", "second"), [(None, "production"), ("production", None)])
def test_omitted_policies_are_those_of_the_last_load(world: World, first: str | None, second: str | None) -> None:
    """The policies of the last load count, whether or not it named its environment."""
    world.load(only=("templates",), pii={"undocumented": "drop"}, environment=first)
    world.load(only=("templates",), pii={"undocumented": "keep", "email": "mask"}, environment=second)
    with pytest.raises(SettingsError, match="the policy mask for email, but this one sets none"):
        world.load(only=("templates",))


def treated_differently(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The listings for which the log says that their policies differ from the last load's."""
    ending = ": the policies for personal data, or pii_key, differ from the last load's"
    messages = (record.getMessage() for record in caplog.records)
    return [message.removesuffix(ending) for message in messages if message.endswith(ending)]


def forget_hash_method(world: World) -> None:
    """Make the audits those of a release that hashed in another way and did not name its method."""
    with duckdb.connect(str(world.place)) as connection:
        connection.sql(f"update {DATASET}.listing_audit set pii = json_object('email', 'hash')")


def test_hashes_of_another_method_are_reported(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The first load with another hash method logs a warning, and the next one does not."""
    world.load(pii={"email": "hash"}, pii_key=KEY)
    forget_hash_method(world)
    with caplog.at_level(logging.WARNING, "letters_source"):
        world.load(pii={"email": "hash"}, pii_key=KEY)
        assert treated_differently(caplog) == list(LISTINGS)
        world.load(pii={"email": "hash"}, pii_key=KEY)
    assert treated_differently(caplog) == list(LISTINGS)


def test_a_history_with_hashes_of_another_method_is_an_error(world: World) -> None:
    """History refuses hashes of another method, since every row would seem to have changed."""
    settings: dict[str, Any] = {"only": ("contacts",), "pii": {"email": "hash"}, "pii_key": KEY, "history": True}
    world.load(**settings)
    forget_hash_method(world)
    before = read_tables(world.place)
    with pytest.raises(SettingsError, match=r'personal values \{"email": "hash", "hash_method": "blake2b"'):
        world.load(**settings)
    assert read_tables(world.place) == before


def test_another_key_is_reported_and_replaces_all_hashes(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The first load with another key logs a warning, and the next one does not."""
    world.load(pii={"email": "hash"}, pii_key=KEY)
    hashes = {row["email"] for row in read_tables(world.place)["contacts"]}
    with caplog.at_level(logging.WARNING, "letters_source"):
        for _ in range(2):
            world.load(pii={"email": "hash"}, pii_key=KEY[::-1])
    assert treated_differently(caplog) == list(LISTINGS)
    assert hashes.isdisjoint({row["email"] for row in read_tables(world.place)["contacts"]} - {None})


def test_a_history_with_another_key_is_an_error(world: World) -> None:
    """History refuses another key, since every row would seem to have changed."""
    settings: dict[str, Any] = {"only": ("contacts",), "pii": {"email": "hash"}, "history": True}
    world.load(**settings, pii_key=KEY)
    before = read_tables(world.place)
    with pytest.raises(SettingsError) as caught:
        world.load(**settings, pii_key=KEY[::-1])
    assert str(caught.value) == (
        "contacts: the dataset letters_data was loaded with another pii_key; "
        "set the earlier sources.letters.pii_key, or choose another dataset."
    )
    assert read_tables(world.place) == before


def test_an_audit_without_the_key_allows_any(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """A history that an earlier version loaded continues, and its next audit has the key."""
    settings: dict[str, Any] = {"only": ("contacts",), "pii": {"email": "hash"}, "history": True}
    world.load(**settings, pii_key=KEY)
    recorded = "json_object('email', 'hash', 'hash_method', 'blake2b')"
    with duckdb.connect(str(world.place)) as connection:
        connection.sql(f"update {DATASET}.listing_audit set pii = {recorded}")
    before = read_tables(world.place)["contacts"]
    world.load(**settings, pii_key=KEY)
    assert read_tables(world.place)["contacts"] == before
    with pytest.raises(SettingsError, match="was loaded with another pii_key"):
        world.load(**settings, pii_key=KEY[::-1])
    assert treated_differently(caplog) == []
