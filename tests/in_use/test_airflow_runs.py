"""The DAGs work in a real Airflow."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from airflows import Airflow, started_airflow
from holdings import DATASET, query, read_tables, table_names
from worlds import ACCESS, REFRESH, Begin, World

from letters_source.extract.mailings import far_ahead
from letters_source.service.listings import LONG_AGO
from programmable_emulator import Behavior, Drift, Emulator

LOAD = ("letters", "load", -1)
POOLS = {"letters_service": 2, "letters_writer": 1}


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """An Airflow that knows the DAGs of pipelines/."""
    with started_airflow(tmp_path_factory.mktemp("airflow")) as airflow:
        yield airflow


def places(world: World) -> dict[str, object]:
    """The variables that say where to load to."""
    return {"LETTERS_FILE": world.place, "LETTERS_ACCOUNTS_FILE": world.place.with_name("accounts.duckdb")}


def environment(world: World, **more: object) -> dict[str, object]:
    """The variables of a world: all settings, and where to load to."""
    settings = world.variables(**more)
    return {**places(world), **settings}


def loaded_contacts(place: Path) -> set[str]:
    """The ids of the contacts in a file."""
    return {row[0] for row in query(place, f"select id from {DATASET}.contacts")}


def held_contacts(emulator: Emulator) -> set[str]:
    """The ids of the contacts that the service holds."""
    return {row.id for row in emulator.contacts.rows()}


def reasons(log: str) -> list[str]:
    """Return the errors of our logger, one per line."""
    return re.findall(r"\[error +\] (.*?) +\[letters_source\]", log)


def test_the_file_has_no_import_errors(airflow: Airflow) -> None:
    """Airflow reads the files of DAGs without an import error."""
    assert airflow.import_errors == {}


def test_dags_and_assets_are_described(airflow: Airflow) -> None:
    """Each DAG has owner, description and tag; each asset has group and description, and its name is its URI."""
    dags = airflow.known("SELECT dag_id, owners, description FROM dag")
    assert dags == {
        ("letters", "letters", "Load templates and contacts every day, complete or not at all."),
        ("letters_accounts", "letters", "Load several accounts in parallel every day, and copy them into one file."),
        ("letters_follow", "letters", "Print what each load of contacts brought."),
        ("letters_parts", "letters", "Read contacts in parts by parallel tasks every day, and load them in one."),
    }
    assert airflow.known("SELECT name, dag_id FROM dag_tag") == {("letters", dag_id) for dag_id, _, _ in dags}
    assets = airflow.known('SELECT name, uri, "group", extra FROM asset')
    assert {(name, uri, group) for name, uri, group, _ in assets} == {
        (name, name, "letters")
        for name in ("letters_contacts", "letters_templates", "letters_audit", "letters_accounts")
    }
    assert [name for name, *_, extra in assets if not json.loads(extra)["description"]] == []


def test_the_daily_load_and_what_follows_it(airflow: Airflow, begin: Begin) -> None:
    """The scheduler runs the load and then the DAG that its asset wakes, which reads the event's extra."""
    world = begin(Emulator(130, 7))
    ran = airflow.schedule("letters", "letters_follow", environment=environment(world))
    assert ran.runs == {("letters", "scheduled", "success"), ("letters_follow", "asset_triggered", "success")}
    assert loaded_contacts(world.place) == held_contacts(world.emulator)
    rows = {name: len(held) for name, held in read_tables(world.place).items()}
    [contacts], [templates], [audit] = (ran.extras(f"letters_{group}") for group in ("contacts", "templates", "audit"))
    assert contacts == {
        "load_id": contacts["load_id"],
        "rows": {name: rows[name] for name in ("contacts", "contacts__contact_labels")},
        "verdict": "stable",
    }
    children = ("templates", "templates__creator", "templates__product")
    assert templates == {
        "load_id": contacts["load_id"],
        "rows": {name: rows[name] for name in children},
        "verdict": "exact",
    }
    assert audit == {
        "load_id": contacts["load_id"],
        "rows": {"listing_audit": 2, "rejected_rows": 0},
        "verdict": "stable",
    }
    assert f"{contacts['load_id']} stable {contacts['rows']}" in ran.log
    assert not any(token in ran.log for token in (ACCESS, REFRESH))


def test_an_incomplete_listing_fails_at_once_and_nothing_follows(airflow: Airflow, begin: Begin) -> None:
    """An incomplete listing fails without a retry, gives its reason in a line, sends no event and leaves no file."""
    drift = Drift("swap", "anywhere", 1.0)
    world = begin(Emulator(130, 7, behavior=Behavior(drift=[drift])))
    ran = airflow.schedule("letters", "letters_follow", environment=environment(world, page_size=10, max_walks=1))
    assert ran.tasks == {(*LOAD, "failed", 1, "default_pool")}
    assert ran.runs == {("letters", "scheduled", "failed")}
    assert ran.events == []
    [reason] = reasons(ran.log)
    assert reason.startswith("contacts: ")
    assert reason.endswith(
        "nothing was loaded. Run again when the listing is quieter, or raise sources.letters.max_walks."
    )
    assert f"AirflowFailException: {reason}" in ran.log
    assert f"IncompleteListing: {reason}" in ran.log
    assert not world.place.exists()


def test_a_setting_that_is_missing_fails_at_once(airflow: Airflow, begin: Begin) -> None:
    """A missing setting fails without a retry, with a line that names it and where to set it."""
    ran = airflow.schedule("letters", environment=places(begin()))
    assert ran.tasks == {(*LOAD, "failed", 1, "default_pool")}
    expected = (
        "sources.letters.base_url is not set; set SOURCES__LETTERS__BASE_URL in the environment, or base_url under"
    )
    [reason] = reasons(ran.log)
    assert reason.startswith(expected)
    assert f"AirflowFailException: {reason}" in ran.log


def test_an_unreachable_service_is_retried(airflow: Airflow, begin: Begin) -> None:
    """A service that cannot be reached leaves the task waiting for its retry."""
    world = begin()
    world.emulator.behavior = Behavior(fault_every=1, fault_status=503)
    ran = airflow.schedule("letters", environment=environment(world, retry_budget=0.1))
    assert ran.tasks == {(*LOAD, "up_for_retry", 1, "default_pool")}
    assert ran.runs == {("letters", "scheduled", "running")}
    [reason] = reasons(ran.log)
    assert reason.startswith(("templates", "contacts"))
    assert f"AirflowException: {reason}" in ran.log


def test_settings_in_the_variable_of_dlt(airflow: Airflow, begin: Begin) -> None:
    """Airflow's variable `dlt_secrets_toml` gives the settings that secrets.toml would."""
    world = begin(Emulator(30, 3))
    settings = {**world.settings, "page_size": 7}
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    toml = "\n".join(["[sources.letters]", *lines])
    ran = airflow.schedule("letters", environment=places(world), variables={"dlt_secrets_toml": toml})
    assert ran.runs == {("letters", "scheduled", "success")}
    assert loaded_contacts(world.place) == held_contacts(world.emulator)
    assert {dict(parse_qsl(hit.query))["pageSize"] for hit in world.emulator.hits} == {"7"}


def test_settings_in_a_connection(airflow: Airflow, begin: Begin) -> None:
    """The connection `letters_default` gives address and tokens."""
    world = begin(Emulator(30, 3))
    scheme, _, rest = world.settings["base_url"].partition("://")
    host, _, port = rest.removesuffix("/api/v1").partition(":")
    variables = {**places(world), **connection(host=host, port=int(port), schema=scheme)}
    ran = airflow.schedule("letters", environment=variables)
    assert ran.runs == {("letters", "scheduled", "success")}
    assert loaded_contacts(world.place) == held_contacts(world.emulator)
    assert not any(token in ran.log for token in (ACCESS, REFRESH))


def test_the_host_of_a_connection_may_be_the_whole_address(airflow: Airflow) -> None:
    """A connection whose host is the whole address gives the same settings as one whose host is a part of it."""
    address = "http://letters.example:8080/api/v1"
    for parts in ({"host": address}, {"host": "letters.example", "port": 8080, "schema": "http"}):
        found = airflow.ask("print_settings", [], connection(**parts))
        assert json.loads(found.log) == {"base_url": address, "access_token": ACCESS, "refresh_token": REFRESH}


def connection(**parts: object) -> dict[str, str]:
    """The connection with the tokens, as a variable of the environment."""
    tokens = {"password": ACCESS, "extra": {"refresh_token": REFRESH}}
    return {"AIRFLOW_CONN_LETTERS_DEFAULT": json.dumps({"conn_type": "http", **parts, **tokens})}


def test_a_listing_is_read_in_mapped_tasks_and_loaded_in_one(airflow: Airflow, begin: Begin, tmp_path: Path) -> None:
    """Each part is read by a task in the service's pool, and the load after them holds what the service holds."""
    world = begin(Emulator(300, 3))
    variables = {**environment(world, page_size=50), "LETTERS_PARTS": tmp_path / "parts"}
    ran = airflow.schedule("letters_parts", pools=POOLS, environment=variables)
    assert ran.tasks == {
        ("letters_parts", "plan", -1, "success", 1, "default_pool"),
        *(("letters_parts", "read", index, "success", 1, "letters_service") for index in range(6)),
        ("letters_parts", "load", -1, "success", 1, "default_pool"),
    }
    assert loaded_contacts(world.place) == held_contacts(world.emulator)
    [extra] = ran.extras("letters_contacts")
    assert (extra["verdict"], extra["rows"]["contacts"]) == ("stable", 300)
    assert not any(token in ran.log for token in (ACCESS, REFRESH))


def test_accounts_are_loaded_side_by_side_into_one_file(airflow: Airflow, begin: Begin) -> None:
    """Each account has a mapped load in the service's pool and then a copy in the writer's, labeled by its name."""
    world = begin(Emulator(30, 3))
    ran = airflow.schedule("letters_accounts", pools=POOLS, environment=environment(world))
    assert ran.tasks == {
        ("letters_accounts", "accounts", -1, "success", 1, "default_pool"),
        *(("letters_accounts", "account.load", index, "success", 1, "letters_service") for index in (0, 1)),
        *(("letters_accounts", "account.unite", index, "success", 1, "letters_writer") for index in (0, 1)),
    }
    assert ran.labels == {
        (f"account.{task}", index, account)
        for task in ("load", "unite")
        for index, account in enumerate(("501", "502"))
    }
    united = world.place.with_name("accounts.duckdb")
    rows = query(united, f"select account_id, count(*) from {DATASET}_all.contacts group by all")
    owners = Counter(row.traits.account_id for row in world.emulator.contacts.rows())
    assert dict(rows) == {account: owners[account] for account in ("501", "502")}
    extras = ran.extras("letters_accounts")
    assert {extra["account_id"]: extra["rows"]["contacts"] for extra in extras} == dict(rows)


@pytest.mark.parametrize("accounts", [[], "501"])
def test_without_a_list_of_accounts_the_run_fails(airflow: Airflow, begin: Begin, accounts: object) -> None:
    """A run whose parameter accounts is not a list of at least one fails, and the reason names the parameter."""
    world = begin(Emulator(30, 3))
    day = "2024-05-18T00:00:00+00:00"
    ran = airflow.test("letters_accounts", day, {"accounts": accounts}, environment=environment(world))
    assert ran.runs == {("letters_accounts", "manual", "failed")}
    assert ("letters_accounts", "accounts", -1, "failed", 1, "default_pool") in ran.tasks
    assert reasons(ran.log) == [f"The parameter accounts must be a list of at least one account, got {accounts!r}."]
    assert world.emulator.hits == []


def test_pools_that_are_missing_hold_the_accounts_back(airflow: Airflow, begin: Begin) -> None:
    """Without its pools, Airflow starts no load of an account, and its log says so."""
    ran = airflow.schedule("letters_accounts", environment=environment(begin()))
    assert {task[1:3] for task in ran.tasks if task[3] == "success"} == {("accounts", -1)}
    assert "non-existent pool 'letters_service'" in ran.log


def test_a_data_interval_requests_its_days(airflow: Airflow, begin: Begin) -> None:
    """A run with a data interval that dlt may use requests the mailings of its day."""
    world = begin(Emulator(200, 3))
    more = {
        **environment(world, mailings="true", mailings_since="2024-01-01"),
        "AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS": "True",
        "DLT_ALLOW_EXTERNAL_SCHEDULERS": "true",
    }
    airflow.test("letters", "2024-05-18T00:00:00+00:00", environment=more)
    # before, days on which no contact was mailed
    days = (LONG_AGO.isoformat(), far_ahead(datetime.now(UTC).date()).isoformat(), "2024-05-17")
    assert requested_days(world.emulator) == [(day, day) for day in days]
    mailed = {row.id for row in world.emulator.contacts.rows() if row.traits.last_mailed_date == date(2024, 5, 17)}
    assert {row[0] for row in query(world.place, f"select contact_id from {DATASET}.mailings")} == mailed


def test_without_a_data_interval_mailings_continue_from_the_last_load(airflow: Airflow, begin: Begin) -> None:
    """A run with the empty interval of `@daily` requests mailings from the last load on."""
    world = begin(Emulator(20, 3))
    today = datetime.now(UTC).date().isoformat()
    more = {**environment(world, mailings="true", mailings_since=today), "DLT_ALLOW_EXTERNAL_SCHEDULERS": "true"}
    airflow.test("letters", "2024-05-18T00:00:00+00:00", environment=more)
    assert (today, today) in requested_days(world.emulator)
    assert (DATASET, "mailings") in table_names(world.place)


def requested_days(emulator: Emulator) -> list[Any]:
    """The windows of days that were requested of contacts."""
    found = [
        json.loads(value) for hit in emulator.hits for key, value in parse_qsl(hit.query) if key == "lastMailedDate"
    ]
    return [(each["startDate"], each["endDate"]) for each in found]
