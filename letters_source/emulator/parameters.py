"""What does the text of a query parameter mean?

Section 4 and its encoding rules; what means nothing is answered 400.
"""

from collections.abc import Sequence
from datetime import date
from time import strptime
from typing import Any, NoReturn

import orjson
from starlette.datastructures import QueryParams

from letters_source.emulator.refusal import Refusal

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
# Section 4.2 gives examples in two formats and does not say which one counts.
DATE_FORMATS = ("%Y-%m-%d", "%d-%m-%Y")
LONGEST_NUMBER = 9


def read_whole(params: QueryParams, name: str, default: int, least: int = 0) -> int:
    """A whole number of at least `least`."""
    text = params.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else -1
    return number if number >= least else _refuse(name, f"a whole number of at least {least}")


def read_flag(params: QueryParams, name: str) -> bool | None:
    """True, False, or None when it was not asked."""
    text = params.get(name, "").lower()
    if not text:
        return None
    return BOOLEANS[text] if text in BOOLEANS else _refuse(name, "true or false")


def read_texts(params: QueryParams, name: str, allowed: Sequence[str] = ()) -> frozenset[str]:
    """The strings of an array: a bracketed JSON list, or the parameter repeated, its values quoted or not."""
    items = _read_items(params, name)
    if not all(isinstance(item, str) for item in items):
        _refuse(name, "a list of strings")
    if allowed and not set(items) <= set(allowed):
        _refuse(name, "some of " + ", ".join(allowed))
    return frozenset(items)


def read_tags(params: QueryParams, name: str) -> frozenset[str]:
    """Label ids and label titles, all as text."""
    items = _read_items(params, name)
    # A bool is an int to Python, but no tag.
    if not all(type(item) in (int, str) for item in items):
        _refuse(name, "a list of label ids or quoted titles")
    return frozenset(str(item) for item in items)


def read_period(params: QueryParams, name: str) -> tuple[date | None, date | None]:
    """The first and the last day of an object with startDate and endDate; either may be left out."""
    text = params.get(name, "")
    if not text:
        return None, None
    period = _read_json(name, text)
    if not isinstance(period, dict) or not set(period) <= {"startDate", "endDate"}:
        _refuse(name, "an object with startDate and endDate")
    return _read_day(name, period.get("startDate")), _read_day(name, period.get("endDate"))


def _read_items(params: QueryParams, name: str) -> list[Any]:
    return [item for text in params.getlist(name) if text for item in _read_list(name, text)]


def _read_list(name: str, text: str) -> list[Any]:
    if not text.startswith(("[", '"')):
        return [text]
    found = _read_json(name, text)
    return found if isinstance(found, list) else [found]


def _read_json(name: str, text: str) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        _refuse(name, "valid JSON")


def _read_day(name: str, text: object) -> date | None:
    if text is None:
        return None
    for pattern in DATE_FORMATS:
        try:
            return date(*strptime(str(text), pattern)[:3])
        except ValueError:
            continue
    return _refuse(name, "days such as 2024-01-31 or 31-01-2024")


def _refuse(name: str, expected: str) -> NoReturn:
    raise Refusal(400, f"{name} must be {expected}")
