"""Which fields are logged, and which are refused?"""

from collections import Counter
from typing import Any

import pytest

from letters_source.config.settings import Settings
from letters_source.decode.row_schema import OTHERS, Notes
from letters_source.errors import UndocumentedFields
from letters_source.extract.audit import check_fields, documented_fields, log_fields
from letters_source.extract.listing import read_listing
from letters_source.extract.task import Task
from letters_source.results import Audit
from rows_in_memory import RowsInMemory
from tasks import audit_with, contacts_task, task_from

NOTES = Notes(
    Counter({"countryCode": 5, "zip": 2, "ContactLabels.shade": 1, OTHERS: 9}), misfits=2, numbers=Counter({"zip": 3})
)


def contacts(**settings: Any) -> Task:
    """The task of reading all contacts."""
    return contacts_task(
        Settings(base_url="https://letters.example.org", access_token="a", refresh_token="r", **settings)
    )


def log_lines(caplog: pytest.LogCaptureFixture, *audits: Audit, **settings: Any) -> list[str]:
    """Return level and message of each logged line."""
    with caplog.at_level("INFO"):
        log_fields(contacts(**settings), NOTES, audits)
    lines = [f"{record.levelname} {record.getMessage()}" for record in caplog.records]
    caplog.clear()
    return lines


def test_a_field_that_no_audit_names_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """New fields, misfits and numbers that became text are each a warning."""
    assert log_lines(caplog) == [
        "WARNING contacts: new field ContactLabels.shade in 1 row, kept in the column undocumented",
        "WARNING contacts: new field countryCode in 5 rows, kept in the column undocumented",
        "WARNING contacts: other fields in 9 rows, kept in the column undocumented",
        "WARNING contacts: zip did not fit in 2 rows, kept in the column undocumented",
        "WARNING contacts: zip was a number in 3 rows and was kept as text",
    ]


def test_what_the_settings_or_an_audit_know_is_information(caplog: pytest.LogCaptureFixture) -> None:
    """Fields that the settings or an earlier audit name are logged as information."""
    audits = audit_with(undocumented_fields={"countryCode": 1}), audit_with(converted_fields={"zip": 1}), audit_with()
    levels = [line.partition(" ")[0] for line in log_lines(caplog, *audits, known_fields=("ContactLabels.shade",))]
    assert levels == ["INFO", "INFO", "WARNING", "INFO", "INFO"]


def test_keep_warns_of_no_field(caplog: pytest.LogCaptureFixture) -> None:
    """With `on_undocumented` keep, fields are logged as information, but numbers that became text are a warning."""
    levels = [line.partition(" ")[0] for line in log_lines(caplog, on_undocumented="keep")]
    assert levels == ["INFO", "INFO", "INFO", "INFO", "WARNING"]


def test_fields_outside_the_rows_are_counted_by_page(caplog: pytest.LogCaptureFixture) -> None:
    """Fields outside the rows are not loaded; `known_fields` and `on_undocumented` apply as to other fields."""
    notes = Notes(Counter({"response.data.next": 3}))
    log_fields(contacts(), notes, ())
    assert caplog.messages == ["contacts: new field response.data.next in 3 pages, not loaded"]
    check_fields(contacts(on_undocumented="fail", known_fields=("response.data.next",)), notes)
    with pytest.raises(UndocumentedFields, match=r"do not fit: response\.data\.next \(3 pages\); nothing was loaded"):
        check_fields(contacts(on_undocumented="fail"), notes)


def test_fail_refuses_what_is_not_known() -> None:
    """With `on_undocumented` fail, the error names each unknown field and the two settings that accept it."""
    with pytest.raises(UndocumentedFields) as caught:
        check_fields(contacts(on_undocumented="fail", known_fields=("countryCode", OTHERS)), NOTES)
    assert str(caught.value) == (
        "contacts: fields that are not documented, or have values that do not fit: ContactLabels.shade (1 row), zip (2 "
        "rows); nothing was loaded. Add the names to sources.letters.known_fields, or set "
        "sources.letters.on_undocumented to warn."
    )
    assert (caught.value.exit_code, caught.value.fields) == (5, {"ContactLabels.shade": 1, "zip": 2})


@pytest.mark.parametrize("settings", [{}, {"on_undocumented": "keep"}])
def test_nothing_is_refused_otherwise(settings: dict[str, Any]) -> None:
    """With `on_undocumented` warn or keep, no field is refused."""
    check_fields(contacts(**settings), NOTES)


def test_nested_fields_are_named_after_their_object() -> None:
    """Documented fields of nested objects have the object's name in front, as in the decoder's notes."""
    assert set(documented_fields("contacts")) > {"zip", "isVerified", "ContactLabels", "ContactLabels.id"}


def test_rows_and_text_that_are_not_loaded_unchanged_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Rows without a usable id, and text with unpaired surrogates, are warnings with their number."""
    rows = [{"id": "a", "city": "Be\ud800nd"}, {"id": ""}, {"city": "Bend"}, {"id": "b"}]
    list(
        read_listing(
            task_from(RowsInMemory({"": rows})), None, [audit_with(rows_yielded=2, undocumented_fields={"city": 1})]
        )
    )
    assert caplog.messages == [
        "contacts: 2 rows without a usable id, sent to rejected_rows",
        "contacts: 1 unpaired surrogate replaced by U+FFFD",
    ]
