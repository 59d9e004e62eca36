"""Do Spark's tables and snapshots have the rows that a load has, or does the job fail?

The last tests run on a cluster that loses executors and runs slow tasks twice: no row is lost, and none is there twice.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from holdings import KEYS, Rows, held_tables, in_order, parsed, typed_columns
from py4j.java_gateway import JavaGateway
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import spark_partition_id
from row_changes import set_traits
from sparks import (
    SMALL_JAVA,
    Cluster,
    failure,
    published,
    read_table,
    start_cluster,
    start_java,
    start_session,
    take,
    written,
)
from worlds import ACCESS, REFRESH, World, serve_world

from letters_source import IncompleteListing, ServiceRejected, SettingsError, UnusableFile
from letters_source.spark import Snapshot, read_snapshot, snapshot
from letters_source.spark.sessions import slots_of
from letters_source.tables import CONTACTS
from programmable_emulator import Behavior, Drift, Emulator, Hold, Reply, When

PIPELINES = Path(__file__).parents[2] / "pipelines"
SPARK_TYPES = {
    "VARCHAR": "string",
    "JSON": "string",
    "BOOLEAN": "boolean",
    "BIGINT": "bigint",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}
FACETS = {
    "contacts__address_statuses": ("contact_id", "address_status"),
    "contacts__last_mailed_statuses": ("contact_id", "last_mailed_status"),
    "contacts__return_addresses": ("contact_id",),
    "templates__shared": ("template_id",),
}
SHARED = (
    "letters_source.errors.SharedIds: contacts: the accounts A and B share 10 ids on their first pages, so the "
    "service may ignore the account; nothing was loaded. If they really share them, "
    "turn on sources.letters.allow_shared_ids."
)
UNPAGED = (
    "letters_source.errors.ListingUnpaged: contacts: page 3 repeats page 0, so the service ignores the page parameter: "
    "count 36, received 10, missing 26, passes 1; nothing was loaded. Set sources.letters.page_size to 36 or "
    "more, or select fewer rows with filters."
)
JUMPED = (
    # which of both shows depends on the answers that come before
    r"^contacts: (its rows changed order or are listed twice(, for example \S+)?|"
    r"it counts (?P<hidden>\d+) rows? that no page returned, and its count grew by only 0): "
    r"count {count}, received \d+, missing (?(hidden)(?P=hidden)|\d+), passes 1; nothing was loaded\. "
    r"Run again when the listing is quieter, or raise sources\.letters\.max_walks\.$"
)
TOO_LATE = Reply(500, headers={"Retry-After": "60"})
"""A failure that a task does not wait out."""
SHOWN = ("SparkListenerTaskEnd", "Setting default log level")
"""What the event log and Spark's output have."""
TABLES = ("contacts", "contacts__contact_labels", "rejected_rows")
ORDERS = {**KEYS, **FACETS, "rejected_rows": ("listing", "page", "position")}

LAST_WINDOW = When("contacts", page=41, query="pageSize=48")
"""The end of the last of four ranges of 2,000 contacts, which no other range reads."""
CLUSTER = {
    # a job starts when both executors are there
    "spark.scheduler.minRegisteredResourcesRatio": "1",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SMALL_JAVA,
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.efficiency.enabled": "false",
}
LOST = '"Reason":"ExecutorLostFailure"'

pytestmark = pytest.mark.usefixtures("usual_service")
on_cluster = pytest.mark.parametrize("spark", ["cluster"], indirect=True)
"""Tests on a cluster; the others run on one machine."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """35 contacts of the accounts A and B in turn, 5 templates and a row without an id, loaded with facets."""
    emulator = Emulator(35, 5, behavior=Behavior(extra_fields={"countryCode": "US"}))
    for number, row_id in enumerate(emulator.contacts.ids()):
        set_traits(emulator.contacts, row_id, account_id="AB"[number % 2])
    emulator.contacts.insert({"id": None, "firstName": "Nobody"})
    with serve_world(tmp_path_factory.mktemp("world"), emulator=emulator) as world:
        world.load(facets=True, page_size=10)
        yield world


@pytest.fixture(scope="module")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Spark writes."""
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def java(world: World, spark_folder: Path) -> Iterator[JavaGateway]:
    """Spark's Java for all tests here."""
    with start_java(world, spark_folder) as java:
        yield java


@pytest.fixture(scope="module")
def cluster(java: JavaGateway, spark_folder: Path) -> Cluster:
    """A cluster of two workers."""
    return start_cluster(java, spark_folder)


@pytest.fixture(scope="module")
def spark(request: pytest.FixtureRequest, java: JavaGateway) -> Iterator[SparkSession]:
    """A session on two cores of this machine, or on the cluster for tests that request it; Java has one at a time."""
    if hasattr(request, "param"):
        session = start_session(java, request.getfixturevalue("cluster").master, CLUSTER)
    else:
        # a task that fails is run once more
        session = start_session(java, "local[2,2]")
    with session as spark:
        yield spark


@pytest.fixture(scope="module")
def two_accounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """2,000 contacts of the accounts A and B in turn."""
    emulator = Emulator(2_000, 1)
    for number, row_id in enumerate(emulator.contacts.ids()):
        set_traits(emulator.contacts, row_id, account_id="AB"[number % 2])
    with serve_world(tmp_path_factory.mktemp("accounts"), emulator=emulator) as world:
        yield world


@pytest.fixture(scope="module")
def service_of_pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """2,000 contacts, in pages of at most 50; each 50th request fails, and one row has no id."""
    emulator = Emulator(2_000, 1, behavior=Behavior(max_page_size=50, fault_every=50))
    emulator.contacts.insert({"id": None, "firstName": "Nobody"})
    with serve_world(tmp_path_factory.mktemp("pages"), emulator=emulator) as pages:
        yield pages


@pytest.fixture
def pages(service_of_pages: World) -> Iterator[World]:
    """The service of snapshots, which behaves as usual when a test begins."""
    emulator, usual = service_of_pages.emulator, service_of_pages.emulator.behavior
    yield service_of_pages
    emulator.behavior, emulator.before_answer = usual, None
    emulator.canned.clear()


def listed(emulator: Emulator) -> set[str]:
    """The ids that the service lists, apart from that of the row that has none."""
    return set(emulator.contacts.ids()) - {"None"}


def by_key(table: str, rows: Iterable[dict[str, Any]]) -> Rows:
    """Rows in the order of their key, as neither Spark nor DuckDB promises one."""
    return sorted(rows, key=lambda row: [row[name] for name in ORDERS[table]])


@pytest.mark.parametrize("table", ORDERS)
def test_rows_are_those_of_a_load(spark: SparkSession, world: World, table: str) -> None:
    """Each table has the same rows as in DuckDB, with the same values."""
    rows = map(parsed, read_table(spark, world, table).toArrow().to_pylist())
    assert by_key(table, rows) == by_key(table, world.tables()[table])


@pytest.mark.parametrize("table", KEYS)
def test_columns_have_the_types_of_a_load(spark: SparkSession, world: World, table: str) -> None:
    """The columns of each table have the types of a load, with JSON as text."""
    expected = [(name, SPARK_TYPES[kind]) for name, kind in typed_columns(table) if name != "_dlt_load_id"]
    assert read_table(spark, world, table).dtypes == expected


def test_audits_are_those_of_the_reading(spark: SparkSession, world: World) -> None:
    """The table `listing_audit` has the verdicts and row counts of reading both listings."""
    audits = read_table(spark, world, "listing_audit").select("listing", "rows_yielded", "rows_rejected", "verdict")
    assert sorted(map(tuple, audits.collect())) == [("contacts", 35, 1, "stable"), ("templates", 5, 0, "exact")]


def test_an_account_is_a_partition(spark: SparkSession, world: World) -> None:
    """Each account is a partition of its own, and `account_id` is the first column."""
    contacts = read_table(spark, world, "contacts", accounts="A, B")
    assert contacts.columns[:2] == ["account_id", "id"]
    counts = contacts.groupBy(spark_partition_id(), "account_id").count().collect()
    assert sorted(map(tuple, counts)) == [(0, "A", 18), (1, "B", 17)]


def test_accounts_that_share_ids_fail(spark: SparkSession, world: World) -> None:
    """Reading two accounts fails if they have the same ids, as where the service ignores the account."""
    world.emulator.behavior = Behavior(ignore_account=True)
    assert failure(read_table(spark, world, "contacts", accounts="A,B")) == SHARED


def test_an_incomplete_listing_fails_the_job(spark: SparkSession, world: World) -> None:
    """An incomplete listing fails the job with our error, even if one row is requested."""
    world.emulator.behavior = Behavior(ignore_page=True)
    contacts = read_table(spark, world, "contacts")
    assert failure(contacts) == UNPAGED
    assert failure(contacts.limit(1)) == UNPAGED


def test_a_failed_task_runs_again(spark: SparkSession, world: World) -> None:
    """A second attempt of a task reads the listing from the start, and its rows are complete."""
    world.emulator.canned.once(When("contacts", page=2), TOO_LATE)
    before = len(world.emulator.hits)
    labels = read_table(spark, world, "contacts__contact_labels", retry_budget=1).toArrow().to_pylist()
    hits = world.emulator.hits[before:]
    assert by_key("contacts__contact_labels", map(parsed, labels)) == world.tables()["contacts__contact_labels"]
    assert [hit.query for hit in hits if hit.status == 500] == ["page=2&pageSize=10"]
    # the last page, by the first attempt, and by the second one, which reads it again in the end
    assert [hit.query for hit in hits].count("page=3&pageSize=10") == 3


def test_a_table_is_read_for_each_action_unless_it_is_cached(spark: SparkSession, world: World) -> None:
    """Spark requests a table for each action, unless the DataFrame is cached."""
    templates = read_table(spark, world, "templates")
    assert requests_of(world, templates.count, templates.count) == 2
    templates.cache()
    assert requests_of(world, templates.count, templates.count) == 1
    templates.unpersist(blocking=True)


def requests_of(world: World, *actions: Callable[[], object]) -> int:
    """Return the number of requests that actions make."""
    before = len(world.emulator.hits)
    for act in actions:
        act()
    return len(world.emulator.hits) - before


def test_filters_and_policies_are_options(spark: SparkSession, world: World) -> None:
    """Options of a DataFrame set filters and privacy policies."""
    contacts = read_table(spark, world, "contacts", **{"contacts.address_status": "Verified", "pii.email": "drop"})
    ids = {
        row["contact_id"] for row in world.tables()["contacts__address_statuses"] if row["address_status"] == "Verified"
    }
    assert {row.id for row in contacts.select("id").collect()} == ids
    assert contacts.where("email is not null").count() == 0


def test_spark_shows_no_secret(
    spark: SparkSession, world: World, spark_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither what Spark prints and logs nor its plans and event logs have a token, whether refused or used."""
    contacts = read_table(spark, world, "contacts")
    contacts.count()
    with pytest.raises(PySparkException) as caught:
        read_table(spark, world, "contacts", Access_Token="canary-option")
    assert "sources.letters.access_token is a secret, and options are shown" in str(caught.value)
    contacts.explain(extended=True)
    plan, log = capsys.readouterr().out, written(spark_folder)
    assert "BatchScan letters" in plan
    assert [words for words in SHOWN if words not in log] == []
    assert [secret for secret in (ACCESS, REFRESH, "canary-option") if secret in log + plan + str(caught.value)] == []


def test_the_recipe_writes_the_contacts(spark: SparkSession, world: World) -> None:
    """The recipe of the documents writes all contacts into a table with column comments."""
    [recipe] = re.findall(r"```python\n(from pyspark.*?)```", (PIPELINES / "README.md").read_text(), re.DOTALL)
    exec(recipe)  # noqa: S102 -- a block of our own document
    rows = map(parsed, spark.table("contacts").toArrow().to_pylist())
    assert by_key("contacts", rows) == world.tables()["contacts"]
    columns = {one.name: one.description for one in spark.catalog.listColumns("contacts")}
    assert columns == {one.name: one.description for one in CONTACTS.columns}


def test_the_cores_of_one_machine_are_known(spark: SparkSession) -> None:
    """`slots_of` returns 2 for a session on two cores."""
    assert slots_of(spark) == 2


@dataclass(frozen=True)
class Taken:
    """A snapshot, its folder, and all that was in the folder meanwhile or is in it now."""

    done: Snapshot
    folder: Path
    contents: tuple[bytes, ...]


@pytest.fixture(scope="module")
def taken(spark: SparkSession, service_of_pages: World, tmp_path_factory: pytest.TempPathFactory) -> Taken:
    """A snapshot for tests that only read it."""
    folder, staged = tmp_path_factory.mktemp("taken"), list[bytes]()

    def look(served: Emulator, number: int) -> None:
        """Keep what is staged so far."""
        staged.extend(path.read_bytes() for path in folder.rglob("*.parquet"))

    service_of_pages.emulator.before_answer = look
    done = take(spark, service_of_pages, folder)
    service_of_pages.emulator.before_answer = None
    return Taken(done, folder, (*staged, *(path.read_bytes() for path in folder.rglob("*") if path.is_file())))


def test_a_snapshot_has_the_rows_of_a_load(spark: SparkSession, pages: World, taken: Taken) -> None:
    """All tables are those of a load with the same settings, and nothing but them and the manifest is left."""
    done, folder = taken.done, taken.folder
    pages.load(only=("contacts",))
    loaded = pages.tables()
    shown = published(done)
    assert (done.verdict, done.rows) == ("stable", 2_001)
    assert {name: shown[name] for name in TABLES[:2]} == {name: loaded[name] for name in TABLES[:2]}
    assert [row["row"] for row in shown["rejected_rows"]] == [row["row"] for row in loaded["rejected_rows"]]
    assert json.loads((folder / "contacts.json").read_text())["files"] == done.files
    names = {str(path.relative_to(folder).parent).partition("/")[2] for path in folder.rglob("*") if path.is_file()}
    assert names == {"", *TABLES}
    assert read_snapshot(spark, "contacts", str(folder), "contacts").count() == 2_000
    with pytest.raises(SettingsError, match=f"^table must be one of {', '.join(TABLES)}, got 'templates'\\.$"):
        read_snapshot(spark, "contacts", str(folder), "templates")


def test_a_listing_that_changes_is_published_whole(spark: SparkSession, pages: World, tmp_path: Path) -> None:
    """Every contact that was there throughout is published once, and none that never was."""
    emulator = pages.emulator
    emulator.behavior = Behavior(
        max_page_size=50, drift=[Drift("insert", "front", 0.4), Drift("delete", "anywhere", 0.4)]
    )
    held = [listed(emulator)]
    emulator.before_answer = lambda served, _: held.append(listed(served))
    done = take(spark, pages, tmp_path)
    emulator.before_answer = None
    held.append(listed(emulator))
    ids = [row["id"] for row in published(done)["contacts"]]
    assert done.verdict == "continuous"
    assert len(held[0] ^ held[-1]) >= 20
    assert len(ids) == len(set(ids))
    assert set.intersection(*held) <= set(ids) <= set.union(*held)


def test_a_listing_whose_rows_jump_is_refused(spark: SparkSession, pages: World, tmp_path: Path) -> None:
    """A snapshot of a listing whose rows jump raises the error in the driver, and leaves no file."""
    emulator = pages.emulator

    def jump(served: Emulator, number: int) -> None:
        """Move the last row into the middle."""
        ids = list(served.contacts.ids())
        served.contacts.insert(served.contacts.delete(ids[-1]).document, at=number % 1_500)

    emulator.before_answer = jump
    with pytest.raises(IncompleteListing, match=JUMPED.format(count=emulator.contacts.count)):
        take(spark, pages, tmp_path)
    emulator.before_answer = None
    assert list(tmp_path.rglob("*")) == []


def test_a_listing_whose_ranges_cannot_be_linked_is_refused(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """The error for a listing whose rows are all replaced while it is read has the last count and the rows received."""
    rows = [{"id": f"replaced-{number}"} for number in range(40)]
    before = Reply.of({"message": "Success", "data": {"count": len(rows), "rows": rows}})
    # the plan and the only range show rows that no later response has
    world.emulator.canned.once(When("contacts"), before, before)
    with pytest.raises(IncompleteListing) as caught:
        take(spark, world, tmp_path, page_size="50")
    assert str(caught.value) == (
        "contacts: its rows shifted faster than overlapping pages could follow: count 36, received 76, missing -40, "
        "passes 1; nothing was loaded. Run again when the listing is quieter, or raise sources.letters.max_walks."
    )
    assert list(tmp_path.rglob("*")) == []


def test_a_task_that_fails_is_read_again(spark: SparkSession, pages: World, tmp_path: Path) -> None:
    """A snapshot with a task that failed once has every row once, and files of lost attempts are removed."""

    def leave(served: Emulator, number: int) -> None:
        """Leave a file next to those of the ranges."""
        left.extend(folder / "left.parquet" for folder in tmp_path.glob("contacts-*"))
        for path in left:
            path.touch()

    left: list[Path] = []
    pages.emulator.before_answer = leave
    pages.emulator.canned.once(When("contacts", page=12), Reply(500, headers={"Retry-After": "60"}))
    done = take(spark, pages, tmp_path, retry_budget="5")
    pages.emulator.before_answer = None
    assert {path.exists() for path in left} == {False}
    ids = [row["id"] for row in published(done)["contacts"]]
    assert len(ids) == len(set(ids))
    assert set(ids) == listed(pages.emulator)


def test_an_error_before_the_first_range_is_raised_unchanged(spark: SparkSession, pages: World, tmp_path: Path) -> None:
    """A snapshot of a missing listing, or with proof `exact`, raises our error and leaves no file."""
    pages.emulator.canned.once(When("contacts"), Reply(404))
    with pytest.raises(ServiceRejected, match=r"^contacts page 0 \(http"):
        take(spark, pages, tmp_path)
    with pytest.raises(SettingsError, match=r"^contacts: parts cannot be proven exact; "):
        take(spark, pages, tmp_path, proof="exact")
    assert list(tmp_path.rglob("*")) == []


def test_a_url_that_spark_cannot_read_is_refused(spark: SparkSession, pages: World) -> None:
    """A snapshot in a bucket fails before the first request if Spark lacks the library for it."""
    asked = len(pages.emulator.hits)
    with pytest.raises(SettingsError) as caught:
        take(spark, pages, "s3://bucket/letters")
    assert str(caught.value) == (
        "Spark cannot read s3://bucket/letters: java.lang.RuntimeException: java.lang.ClassNotFoundException: "
        "Class org.apache.hadoop.fs.s3a.S3AFileSystem not found; add hadoop-aws to spark.jars.packages."
    )
    with pytest.raises(SettingsError, match=r"^Spark cannot read file://elsewhere/letters: .+\.$"):
        take(spark, pages, "file://elsewhere/letters")
    assert pages.emulator.hits[asked:] == []


def test_the_previous_snapshot_stays_for_its_readers(spark: SparkSession, world: World, tmp_path: Path) -> None:
    """A third snapshot keeps the folder of the second for its readers, and removes that of the first."""
    done = [take(spark, world, tmp_path, page_size="50") for _ in range(3)]
    folders = {Path(one.files["contacts"][0].removeprefix("file://")).parents[1].name for one in done[1:]}
    assert {path.name for path in tmp_path.iterdir()} == {"contacts.json", *folders}


def test_no_secret_is_written(taken: Taken, spark_folder: Path) -> None:
    """No token is in the event log, in Spark's output, or in a file of the snapshot."""
    spoken = written(spark_folder).encode()
    assert b"SparkListenerTaskEnd" in spoken
    assert not any(token.encode() in text for text in (*taken.contents, spoken) for token in (ACCESS, REFRESH))


def test_the_format_is_not_written_otherwise(spark: SparkSession) -> None:
    """Writing the format `letters` is an error that names `snapshot`."""
    with pytest.raises(PySparkException, match=r"the format letters cannot be written; letters_source.spark.snapshot"):
        spark.range(1).write.format("letters").mode("append").save()


def test_secrets_and_unknown_listings_are_refused(spark: SparkSession, pages: World, tmp_path: Path) -> None:
    """A snapshot refuses secrets and unknown listings, and reading one fails if its manifest is missing."""
    with pytest.raises(SettingsError, match="access_token"):
        take(spark, pages, tmp_path, access_token=ACCESS)
    with pytest.raises(SettingsError, match=r"^listing must be one of templates, contacts, got 'letters'\.$"):
        snapshot(spark, "letters", str(tmp_path))
    with pytest.raises(UnusableFile, match=r"/contacts\.json is missing; write it again\.$"):
        read_snapshot(spark, "contacts", str(tmp_path), "contacts")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Threads for what waits for requests."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def one_task_lost(spark: SparkSession, spark_folder: Path) -> Iterator[None]:
    """Raise unless one task was lost with its executor."""
    before = written(spark_folder).count(LOST)
    yield
    assert written(spark_folder).count(LOST) - before == 1


def lose_executor(cluster: Cluster, holds: Sequence[Hold]) -> None:
    """Kill an executor of the cluster while all requests are held, then release them."""
    release(holds, cluster.kill_executor)


def release(holds: Sequence[Hold], before: Callable[[], object] = lambda: None) -> None:
    """Release requests once all have come and something else is done."""
    try:
        for hold in holds:
            assert hold.arrived.wait(300), hold.when
        before()
    finally:
        for hold in holds:
            hold.released.set()


def check_table(frame: DataFrame, world: World) -> None:
    """Raise if the contacts of both accounts are not what the service holds."""
    rows: Rows = [parsed(row) for row in frame.toArrow().to_pylist()]
    accounts = {row["id"]: row.pop("account_id") for row in rows}
    assert in_order("contacts", rows) == held_tables(world.emulator)["contacts"]
    assert accounts == {row.id: row.traits.account_id for row in world.emulator.contacts.rows()}


def check_snapshot(done: Snapshot, world: World, to: Path) -> None:
    """Raise if a snapshot is not what the service holds, or if there is anything but it and its manifest."""
    held, shown = held_tables(world.emulator), published(done)
    assert (done.verdict, done.rows) == ("stable", 2_000)
    assert {name: shown[name] for name in TABLES[:2]} == {name: held[name] for name in TABLES[:2]}
    files = {Path(name.removeprefix("file://")) for names in done.files.values() for name in names}
    assert {path for path in to.rglob("*") if path.is_file()} == {to / "contacts.json", *files}


@on_cluster
@pytest.mark.usefixtures("one_task_lost")
def test_a_table_is_whole_though_an_executor_is_killed(
    spark: SparkSession, two_accounts: World, cluster: Cluster, pool: ThreadPoolExecutor
) -> None:
    """Another executor runs the lost task again, and each row is there once."""
    frame = read_table(spark, two_accounts, "contacts", accounts="A,B", page_size=50)
    with two_accounts.emulator.hold(When("contacts", page=3), When("contacts", page=3)) as holds:
        losing = pool.submit(lose_executor, cluster, holds)
        check_table(frame, two_accounts)
    losing.result()


@on_cluster
@pytest.mark.usefixtures("one_task_lost")
def test_a_snapshot_is_whole_though_an_executor_is_killed(
    spark: SparkSession, two_accounts: World, cluster: Cluster, pool: ThreadPoolExecutor, tmp_path: Path
) -> None:
    """A snapshot has every row once though an executor was killed and two attempts finished at once."""
    ranges = When("contacts", page=3), When("contacts", page=15)
    with two_accounts.emulator.hold(*ranges, LAST_WINDOW, LAST_WINDOW) as holds:
        losing = pool.submit(lose_executor, cluster, holds[:2])
        # both attempts get the end of the range at the same moment, and may both write a file
        releasing = pool.submit(release, holds[2:])
        check_snapshot(take(spark, two_accounts, tmp_path, page_size="50"), two_accounts, tmp_path)
    losing.result()
    releasing.result()


@on_cluster
def test_a_slow_task_of_a_table_is_overtaken(spark: SparkSession, two_accounts: World) -> None:
    """A table has every row once though the first attempt of a task still waits for the service."""
    frame = read_table(spark, two_accounts, "contacts", accounts="A,B", page_size=50)
    with two_accounts.emulator.hold(When("contacts", page=3, query="account_id=A")) as [first]:
        check_table(frame, two_accounts)
        assert (first.arrived.is_set(), first.released.is_set()) == (True, False)


@on_cluster
def test_a_slow_range_is_overtaken(spark: SparkSession, two_accounts: World, tmp_path: Path) -> None:
    """The snapshot is published while the first attempt still waits for the service, which leaves nothing."""
    with two_accounts.emulator.hold(LAST_WINDOW) as [first]:
        check_snapshot(take(spark, two_accounts, tmp_path, page_size="50"), two_accounts, tmp_path)
        assert (first.arrived.is_set(), first.released.is_set()) == (True, False)
