"""The definitions that users copy are complete and have no side effects on import."""

from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from closed import import_closed
from dagster._core.definitions.metadata.metadata_set import TableMetadataSet
from dagster_runs import FILE, load_definitions
from terminals import run_python

from letters_source.config.installation import how_to_add_extra
from letters_source.dagster import LettersTranslator, asset_specs
from letters_source.tables import TABLES, Table

CHAINS = {
    "templates": "letters_service",
    "templates__creator": "letters_data/templates",
    "templates__product": "letters_data/templates",
    "contacts": "letters_service",
    "contacts__contact_labels": "letters_data/contacts",
    "rejected_rows": "letters_service",
    "listing_audit": "letters_service",
}
CHECKS = {
    "templates": {"complete", "unique_keys", "documented"},
    "templates__creator": {"unique_keys", "no_orphans"},
    "templates__product": {"unique_keys", "no_orphans"},
    "contacts": {"complete", "unique_keys", "documented"},
    "contacts__contact_labels": {"unique_keys", "no_orphans"},
}


def test_importing_the_definitions_opens_nothing(tmp_path: Path) -> None:
    """Importing the definitions opens no network, file or secret, apart from what the libraries open."""
    assert import_closed([FILE], tmp_path, "dagster", "dlt", "requests").reached == []
    assert list(tmp_path.iterdir()) == []


def test_definitions_are_valid_and_hold_an_asset_for_each_table() -> None:
    """The definitions are valid; each table is an asset after its listing's own table or the service."""
    defs = load_definitions()
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    for prefix, group in (("letters_data", "letters"), ("letters_accounts", "letters_accounts")):
        own = {key for key in graph.get_all_asset_keys() if key.path[0] == prefix}
        parents = {key.path[-1]: [each.to_user_string() for each in graph.get(key).parent_keys] for key in own}
        assert parents == {table: [parent.replace("letters_data", prefix)] for table, parent in CHAINS.items()}
        assert {graph.get(key).group_name for key in own} == {group}
        assert {key: graph.get(key).kinds for key in own} == {key: {"dlt", "duckdb"} for key in own}
    assert not graph.get(dg.AssetKey("letters_service")).is_materializable


def test_assets_describe_the_tables() -> None:
    """Each asset has the table's name, description and key, and its columns with type and description."""
    specs = {spec.key.path[-1]: spec for spec in asset_specs(facets=True, mailings=True)}
    assert list(specs) == [table.name for table in TABLES]
    for table in TABLES:
        spec, columns = specs[table.name], specs[table.name].metadata["dagster/column_schema"].columns
        assert (spec.description, spec.metadata["dagster/table_name"]) == (
            table.description,
            f"letters_data.{table.name}",
        )
        assert [column.name for column in columns] == [*table.schema.names, "_dlt_load_id"]
        assert [column.description for column in columns[:-1]] == [column.description for column in table.columns]
    labels = specs["contacts__contact_labels"].metadata["dagster/column_schema"]
    assert labels.constraints.other == ["primary key (contact_id, position)"]
    assert [(column.type, column.constraints.nullable) for column in labels.columns[:3]] == [
        ("text", False),
        ("bigint", False),
        ("text", True),
    ]


def test_no_two_assets_claim_one_table() -> None:
    """No two assets claim the same table; those of accounts claim none, because each account has a dataset."""
    graph = load_definitions().resolve_asset_graph()
    claimed = {
        key.to_user_string(): TableMetadataSet.extract_normalized_table_name(graph.get(key).metadata)
        for key in graph.get_all_asset_keys()
    }
    assert {key: name for key, name in claimed.items() if name} == {
        f"letters_data/{table}": f"letters_data.{table}" for table in CHAINS
    }


def test_assets_have_the_owners_that_the_translator_is_given() -> None:
    """Assets have the owners that the translator is given, and by default none."""
    graph = load_definitions().resolve_asset_graph()
    tables = graph.get_all_asset_keys() - {dg.AssetKey("letters_service")}
    assert {tuple(graph.get(key).owners) for key in tables} == {("team:letters",)}
    assert {tuple(spec.owners) for spec in asset_specs()} == {()}


def test_checks_are_of_the_tables_that_they_can_be_of() -> None:
    """Each table has the checks that fit it, and all of them but the one that warns are blocking."""
    graph = load_definitions().resolve_asset_graph()
    keys = [key for key in graph.asset_check_keys if key.asset_key.path[0] == "letters_data"]
    assert {table: {key.name for key in keys if key.asset_key.path[-1] == table} for table in CHECKS} == CHECKS
    assert len(keys) == 12
    assert {key.name for key in keys if not graph.get(key).blocking} == {"documented"}


def test_schedules_are_daily() -> None:
    """The tokens' own account and further accounts have a daily schedule each."""
    defs = load_definitions()
    schedules = [defs.resolve_schedule_def(name) for name in ("letters_daily", "letters_accounts_daily")]
    assert [schedule.cron_schedule for schedule in schedules] == ["0 5 * * *", "0 6 * * *"]


@dataclass
class Tagged(LettersTranslator):
    """A user's own translator."""

    def get_asset_spec(self, table: Table) -> dg.AssetSpec:
        """The asset with a tag."""
        return super().get_asset_spec(table).merge_attributes(tags={"domain": "mail"})


def test_a_user_s_own_translator_is_used() -> None:
    """A user's own translator changes what it overrides, and nothing else."""
    [first, *_] = asset_specs(Tagged(prefix=["mail", "letters"], group="mail", destination="parquet", dataset="mail"))
    assert (first.tags["domain"], first.group_name, first.kinds) == ("mail", "mail", {"dlt", "parquet"})
    assert first.metadata["dagster/table_name"] == "mail.templates"
    assert first.key == dg.AssetKey(["mail", "letters", "templates"])


def test_without_dagster_the_extra_is_named() -> None:
    """Importing the Dagster part without Dagster is an error that says what to install."""
    ended = run_python("-c", "import sys; sys.modules['dagster'] = None; import letters_source.dagster")
    assert ended.err.splitlines()[-1] == (
        "letters_source.errors.SettingsError: dagster is not installed; add the extra dagster: "
        + how_to_add_extra("dagster")
    )
