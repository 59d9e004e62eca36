"""A listing is planned and read in parts, each a file with the evidence of its range."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from letters_source.decode.page import decode_page
from letters_source.decode.row_schema import row_schema
from letters_source.errors import IncompleteListing, LoadFailed, ServiceRejected, SettingsError, UnusableFile
from letters_source.extract.parts.reading import plan_listing, store_plan, write_part, write_tables
from letters_source.extract.parts.storage import Part, Parts, part_in
from letters_source.extract.task import Task
from letters_source.pagination.evidence import Range
from letters_source.service.listings import ContactFilters
from letters_source.tables import CONTACTS, CONTACTS__CONTACT_LABELS, REJECTED_ROWS
from letters_source.transform.privacy import Privacy
from pages import page_of
from rows_in_memory import RowsInMemory
from tasks import task_from

IDS = [f"id{row:03}" for row in range(120)]
RANGES = (Range(0, 60, 40, 120), Range(40, 100, 40, 120), Range(80, None, 40, 120))
"""The ranges of 120 rows in pages of 40, in three parts."""
OTHERS = (
    "was planned for another service, account, filters or privacy policies; plan again, or load with the same settings."
)
DAMAGED = "is damaged, or was written by another version"


def contacts(service: RowsInMemory | None = None, **settings: Any) -> Task:
    """The task of reading 120 contacts in pages of 40."""
    return task_from(service or RowsInMemory({"": IDS}), **{"page_size": 40, **settings})


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A folder for parts, which does not exist yet."""
    return str(tmp_path / "parts")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a part."""
    folder = str(tmp_path_factory.mktemp("parts"))
    plan = store_plan(contacts(), folder, 3)
    write_part(contacts(), folder, 0)
    return Parts.of(contacts(), folder).read(f"{folder}/contacts/{plan.number}/0000.parquet")


def files_in(folder: str) -> list[str]:
    """The files in a folder."""
    return sorted(str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file())


def test_a_plan_requests_both_ends() -> None:
    """The first and the last page show how many rows there are, and how many are on a page."""
    service = RowsInMemory({"": IDS})
    assert tuple(plan_listing(contacts(service), 3)) == RANGES
    assert service.windows == [(0, 40), (2, 40)]


@pytest.mark.parametrize(("rows", "size"), [(0, 10), (10, 10), (10, 40)])
def test_a_single_page_may_be_small(rows: int, size: int) -> None:
    """A listing of one page is one range, however few rows its page has."""
    service = RowsInMemory({"": IDS[:rows]})
    [only] = plan_listing(contacts(service, page_size=size), 3)
    assert (only.start, only.stop, only.count) == (0, None, rows)


def test_pages_too_small_to_overlap_are_not_planned() -> None:
    """Pages of 29 rows are refused, because their ranges could not be joined; pages of 30 rows are planned."""
    with pytest.raises(SettingsError) as caught:
        plan_listing(contacts(page_size=29), 3)
    assert str(caught.value) == "contacts: pages of 29 rows are too small for ranges; load it as a whole."
    assert caught.value.key == "sources.letters.page_size"
    assert len(plan_listing(contacts(page_size=30), 3)) == 2


def test_proof_exact_is_refused_before_any_request() -> None:
    """Parts cannot be proven exact, so nothing is requested for a plan."""
    service = RowsInMemory({"": IDS})
    with pytest.raises(SettingsError) as caught:
        plan_listing(contacts(service, proof="exact"), 3)
    assert str(caught.value) == (
        "contacts: parts cannot be proven exact; set sources.letters.proof to continuous, or load it as a whole."
    )
    assert (caught.value.key, service.asked) == ("sources.letters.proof", [])


def test_a_plan_is_stored_for_tasks_with_the_same_settings(folder: str) -> None:
    """A stored plan is the one that is read, and another one replaces it under a number of its own."""
    parts = Parts.of(contacts(), folder)
    assert parts.plan() is None
    first = store_plan(contacts(), folder, 1)
    second = store_plan(contacts(), folder, 3)
    assert (len(first.ranges), second.ranges) == (1, RANGES)
    assert first.number != second.number
    assert parts.plan() == second
    assert files_in(folder) == ["contacts.json"]


@pytest.mark.parametrize(
    "settings",
    [
        {"account_id": "7"},
        {"contact_filters": ContactFilters(search="a")},
        {"privacy": Privacy({"email": "drop"})},
        {"environment": "demo"},
    ],
)
def test_a_plan_of_another_selection_is_refused(folder: str, settings: dict[str, Any]) -> None:
    """A plan is of no use to a task that would read other rows, or treat them in another way."""
    store_plan(contacts(), folder, 3)
    for use in (lambda task: Parts.of(task, folder).plan(), lambda task: write_part(task, folder, 0)):
        with pytest.raises(SettingsError) as caught:
            use(contacts(**settings))
        assert str(caught.value) == f"{folder}/contacts.json {OTHERS}"
        assert caught.value.key == "sources.letters.parts"


def test_a_plan_names_no_filter(folder: str) -> None:
    """A plan has a digest of the selection, in which no filter is found, and another one for each plan."""
    task = contacts(contact_filters=ContactFilters(search="Kowalski"))
    first, second = store_plan(task, folder, 3), store_plan(task, folder, 3)
    assert b"Kowalski" not in Path(folder, "contacts.json").read_bytes()
    assert first.selection != second.selection


def test_a_part_is_a_file_with_its_evidence(folder: str) -> None:
    """The rows of a range are in the row schema, and the metadata has the evidence, the requests and the notes."""
    rows = [{"id": id_, "countryCode": "US"} for id_ in IDS]
    task = contacts(RowsInMemory({"": rows}))
    plan = store_plan(task, folder, 3)
    parts = Parts.of(task, folder)
    part = write_part(task, folder, 1)
    path = parts.file_of(plan, "0001")
    assert files_in(folder) == ["contacts.json", f"contacts/{plan.number}/0001.parquet"]
    assert part_in(parts, path) == part
    stored = pq.read_table(path)
    assert stored.schema.remove_metadata() == row_schema("contacts").remove_metadata()
    # windows of 40 and 38 rows that share four
    assert stored["id"].to_pylist() == IDS[40:114]
    assert (part.rows, part.traffic, part.notes.kept) == (74, {"requests": 2}, {"countryCode": 78})
    assert (part.evidence.range, part.evidence.count) == (RANGES[1], 120)


def test_a_row_that_two_windows_show_is_written_as_it_was_read_last(folder: str) -> None:
    """A row in two windows of a range is written once, with the values of the later response."""
    service = RowsInMemory({"": list(IDS)})
    task = contacts(service)
    plan = store_plan(task, folder, 3)
    before = len(service.asked)

    def move(request: int) -> None:
        if request == before + 2:
            service.listed[""] = [{"id": id_, "city": "Bend"} for id_ in IDS]

    service.before_answer = move
    part = write_part(task, folder, 0)
    stored = pq.read_table(Parts.of(task, folder).file_of(plan, "0000"))
    cities = dict(zip(stored["id"].to_pylist(), stored["city"].to_pylist(), strict=True))
    assert len(cities) == stored.num_rows == part.rows == 74
    assert [id_ for id_, city in cities.items() if city is None] == IDS[:37]


def test_a_part_that_is_read_again_replaces_its_file(folder: str) -> None:
    """A retried task leaves one file, with the rows that it has read."""
    service = RowsInMemory({"": list(IDS)})
    store_plan(contacts(service), folder, 3)
    write_part(contacts(service), folder, 2)
    before = files_in(folder)
    service.listed[""] = [*IDS, "new"]
    assert write_part(contacts(service), folder, 2).rows == 41
    assert files_in(folder) == before


def test_a_part_needs_a_plan(folder: str) -> None:
    """Without a plan nothing is requested, and the error names the file."""
    service = RowsInMemory({"": IDS})
    with pytest.raises(UnusableFile) as caught:
        write_part(contacts(service), folder, 0)
    assert str(caught.value) == f"{folder}/contacts.json is missing: plan first."
    assert (caught.value.file, service.asked) == (f"{folder}/contacts.json", [])


@pytest.mark.parametrize("place", [-1, 3])
def test_a_part_that_was_not_planned_is_refused(folder: str, place: int) -> None:
    """The error for a place without a range lists the places that the plan has."""
    store_plan(contacts(), folder, 3)
    with pytest.raises(SettingsError) as caught:
        write_part(contacts(), folder, place)
    assert str(caught.value) == f"{folder}/contacts.json has the parts 0 to 2, and no part {place}."
    assert caught.value.key == "place"


def test_a_part_that_cannot_be_read_whole_is_an_error(folder: str) -> None:
    """A range whose rows are fewer than its count says is refused, and no file is written."""
    task = contacts(RowsInMemory({"": IDS}, surplus=10))
    store_plan(task, folder, 3)
    with pytest.raises(IncompleteListing) as caught:
        write_part(task, folder, 1)
    assert caught.value.reason == "page 3 (page size 39) returned 3 rows, and its count implies 13"
    assert (caught.value.count, caught.value.received, caught.value.walks) == (130, 40, 1)
    assert files_in(folder) == ["contacts.json"]


def test_a_service_that_refuses_a_part_is_an_error_of_the_service(folder: str) -> None:
    """An error of the service is raised as it is."""
    service = RowsInMemory({"": IDS})
    store_plan(contacts(service), folder, 3)
    service.listed[""] = refusal = ServiceRejected("contacts page 1: refused")
    with pytest.raises(ServiceRejected) as caught:
        write_part(contacts(service), folder, 1)
    assert caught.value is refusal


@pytest.mark.parametrize("content", [b"", b"{", b'{"number": 1}'])
def test_a_damaged_plan_is_named(folder: str, content: bytes) -> None:
    """A plan that is cut short, or of another version, is an error with its file."""
    store_plan(contacts(), folder, 3)
    Path(folder, "contacts.json").write_bytes(content)
    with pytest.raises(UnusableFile) as caught:
        write_part(contacts(), folder, 0)
    assert str(caught.value) == f"{folder}/contacts.json {DAMAGED}; write it again."
    assert caught.value.file == f"{folder}/contacts.json"


def test_a_json_file_that_is_missing_is_named(folder: str) -> None:
    """A file that is not there is an error with its path."""
    with pytest.raises(UnusableFile) as caught:
        Parts.of(contacts(), folder).decode(f"{folder}/nothing.json", Range)
    assert str(caught.value) == f"{folder}/nothing.json is missing; write it again."
    assert caught.value.file == f"{folder}/nothing.json"


def without_metadata(path: str) -> None:
    """Write the same rows without the metadata of a part."""
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path)


def without_schema(path: str) -> None:
    """A file that another program than Arrow could have written."""
    pq.write_table(pq.read_table(path).replace_schema_metadata(None), path, store_schema=False)


def with_other_figures(path: str) -> None:
    """A file of another version, whose figures are named differently."""
    pq.write_table(pq.read_table(path).replace_schema_metadata({"letters": '{"figures": 1}'}), path)


def cut_short(path: str) -> None:
    """A file without its end."""
    Path(path).write_bytes(Path(path).read_bytes()[:-9])


@pytest.mark.parametrize("damage", [without_metadata, without_schema, with_other_figures, cut_short])
def test_a_damaged_part_is_named(tmp_path: Path, stored: bytes, damage: Callable[[str], None]) -> None:
    """A file without readable figures is no part."""
    parts, path = Parts.of(contacts(), str(tmp_path)), f"{tmp_path}/0000.parquet"
    Path(path).write_bytes(stored)
    assert isinstance(part_in(parts, path), Part)
    damage(path)
    with pytest.raises(UnusableFile) as caught:
        part_in(parts, path)
    assert (str(caught.value), caught.value.file) == (f"{path} {DAMAGED}; read this part again.", path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A plan that cannot be stored is an error that names its file and the setting to change."""
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "parts"
    with pytest.raises(LoadFailed) as caught:
        store_plan(contacts(), str(folder), 3)
    assert str(caught.value).startswith(f"{folder}/contacts.json cannot be written: ")
    assert str(caught.value).endswith("; try again, or set sources.letters.parts to another folder.")


def test_a_part_with_a_damaged_footer_is_named(tmp_path: Path, stored: bytes) -> None:
    """A file whose footer Arrow cannot read is an error that names it and what to do."""
    parts, path = Parts.of(contacts(), str(tmp_path)), f"{tmp_path}/0000.parquet"
    footer = len(stored) - 8 - int.from_bytes(stored[-8:-4], "little")
    Path(path).write_bytes(stored[:footer] + b"\xff" * 20 + stored[footer + 20 :])
    message = rf"^{path} cannot be read: .+; load again, or read this part again if it is damaged\.$"
    with pytest.raises(LoadFailed, match=message):
        part_in(parts, path)


def test_a_folder_is_a_path_or_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path is below the working folder; slashes at the end do not matter."""
    monkeypatch.chdir(tmp_path)
    found = [Parts.of(contacts(), folder) for folder in ("parts", f"{tmp_path}/parts/", f"file://{tmp_path}/parts/")]
    assert {(parts.folder, parts.url) for parts in found} == {(f"{tmp_path}/parts", f"file://{tmp_path}/parts")}


def test_a_place_of_no_kind_is_refused() -> None:
    """The error for a scheme that Arrow does not know has the setting's key."""
    with pytest.raises(SettingsError, match=r"^nope://folder is not a folder for parts: .*nope.*[^.]\.$") as caught:
        Parts.of(contacts(), "nope://folder")
    assert caught.value.key == "sources.letters.parts"


def test_only_files_to_keep_stay_until_the_folder_is_removed(folder: str) -> None:
    """Other files are deleted wherever they are; removing a folder that is gone is no error."""
    parts = Parts.of(contacts(), folder)
    for name in ("contacts.json", "contacts/a/0000.parquet", "contacts/b/0000.parquet"):
        parts.write(f"{folder}/{name}", name.encode())
    assert parts.read(f"{folder}/contacts/a/0000.parquet") == b"contacts/a/0000.parquet"
    parts.keep({f"{folder}/contacts.json", f"{folder}/contacts/b/0000.parquet"})
    assert files_in(folder) == ["contacts.json", "contacts/b/0000.parquet"]
    parts.remove()
    assert not Path(folder).exists()
    parts.remove()


def test_files_elsewhere_than_on_a_local_disk_are_replaced_too(tmp_path: Path) -> None:
    """A file that is written again where files show only once they are whole has its new content."""
    parts = Parts(contacts(), SubTreeFileSystem(str(tmp_path), LocalFileSystem()), "parts", "s3://bucket/parts")
    parts.write(parts.plan_file, b"one")
    parts.write(parts.plan_file, b"another")
    assert files_in(str(tmp_path)) == ["parts/contacts.json"]
    assert parts.read("parts/contacts.json") == b"another"


def test_staged_rows_become_a_file_for_each_table(folder: str) -> None:
    """Each batch of staged rows is split into the rows of the listing's tables, and of `rejected_rows`."""
    labeled = {"id": "a", "ContactLabels": [{"id": "1", "title": "office"}, {"id": "2", "title": "vip"}]}
    batches = decode_page(page_of(labeled, {"city": "Bend"}, {"id": "b"}), "contacts", 0).rows
    files = write_tables(Parts.of(contacts(), folder), iter([batches.slice(0, 2), batches.slice(2)]))
    assert [table for table, _ in files] == ["contacts", "contacts__contact_labels", "rejected_rows"]
    assert files_in(folder) == sorted(path.removeprefix(f"{folder}/") for _, path in files)
    found = [pq.read_table(path) for _, path in files]
    tables = (CONTACTS, CONTACTS__CONTACT_LABELS, REJECTED_ROWS)
    assert [rows.schema.names for rows in found] == [table.schema.names for table in tables]
    assert (found[0]["id"].to_pylist(), found[1]["title"].to_pylist()) == (["a", "b"], ["office", "vip"])
    assert found[2].select(["listing", "position"]).to_pylist() == [{"listing": "contacts", "position": 1}]
