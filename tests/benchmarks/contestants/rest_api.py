"""dlt's own rest_api source, as its users write it for this service.

    python rest_api.py FILE PAGE_SIZE [parquet]

Types, child tables and keys are left to dlt, and so is the file format unless one is given.
"""

import os
import sys
from typing import Any

import dlt
from dlt.sources.rest_api import rest_api_source


def main(file: str, page_size: int, file_format: Any = None) -> None:
    """Load both listings into a file."""
    pipeline = dlt.pipeline("rest_api", destination=dlt.destinations.duckdb(file), dataset_name="letters_data")
    pipeline.run(letters(page_size), write_disposition="replace", loader_file_format=file_format)


def letters(page_size: int) -> Any:
    """The source: two listings that are paged in the same way."""
    return rest_api_source(
        {
            "client": {
                "base_url": os.environ["SOURCES__LETTERS__BASE_URL"],
                "auth": {"type": "bearer", "token": os.environ["SOURCES__LETTERS__ACCESS_TOKEN"]},
                # data.count counts rows, not pages, so the end is where a page is empty
                "paginator": {"type": "page_number", "base_page": 0, "page_param": "page", "total_path": None},
            },
            "resource_defaults": {
                "primary_key": "id",
                "endpoint": {"data_selector": "data.rows", "params": {"pageSize": page_size}},
            },
            "resources": [
                "templates",
                {
                    "name": "contacts",
                    "endpoint": {
                        "path": "contacts",
                        "headers": {"refreshtoken": os.environ["SOURCES__LETTERS__REFRESH_TOKEN"]},
                    },
                },
            ],
        }
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
