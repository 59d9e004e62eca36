"""Settings read without dlt are those that dlt reads."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from letters_source.config.settings_files import config_toml, secrets_toml

ADDRESS = '[sources.letters]\nbase_url = "https://letters.example/api/v1"\n'
TOKENS = '[sources.letters]\naccess_token = " a "\nrefresh_token = "r"\n'
GIVEN = {"SOURCES__LETTERS__ACCESS_TOKEN": "other", "SOURCES__LETTERS__PII_KEY": "k" * 16}


def layout(config: str = ADDRESS, secrets: str = TOKENS, **environment: str) -> dict[str, Any]:
    """Two settings files and variables."""
    return {"files": {"config.toml": config, "secrets.toml": secrets}, "environment": environment}


DIRECT = {
    "nothing": {"files": {}, "environment": {}},
    "files": layout(),
    "letters init": layout(config_toml({"base_url": "http://localhost/api/v1"}), secrets_toml({"access_token": "a"})),
    "environment before files": layout(**GIVEN),
    "only environment": layout("", "", SOURCES__LETTERS__BASE_URL="https://letters.example", **GIVEN),
    "digits in the environment": layout(SOURCES__LETTERS__MAX_WORKERS="08"),
    "an environment's section": layout(
        f'{ADDRESS}environment = "demo"\n[sources.letters.demo]\npage_size = 7\n'
        "[sources.letters.demo.contacts]\ntags = [4]\n"
    ),
    "a missing section": layout(ADDRESS, TOKENS, SOURCES__LETTERS__ENVIRONMENT="production"),
    "each type": layout(
        f"{ADDRESS}max_workers = 3\nmax_shrink = 0.5\nretry_budget = 9.0\nfacets = true\nmailings_since = 2024-01-31\n"
        'proof = "exact"\npage_size = "auto"\nknown_fields = ["a", "b"]\naccount_id = 501\n'
        '[sources.letters.pii]\nemail = "drop"\n'
    ),
    "day and time": layout(f"{ADDRESS}mailings_since = 2024-01-31T10:00:00Z\n"),
    "both files": layout(ADDRESS, f'{TOKENS}base_url = "https://secret.example"\n'),
    "Windows lines": layout(ADDRESS.replace("\n", "\r\n"), TOKENS),
    "dotted keys": layout('sources.letters.base_url = "https://letters.example"\nsources.other = 1\n'),
    "tables out of order": layout(f"{ADDRESS}[load]\nworkers = 2\n[sources.letters.contacts]\nsearch = 'x'\n"),
    "no section": layout('[sources]\nletters = "x"\n'),
    "unknown key": layout(f"{ADDRESS}pagesize = 3\n"),
    "unknown variable": layout(SOURCES__LETTERS__WORKERS="3"),
    "secret in config.toml": layout(f'{ADDRESS}access_token = "a"\n', ""),
    "misspelled section": layout(f"{ADDRESS}[sources.leters]\npage_size = 3\n"),
    "out of bounds": layout(f"{ADDRESS}max_workers = 0\n"),
}
WITH_DLT = {
    "no TOML": layout("[sources"),
    "a key at the top": layout(f"log_level = 'INFO'\n{ADDRESS}"),
    "providers": layout(f"{ADDRESS}[providers]\nenable_google_secrets = false\n"),
    "runtime": layout(f"{ADDRESS}[runtime]\nlog_level = 'INFO'\n"),
    "another folder": layout(DLT_PROJECT_DIR=".."),
    "vault in the environment": layout(PROVIDERS__ENABLE_AWS_SECRETS="false"),
}
# numbers in text are dlt's to read, so it is imported from here on
CONVERTED = {
    "numbers in the environment": layout(SOURCES__LETTERS__MAX_WORKERS=" 0x10 ", SOURCES__LETTERS__FACETS="yes")
}


def test_settings_are_read_as_dlt_reads_them(tmp_path: Path) -> None:
    """Settings, secrets, origins, errors and warnings are the same without dlt, which reads what only it can."""
    layouts = {**DIRECT, **WITH_DLT, **CONVERTED}
    kept = ("PATH", "RUNTIME__DLTHUB_TELEMETRY", "PROVIDERS__ENABLE_AIRFLOW_SECRETS")
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("settings_read_twice.py")],
        input=json.dumps([*layouts.values()]),
        cwd=tmp_path,
        env={"HOME": str(tmp_path), **{name: os.environ[name] for name in kept}},
        capture_output=True,
        text=True,
        check=True,
    )
    direct, with_dlt = (dict(zip(layouts, found, strict=True)) for found in json.loads(done.stdout))
    assert direct == with_dlt
    # dlt reads secrets of containers from there
    with_secrets = Path("/run/secrets").exists()
    assert {name for name, found in direct.items() if found is None} == {*(layouts if with_secrets else WITH_DLT)}
