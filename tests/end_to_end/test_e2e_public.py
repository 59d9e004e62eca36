"""The public API, and what importing it does."""

from importlib import import_module
from pathlib import Path

import pytest
from terminals import Outcome, run_python

import letters_source

ERRORS = {
    "DestinationError", "DestinationInUse", "DestinationUnreachable", "IncompleteListing", "LettersError",
    "ListingShrank", "ListingUnpaged", "LoadFailed", "MalformedResponse", "NotAuthorized", "RepeatedIds",
    "ServiceError", "ServiceRejected", "ServiceUnreachable", "SettingsError", "SharedIds",
    "UndocumentedFields", "UnusableFile", "WrongCount",
}  # fmt: skip
RENAMED = {"NotAuthorised": "NotAuthorized"}
PUBLIC = ERRORS | {*RENAMED} | {
    "ContactFilters", "Result", "TemplateFilters", "account_pipelines", "letters", "make_pipeline",
    "own_pipeline", "plan_parts", "read_part", "run", "run_accounts", "unite_account",
}  # fmt: skip
INTEGRATIONS = {
    "airflow": {
        "ASSETS", "AUDIT", "CONNECTION", "CONTACTS", "GROUP", "TEMPLATES", "UNITED", "accounts_of", "airflow_failures",
        "announce", "compare_accounts", "extra_of", "load_task", "plan_task", "read_task",
    },
    "dagster": {
        "SERVICE", "LettersComponent", "LettersResource", "LettersTranslator", "asset_specs", "dagster_failures",
        "letters_checks",
    },
    "spark": {"Snapshot", "read_snapshot", "register", "snapshot"},
}  # fmt: skip


def test_the_public_names_are_these() -> None:
    """The package exports exactly these names; another one is a change for the changelog."""
    assert set(letters_source.__all__) == PUBLIC
    assert letters_source.__all__ == sorted(letters_source.__all__)


def test_public_names_can_be_completed() -> None:
    """`dir` lists the public names before their first use."""
    assert set(dir(letters_source)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_a_callable(name: str) -> None:
    """Every public name is a callable of that name."""
    found = getattr(letters_source, name)
    assert callable(found)
    assert getattr(found, "__name__", name) == RENAMED.get(name, name)


@pytest.mark.parametrize("integration", ["dagster", "spark"])
def test_the_public_names_of_integrations_are_these(integration: str) -> None:
    """The modules for Dagster and Spark export exactly these names, and have each of them."""
    module = import_module(f"letters_source.{integration}")
    assert sorted(module.__all__) == sorted(INTEGRATIONS[integration])
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_public_names_for_airflow_are_these(tmp_path: Path) -> None:
    """The module for Airflow, which sets up logging when it is imported, exports exactly these names, and has each."""
    code = (
        "from letters_source import airflow as module\n"
        "print(*(name for name in module.__all__ if hasattr(module, name)), sep='\\n')"
    )
    root = str(Path(letters_source.__file__).parents[1])
    environment = {"HOME": str(tmp_path), "AIRFLOW_HOME": str(tmp_path), "PYTHONPATH": root}
    done = run_python("-c", code, cwd=tmp_path, env=environment)
    assert done.code == 0, done.err
    assert sorted(done.out.split()) == sorted(INTEGRATIONS["airflow"])


@pytest.mark.parametrize("name", ["settings_of", "Client", "__wrapped__"])
def test_another_name_is_an_attribute_error(name: str) -> None:
    """Another name raises AttributeError, as in any module."""
    with pytest.raises(AttributeError, match=f"^module 'letters_source' has no attribute '{name}'$"):
        getattr(letters_source, name)


def test_errors_have_one_root_and_their_exit_codes() -> None:
    """Every error has one root, its parent and its exit code."""
    root = letters_source.LettersError
    tree = {name: getattr(letters_source, name) for name in PUBLIC if name in ERRORS}
    assert {name: (error.__base__.__name__, error.exit_code) for name, error in tree.items()} == {
        "LettersError": ("Exception", 1),
        "SettingsError": ("LettersError", 2),
        "DestinationError": ("SettingsError", 2),
        "UnusableFile": ("SettingsError", 2),
        "DestinationInUse": ("LettersError", 6),
        "DestinationUnreachable": ("LettersError", 7),
        "NotAuthorized": ("LettersError", 3),
        "IncompleteListing": ("LettersError", 4),
        "ListingShrank": ("LettersError", 4),
        "ListingUnpaged": ("IncompleteListing", 4),
        "SharedIds": ("LettersError", 4),
        "RepeatedIds": ("IncompleteListing", 4),
        "WrongCount": ("IncompleteListing", 4),
        "UndocumentedFields": ("ServiceError", 5),
        "LoadFailed": ("LettersError", 1),
        "ServiceError": ("LettersError", 5),
        "ServiceUnreachable": ("ServiceError", 5),
        "ServiceRejected": ("ServiceError", 5),
        "MalformedResponse": ("ServiceError", 5),
    }
    assert all(issubclass(error, root) for error in tree.values())


def test_importing_reads_and_loads_nothing(tmp_path: Path) -> None:
    """Importing the package imports no heavy library, makes no file and reads none of the project."""
    (tmp_path / "work/.dlt").mkdir(parents=True)
    (tmp_path / "work/.dlt/config.toml").write_text("this is no toml")
    code = (
        "import sys; import letters_source, letters_source.cli.process, letters_source.errors\n"
        "heavy = {'dlt', 'requests', 'pyarrow', 'duckdb', 'rich', 'starlette', 'uvicorn', 'numpy', 'pandas'}\n"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(letters_source.__file__).parents[1])}
    done = run_python("-c", code, cwd=tmp_path / "work", env=environment)
    assert done == Outcome(0, "[]\n", "")
    assert {path.name for path in tmp_path.rglob("*")} == {"work", ".dlt", "config.toml"}
