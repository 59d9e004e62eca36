"""Parse query parameters by section 4 and its encoding rules; invalid ones are answered with 400."""

from collections.abc import Sequence
from datetime import date
from time import strptime
from typing import Any, NoReturn

import orjson
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
# section 4.2 shows both formats and does not say which one is valid
DATE_FORMATS = ("%Y-%m-%d", "%d-%m-%Y")
LONGEST_NUMBER = 9


def read_integer(params: QueryParams, name: str, default: int, least: int = 0) -> int:
    """Return an integer of at least `least`."""
    text = params.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= LONGEST_NUMBER else -1
    return number if number >= least else _refuse(name, f"a whole number of at least {least}")


def read_flag(params: QueryParams, name: str) -> bool | None:
    """Return True or False, or None if the parameter is absent."""
    text = params.get(name, "").lower()
    if not text:
        return None
    return BOOLEANS[text] if text in BOOLEANS else _refuse(name, "true or false")


def read_texts(params: QueryParams, name: str, allowed: Sequence[str] = ()) -> frozenset[str]:
    """Return the strings of an array: a JSON list, or the parameter repeated, its values quoted or not."""
    items = _read_items(params, name)
    if not all(isinstance(item, str) for item in items):
        _refuse(name, "a list of strings")
    if allowed and not set(items) <= set(allowed):
        _refuse(name, "some of " + ", ".join(allowed))
    return frozenset(items)


def read_tags(params: QueryParams, name: str) -> frozenset[str]:
    """Return label ids and label titles, all as text."""
    items = _read_items(params, name)
    # bool is a subclass of int, but not a tag
    if not all(type(item) in (int, str) for item in items):
        _refuse(name, "a list of label ids or quoted titles")
    return frozenset(str(item) for item in items)


def read_period(params: QueryParams, name: str) -> tuple[date | None, date | None]:
    """Return the first and the last day of an object with startDate and endDate; either may be absent."""
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
    raise HTTPException(400, f"{name} must be {expected}")
