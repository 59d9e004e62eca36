"""Pages of rows, as bytes, for tests."""

import json
from pathlib import Path
from typing import Any

from letters_source.decode.page import Page, decode_page

PAYLOADS = Path(__file__).parent / "payloads"


def page_of(*rows: Any, count: int | None = None) -> bytes:
    """A page of these rows, as documented (service-interface 2.1)."""
    data = {"count": len(rows) if count is None else count, "rows": rows}
    return json.dumps({"message": "Success", "data": data}).encode()


def page_of_text(rows: str) -> bytes:
    """A page whose rows are written by hand."""
    return f'{{"message": "Success", "data": {{"count": 1, "rows": {rows}}}}}'.encode()


def golden(name: str, number: int = 0) -> Page:
    """A page written from the interface document, decoded."""
    return decode_page((PAYLOADS / f"{name}.json").read_bytes(), name.partition("-")[0], number)


def filled(row: dict[str, Any]) -> dict[str, Any]:
    """The values of a decoded row that are not null, without its page and position."""
    return {key: value for key, value in row.items() if value is not None and key not in ("page", "position")}
