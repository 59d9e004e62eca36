"""Dagster's web page shows the tables, their upstream asset and their state."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from socket import create_server

import dagster as dg
import pytest
import requests
from click.testing import CliRunner
from dagster_dg_cli.cli import cli
from dagster_runs import FILE, OWN, reach
from holdings import LISTED, held_tables
from playwright.sync_api import Browser, expect
from requests.adapters import HTTPAdapter
from urllib3 import Retry
from worlds import ACCESS, REFRESH, serve_world

from programmable_emulator import Emulator

# what Dagster 1.13 itself uses when it is given a group
pytestmark = pytest.mark.filterwarnings("ignore:.*include_sources")

SECTION = (FILE.parent / "README.md").read_text().split("\n## Dagster\n")[1].partition("\n## ")[0]
GRAPH = "/locations/dagster_defs.py/asset-groups/letters/lineage"
NODES = (
    "letters_service",
    "templates",
    "templates__creator",
    "templates__product",
    "contacts",
    "contacts__contact_labels",
    "rejected_rows",
    "listing_audit",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Dagster's home after its own command loaded 1450 contacts and 70 templates."""
    folder, project = tmp_path_factory.mktemp("dagster"), tmp_path_factory.mktemp("project")
    settings, command = recipe()
    # without the page's invitation to sign up for news
    (folder / "dagster.yaml").write_text(f"{settings}nux: {{enabled: false}}\n")
    copyfile(FILE, project / FILE.name)
    with serve_world(project, emulator=Emulator(1450, 70)) as world, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", str(folder))
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        reach(world, patch)
        # as its process would, which takes seconds for its imports
        ended = CliRunner().invoke(cli, command)
        assert ended.exit_code == 0, ended.output
        tables = world.tables()
        assert {name: tables[name] for name in LISTED} == held_tables(world.emulator)
        yield folder


def recipe() -> tuple[str, list[str]]:
    """The dagster.yaml of the documents, and the arguments of `dg` in their command."""
    [settings] = re.findall(r"^```yaml\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
    [command] = re.findall(r"^dg (launch [^#]*)", SECTION, re.MULTILINE)
    return settings, shlex.split(command)


@pytest.fixture(scope="module")
def address(home: Path) -> Iterator[str]:
    """The address of Dagster's page, for all tests that open it."""
    with served(home) as address:
        yield address


@contextmanager
def served(home: Path) -> Iterator[str]:
    """Dagster's page on this machine alone, until the block ends."""
    with create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    [command] = re.findall(r"^(dg dev .*?) +#", SECTION, re.MULTILINE)
    with (
        (home / "webserver.log").open("wb") as log,
        subprocess.Popen([*shlex.split(command), "-p", str(port)], stdout=log, stderr=log) as process,
    ):
        try:
            wait_for(f"http://127.0.0.1:{port}/server_info")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def wait_for(url: str) -> None:
    """Return once a page answers: urllib3 retries while nothing listens, for at most about eight minutes."""
    with requests.Session() as session:
        patient = Retry(None, connect=1000, backoff_factor=0.1, backoff_max=0.5)
        session.mount("http://127.0.0.1", HTTPAdapter(max_retries=patient))
        session.get(url, timeout=5).raise_for_status()


def test_each_step_runs_in_a_process_of_its_own(home: Path) -> None:
    """The documented command runs each step in a process, checks pass, and no token is in what Dagster stores."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        [run] = instance.get_runs()
        events = [entry.dagster_event for entry in instance.all_logs(run.run_id) if entry.dagster_event]
    started = [event.step_key for event in events if event.event_type_value == "STEP_WORKER_STARTED"]
    assert started == [OWN, f"{OWN}_checks"]
    checks = [event for event in events if event.event_type_value == "ASSET_CHECK_EVALUATION"]
    assert [event.asset_check_evaluation_data.passed for event in checks] == [True] * 12
    kept = b"".join(path.read_bytes() for path in home.rglob("*") if path.is_file())
    assert not any(token.encode() in kept for token in (ACCESS, REFRESH))


def test_our_log_is_in_the_log_of_the_run(home: Path) -> None:
    """With the documented dagster.yaml, the log of a run has our line for each listing."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        [run] = instance.get_runs()
        messages = [entry.user_message for entry in instance.all_logs(run.run_id) if not entry.dagster_event]
    ours = [line.partition(";")[0] for line in messages if "rows, " in line]
    assert ours == ["templates: 70 rows, exact", "contacts: 1450 rows, stable"]


def test_the_graph_shows_the_service_the_tables_and_their_checks(address: str, browser: Browser, images: Path) -> None:
    """The page shows every table after the service, materialized and with passed checks."""
    page = browser.new_page(viewport={"width": 1240, "height": 1260})
    page.set_default_timeout(60_000)
    page.goto(f"{address}{GRAPH}")
    page.get_by_text("Hide navigation").click()
    for name in NODES:
        expect(page.get_by_text(name, exact=True).first).to_be_visible(timeout=60_000)
    expect(page.get_by_text("3 / 3 Passed")).to_have_count(2, timeout=60_000)
    expect(page.get_by_text("2 / 2 Passed")).to_have_count(3)
    expect(page.get_by_text("Loading")).to_have_count(0)
    page.screenshot(path=images / "dagster_graph.png")
    page.close()


def test_no_table_is_linked_to_another(address: str) -> None:
    """The page links no two tables, and shows the owner of each."""
    query = "{assetNodes {assetKey {path} storageAddress {tableName} owners {... on TeamAssetOwner {team}}}}"
    answer = requests.post(f"{address}/graphql", json={"query": query}, timeout=60).json()
    nodes = {"/".join(node["assetKey"]["path"]): node for node in answer["data"]["assetNodes"]}
    claimed = {key: node["storageAddress"] for key, node in nodes.items() if node["storageAddress"]}
    tables = set(NODES) - {"letters_service"}
    assert claimed == {f"letters_data/{table}": {"tableName": f"letters_data.{table}"} for table in tables}
    halves = {f"{half}/{table}" for half in ("letters_data", "letters_accounts") for table in tables}
    assert {key: node["owners"] for key, node in nodes.items() if node["owners"]} == {
        key: [{"team": "letters"}] for key in halves
    }
