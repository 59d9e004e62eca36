"""Where a load goes, what is checked first, and how dlt is configured for it."""

import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import dlt
import duckdb
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext
from dlt.destinations.exceptions import DatabaseException

from letters_source.config.settings import Kind
from letters_source.destination.duckdb_file import check_duckdb
from letters_source.destination.kinds import place_of
from letters_source.destination.loading import load_config
from letters_source.destination.local_files import check_folder, check_writable
from letters_source.destination.pipeline import DUCKDB_CONFIG, account_pipelines, make_pipeline
from letters_source.destination.place import Held
from letters_source.errors import DestinationError, LoadFailed

FAILING: dict[str, Any] = {"delete_completed_jobs": True, "raise_on_failed_jobs": True}
EXTRACT = {"futures_poll_interval": 0.001}
pytestmark = pytest.mark.usefixtures("work")


@pytest.fixture
def work(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that tests work in; dlt keeps its own files in another one below it."""
    monkeypatch.setenv("DLT_DATA_DIR", str(project / "dlt"))
    Container()[PluggableRunContext].reload_providers()
    return project


def pipeline_to(destination: Any) -> dlt.Pipeline:
    """A pipeline of the user's own."""
    return dlt.pipeline("mine", destination=destination, dataset_name="my_data")


def path_of(pipeline: dlt.Pipeline) -> Path | None:
    """The file or folder that a pipeline loads into."""
    return place_of(pipeline).path


def check_destination(pipeline: dlt.Pipeline) -> None:
    """Check where a pipeline loads to, as a load does."""
    place = place_of(pipeline)
    place.kind.check(place)


def hold_open(pipeline: dlt.Pipeline) -> AbstractContextManager[Held]:
    """Lock where a pipeline loads to, as a load does."""
    place = place_of(pipeline)
    return place.kind.lock(place, 0)


def replace_strategy(pipeline: dlt.Pipeline) -> Any:
    """The replace strategy of a load."""
    place = place_of(pipeline)
    with place.kind.lock(place, 0) as held:
        return place.kind.loading(place, held).config_params.get("replace_strategy")


def loading(held: Held) -> Any:
    """The dlt destination that loads into our pipeline's file."""
    place = place_of(make_pipeline())
    return place.kind.loading(place, held)


def refusal(check: Callable[[], object]) -> str:
    """The message of the error that a check ends with."""
    with pytest.raises(DestinationError) as caught:
        check()
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_an_error_about_an_argument_names_it(work: Path) -> None:
    """`key` names the argument of `make_pipeline` or `account_pipelines` to change."""
    kind: Any = "oracle"
    wrong: dict[str, Callable[[], object]] = {
        "kind": partial(make_pipeline, kind),
        "to": partial(make_pipeline, "parquet", "s3://"),
        "dataset": partial(make_pipeline, "duckdb", work / "there.duckdb", "9"),
        "accounts": partial(account_pipelines, "duckdb", work / "there.duckdb", "a", ["x", "X"]),
    }
    for key, check in wrong.items():
        with pytest.raises(DestinationError) as caught:
            check()
        assert caught.value.key == key


@pytest.mark.parametrize(
    ("kind", "name", "destination", "place"),
    [
        ("duckdb", "letters", "duckdb", "letters.duckdb"),
        ("parquet", "letters_parquet", "filesystem", "letters_parquet"),
        ("delta", "letters_delta", "filesystem", "letters_delta"),
        ("iceberg", "letters_iceberg", "filesystem", "letters_iceberg"),
    ],
)
def test_pipelines_go_to_the_working_directory(work: Path, kind: Kind, name: str, destination: str, place: str) -> None:
    """Each kind of destination has a pipeline name and a default place in the working directory, which is not made."""
    pipeline = make_pipeline(kind)
    assert (pipeline.pipeline_name, pipeline.dataset_name) == (name, "letters_data")
    assert pipeline.destination.destination_name == destination
    assert path_of(pipeline) == work / place
    assert not (work / place).exists()


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
@pytest.mark.parametrize("to", ["some/where.x", Path("some/where.x")])
def test_pipelines_go_to_the_given_place(work: Path, kind: Kind, to: Path | str) -> None:
    """A relative place is resolved from the working directory of the call, even if that changes later."""
    pipeline = make_pipeline(kind, to, name="other")
    os.chdir(work / ".dlt")
    assert path_of(pipeline) == work / "some/where.x"
    assert pipeline.pipeline_name == {"duckdb": "other", "parquet": "other_parquet"}[kind]


@pytest.mark.parametrize("kind", ["duckdb", "parquet"])
def test_a_dataset_of_its_own_has_a_pipeline_of_its_own(work: Path, kind: Kind) -> None:
    """A pipeline's name includes a dataset other than the default, because dlt keeps one dataset a name."""
    found = make_pipeline(kind, "there", "letters_2024"), make_pipeline(kind, "there", "letters_2024", "other")
    names = {"duckdb": ["letters_letters_2024", "other_letters_2024"]}
    names["parquet"] = [f"{name}_parquet" for name in names["duckdb"]]
    assert [pipeline.pipeline_name for pipeline in found] == names[kind]
    assert [pipeline.dataset_name for pipeline in found] == ["letters_2024"] * 2
    assert {path_of(pipeline) for pipeline in found} == {work / "there"}


@pytest.mark.parametrize(
    "dataset",
    [
        "", "Letters", "2024_letters", "_letters", "letters-2024", "letters data", 'a"b', "été", "a__b", "a_", "a\n",
        "a" * 49,
    ],
)  # fmt: skip
def test_a_dataset_s_name_is_of_words_with_single_underscores_between_them(work: Path, dataset: str) -> None:
    """A dataset name that dlt would rename or an engine refuse is an error, and nothing is made."""
    before = sorted(work.iterdir())
    for kind in get_args(Kind):
        assert refusal(partial(make_pipeline, kind, "there", dataset)) == (
            "dataset must start with a letter and contain only lowercase letters, digits and single "
            f"underscores between them, at most 48 characters (got {dataset})."
        )
    assert sorted(work.iterdir()) == before


@pytest.mark.parametrize("dataset", ["letters_data_staging", "a_staging"])
def test_a_dataset_named_as_dlt_s_own_is_refused(dataset: str) -> None:
    """A dataset named like dlt's staging dataset is refused, because dlt empties that."""
    for kind in get_args(Kind):
        assert refusal(partial(make_pipeline, kind, "there", dataset)) == (
            f"{dataset} ends in _staging, like dlt's staging datasets; choose another dataset."
        )


@pytest.mark.parametrize("dataset", ["a", "a1", "letters_2024", "a_1_b2", "staging", "a" * 48])
def test_a_dataset_s_name_is_the_one_that_dlt_writes(work: Path, dataset: str) -> None:
    """dlt writes a dataset under the name that was given, up to 48 characters."""
    for kind in set(get_args(Kind)) - {"postgres"}:
        assert path_of(make_pipeline(kind, "there", dataset)) == work / "there"
    assert make_pipeline("postgres", dataset=dataset).dataset_name == dataset
    assert make_pipeline("duckdb", "there", dataset).sql_client().dataset_name == dataset


def test_each_account_has_a_pipeline_into_a_dataset_of_its_own(work: Path) -> None:
    """Each account has a pipeline into its own dataset, named by its letters and digits in lowercase."""
    found = account_pipelines("duckdb", "all.duckdb", "letters_data", ["501", "Main  Street", "_502!"])
    assert {account: (pipeline.dataset_name, pipeline.pipeline_name) for account, pipeline in found.items()} == {
        "501": ("letters_data_501", "letters_letters_data_501"),
        "Main  Street": ("letters_data_main_street", "letters_letters_data_main_street"),
        "_502!": ("letters_data_502", "letters_letters_data_502"),
    }
    assert {path_of(pipeline) for pipeline in found.values()} == {work / "all.duckdb"}


@pytest.mark.parametrize("accounts", [["a-1", "A 1"], ["501", "-501"], ["501", "502", "501_"], ["*", "-"]])
def test_accounts_that_would_share_a_dataset_are_refused(accounts: list[str]) -> None:
    """Accounts whose datasets would have the same name are refused."""
    for kind in get_args(Kind):
        assert refusal(partial(account_pipelines, kind, None, "letters_data", accounts)) == (
            f"Two of the accounts {', '.join(accounts)} would share a dataset; load one into another dataset."
        )


@pytest.mark.parametrize(("account", "dataset"), [("*", "letters_data_"), ("5" * 40, f"letters_data_{'5' * 40}")])
def test_an_account_that_no_dataset_can_be_named_after_is_refused(account: str, dataset: str) -> None:
    """An account is refused if its dataset's name would be malformed or too long."""
    assert refusal(lambda: account_pipelines("duckdb", None, "letters_data", ["501", account])) == (
        "dataset must start with a letter and contain only lowercase letters, digits and single "
        f"underscores between them, at most 48 characters (got {dataset})."
    )


@pytest.mark.parametrize(
    ("accounts", "to"),
    [
        (["501", "All"], "letters.duckdb"),
        (["501"], "letters_data_all.db"),
        (["501"], "Letters_Data_All"),
        (["501"], "letters_data_all.v1.duckdb"),
    ],
)
def test_no_account_and_no_file_is_named_as_the_views_that_unite_accounts(accounts: list[str], to: str) -> None:
    """An account or file named like the dataset of the views over accounts is refused."""
    assert refusal(lambda: account_pipelines("duckdb", to, "letters_data", accounts)) == (
        "letters_data_all is reserved for views over accounts: no account or file can use this name."
    )
    account_pipelines("duckdb", to, "mine", ["501"])


def test_accounts_may_be_numbers(work: Path) -> None:
    """Accounts may be numbers, as schedulers read them from JSON."""
    numbers: Any = [501, 502]
    found = account_pipelines("duckdb", None, "letters_data", numbers)
    assert [pipeline.dataset_name for pipeline in found.values()] == ["letters_data_501", "letters_data_502"]


def test_a_pipeline_without_a_kind_goes_to_duckdb(work: Path) -> None:
    """The default destination is DuckDB, with settings that limit its memory."""
    pipeline = make_pipeline()
    config: Any = pipeline.destination_client().config
    assert path_of(pipeline) == work / "letters.duckdb"
    assert config.credentials.global_config == DUCKDB_CONFIG


def test_duckdb_takes_no_more_threads_than_its_memory_is_enough_for(work: Path) -> None:
    """DuckDB uses one thread on a machine of eight, because its memory limit is too small for more."""
    with duckdb.connect(str(work / "letters.duckdb")) as machine:
        machine.execute("SET threads = 8")
        with make_pipeline().sql_client() as client:
            assert client.execute_sql("SELECT current_setting('threads')") == [(1,)]


def test_duckdb_takes_no_more_files_at_once_than_its_memory_is_enough_for(work: Path) -> None:
    """A load copies two files at once; with dlt's default of 20, 500,000 contacts in files of 40,000 failed."""
    destination = loading(Held())
    assert destination.capabilities().max_parallel_load_jobs == 2


@pytest.mark.parametrize("kind", ["oracle", "DuckDB", ""])
def test_an_unknown_kind_of_destination_is_refused(work: Path, kind: Any) -> None:
    """The error for an unknown kind of destination lists the known ones, and nothing is made."""
    before = sorted(work.iterdir())
    for to in (None, "there"):
        assert refusal(partial(make_pipeline, kind, to)) == (
            f"The destination must be one of duckdb, parquet, delta, iceberg, postgres, got {kind}."
        )
    assert sorted(work.iterdir()) == before


@pytest.mark.parametrize(
    "name",
    [
        "letters_data", "letters_data.duckdb", "below/letters_data.db", "Letters_Data.duckdb", "LETTERS_DATA",
        "letters_data.old.duckdb", "letters_data_staging.duckdb",
    ],
)  # fmt: skip
def test_a_duckdb_file_named_as_the_dataset_is_refused(name: str) -> None:
    """A DuckDB file named like its dataset, in any case, is refused; a Parquet folder may have that name."""
    assert refusal(lambda: make_pipeline("duckdb", name)) == (
        f"A DuckDB file named {Path(name).name} cannot hold the dataset letters_data: rename one."
    )
    make_pipeline("parquet", name)


@pytest.mark.parametrize("name", ["temp", "system", "information_schema", "pg_catalog", "letters_data_all"])
def test_schemas_that_are_taken_are_no_datasets(name: str) -> None:
    """DuckDB's own schemas and that of the views are refused as datasets, except for Parquet folders."""
    message = f"{name} is reserved for DuckDB or for views over accounts; choose another dataset."
    assert refusal(lambda: make_pipeline("duckdb", dataset=name)) == message
    make_pipeline("parquet", dataset=name)


def test_a_duckdb_file_named_as_another_dataset_is_refused() -> None:
    """A DuckDB file named like the requested dataset is refused, and one named like the default is accepted."""
    assert refusal(lambda: make_pipeline("duckdb", "mine.duckdb", "mine")) == (
        "A DuckDB file named mine.duckdb cannot hold the dataset mine: rename one."
    )
    make_pipeline("duckdb", "letters_data.duckdb", "mine")


def test_the_file_of_a_duckdb_destination_is_known(work: Path) -> None:
    """A place has the file of a default, relative, absolute, named or opened DuckDB destination."""
    assert path_of(pipeline_to("duckdb")) == work / "mine.duckdb"
    assert path_of(pipeline_to(dlt.destinations.duckdb("new.duckdb"))) == work / "new.duckdb"
    assert path_of(pipeline_to(dlt.destinations.duckdb(str(work / "a b.db")))) == work / "a b.db"
    named = dlt.destinations.duckdb("named.duckdb", destination_name="warehouse")
    assert path_of(pipeline_to(named)) == work / "named.duckdb"
    with duckdb.connect(str(work / "open.duckdb")) as connection:
        assert path_of(pipeline_to(dlt.destinations.duckdb(connection))) == work / "open.duckdb"


def test_the_file_of_our_pipeline_needs_no_dlt_configuration(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place has the file that dlt opens, even if the environment names another one."""
    monkeypatch.setenv("DESTINATION__DUCKDB__CREDENTIALS__DATABASE", str(work / "other.duckdb"))
    pipeline = make_pipeline()
    config: Any = pipeline.destination_client().config
    assert path_of(pipeline) == work / "letters.duckdb" == Path(config.credentials.database)


def test_each_place_has_a_working_folder_of_its_own(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Places that differ in kind, file, server or dataset have different working folders; links lead to one."""
    (work / "link.duckdb").symlink_to(work / "a.duckdb")
    places: list[tuple[Kind, str | None, str]] = [
        ("duckdb", "a.duckdb", "letters_data"),
        ("duckdb", "b.duckdb", "letters_data"),
        ("duckdb", "a.duckdb", "other"),
        ("parquet", "a.duckdb", "letters_data"),
        ("parquet", "s3://bucket/a", "letters_data"),
        ("delta", "s3://bucket/a", "letters_data"),
    ]
    folders = [make_pipeline(*place).working_dir for place in places]
    for server in ("one", "two"):
        monkeypatch.setenv("DESTINATION__POSTGRES__CREDENTIALS", f"postgresql://{server}/letters")
        folders.append(make_pipeline("postgres").working_dir)
    assert len(set(folders)) == len(folders)
    assert make_pipeline("duckdb", "link.duckdb").working_dir == make_pipeline("duckdb", "a.duckdb").working_dir
    assert all(Path(folder).is_relative_to(work / "dlt/letters") for folder in folders)


def test_links_are_followed(work: Path) -> None:
    """Symbolic links are resolved, because DuckDB would open a file of two names twice."""
    (work / "disk").mkdir()
    for link, target in (("letters.duckdb", "disk/real.duckdb"), ("letters_parquet", "disk/real")):
        (work / link).symlink_to(work / target)
    assert path_of(make_pipeline()) == work / "disk/real.duckdb"
    assert path_of(make_pipeline("parquet")) == work / "disk/real"


@pytest.mark.parametrize("name", ["circle.duckdb", "nowhere.duckdb", "a" * 300])
def test_a_place_where_no_file_can_be_is_refused(work: Path, name: str) -> None:
    """A broken or circular link and a name that is too long are refused as DuckDB files."""
    (work / "circle.duckdb").symlink_to("circle.duckdb")
    (work / "nowhere.duckdb").symlink_to("missing")
    with pytest.raises(DestinationError, match=r"cannot be reached: .+; choose another path"):
        check_duckdb(work / name)


@pytest.mark.parametrize("taken", ["dlt", "state.json"])
def test_a_working_folder_that_cannot_be_used_is_named(work: Path, taken: str) -> None:
    """The error for an unusable working folder of dlt names it and DLT_DATA_DIR."""
    working_dir = Path(make_pipeline().working_dir)
    shutil.rmtree(work / "dlt")
    place = work / "dlt" if taken == "dlt" else working_dir / taken
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(place)
    with pytest.raises(
        DestinationError, match=f"^dlt's working directory cannot be used: .+: {work}/dlt.*; set DLT_DATA_DIR"
    ):
        make_pipeline()


def test_a_working_folder_with_a_file_that_was_cut_off_is_named(work: Path) -> None:
    """The error for a truncated file in dlt's working folder, as after a power failure, says what to remove."""
    state = Path(make_pipeline().working_dir) / "state.json"
    state.write_bytes(b"")
    with pytest.raises(
        DestinationError, match=rf"^dlt's working directory contains a truncated file: remove {state.parent}\.$"
    ):
        make_pipeline()


@pytest.mark.parametrize("sign", "[]*?")
def test_a_folder_that_dlt_would_mistake_for_a_pattern_is_refused(work: Path, sign: str) -> None:
    """A folder with a wildcard in its name is refused, because dlt would not find its files."""
    (work / f"a{sign}b").mkdir()
    message = refusal(lambda: check_destination(make_pipeline("parquet", f"a{sign}b/c")))
    assert message.startswith(f"{work}/a{sign}b/c: dlt reads [, ], * and ? as wildcards")


@pytest.mark.parametrize("destination", ["dummy", "memory://bucket"])
def test_places_beyond_this_machine_have_no_path(destination: str) -> None:
    """Buckets and servers have no path."""
    place = destination if destination == "dummy" else dlt.destinations.filesystem(destination)
    assert path_of(pipeline_to(place)) is None


def test_a_duckdb_file_that_does_not_exist_yet_is_written_once() -> None:
    """A load into a new DuckDB file truncates and inserts, without staging."""
    assert replace_strategy(make_pipeline()) == "truncate-and-insert"
    assert replace_strategy(pipeline_to(dlt.destinations.duckdb("new.duckdb"))) == "truncate-and-insert"


def test_a_duckdb_file_that_exists_keeps_its_old_rows_until_all_new_ones_are_there(work: Path) -> None:
    """A load into an existing DuckDB file inserts from staging tables, which are emptied afterwards."""
    pipeline = make_pipeline()
    duckdb.connect(str(work / "letters.duckdb")).close()
    for each in (pipeline, make_pipeline(), pipeline_to(dlt.destinations.duckdb("letters.duckdb"))):
        assert replace_strategy(each) == "insert-from-staging"
        assert load_config(place_of(each)) == {"load": {**FAILING, "truncate_staging_dataset": True}}


def test_a_new_duckdb_file_is_removed_when_the_load_fails(work: Path) -> None:
    """A new DuckDB file is removed after an error, and stays after success."""
    file = work / "letters.duckdb"

    def fail() -> None:
        assert file.exists()
        raise KeyError

    with pytest.raises(KeyError), hold_open(make_pipeline()):
        fail()
    assert not file.exists()
    with hold_open(make_pipeline()):
        assert file.exists()
    assert file.exists()


BREAK_OFF = "SET debug_checkpoint_abort = 'before_header'; CHECKPOINT"
"""Ends in an error of DuckDB's after which it does nothing more for anybody who has the file open."""


def leave_log(*statements: str) -> None:
    """Begin a load that fails with its rows in DuckDB's log, after statements that may fail too."""

    def fail() -> None:
        with make_pipeline().sql_client() as client:
            client.execute_sql("PRAGMA disable_checkpoint_on_shutdown; CREATE SCHEMA letters_data")
            client.execute_sql("CREATE TABLE letters_data.lost AS SELECT 1 AS n")
            for statement in statements:
                with suppress(DatabaseException):
                    client.execute_sql(statement)
        assert Path("letters.duckdb.wal").exists()
        raise KeyError

    with pytest.raises(KeyError), hold_open(make_pipeline()):
        fail()


@pytest.mark.parametrize("statements", [(), (BREAK_OFF,)])
def test_a_new_duckdb_file_is_removed_with_its_log(work: Path, statements: tuple[str, ...]) -> None:
    """A new DuckDB file is removed together with DuckDB's log, which holds rows after a crash."""
    leave_log(*statements)
    assert not list(work.glob("letters.duckdb*"))


def test_a_new_duckdb_file_stays_if_another_program_filled_it_too(work: Path) -> None:
    """A failed load keeps a new DuckDB file in which another program has made a table."""
    leave_log("CREATE SCHEMA another", "CREATE TABLE another.kept AS SELECT 1 AS n")
    with duckdb.connect(str(work / "letters.duckdb")) as connection:
        assert connection.sql("FROM another.kept").fetchall() == [(1,)]


def test_a_file_that_is_removed_while_it_is_loaded_is_a_failed_load(work: Path) -> None:
    """A load fails if its DuckDB file is removed meanwhile."""
    with pytest.raises(LoadFailed, match="was removed during the load"), hold_open(make_pipeline()):
        (work / "letters.duckdb").unlink()


def test_a_duckdb_file_that_was_there_stays_when_a_load_fails(work: Path) -> None:
    """A failed load keeps an existing DuckDB file with its tables."""
    file = work / "letters.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    with pytest.raises(KeyError), hold_open(make_pipeline()):
        raise KeyError
    with duckdb.connect(str(file)) as connection:
        assert connection.sql("FROM kept").fetchall() == [(1,)]


def test_a_new_file_that_another_process_made_first_is_not_removed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A load that cannot open a new file does not remove it, because another process has made it."""
    pipeline, file = make_pipeline(), work / "letters.duckdb"

    def lose() -> None:
        """Find the file created and locked by another process, which was faster."""
        file.write_text("another's")
        raise duckdb.IOException

    monkeypatch.setattr(pipeline, "sql_client", lose)
    with pytest.raises(duckdb.IOException), hold_open(pipeline):
        pass
    assert file.read_text() == "another's"


@pytest.mark.parametrize("destination", ["dummy", "memory://bucket", "folder"])
def test_other_destinations_are_not_held(work: Path, destination: str) -> None:
    """For other destinations `hold_open` creates no file, and errors pass through."""
    before = sorted(work.iterdir())
    place = destination if destination == "dummy" else dlt.destinations.filesystem(destination)
    with pytest.raises(KeyError), hold_open(pipeline_to(place)):
        raise KeyError
    assert [path for path in sorted(work.iterdir()) if path.name != "dlt"] == [
        path for path in before if path.name != "dlt"
    ]


def test_files_are_replaced_without_staging(work: Path) -> None:
    """Plain files are replaced without staging; Delta and Iceberg replace in one commit."""
    (work / "letters_parquet").mkdir()
    for kind in ("delta", "iceberg"):
        assert replace_strategy(make_pipeline(kind)) == "insert-from-staging"
    for pipeline in (make_pipeline("parquet"), pipeline_to(dlt.destinations.filesystem("memory://bucket"))):
        assert replace_strategy(pipeline) == "truncate-and-insert"
        assert load_config(place_of(pipeline)) == {"load": FAILING}


def test_other_databases_keep_their_old_rows_until_all_new_ones_are_there() -> None:
    """Other databases insert from staging tables, which are emptied afterwards."""
    pipeline = pipeline_to(dlt.destinations.sqlalchemy("sqlite:///letters.sqlite"))
    assert replace_strategy(pipeline) == "insert-from-staging"
    assert load_config(place_of(pipeline)) == {"load": {**FAILING, "truncate_staging_dataset": True}}


def test_local_places_that_can_be_written_pass_and_stay_as_they_are(work: Path) -> None:
    """The check accepts writable places, makes no file or folder, and changes none."""
    before = sorted(work.iterdir())
    places: tuple[tuple[Kind, str], ...] = (("duckdb", "letters.duckdb"), ("parquet", "some/folder"), ("parquet", "."))
    for kind, to in places:
        check_destination(make_pipeline(kind, to))
    assert [path for path in work.iterdir() if path.name != "dlt"] == [path for path in before if path.name != "dlt"]
    with duckdb.connect(str(work / "letters.duckdb")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS n")
    content = (work / "letters.duckdb").read_bytes()
    check_destination(make_pipeline())
    assert (work / "letters.duckdb").read_bytes() == content


def test_local_places_of_the_users_own_pipelines_are_checked_too(work: Path) -> None:
    """The check also refuses unusable files and folders of a pipeline that the user made."""
    (work / "notes.txt").write_text("notes")
    folder = pipeline_to(dlt.destinations.filesystem((work / "notes.txt").as_uri()))
    assert refusal(lambda: check_destination(folder)) == (
        f"{work / 'notes.txt'} is a file, not a folder; choose another path."
    )
    file = pipeline_to(dlt.destinations.duckdb(str(work / "none/new.duckdb")))
    assert refusal(lambda: check_destination(file)) == (
        f"{work / 'none/new.duckdb'}: the folder {work / 'none'} does not exist or is not accessible; "
        "create it, or choose another path."
    )


def test_a_folder_whose_name_needs_escapes_is_found(work: Path) -> None:
    """A Parquet place whose URL needs escapes is found, and refused if it is a file."""
    (work / "a b ü%20").write_text("notes")
    message = refusal(lambda: check_destination(make_pipeline("parquet", "a b ü%20")))
    assert message == f"{work / 'a b ü%20'} is a file, not a folder; choose another path."


def test_places_beyond_this_machine_are_not_checked() -> None:
    """The check of a destination accepts a bucket without opening it."""
    check_destination(pipeline_to(dlt.destinations.filesystem("memory://bucket")))


def test_a_duckdb_file_in_a_missing_folder_is_refused(work: Path) -> None:
    """A DuckDB file is refused if its folder is missing or is a file, and no folder is made."""
    (work / "notes.txt").touch()
    for folder in (work / "none", work / "notes.txt"):
        file = folder / "new.duckdb"
        assert refusal(partial(check_duckdb, file)) == (
            f"{file}: the folder {folder} does not exist or is not accessible; create it, or choose another path."
        )
    assert not (work / "none").exists()


def test_what_duckdb_cannot_open_is_refused_in_one_line(work: Path) -> None:
    """A file or folder that DuckDB cannot open is refused in one line, and the file stays as it is."""
    (work / "notes.duckdb").write_text("These are notes.\n" * 1000)
    (work / "folder.duckdb").mkdir()
    for name in ("notes.duckdb", "folder.duckdb"):
        message = refusal(partial(check_duckdb, work / name))
        assert message.startswith(f"{work / name} cannot be opened for writing: ")
        assert "\n" not in message
        assert "Error: " not in message
    assert (work / "notes.duckdb").read_text() == "These are notes.\n" * 1000


@pytest.mark.parametrize("below", ["", "new", "new/deep/down"])
def test_the_nearest_folder_that_exists_must_be_a_folder(work: Path, below: str) -> None:
    """The check accepts a folder that does not exist without making it, and refuses one below a file."""
    check_folder(work / below)
    assert not (work / "new").exists()
    (work / "notes.txt").touch()
    assert refusal(lambda: check_folder(work / "notes.txt" / below)) == (
        f"{work / 'notes.txt'} is a file, not a folder; choose another path."
    )


@pytest.mark.parametrize(
    ("check", "below"), [(check_writable, ""), (check_folder, ""), (check_folder, "new/deep"), (check_duckdb, "new")]
)
def test_a_folder_that_cannot_be_written_is_refused(
    unwritable: Path, check: Callable[[Path], None], below: str
) -> None:
    """A folder that cannot be written is refused with the message of the operating system."""
    assert (
        refusal(lambda: check(unwritable / below))
        == f"{unwritable} cannot be written: Permission denied; " + "make it writable, or choose another path."
    )


def test_the_check_for_writing_leaves_nothing(work: Path) -> None:
    """The check that a folder is writable leaves no file in it."""
    before = sorted(work.iterdir())
    check_writable(work)
    assert sorted(work.iterdir()) == before


@pytest.mark.parametrize("name", ["a_first", "z_last"])
def test_what_is_staged_is_moved_once(work: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Merged rows arrive once, also where a nested table is merged and its parent is appended."""
    monkeypatch.setenv("LOAD__WORKERS", "1")
    hints = {"list": dlt.mark.make_nested_hints(write_disposition="merge")}
    make: Any = dlt.resource
    merged = make([{"id": 1}, {"id": 2}], name=name, write_disposition="merge")
    appended = make([{"list": [1, 2]}], name="nesting", write_disposition="append", nested_hints=hints)
    destination = loading(Held(is_new=True))
    pipeline = dlt.pipeline("own", destination=destination, dataset_name="own")
    pipeline.run([merged, appended])
    with pipeline.sql_client() as client:
        assert client.execute_sql(f"SELECT count(*) FROM {name}") == [(2,)]
