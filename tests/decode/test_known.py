"""Rows whose bytes are known are not decoded, and a page still shows every row in its place."""

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from letters_source.decode.known import Known, to_hex
from letters_source.decode.page import Page, decode_changes, decode_page
from letters_source.errors import MalformedResponse
from letters_source.pagination.reader import to_reading
from letters_source.pagination.readings import NUL, Window

KEY = b"what decides how rows are stored"
ROWS = [b'{"id":"%d","city":"Hoboken"}' % number for number in range(6)]
NOTHING = Known.of([], KEY)


def page_of(*rows: bytes, around: bytes = b"") -> bytes:
    """The body of a page."""
    return b'{"data":{"count":%d,"rows":[%b]%b}}' % (len(rows), b",".join(rows), around)


def knowing(*numbers: int) -> Known:
    """What is known if the destination holds these rows, and one without a digest."""
    digests = to_hex(NOTHING.digest([ROWS[number] for number in numbers]))
    held = pa.array([str(number) for number in numbers], pa.string())
    return Known.of([(held, digests), (pa.array(["old"]), pa.array([None], pa.string()))], KEY)


def keys_of(page: Page) -> list[str]:
    """The keys that the proof of completeness sees."""
    keys: list[str] = to_reading(page, Window(0), 1, asked=0, answered=1).keys.to_pylist()
    return keys


def test_only_unknown_rows_are_decoded() -> None:
    """Rows that are not known are decoded with their place and digest; the keys are those of all rows, in order."""
    known = knowing(0, 2, 3)
    page = decode_changes(known, page_of(*ROWS), "contacts", 4)
    assert page.rows.select(["id", "city", "page", "position"]).to_pylist() == [
        {"id": str(number), "city": "Hoboken", "page": 4, "position": number} for number in (1, 4, 5)
    ]
    assert page.rows["digest"].to_pylist() == to_hex(known.digest([ROWS[number] for number in (1, 4, 5)])).to_pylist()
    assert (page.count, page.length, keys_of(page)) == (6, 6, ["0", "1", "2", "3", "4", "5"])


@pytest.mark.parametrize("numbers", [(), range(6)])
def test_all_rows_or_none_may_be_known(numbers: range) -> None:
    """A page of which no row is known is decoded whole; of one whose rows are all known, nothing is."""
    page = decode_changes(knowing(*numbers), page_of(*ROWS), "contacts", 0)
    assert page.rows.num_rows == 6 - len(numbers)
    assert keys_of(page) == ["0", "1", "2", "3", "4", "5"]


def test_a_page_without_rows_is_one() -> None:
    """An empty page has a count and no rows, whatever is known."""
    for known in (NOTHING, knowing(1)):
        page = decode_changes(known, page_of(), "contacts", 0)
        assert (page.count, page.length, keys_of(page)) == (0, 0, [])


def test_a_rejected_row_keeps_its_place() -> None:
    """A row without an id is rejected at its place between known rows."""
    nobody = b'{"city":"Hoboken"}'
    page = decode_changes(knowing(0, 1), page_of(ROWS[0], nobody, ROWS[1]), "contacts", 0)
    assert page.rows.select(["position", "reason"]).to_pylist() == [{"position": 1, "reason": "the id is missing"}]
    assert keys_of(page) == ["0", f"{NUL}{nobody.decode()}", "1"]


@pytest.mark.parametrize("numbers", [(), (0,), (0, 1)])
def test_what_is_around_the_rows_is_noticed_once(numbers: tuple[int, ...]) -> None:
    """A field beside the rows is counted for the page, whether its rows are known or not."""
    body = page_of(*ROWS[:2], around=b',"next":2')
    assert decode_changes(knowing(*numbers), body, "contacts", 0).notes.kept == Counter({"response.data.next": 1})


@pytest.mark.parametrize("body", [b'{"data":{"count":1}}', b"\xff", page_of(ROWS[0])[:-1]])
def test_a_malformed_page_is_refused_as_ever(body: bytes) -> None:
    """A page that is not the documented envelope, not UTF-8, or cut off is the same error as without known rows."""
    with pytest.raises(MalformedResponse) as usual:
        decode_page(body, "contacts", 0)
    with pytest.raises(MalformedResponse) as caught:
        decode_changes(knowing(0), body, "contacts", 0)
    assert str(caught.value) == str(usual.value)


def test_another_key_knows_no_row() -> None:
    """Under another key, each row has another digest."""
    known = knowing(0, 1)
    other = replace(known, key=KEY[::-1])
    assert known.find(known.digest(ROWS)).tolist()[2:] == 4 * [-1]
    assert sorted(known.ids.take(pa.array(known.find(known.digest(ROWS[:2])))).to_pylist()) == ["0", "1"]
    assert other.find(other.digest(ROWS)).tolist() == 6 * [-1]
    assert known.ids.to_pylist()[-1] == "old"


def test_half_a_digest_is_not_enough() -> None:
    """A row whose digest shares only the first half with that of another is not known."""
    known = knowing(0)
    assert known.find(known.digest(ROWS[:1])).tolist() == [0]
    other = replace(known, seconds=~known.seconds)
    assert other.find(known.digest(ROWS[:1])).tolist() == [-1]


def test_each_of_many_rows_is_found() -> None:
    """Each of thousands of known rows has its place, and no other row has one."""
    rows = [b"%d" % number for number in range(10_000)]
    ids = pa.array([row.decode() for row in rows[:5000]])
    known = Known.of([(ids, to_hex(NOTHING.digest(rows[:5000])))], KEY)
    places = known.find(known.digest(rows))
    assert known.ids.take(pa.array(places[:5000])).to_pylist() == ids.to_pylist()
    assert set(places[5000:].tolist()) == {-1}
