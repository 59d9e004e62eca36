"""Report fields that the interface does not document: once for each dataset, or as an error if the settings say so."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from letters_source.decode.row_schema import OTHERS, Notes
from letters_source.errors import UndocumentedFields
from letters_source.extract.audit import by_plain_name
from letters_source.extract.task import Task
from letters_source.tables import tables_of

logger = logging.getLogger("letters_source")


def check_fields(task: Task, notes: Notes) -> None:
    """Raise `UndocumentedFields` if `on_undocumented` is fail and a field did not fit that is not in `known_fields`."""
    settings = task.settings
    strange = {name: rows for name, rows in by_plain_name(notes.kept).items() if name not in settings.known_fields}
    if strange and settings.on_undocumented == "fail":
        raise UndocumentedFields(task.title, dict(sorted(strange.items())))


def log_fields(task: Task, notes: Notes, audits: Sequence[Mapping[str, Any]]) -> None:
    """Log each field that did not fit: a warning if neither the settings know it nor an earlier load's audit."""
    settings = task.settings
    known = {*settings.known_fields, *named_in(audits)}
    fate = "dropped" if settings.privacy.undocumented == "drop" else "kept in the column undocumented"
    documented = set(documented_fields(task.listing.name))
    for name, rows in sorted(by_plain_name(notes.kept).items()):
        is_news = name not in known and settings.on_undocumented != "keep"
        what = f"{name} did not fit" if name in documented else titled(name, is_news=is_news)
        logger.log(level(is_news=is_news), "%s: %s in %d rows, %s", task.title, what, rows, fate)
    for name, rows in sorted(by_plain_name(notes.numbers).items()):
        message = "%s: %s was a number in %d rows and was kept as text"
        logger.log(level(is_news=name not in known), message, task.title, name, rows)


def titled(name: str, *, is_news: bool) -> str:
    """Return what a message calls an undocumented field."""
    return name if name == OTHERS else f"{'new' if is_news else 'undocumented'} field {name}"


def level(*, is_news: bool) -> int:
    """Return the log level of something that was noticed."""
    return logging.WARNING if is_news else logging.INFO


def named_in(audits: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the fields that audits name; those of older versions lack a column."""
    for audit in audits:
        for column in ("undocumented_fields", "converted_fields"):
            yield from audit.get(column) or ()


def documented_fields(listing: str) -> Iterator[str]:
    """Yield the service's names of a listing's documented fields, nested ones after their object's name and a dot."""
    for table in tables_of(listing):
        prefix = f"{table.wire}." if table.is_child else ""
        yield from (f"{prefix}{column.wire}" for column in table.documented)
        yield table.wire
