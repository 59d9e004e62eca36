"""No file of the project contains what looks like a secret, except known false positives."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import jwt
from detect_secrets.core.scan import scan_file
from detect_secrets.core.secrets_collection import SecretsCollection
from detect_secrets.settings import default_settings

PROJECT = Path(__file__).parents[2]
FOLDERS = ("letters_source", "pipelines", "tests", ".ci")
FILES = (".dlt/config.toml", ".dlt/example.secrets.toml")
DBT = ("logs", "target")
HARMLESS = {
    # an address with a place for the password
    ("pipelines/README.md", "Basic Auth Credentials"): 1,
    # addresses with passwords that must be refused, or not be repeated
    ("tests/service/test_responses.py", "Basic Auth Credentials"): 1,
    ("tests/config/test_settings.py", "Basic Auth Credentials"): 1,
    ("tests/config/test_network_settings.py", "Basic Auth Credentials"): 1,
    # turns a vault off
    ("tests/config/test_direct_providers.py", "Secret Keyword"): 1,
    # of servers that live as long as a test
    ("tests/in_use/airflows.py", "Secret Keyword"): 1,
    ("tests/in_use/postgres.py", "Secret Keyword"): 1,
    # hashes of invented values
    ("tests/transform/test_privacy.py", "Hex High Entropy String"): 1,
    ("tests/transform/test_row_hash.py", "Hex High Entropy String"): 1,
}


def project_files() -> Iterator[Path]:
    """The files of the repository, without byte code, a developer's own files, and what dbt writes."""
    yield from (path for pattern in ("*.md", "*.toml", ".gitignore") for path in PROJECT.glob(pattern))
    yield from (PROJECT / name for name in FILES)
    for folder in FOLDERS:
        for path in (PROJECT / folder).rglob("*"):
            inner = path.relative_to(PROJECT / folder).parts[:-1]
            if path.is_file() and not any(name.startswith((".", "__")) or name in DBT for name in inner):
                yield path


# the scanner would ask services whether what it found is a secret, and pass over lines that claim to hold none
LENIENT = (
    "detect_secrets.filters.common.is_ignored_due_to_verification_policies",
    "detect_secrets.filters.allowlist.is_line_allowlisted",
    "detect_secrets.filters.heuristic.is_indirect_reference",
)


def find_secrets(files: Iterable[Path], folder: Path) -> set[tuple[str, str, str]]:
    """What looks like a secret: its file, the rule, and its hash.

    The scanner looks at code line by line and takes long for each, so equal lines are scanned once, from the folder.
    """
    files_of = defaultdict[str, set[str]](set)
    found = set()
    for path in files:
        name = str(path.relative_to(PROJECT))
        if path.suffix == ".py":
            for line in path.read_text().split("\n"):
                files_of[line].add(name)
        else:
            found |= {(name, secret.type, secret.secret_hash) for secret in scan_file(str(path))}
    lines = list(files_of)
    (folder / "lines.py").write_text("\n".join(lines))
    for secret in scan_file(str(folder / "lines.py")):
        found |= {(name, secret.type, secret.secret_hash) for name in files_of[lines[secret.line_number - 1]]}
    return found


def test_no_file_holds_a_secret(tmp_path: Path) -> None:
    """The scanner, by all its rules, finds nothing in any file but known false positives."""
    with default_settings() as settings:
        settings.disable_filters(*LENIENT)
        found = find_secrets(project_files(), tmp_path)
    assert Counter((name, rule) for name, rule, _ in found) == HARMLESS


def test_a_secret_would_be_found(tmp_path: Path) -> None:
    """The scanner finds a bearer token, as the service gives them, in a text of any kind."""
    token = jwt.encode({"sub": "somebody"}, "a key that signs nothing but this")
    (tmp_path / "notes.md").write_text(f"curl -H 'Authorization: Bearer {token}'\n")
    found = SecretsCollection(root=str(tmp_path))
    with default_settings():
        found.scan_file("notes.md")
    assert "JSON Web Token" in {secret.type for _, secret in found}
