"""What a load writes into a bucket, and what stops it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
import s3fs
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
    SSLError,
)
from buckets import serve_buckets
from deltalake import DeltaTable
from holdings import Rows, held_tables, typed_columns
from lakes import described, read_arrow, rows_of
from postgres import free_port
from pyarrow.fs import FSSpecHandler, PyFileSystem
from pyiceberg.table import StaticTable
from row_changes import amend
from s3fs.errors import translate_boto_error
from terminals import Letters, Outcome
from worlds import Begin, World, serve_world

from letters_source import Result, SettingsError, make_pipeline, plan_parts, read_part, run
from letters_source.config.settings import Kind
from letters_source.destination.files import is_unanswered
from letters_source.service.listings import ContactFilters
from letters_source.spark.snapshots import Snapshot, find_outdated
from letters_source.spark.stages import parts_of
from letters_source.tables import CONTACTS
from programmable_emulator import Emulator

KEY, SECRET, REGION = "canary-key-11c8", "canary-secret-77aa", "us-east-1"
KINDS: tuple[Kind, ...] = ("parquet", "delta", "iceberg")
in_each = pytest.mark.parametrize("kind", KINDS)
NAMES = ("contacts", "contacts__contact_labels", "rejected_rows", "listing_audit")
numbers = count()


def refusal(code: str, status: int) -> Exception:
    """The error of an answer of S3, as s3fs raises it."""
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    error: Exception = translate_boto_error(ClientError(answer, "PutObject"))
    return error


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[str, list[str]]]:
    """The URL of a server for all tests here, and a line for each request."""
    with serve_buckets() as served:
        yield served


@pytest.fixture
def endpoint(server: tuple[str, list[str]]) -> str:
    """The server's URL."""
    return server[0]


@pytest.fixture
def store(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> s3fs.S3FileSystem:
    """The server's buckets, and dlt's settings that reach them."""
    return reach(endpoint, monkeypatch)


def reach(endpoint: str, patch: pytest.MonkeyPatch) -> s3fs.S3FileSystem:
    """Let dlt's settings reach the server, and return its buckets."""
    settings = {
        "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "REGION_NAME": REGION, "ENDPOINT_URL": endpoint,
    }  # fmt: skip
    for name, value in settings.items():
        patch.setenv(f"DESTINATION__FILESYSTEM__CREDENTIALS__{name}", value)
    return s3fs.S3FileSystem(key=KEY, secret=SECRET, endpoint_url=endpoint, use_listings_cache=False)


@pytest.fixture
def place(store: s3fs.S3FileSystem) -> str:
    """A folder that is not there yet, in a new bucket."""
    return new_place(store)


def new_place(store: s3fs.S3FileSystem) -> str:
    """The URL of a folder that is not there yet, in a new bucket."""
    bucket = f"letters-{next(numbers)}"
    store.mkdir(bucket)
    return f"s3://{bucket}/some/where"


def load(world: World, kind: Kind, place: str, **changes: Any) -> Result:
    """Load from a world into a bucket."""
    return run(make_pipeline(kind, place), **{**world.settings, **changes})


def read_bucket(store: s3fs.S3FileSystem, kind: Kind, place: str, endpoint: str) -> tuple[dict[str, Rows], list[Any]]:
    """The tables of contacts, and the columns of each as DuckDB sees them."""
    tables = {}
    for name in NAMES:
        folder = f"{place}/letters_data/{name}"
        if kind == "parquet":
            tables[name] = pq.read_table(folder.removeprefix("s3://"), filesystem=PyFileSystem(FSSpecHandler(store)))
        elif kind == "delta":
            tables[name] = read_arrow(kind, folder, delta_options(endpoint))
        else:
            tables[name] = read_arrow(kind, newest_in(store, folder), iceberg_options(endpoint))
    return {name: rows_of(name, table) for name, table in tables.items()}, [described(tables[name]) for name in NAMES]


def delta_options(endpoint: str) -> dict[str, str]:
    """How deltalake reaches the server."""
    options = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET, "endpoint_url": endpoint}
    return {**options, "region": REGION, "aws_allow_http": "true"}


def iceberg_options(endpoint: str) -> dict[str, str]:
    """How pyiceberg reaches the server."""
    options = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET, "s3.endpoint": endpoint}
    return {**options, "s3.region": REGION}


def newest_in(store: s3fs.S3FileSystem, folder: str) -> str:
    """The URL of the newest metadata of an Iceberg table."""
    return f"s3://{max(store.glob(f'{folder}/metadata/*.metadata.json'))}"


@dataclass(frozen=True)
class Bucket:
    """A bucket that was loaded into twice, and what reads it."""

    kind: Kind
    world: World
    result: Result
    place: str
    store: s3fs.S3FileSystem
    endpoint: str


@pytest.fixture(scope="module", params=KINDS)
def loaded(
    request: pytest.FixtureRequest, server: tuple[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bucket]:
    """Contacts in a bucket, loaded once more after one changed and one came."""
    endpoint, kind = server[0], request.param
    with (
        serve_world(tmp_path_factory.mktemp("loaded"), kind, Emulator(60, 8)) as world,
        pytest.MonkeyPatch.context() as patch,
    ):
        store = reach(endpoint, patch)
        place = new_place(store)
        load(world, kind, place, only=("contacts",))
        amend(world.emulator.contacts, "1", firstName="", lastName=None)
        world.emulator.contacts.grow()
        yield Bucket(kind, world, load(world, kind, place, only=("contacts",)), place, store, endpoint)


def test_loads_replace_the_rows_of_a_bucket(loaded: Bucket) -> None:
    """A bucket holds the rows and types of any other place after a second load, and the audits of both loads."""
    found, columns = read_bucket(loaded.store, loaded.kind, loaded.place, loaded.endpoint)
    held = held_tables(loaded.world.emulator)
    assert {name: found[name] for name in NAMES[:2]} == {name: held[name] for name in NAMES[:2]}
    assert {name: len(rows) for name, rows in found.items()} == dict(loaded.result.tables)
    assert loaded.result.tables["listing_audit"] == 2
    assert columns == [
        [(name, "VARCHAR" if kind == "JSON" else kind) for name, kind in typed_columns(table)] for table in NAMES
    ]


def test_a_bucket_remembers_what_it_was_loaded_with(loaded: Bucket) -> None:
    """A load with another filter than the bucket's is refused before the first request."""
    asked = len(loaded.world.emulator.hits)
    with pytest.raises(SettingsError, match=r"^contacts: the dataset letters_data was loaded without search, and this"):
        load(
            loaded.world,
            loaded.kind,
            loaded.place,
            only=("contacts",),
            contact_filters=ContactFilters(search="a"),
        )
    assert loaded.world.emulator.hits[asked:] == []


def test_descriptions_reach_a_bucket(loaded: Bucket) -> None:
    """Tables in a bucket describe their columns, and where the format can, the table and its key."""
    folder = f"{loaded.place}/letters_data/contacts"
    about = "Postal code as text, leading zeros kept."
    if loaded.kind == "parquet":
        [file] = loaded.store.glob(f"{folder}/*.parquet")
        schema = pq.read_schema(file, filesystem=PyFileSystem(FSSpecHandler(loaded.store)))
        assert schema.field("zip").metadata[b"description"].decode() == about
    elif loaded.kind == "delta":
        delta = DeltaTable(folder, storage_options=delta_options(loaded.endpoint))
        assert delta.metadata().description == CONTACTS.description
        assert [field.metadata["comment"] for field in delta.schema().fields if field.name == "zip"] == [about]
    else:
        iceberg = StaticTable.from_metadata(newest_in(loaded.store, folder), iceberg_options(loaded.endpoint))
        assert iceberg.properties["comment"] == CONTACTS.description
        assert iceberg.schema().find_field("zip").doc == about
        assert iceberg.schema().identifier_field_names() == {"id"}


def test_files_of_earlier_loads_are_requested_few_times(
    begin: Begin, store: s3fs.S3FileSystem, place: str, server: tuple[str, list[str]]
) -> None:
    """A load requests each file of an earlier load at most six times: a HEAD and a GET for each of three reads."""
    world, loads = begin(Emulator(9, 3)), 2
    for _ in range(loads):
        load(world, "parquet", place, only=("contacts",))
    folder = place.removeprefix("s3:/")
    for table in ("listing_audit", "rejected_rows"):
        [first, *_] = sorted(store.glob(f"{place}/letters_data/{table}/*.parquet"))
        requests = [line for line in server[1] if f"{folder}/" in line and first.rpartition("/")[2] in line]
        # a load reads the audits up to three times, each with a HEAD and a GET
        assert 0 < len(requests) <= 6 * loads


@pytest.fixture
def world(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world that the command's environment names."""
    world = begin(Emulator(9, 3))
    world.configure(monkeypatch)
    return world


def test_the_command_loads_into_a_bucket(world: World, place: str, letters: Letters) -> None:
    """The command loads into a bucket, prints where, and shows neither key nor secret."""
    done = letters("load", "--destination", "parquet", "--to", place, "--only", "contacts")
    assert done.code == 0, done.err
    assert f"s: {place}, dataset letters_data\n" in done.out
    assert not any(secret in done.out + done.err for secret in (KEY, SECRET))


@in_each
def test_a_bucket_that_is_not_there_is_one_line(
    world: World, store: s3fs.S3FileSystem, letters: Letters, kind: Kind
) -> None:
    """A bucket that does not exist ends the command with one line before any request to the service."""
    done = letters("load", "--destination", kind, "--to", "s3://nowhere-at-all/x")
    assert done == Outcome(
        2,
        "",
        "letters: s3://nowhere-at-all/x cannot be written: The specified bucket does not exist; "
        "set DESTINATION__FILESYSTEM__CREDENTIALS__..., or choose another --to.\n",
    )
    assert world.emulator.hits == []


def test_a_profile_that_is_not_there_is_one_line(
    world: World, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A profile of AWS that does not exist ends the command with one line, before any request."""
    monkeypatch.setenv("AWS_PROFILE", "nope")
    # with keys of its own, dlt needs no profile
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(f"DESTINATION__FILESYSTEM__CREDENTIALS__{name}", raising=False)
    assert letters("load", "--destination", "parquet", "--to", "s3://nowhere-at-all/x") == Outcome(
        2,
        "",
        "letters: The destination cannot be used: The config profile (nope) could not be found; "
        "set DESTINATION__FILESYSTEM__CREDENTIALS.\n",
    )
    assert world.emulator.hits == []


def test_a_server_that_is_not_there_is_one_line(
    world: World, place: str, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not answer ends the command with one line that names the address and the settings."""
    nowhere = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("DESTINATION__FILESYSTEM__CREDENTIALS__ENDPOINT_URL", nowhere)
    # the client of S3 would try five times, with pauses
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    done = letters("load", "--destination", "parquet", "--to", place)
    assert (done.code, done.out) == (7, "")
    assert done.err.startswith(f"letters: {place} cannot be written: ")
    assert nowhere in done.err
    assert done.err.endswith("; set DESTINATION__FILESYSTEM__CREDENTIALS__..., or choose another --to.\n")
    assert SECRET not in done.err
    assert world.emulator.hits == []


@pytest.mark.parametrize(
    ("error", "is_later"),
    [
        (refusal("AccessDenied", 403), False),
        (refusal("InvalidAccessKeyId", 403), False),
        (refusal("NoSuchBucket", 404), False),
        (refusal("SlowDown", 503), True),
        (refusal("OfNoKnownKind", 500), True),
        (NoCredentialsError(), False),
        (SSLError(endpoint_url="https://s3.example.org", error="self-signed"), False),
        (EndpointConnectionError(endpoint_url="https://s3.example.org"), True),
        (ReadTimeoutError(endpoint_url="https://s3.example.org"), True),
    ],
    ids=repr,
)
def test_only_a_bucket_without_an_answer_is_worth_a_retry(error: Exception, *, is_later: bool) -> None:
    """A server that does not answer, or asks to retry later, is unreachable; one that refuses is not."""
    assert is_unanswered(error) is is_later


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("s3://", "s3:// has no bucket name: write s3://bucket/folder."),
        ("s3:///", "s3:/// has no bucket name: write s3://bucket/folder."),
        ("foo://bucket/x", "The destination cannot be used: Protocol not known: foo; choose another --to."),
    ],
)
def test_a_url_that_leads_nowhere_is_one_line(world: World, letters: Letters, place: str, message: str) -> None:
    """A URL without a bucket, or of an unknown kind, ends the command with one line before any request."""
    done = letters("load", "--destination", "parquet", "--to", place)
    assert done == Outcome(2, "", f"letters: {message}\n")
    assert world.emulator.hits == []


def test_duckdb_files_are_not_for_buckets(world: World, letters: Letters) -> None:
    """A DuckDB file in a bucket is refused, because DuckDB needs a local path."""
    done = letters("load", "--to", "s3://bucket/letters.duckdb")
    assert done.code == 2
    assert "s3://bucket/letters.duckdb is not a local path" in done.err


def test_parts_in_a_bucket_are_loaded(
    begin: Begin, endpoint: str, place: str, store: s3fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks find the bucket by the variables of AWS, and a part that is read again replaces its file."""
    set_variables(monkeypatch, endpoint)
    world = begin(Emulator(300, 3))
    world.settings.update(page_size=50, parts=place)
    for part in (*plan_parts("contacts", 2, **world.settings), 1):
        read_part("contacts", part, **world.settings)
    world.load()
    assert world.is_exact()
    parts = [path.rpartition("/")[2] for path in store.glob(f"{place}/contacts/*/*.parquet")]
    assert sorted(parts) == ["0000.parquet", "0001.parquet", "mend-0000.parquet"]


def test_snapshots_in_a_bucket_are_outdated_but_for_the_published_one(
    world: World, endpoint: str, place: str, store: s3fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The published snapshot, which readers may have open, is kept; earlier and unfinished ones are outdated."""
    set_variables(monkeypatch, endpoint)
    home = parts_of("contacts", place, {"base_url": world.settings["base_url"]})
    names = [f"contacts-{digit * 12}" for digit in "012"]
    for name in (*names, "contacts-of-others"):
        store.pipe_file(f"{place}/{name}/contacts/0.parquet", b"rows")
    folders = [f"{home.folder}/{name}" for name in names]
    assert sorted(find_outdated(home)) == folders
    published = Snapshot("stable", 1, {"contacts": [f"s3a://{home.folder}/{names[1]}/contacts/0.parquet"]})
    home.write(f"{home.folder}/contacts.json", msgspec.json.encode(published))
    assert sorted(find_outdated(home)) == [folders[0], folders[2]]
    home.write(f"{home.folder}/contacts.json", b"damaged")
    assert find_outdated(home) == []


def set_variables(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """Set the variables by which AWS's libraries find the bucket."""
    variables = {"ACCESS_KEY_ID": KEY, "SECRET_ACCESS_KEY": SECRET, "REGION": REGION, "ENDPOINT_URL": endpoint}
    for name, value in variables.items():
        monkeypatch.setenv(f"AWS_{name}", value)
