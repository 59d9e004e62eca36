"""Parts of a listing are judged together, repaired where they do not join, and loaded in the order of the listing."""

from collections.abc import Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from letters_source.errors import (
    IncompleteListing,
    ListingShrank,
    LoadFailed,
    ServiceRejected,
    SettingsError,
    UnusableFile,
)
from letters_source.extract.parts.joined import judge_parts, planned_parts, read_parts
from letters_source.extract.parts.reading import store_plan, write_part
from letters_source.extract.task import ListingRows, TableRows, Task
from letters_source.results import Audit
from letters_source.service.listings import TEMPLATES
from letters_source.tables import LISTING_AUDIT
from rows_in_memory import RowsInMemory
from tasks import audit_with, task_from

IDS = [f"id{row:03}" for row in range(200)]
FIGURES = (
    "verdict",
    "count_first",
    "count_last",
    "rows_yielded",
    "links_mended",
    "requests",
    "pages",
    "page_size_given",
)


def contacts(service: RowsInMemory, folder: str, **settings: Any) -> Task:
    """The task of reading contacts in pages of 40, with parts in a folder."""
    return task_from(service, page_size=40, parts=folder, **settings)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder for parts."""
    return str(tmp_path)


@pytest.fixture
def service() -> RowsInMemory:
    """Contacts that tests may change."""
    return RowsInMemory({"": list(IDS)})


def read_apart(service: RowsInMemory, folder: str, places: Sequence[int] = (0, 1, 2)) -> None:
    """Read parts of a plan, which is made first if there is none, and clear the record of its requests."""
    task = contacts(service, folder)
    if not Path(folder, "contacts.json").exists():
        store_plan(task, folder, 3)
    for place in places:
        write_part(task, folder, place)
    service.asked.clear()


@pytest.fixture(scope="module")
def read_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all parts of the contacts."""
    folder = tmp_path_factory.mktemp("parts")
    read_apart(RowsInMemory({"": list(IDS)}), str(folder))
    return folder


@pytest.fixture
def read_folder(read_once: Path, folder: str) -> str:
    """A copy of all parts of the contacts, which tests may change."""
    return str(copytree(read_once, folder, dirs_exist_ok=True))


def load(
    service: RowsInMemory, folder: str, audits: Sequence[Audit] = (), **settings: Any
) -> tuple[dict[str, str | None], tuple[Any, ...]]:
    """Return the city of each contact in parts, in order, and the figures of the audit."""
    planned = planned_parts(contacts(service, folder, **settings))
    assert planned
    *batches, audit = read_parts(*planned, audits)
    rows = [row for item in batches if isinstance(item, ListingRows) for row in item.rows.to_pylist()]
    cities = {row["id"]: row["city"] for row in rows}
    assert len(cities) == len(rows)
    assert isinstance(audit, TableRows)
    assert audit.table == LISTING_AUDIT.name
    [figures] = audit.rows.select(FIGURES).to_pylist()
    return cities, tuple(figures.values())


def test_parts_of_a_listing_that_does_not_change_are_the_listing(service: RowsInMemory, read_folder: str) -> None:
    """All rows come in the order of the listing; only its front is read again, and the page past its full last one."""
    cities, figures = load(service, read_folder)
    assert list(cities) == IDS
    assert figures == ("stable", 200, 200, 200, 0, 9, 8, 40)
    assert service.windows == [(0, 40), (5, 40)]


@pytest.mark.parametrize(("rows", "page_size"), [(0, 0), (10, 10)])
def test_a_listing_of_one_page_is_one_part(rows: int, page_size: int, folder: str) -> None:
    """A short listing, or an empty one, is loaded from its only part and the front."""
    service = RowsInMemory({"": IDS[:rows]})
    read_apart(service, folder, [0])
    cities, figures = load(service, folder)
    assert list(cities) == IDS[:rows]
    assert figures[:4] == ("stable", rows, rows, rows)
    assert (figures[4], figures[-1]) == (0, page_size or None)


def test_rows_between_parts_that_do_not_join_are_read(service: RowsInMemory, folder: str) -> None:
    """If many rows came between two parts, the gap before the second one is read; its files are next to the parts."""
    read_apart(service, folder, [0])
    service.listed[""] = [*(f"new{row}" for row in range(70)), *IDS]
    read_apart(service, folder, [1, 2])
    cities, figures = load(service, folder)
    assert set(cities) == {*IDS, *(f"new{row}" for row in range(70))}
    assert figures == ("continuous", 270, 270, 270, 1, 13, 13, 40)
    assert service.windows == [(0, 40), (0, 40), (1, 37)]
    names = [path.name for path in Path(folder).rglob("*.parquet")]
    assert sorted(names) == ["0000.parquet", "0001.parquet", "0002.parquet", "mend-0000.parquet", "mend-0001.parquet"]


def test_a_row_of_two_parts_is_loaded_as_it_was_read_last(service: RowsInMemory, folder: str) -> None:
    """Of rows that two parts show, those of the part that was read later are loaded, in whatever order they lie."""
    read_apart(service, folder, [1, 2])
    service.listed[""] = [{"id": id_, "city": "Bend"} for id_ in IDS]
    later = write_part(contacts(service, folder), folder, 0).rows
    cities, figures = load(service, folder)
    assert {id_ for id_, city in cities.items() if city == "Bend"} == set(IDS[:later])
    assert (set(cities), figures[0]) == (set(IDS), "stable")


def test_a_listing_without_a_plan_is_not_read_in_parts(service: RowsInMemory, folder: str) -> None:
    """Without the setting, or where only the other listing has a plan, there are no parts."""
    assert planned_parts(task_from(service)) is None
    store_plan(task_from(service, TEMPLATES, page_size=40), folder, 3)
    assert planned_parts(contacts(service, folder)) is None


def test_a_folder_without_any_plan_is_refused(service: RowsInMemory, folder: str) -> None:
    """A folder in which no listing has a plan is not the one that was planned for."""
    with pytest.raises(SettingsError) as caught:
        planned_parts(contacts(service, folder))
    assert str(caught.value) == (
        f"file://{folder} has no plan of any listing; plan one first, or set sources.letters.parts to the folder with "
        "it."
    )
    assert caught.value.key == "sources.letters.parts"


def test_rows_of_a_part_that_cannot_be_read_stop_the_load(service: RowsInMemory, read_folder: str) -> None:
    """A part whose figures can be read, but not its rows, is an error that names the file."""
    [stored] = Path(read_folder).rglob("0001.parquet")
    content = bytearray(stored.read_bytes())
    # the first page of ids; the figures are at the end of the file
    content[4:60] = b"\xff" * 56
    stored.write_bytes(content)
    with pytest.raises(LoadFailed) as caught:
        load(service, read_folder)
    message = str(caught.value)
    assert message.startswith(f"{stored} cannot be read: ")
    assert message.endswith("; load again, or read this part again if it is damaged.")


def test_parts_do_not_prove_a_listing_exact(service: RowsInMemory, read_once: Path) -> None:
    """A load of parts is refused if the settings ask for proof exact."""
    with pytest.raises(SettingsError, match=r"^contacts: parts cannot be proven exact; ") as caught:
        planned_parts(contacts(service, str(read_once), proof="exact"))
    assert (caught.value.key, service.asked) == ("sources.letters.proof", [])


def test_a_part_that_is_missing_is_named(service: RowsInMemory, folder: str) -> None:
    """The error names the place and the file of the first part that was not read, and nothing is requested."""
    read_apart(service, folder, [0, 2])
    with pytest.raises(UnusableFile) as caught:
        load(service, folder)
    [stored] = Path(folder).rglob("0000.parquet")
    missing = stored.with_name("0001.parquet")
    assert str(caught.value) == f"part 1 of {folder}/contacts.json is missing: {missing}; read it first."
    assert (caught.value.file, service.asked) == (str(missing), [])


def test_rows_that_moved_into_a_part_already_read_are_missed_and_refused(service: RowsInMemory, folder: str) -> None:
    """The count shows that rows were missed, so that nothing is yielded."""
    read_apart(service, folder, [0])
    service.listed[""] = [*IDS[:60], *IDS[190:], *IDS[60:190]]
    read_apart(service, folder, [1, 2])
    planned = planned_parts(contacts(service, folder))
    assert planned
    with pytest.raises(IncompleteListing) as caught:
        next(read_parts(*planned, ()))
    assert caught.value.reason == "it counts 10 rows that no page returned, and its count grew by only 0"
    assert (caught.value.count, caught.value.received) == (200, 190)


def test_a_listing_that_cannot_be_linked_is_refused(folder: str) -> None:
    """If no row of a part is in the next one, whatever is read between them, the listing is incomplete."""
    service = RowsInMemory({"": IDS[:80]})
    read_apart(service, folder, [0])
    service.listed[""] = [f"new{row}" for row in range(80)]
    read_apart(service, folder, [1])
    service.listed[""] = [f"newer{row}" for row in range(80)]
    with pytest.raises(IncompleteListing) as caught:
        load(service, folder)
    assert caught.value.reason == "its rows shifted faster than overlapping pages could follow"


def test_a_front_that_the_service_refuses_proves_nothing(service: RowsInMemory, read_folder: str) -> None:
    """If the service refuses what is still missing, its message is the reason why the listing is incomplete."""
    service.listed[""] = ServiceRejected("contacts page 0: refused", status=400)
    with pytest.raises(IncompleteListing) as caught:
        load(service, read_folder)
    assert (caught.value.reason, caught.value.received) == ("contacts page 0: refused", 200)


def test_a_listing_that_shrank_is_refused_before_any_row(service: RowsInMemory, read_folder: str) -> None:
    """Parts are compared with the last load as a whole listing is."""
    audits = [audit_with(rows_yielded=1_000)]
    planned = planned_parts(contacts(service, read_folder))
    assert planned
    with pytest.raises(ListingShrank):
        next(read_parts(*planned, audits))
    assert len(load(service, read_folder, audits, max_shrink=1.0)[0]) == 200


def test_the_outcome_of_parts_adds_up_what_they_took(service: RowsInMemory, read_folder: str) -> None:
    """Rows and requests are those of all parts, and reading began with the first of them."""
    planned = planned_parts(contacts(service, read_folder))
    assert planned
    outcome, files = judge_parts(*planned)
    front, *others = outcome.parts
    assert [Path(file).name for file in files] == ["mend-0000.parquet", *(f"000{place}.parquet" for place in range(3))]
    assert (outcome.received, outcome.count_changes) == (309, 0)
    # a look past the end comes last
    assert outcome.traffic == {"requests": sum(part.traffic["requests"] for part in outcome.parts) + 1}
    assert outcome.started_at == others[0].started_at < front.started_at


def test_counts_of_parts_are_in_the_order_of_the_listing(service: RowsInMemory, folder: str) -> None:
    """The counts of all windows follow each other as the windows do, and that of the front, read last, comes last."""
    read_apart(service, folder, [0, 1])
    service.listed[""] = [*IDS, "new"]
    read_apart(service, folder, [2])
    planned = planned_parts(contacts(service, folder))
    assert planned
    outcome, _ = judge_parts(*planned)
    assert (outcome.counts[0], outcome.count, outcome.count_changes) == (200, 201, 1)
