"""Plain Parquet files in a folder or a bucket: a folder per table, which one load at a time on a machine can write."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, cast

from dlt.common.destination import AnyDestination

from letters_source.destination import other
from letters_source.destination.cleanup import remove_truncated_files
from letters_source.destination.file_schemas import unify_files
from letters_source.destination.file_tables import GROWING, FilesSql, open_files
from letters_source.destination.loading import TRUNCATED, with_parameters
from letters_source.destination.local_files import (
    ANOTHER_PATH,
    check_folder,
    check_format,
    check_spelling,
)
from letters_source.destination.locking import locked
from letters_source.destination.place import Held, Place, Written
from letters_source.destination.preflight import check_configured, including_s3, setting
from letters_source.destination.verify import verify_load
from letters_source.errors import DestinationError, DestinationUnreachable
from letters_source.results import Audit
from letters_source.service.responses import RETRIED
from letters_source.wording import reason

if TYPE_CHECKING:
    # imported at run time, it would delay loads into other destinations
    from dlt.destinations.impl.filesystem.filesystem import FilesystemClient

has_schema_metadata = True
restore = other.restore
obstacles = other.obstacles
file_format = other.file_format
find_audits = other.find_audits
writes_changes = other.writes_changes
check_copy = other.check_copy
publish = other.publish
combine = other.combine


def check(place: Place) -> None:
    """Check that a folder is writable and holds plain Parquet, or that a bucket is writable."""
    check_files(place, form=None, library="")


def check_files(place: Place, form: str | None, library: str) -> None:
    """Check a folder or bucket of tables in an open table format (`form`), which a module (`library`) writes."""
    check_configured(place, extra="lake", library=library, is_path=True)
    if place.path:
        check_folder(place.path)
        check_spelling(place.path, form)
        check_format(place.path / place.dataset, form)
    else:
        check_bucket(place)


def check_bucket(place: Place) -> None:
    """Check an S3 bucket by writing and removing an empty object; other kinds of buckets are not checked."""
    client = files_client(place)
    if client.config.protocol != "s3":
        return
    probe = f"{client.dataset_path}_letters_may_write"
    try:
        client.fs_client.pipe_file(probe, b"")
        client.fs_client.rm_file(probe)
    except including_s3(OSError) as error:
        kind = DestinationUnreachable if is_unanswered(error) else DestinationError
        raise kind(
            f"{client.config.bucket_url} cannot be written: {reason(error)}",
            advice=f"set {setting(place.pipeline.destination)}__..., or {ANOTHER_PATH}",
        ) from error


def is_unanswered(error: Exception) -> bool:
    """Return whether S3 did not answer, or said that a retry may succeed; otherwise it refused the request."""
    if response := getattr(error.__cause__, "response", None):
        return response["ResponseMetadata"]["HTTPStatusCode"] in RETRIED
    known = import_module("botocore.exceptions")
    # a certificate that is not trusted stays so
    return isinstance(error, known.ConnectionError | known.HTTPClientError) and not isinstance(error, known.SSLError)


def files_client(place: Place) -> "FilesystemClient":
    """Return dlt's client of the files."""
    return cast("FilesystemClient", place.pipeline.destination_client())


@contextmanager
def lock(place: Place, wait: float) -> Iterator[Held]:
    """Lock a local folder while the block runs; nothing locks a bucket."""
    # a folder that does not exist yet needs no lock; dlt creates it during the load
    if place.path and place.path.is_dir():
        with locked(place.path, f"A load into {place.path}", wait):
            yield Held()
    else:
        yield Held()


def clean_up(place: Place) -> None:
    """Remove truncated files of killed loads from a local folder."""
    if place.path and place.path.is_dir():
        remove_truncated_files(place.path / place.dataset)


def load_settings() -> Mapping[str, bool | int]:
    """Add nothing: there is no staging."""
    return {}


def loading(place: Place, _held: Held) -> AnyDestination:
    """Replace files in place: dlt has no staging for plain files."""
    return with_parameters(place.pipeline.destination, TRUNCATED)


@contextmanager
def open_sql(place: Place, dataset: str) -> Iterator[FilesSql]:
    """Open our own SQL client over the files."""
    client = files_client(place)
    client.dataset_name = dataset or client.dataset_name
    with open_files(client) as files:
        yield files


def verify(client: FilesSql, written: Written) -> tuple[Audit, ...]:
    """Verify the load, and that keys are unique: two machines can load into one bucket at once."""
    return verify_load(client, written, keys=True)


def annotate(place: Place, _client: FilesSql, written: Written, _audits: Sequence[Audit]) -> None:
    """Give older files of the tables that grow the columns of the newest."""
    client = files_client(place)
    for table in written.tables:
        if table.name in GROWING:
            unify_files(client, table.name)


def example_code(place: Place, contacts: str, query: str) -> str:
    """Return a query of a local folder with the module duckdb."""
    if not place.path:
        return ""
    files = f"duckdb.read_parquet({json.dumps(str(place.path / place.dataset / contacts / '*.parquet'))})"
    return f'import duckdb; {files}.query("contacts", "from contacts {query}").show()'
