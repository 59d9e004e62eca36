"""A killed load leaves all old rows or all new ones, and the next load repairs the rest."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from holdings import LISTED, held_tables
from killer import KILLED, Killer, killing

from programmable_emulator import Behavior, Drift, Emulator

REPLACING = 'before execute_query DELETE FROM "letters_data"."contacts" '
# as many kills as a suite has time for, at steps throughout a load
KILLS = 2
PAGE_SIZE = 100


@pytest.fixture(scope="module")
def killer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killer]:
    """Loads of a service of 60 contacts and 7 templates, the first of which has been made."""
    with killing(tmp_path_factory.mktemp("killed"), Emulator(60, 7), page_size=PAGE_SIZE) as killer:
        yield killer


@pytest.fixture(scope="module")
def steps(killer: Killer) -> list[str]:
    """The steps of a load that is not killed."""
    return killer.steps()


def test_f63_a_load_killed_while_it_extracts_leaves_the_old_tables(killer: Killer) -> None:
    """A load killed as it closes a file of extracted rows leaves the old tables, and the next load removes the file."""
    killer.kill(r"close .*/normalize/.*/new_jobs/contacts\..*")


def test_f64_a_load_killed_while_it_normalizes_leaves_the_old_tables(killer: Killer) -> None:
    """A load killed as it hands over normalized rows leaves the old tables, and the next load reads again."""
    killer.kill(r"os.rename .*/load/new/[0-9.]+$")


def test_f65_a_load_killed_after_it_emptied_tables_leaves_the_old_tables(killer: Killer) -> None:
    """A load killed after it emptied the tables in staging leaves those that readers see as they were."""
    killer.kill(r'after execute_query DELETE FROM "letters_data_staging".*')


def test_f66_a_load_killed_while_it_replaces_leaves_old_or_new_tables(killer: Killer) -> None:
    """A load killed after the statements that replace all tables, and before their commit, changes none or all."""
    killer.kill(r'after execute_query DELETE FROM "letters_data"."contacts" .*')


def test_f66_one_statement_replaces_all_tables(steps: list[str]) -> None:
    """The one statement that replaces all tables reads their rows from the load package, and staging gets none."""
    [replacing] = {step for step in steps if step.startswith(REPLACING)}
    assert all(f'INTO "letters_data"."{table}" BY NAME SELECT * FROM read_parquet' in replacing for table in LISTED)
    assert not [step for step in steps if 'INSERT INTO "letters_data_staging"' in step]


def test_f67_a_load_killed_between_commit_and_bookkeeping_doubles_nothing(killer: Killer) -> None:
    """The load after one that was killed before dlt noted a job as done loads no row twice."""
    killer.kill(r"os.rename .*/started_jobs/contacts\..*\.sql.*")


def test_f67_the_audit_of_a_killed_load_is_removed(killer: Killer) -> None:
    """The load after one that was killed after writing its audit removes that audit."""
    killer.kill(r'after execute_query INSERT INTO "letters_data"."listing_audit".*')


@pytest.mark.parametrize("step", ["before", "after"])
def test_f68_a_load_killed_around_its_last_entry_is_listed_once(killer: Killer, step: str) -> None:
    """A load killed before or after its entry in _dlt_loads is there at most once after the next load."""
    killer.kill(rf'{step} execute_query INSERT INTO .*"_dlt_loads".*')


def test_f63_to_f68_a_load_killed_at_any_step_is_repaired_by_the_next(killer: Killer, steps: list[str]) -> None:
    """The load after one that was killed, at steps throughout a load, is exact and leaves nothing behind."""
    assert len(steps) > 100
    for kill in range(KILLS):
        killer.kill(str(2 + kill * (len(steps) - 60) // KILLS))


@pytest.mark.parametrize(
    "step", [r"close .*/new_jobs/contacts\..*", r'after execute_query INSERT INTO .*"letters_data"."contacts".*']
)
def test_f63_a_first_load_that_is_killed_is_repaired_by_the_next(killer: Killer, step: str) -> None:
    """The load after a first load that was killed is exact, whether the file is empty or partly filled."""
    killer.file.unlink()
    assert killer.load(step) == KILLED
    assert killer.load() == 0
    newest = held_tables(killer.emulator)
    killer.holds(newest, newest)
    killer.is_clean()


def test_f63_a_load_killed_while_it_reads_overlapping_pages_leaves_the_old_tables(killer: Killer) -> None:
    """A load killed while it reads a changing listing in overlapping pages leaves nothing of it; the next is exact."""
    emulator = killer.emulator
    old, asked = held_tables(emulator), len(emulator.hits)
    for _ in range(20 * PAGE_SIZE):
        emulator.contacts.grow()

    def kill(*_: Any) -> None:
        """End the load once pages of four sizes have been requested, which overlap."""
        sizes = {parse_qs(hit.query)["pageSize"][0] for hit in emulator.hits[asked:]}
        if len(sizes) > 3:
            parent = killer.process.pid
            [child] = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
            os.kill(int(child), signal.SIGKILL)

    emulator.before_answer = kill
    emulator.behavior = Behavior(drift=[Drift("insert", "anywhere", 0.5)])
    assert killer.load() == KILLED
    killer.holds(old, old)
    emulator.before_answer, emulator.behavior = None, Behavior()
    assert killer.load() == 0
    newest = held_tables(emulator)
    killer.holds(newest, newest)
    killer.is_clean()
