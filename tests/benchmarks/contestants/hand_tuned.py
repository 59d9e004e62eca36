"""What a good engineer writes with dlt and rows as dicts: pages in threads, orjson, Parquet, tuned settings.

    python hand_tuned.py FILE PAGE_SIZE

Types, child tables and keys are left to dlt.
"""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import dlt
import orjson
import requests

WORKERS = 8
# files of this many rows give both processes something to do
TUNING = {
    "data_writer.buffer_max_items": 20_000,
    "sources.data_writer.file_max_items": 50_000,
    "normalize.workers": 2,
}


def main(file: str, page_size: int) -> None:
    """Load both listings into a file."""
    pipeline = dlt.pipeline("hand_tuned", destination=dlt.destinations.duckdb(file), dataset_name="letters_data")
    with dlt.config.values(TUNING):
        pipeline.run(letters(page_size), loader_file_format="parquet")


@dlt.source
def letters(page_size: int) -> Any:
    """The source: a resource for each listing."""
    for listing in ("templates", "contacts"):
        yield dlt.resource(read_pages, name=listing, write_disposition="replace")(listing, page_size)


def read_pages(listing: str, page_size: int) -> Iterator[list[dict[str, Any]]]:
    """The rows of a listing, page by page, several pages read at once."""
    with requests.Session() as session, ThreadPoolExecutor(WORKERS) as pool:
        session.headers["Authorization"] = f"Bearer {os.environ['SOURCES__LETTERS__ACCESS_TOKEN']}"
        session.headers["refreshtoken"] = os.environ["SOURCES__LETTERS__REFRESH_TOKEN"]
        fetch = partial(read_page, session, listing, page_size)
        first = fetch(0)
        yield first["rows"]
        for data in pool.map(fetch, range(1, -(-first["count"] // page_size))):
            yield data["rows"]


def read_page(session: requests.Session, listing: str, page_size: int, page: int) -> dict[str, Any]:
    """The `data` of one page."""
    url = f"{os.environ['SOURCES__LETTERS__BASE_URL']}/{listing}"
    response = session.get(url, params={"page": page, "pageSize": page_size}, timeout=60)
    response.raise_for_status()
    data: dict[str, Any] = orjson.loads(response.content)["data"]
    return data


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
