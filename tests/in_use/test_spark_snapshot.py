"""One huge listing is read in ranges by several tasks of Spark, and published whole or not at all."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sparks import published, take, written
from worlds import ACCESS, REFRESH, World, serve_world

from letters_source import IncompleteListing, ServiceRejected, SettingsError
from letters_source.spark import read_snapshot, snapshot
from programmable_emulator import Behavior, Drift, Emulator, Reply, When

TABLES = ("contacts", "contacts__contact_labels", "rejected_rows")

pytestmark = pytest.mark.usefixtures("usual_service")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """2,000 contacts, in pages of at most 50; each 50th request fails, and one row has no id."""
    emulator = Emulator(2_000, 1, behavior=Behavior(max_page_size=50, fault_every=50))
    emulator.contacts.insert({"id": None, "firstName": "Nobody"})
    with serve_world(tmp_path_factory.mktemp("world"), emulator=emulator) as world:
        yield world


def listed(emulator: Emulator) -> set[str]:
    """The ids that the service lists, apart from that of the row that has none."""
    return set(emulator.contacts.ids()) - {"None"}


def test_a_snapshot_has_the_rows_of_a_load(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """All tables are those of a load with the same settings, and nothing but them and the manifest is left."""
    done = take(spark, world, tmp_path)
    world.load(only=("contacts",))
    loaded = world.tables()
    shown = published(done)
    assert (done.verdict, done.rows) == ("stable", 2_001)
    assert {name: shown[name] for name in TABLES[:2]} == {name: loaded[name] for name in TABLES[:2]}
    assert [row["row"] for row in shown["rejected_rows"]] == [row["row"] for row in loaded["rejected_rows"]]
    assert json.loads((tmp_path / "contacts.json").read_text())["files"] == done.files
    names = {str(path.relative_to(tmp_path).parent).partition("/")[2] for path in tmp_path.rglob("*") if path.is_file()}
    assert names == {"", *TABLES}
    assert read_snapshot(spark, "contacts", str(tmp_path), "contacts").count() == 2_000
    with pytest.raises(SettingsError, match=r"^table must be one of contacts, .*, got 'templates'\.$"):
        read_snapshot(spark, "contacts", str(tmp_path), "templates")


def test_a_listing_that_changes_is_published_whole(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """Every contact that was there throughout is published once, and none that never was."""
    emulator = world.emulator
    emulator.behavior = Behavior(
        max_page_size=50, drift=[Drift("insert", "front", 0.4), Drift("delete", "anywhere", 0.4)]
    )
    held = [listed(emulator)]
    emulator.before_answer = lambda served, _: held.append(listed(served))
    done = take(spark, world, tmp_path)
    emulator.before_answer = None
    held.append(listed(emulator))
    ids = [row["id"] for row in published(done)["contacts"]]
    assert done.verdict == "continuous"
    assert len(held[0] ^ held[-1]) >= 20
    assert len(ids) == len(set(ids))
    assert set.intersection(*held) <= set(ids) <= set.union(*held)


def test_a_listing_whose_rows_jump_is_refused(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """The driver raises the error, and nothing is published or left."""
    emulator = world.emulator

    def jump(served: Emulator, number: int) -> None:
        """Move the last row into the middle."""
        ids = list(served.contacts.ids())
        served.contacts.insert(served.contacts.delete(ids[-1]).document, at=number % 1_500)

    emulator.before_answer = jump
    with pytest.raises(IncompleteListing, match=r"^contacts: .*nothing was loaded"):
        take(spark, world, tmp_path)
    emulator.before_answer = None
    assert list(tmp_path.rglob("*")) == []


def test_a_task_that_fails_is_read_again(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """What attempts leave that Spark does not commit is neither published nor kept."""

    def leave(served: Emulator, number: int) -> None:
        """Leave a file beside those of the ranges."""
        left.extend(folder / "left.parquet" for folder in tmp_path.glob("contacts-*"))
        for path in left:
            path.touch()

    left: list[Path] = []
    world.emulator.before_answer = leave
    world.emulator.canned.once(When("contacts", page=12), Reply(500, headers={"Retry-After": "60"}))
    done = take(spark, world, tmp_path, retry_budget="5")
    world.emulator.before_answer = None
    assert {path.exists() for path in left} == {False}
    ids = [row["id"] for row in published(done)["contacts"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == listed(world.emulator)


def test_an_error_before_the_first_range_is_told_as_it_is(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """A listing that is not there and a proof that ranges cannot give leave nothing."""
    world.emulator.canned.once(When("contacts"), Reply(404))
    with pytest.raises(ServiceRejected, match=r"^contacts page 0: "):
        take(spark, world, tmp_path)
    with pytest.raises(SettingsError, match=r"^contacts: parts cannot be proven exact: "):
        take(spark, world, tmp_path, proof="exact")
    assert list(tmp_path.rglob("*")) == []


def test_the_former_snapshot_stays_for_its_readers(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """The manifest names the newest; the one before it is kept, older ones are deleted."""
    done = [take(spark, world, tmp_path) for _ in range(3)]
    folders = {Path(one.files["contacts"][0].removeprefix("file://")).parents[1].name for one in done[1:]}
    assert {path.name for path in tmp_path.iterdir()} == {"contacts.json", *folders}


def test_no_secret_is_written(spark: SparkSession, world: World, tmp_path: Path, spark_folder: Path) -> None:
    """No token is in the event log, in Spark's output, or in a file of the snapshot."""
    seen: list[bytes] = []

    def look(served: Emulator, number: int) -> None:
        """Keep what is staged so far."""
        seen.extend(path.read_bytes() for path in tmp_path.rglob("*.parquet"))

    world.emulator.before_answer = look
    take(spark, world, tmp_path)
    world.emulator.before_answer = None
    seen.extend(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    spoken = written(spark_folder).encode()
    assert b"SparkListenerTaskEnd" in spoken
    assert not any(token.encode() in text for text in (*seen, spoken) for token in (ACCESS, REFRESH))


def test_the_format_is_not_written_otherwise(spark: SparkSession) -> None:
    """The error names the function that publishes listings."""
    with pytest.raises(PySparkException, match=r"the format letters cannot be written; letters_source.spark.snapshot"):
        spark.range(1).write.format("letters").mode("append").save()


def test_secrets_and_unknown_listings_are_refused(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """As when a table is read."""
    with pytest.raises(SettingsError, match="access_token"):
        take(spark, world, tmp_path, access_token=ACCESS)
    with pytest.raises(SettingsError, match=r"^listing must be one of templates, contacts, got 'letters'\.$"):
        snapshot(spark, "letters", str(tmp_path))
    with pytest.raises(SettingsError, match=r"/contacts\.json is missing\.$"):
        read_snapshot(spark, "contacts", str(tmp_path), "contacts")
