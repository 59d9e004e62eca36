"""Where each setting comes from, and what the error for a wrong one says."""

from collections.abc import Callable
from dataclasses import fields, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

import dlt
import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.providers import ConfigTomlProvider, CustomLoaderDocProvider
from dlt.common.configuration.specs import PluggableRunContext

from letters_source.config.providers import look_up
from letters_source.config.resolve import read_tokens_again, resolve_settings, token_source
from letters_source.config.settings import SETTINGS, Overrides, Settings
from letters_source.errors import SettingsError
from letters_source.service.listings import SECTION, ContactFilters, FilterForm, Filters, TemplateFilters
from letters_source.service.tokens import Tokens
from letters_source.tables import Mode

URL = "https://letters.example.org/api/v1"
CONFIG = f"""
[sources.letters]
base_url = "{URL}"
page_size = 50
account_id = 77
[sources.letters.demo]
base_url = "https://demo.example.org/api/v1"
page_size = "60"
[sources.letters.templates]
search = 1
product_types = ["Professional Letters", "Personal Letters"]
is_shared = false
[sources.letters.demo.templates]
is_shared = true
"""
BOTH_TYPES = ("Professional Letters", "Personal Letters")
CONFIGURED = TemplateFilters(search=1, product_types=BOTH_TYPES, is_shared=False)
CONFIGURED_DEMO = TemplateFilters(search=1, product_types=BOTH_TYPES, is_shared=True)
SECRETS = """
[sources.letters]
access_token = "file-access"
refresh_token = "file-refresh"
[sources.letters.demo]
access_token = "demo-access"
"""

Resolve = Callable[..., Settings]


@pytest.fixture
def resolve(project: Path, monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Resolves settings from the project's files, variables (by the end of their name) and arguments."""
    (project / ".dlt/config.toml").write_text(CONFIG)
    (project / ".dlt/secrets.toml").write_text(SECRETS)
    Container()[PluggableRunContext].reload_providers()

    def from_environment(overrides: Overrides | None = None, **variables: str) -> Settings:
        with monkeypatch.context() as patched:
            for name, value in variables.items():
                patched.setenv(f"SOURCES__LETTERS__{name}", value)
            return resolve_settings(overrides or {})

    return from_environment


def test_two_accounts_at_once_are_an_error(resolve: Resolve) -> None:
    """Two different accounts, as an argument and in filters, are an error; the same one twice is not."""
    given: Overrides = {"account_id": "501", "contact_filters": ContactFilters(account_id="502")}
    assert problem(resolve, given) == "account_id is given as 501, and in filters as 502; give one."
    same: Any = {"account_id": 501, "contact_filters": ContactFilters(account_id="501")}
    assert resolve(same).filters("contacts").account_id == "501"


def problem(resolve: Resolve, overrides: Overrides | None = None, **variables: str) -> str:
    """The message of the error that the settings end with."""
    with pytest.raises(SettingsError) as caught:
        resolve(overrides, **variables)
    # an error about one key carries it
    assert (caught.value.key or "").rpartition(".")[2].lower() in str(caught.value).lower()
    return str(caught.value)


def where(key: str, section: str = "sources.letters", file: str = "config") -> str:
    """How a message says where to set a key."""
    variable = f"{section}.{key}".replace(".", "__").upper()
    return f"set {variable} in the environment, or {key} under [{section}] in .dlt/{file}.toml."


def searched(file: str = "config") -> str:
    """How a message says which file was searched in the working folder; dlt's folder for all projects has none."""
    path = Path.cwd() / f".dlt/{file}.toml"
    return f" Searched {path}{'' if path.exists() else ' (not found)'}."


def test_files_come_before_defaults(resolve: Resolve) -> None:
    """Settings come from the files, and have their default if the files lack them."""
    assert resolve() == Settings(
        base_url=URL, access_token="file-access", refresh_token="file-refresh", environment=None, account_id="77",
        page_size=50, max_workers=16, requests_per_second=None, max_walks=4, proof="continuous", retry_budget=120.0,
        allow_empty=False, max_shrink=0.5, lock_wait=0.0, resume=False, resume_for=24.0, facets=False,
        last_mailed_statuses=("In Transit", "Mailed", "Scheduled"), history=False, sync=False,
        mailings=False, mailings_since=None, mailings_lag=7, mailings_window=1, mailings_ahead=0,
        allow_failed_mailings=False, date_format="%Y-%m-%d",
        filter_encoding="json", contact_filters=ContactFilters(), template_filters=CONFIGURED,
    )  # fmt: skip


def test_the_page_size_may_be_a_word(resolve: Resolve) -> None:
    """The page size may be `auto`, with the same precedence as a number."""
    assert resolve(PAGE_SIZE="auto").page_size == "auto"
    assert resolve({"page_size": "auto"}, PAGE_SIZE="7").page_size == "auto"
    assert resolve({"page_size": "12"}, PAGE_SIZE="auto").page_size == 12


def test_an_environments_section_comes_before_the_general_one(resolve: Resolve) -> None:
    """The environment's section overrides the general one key by key, tokens included."""
    for settings in (resolve({"environment": "demo"}), resolve(ENVIRONMENT="demo")):
        assert (settings.environment, settings.base_url) == ("demo", "https://demo.example.org/api/v1")
        assert (settings.page_size, settings.account_id) == (60, "77")
        assert (settings.access_token, settings.refresh_token) == ("demo-access", "file-refresh")


def test_an_environment_s_section_may_leave_settings_to_the_general_one(resolve: Resolve) -> None:
    """Settings that the environment's section lacks come from the general one, not from another environment."""
    settings = resolve({"environment": "production"}, PRODUCTION__MAX_WORKERS="3")
    assert (settings.environment, settings.base_url, settings.page_size) == ("production", URL, 50)


def test_an_environment_without_a_section_is_an_error(resolve: Resolve) -> None:
    """An environment without a section is an error that names the section."""
    section = "sources.letters.production"
    expected = (
        f"environment is production, but the section [{section}] does not exist or is empty; "
        f"{where('base_url', section)}"
    )
    assert problem(resolve, {"environment": "production"}) == expected
    assert problem(resolve, ENVIRONMENT="production") == expected
    assert problem(resolve, {"environment": "production", "base_url": URL, "access_token": "a"}) == expected


def test_an_environment_whose_service_is_given_needs_no_section(resolve: Resolve) -> None:
    """An environment needs no section if arguments give the address and both tokens."""
    given: Overrides = {"environment": "production", "base_url": URL, "access_token": "a", "refresh_token": "r"}
    assert resolve(given).environment == "production"


def test_variables_come_before_files_of_their_section(resolve: Resolve) -> None:
    """A variable overrides files of its own section, but a general one does not override an environment's section."""
    assert resolve(PAGE_SIZE="7").page_size == 7
    assert resolve(ENVIRONMENT="demo", PAGE_SIZE="7").page_size == 60
    assert resolve(ENVIRONMENT="demo", PAGE_SIZE="7", DEMO__PAGE_SIZE="8").page_size == 8


def test_arguments_come_first(resolve: Resolve) -> None:
    """Arguments override variables and the environment's section, and are not changed."""
    given: Overrides = {"page_size": 9, "environment": "demo", "account_id": None, "access_token": "argument"}
    settings = resolve(given, PAGE_SIZE="7", DEMO__PAGE_SIZE="8")
    assert (settings.page_size, settings.account_id, settings.access_token) == (9, "77", "argument")
    assert given == {"page_size": 9, "environment": "demo", "account_id": None, "access_token": "argument"}


def test_arguments_become_their_types(resolve: Resolve) -> None:
    """Arguments are converted like variables, because schedulers pass text."""
    given: Any = {
        "page_size": "5", "retry_budget": "7", "account_id": 77, "facets": "true",
        "mailings_since": datetime(2024, 1, 31, 23, 59, tzinfo=UTC), "last_mailed_statuses": ["Mailed", "Returned"],
        "access_token": " 0123\n", "pii": {"email": "hash"}, "pii_key": f" {'k' * 16}\n",
    }  # fmt: skip
    settings = resolve(given)
    assert (settings.page_size, settings.retry_budget, settings.account_id) == (5, 7.0, "77")
    assert (settings.facets, settings.last_mailed_statuses) == (True, ("Mailed", "Returned"))
    assert (settings.mailings_since, isinstance(settings.mailings_since, datetime)) == (date(2024, 1, 31), False)
    assert (settings.access_token, settings.privacy.key) == ("0123", b"k" * 16)
    assert read_tokens_again(settings, given) == settings.tokens


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("page_size", "many", "a whole number from 1 to 1000000 or auto, got 'many'"),
        ("page_size", 7.5, "a whole number from 1 to 1000000 or auto, got 7.5"),
        ("mailings_since", 2024, "a day such as 2024-01-31, got 2024"),
        ("account_id", ["501"], "text, got ['501']"),
        ("environment", "", "demo or production, got ''"),
        ("base_url", ["https://user:canary@host"], "text"),
    ],
)
def test_an_argument_of_another_type_is_an_error(key: str, value: object, expected: str, resolve: Resolve) -> None:
    """The error for an argument of another type names it, and does not quote an address."""
    given: Any = {key: value}
    assert problem(resolve, given) == f"argument {key} must be {expected}."


@pytest.mark.parametrize("value", [b"canary", Path("canary"), True])
@pytest.mark.parametrize("key", ["access_token", "refresh_token", "pii_key"])
def test_a_secret_that_is_no_text_is_an_error(key: str, value: object, resolve: Resolve) -> None:
    """A secret must be text: the `str` of another type may be anything, such as asterisks."""
    given: Any = {key: value}
    assert problem(resolve, given) == f"argument {key} must be text."


def test_none_as_an_argument_is_no_argument(resolve: Resolve) -> None:
    """None as an argument leaves its setting to the configuration, or else to the default."""
    nothing: Any = dict.fromkeys(Overrides.__annotations__)
    assert resolve(nothing) == resolve()
    variables = {
        "MAX_WORKERS": "3", "REQUESTS_PER_SECOND": "0.5", "MAX_WALKS": "5", "RETRY_BUDGET": "7", "PROOF": "exact",
        "ENVIRONMENT": "demo", "FACETS": "true", "LAST_MAILED_STATUSES": "Mailed,Returned", "HISTORY": "true",
        "SYNC": "false", "MAILINGS": "true", "MAILINGS_SINCE": "2024-01-31", "MAILINGS_LAG": "0",
        "MAILINGS_WINDOW": "30", "DATE_FORMAT": "%d-%m-%Y", "FILTER_ENCODING": "compact",
        "CONTACTS__SEARCH": "ada",
    }  # fmt: skip
    assert resolve(nothing, **variables) == Settings(
        base_url="https://demo.example.org/api/v1", access_token="demo-access", refresh_token="file-refresh",
        environment="demo", account_id="77", page_size=60, max_workers=3, requests_per_second=0.5, max_walks=5,
        proof="exact", retry_budget=7.0, facets=True, last_mailed_statuses=("Mailed", "Returned"), history=True,
        sync=False, mailings=True, mailings_since=date(2024, 1, 31), mailings_lag=0, mailings_window=30,
        date_format="%d-%m-%Y", filter_encoding="compact", contact_filters=ContactFilters(search="ada"),
        template_filters=CONFIGURED_DEMO,
    )  # fmt: skip


def test_none_for_a_key_that_is_nowhere_set_is_named(project: Path) -> None:
    """None as an argument for a missing setting gives the error of a missing setting."""
    nothing: Any = dict.fromkeys(Overrides.__annotations__)
    expected = f"sources.letters.base_url is not set; {where('base_url')}{searched()}"
    assert problem(resolve_settings, nothing) == f"{expected} access_token and refresh_token are not set either."


def test_proof_exact_needs_two_walks_at_least(resolve: Resolve) -> None:
    """Proof `exact` with one walk is an error, wherever the two settings come from."""
    expected = "sources.letters.max_walks must be at least 2 with proof exact, which takes two passes, got 1; " + where(
        "max_walks"
    )
    assert problem(resolve, {"proof": "exact", "max_walks": 1}) == expected
    assert problem(resolve, {"proof": "exact"}, MAX_WALKS="1") == expected
    assert problem(resolve, {"max_walks": 1}, PROOF="exact") == expected
    assert resolve({"proof": "exact", "max_walks": 2}).max_walks == 2
    assert resolve({"proof": "continuous", "max_walks": 1}).max_walks == 1


def test_variables_become_their_types(resolve: Resolve) -> None:
    """Variables become numbers, choices and texts, and a text that looks like a number stays text."""
    settings = resolve(
        PAGE_SIZE=" 5 ", MAX_WORKERS="3", REQUESTS_PER_SECOND="0.5", MAX_WALKS="2", RETRY_BUDGET="7",
        PROOF="exact", ACCOUNT_ID="007", ACCESS_TOKEN=" 0123\n",
    )  # fmt: skip
    assert (settings.page_size, settings.max_workers, settings.max_walks) == (5, 3, 2)
    assert (settings.requests_per_second, settings.retry_budget, settings.proof) == (0.5, 7.0, "exact")
    assert (settings.account_id, settings.access_token) == ("007", "0123")


@pytest.mark.parametrize(
    "name", ["{}", "LETTERS__{}", "SOURCES__{}", "SOURCES__LETTERS__LETTERS__{}", "SOURCES__LETTERS__PRODUCTION__{}"]
)
def test_other_variables_are_not_used(resolve: Resolve, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Variables without the section's whole name, or of an environment not in use, change nothing."""
    expected = resolve()
    for key in ("ACCESS_TOKEN", "REFRESH_TOKEN", "ENVIRONMENT", "BASE_URL", "PAGE_SIZE", "ACCOUNT_ID", "SEARCH"):
        monkeypatch.setenv(name.format(key), "demo")
        monkeypatch.setenv(name.format(f"TEMPLATES__{key}"), "demo")
    assert resolve() == expected


@pytest.mark.parametrize(
    ("key", "file"), [("base_url", "config"), ("access_token", "secrets"), ("refresh_token", "secrets")]
)
def test_a_missing_setting_is_named(project: Path, key: str, file: str) -> None:
    """The error for a missing setting names its variable, section and file, and the file that was searched."""
    given: Any = {"base_url": URL, "access_token": "a", "refresh_token": "r"}
    del given[key]
    expected = f"sources.letters.{key} is not set; {where(key, file=file)}{searched(file)}"
    assert problem(resolve_settings, given) == expected


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_token_is_not_set(resolve: Resolve, value: str) -> None:
    """A variable with an empty token, as from an unset secret of a container, counts as not set."""
    expected = f"sources.letters.access_token is not set; {where('access_token', file='secrets')}{searched('secrets')}"
    assert problem(resolve, ACCESS_TOKEN=value) == expected
    both = f"{expected} refresh_token is not set either."
    assert problem(resolve, ACCESS_TOKEN=value, REFRESH_TOKEN=value) == both


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("page_size", "abc", "a whole number from 1 to 1000000 or auto, got 'abc'"),
        ("page_size", "1.5", "a whole number from 1 to 1000000 or auto, got '1.5'"),
        ("page_size", "", "a whole number from 1 to 1000000 or auto, got ''"),
        ("page_size", "0", "a whole number from 1 to 1000000 or auto, got '0'"),
        ("page_size", "10000000", "a whole number from 1 to 1000000 or auto, got '10000000'"),
        ("max_workers", "-1", "a whole number from 1 to 1000, got '-1'"),
        ("max_workers", "1001", "a whole number from 1 to 1000, got '1001'"),
        ("max_walks", "0", "a whole number of at least 1, got '0'"),
        ("requests_per_second", "fast", "a number greater than 0, got 'fast'"),
        ("requests_per_second", "0", "a number greater than 0, got '0'"),
        ("retry_budget", "-1", "a number greater than 0, got '-1'"),
        ("retry_budget", "nan", "a number greater than 0, got 'nan'"),
        ("requests_per_second", "nan", "a number greater than 0, got 'nan'"),
        ("proof", "weak", "continuous or exact, got 'weak'"),
        ("proof", "fenced", "continuous or exact, got 'fenced'"),
        ("environment", "staging", "demo or production, got 'staging'"),
        ("environment", "", "demo or production, got ''"),
        ("date_format", "%m/%d/%Y", "%Y-%m-%d or %d-%m-%Y, got '%m/%d/%Y'"),
        ("filter_encoding", "xml", "json or compact, got 'xml'"),
        ("facets", "perhaps", "true or false, got 'perhaps'"),
        ("history", "", "true or false, got ''"),
        ("mailings_since", "31.01.2024", "a day such as 2024-01-31, got '31.01.2024'"),
        ("mailings_since", "", "a day such as 2024-01-31, got ''"),
        ("allow_empty", "perhaps", "true or false, got 'perhaps'"),
        ("max_shrink", "1.5", "a number from 0 to 1, got '1.5'"),
        ("max_shrink", "-0.1", "a number from 0 to 1, got '-0.1'"),
        ("max_shrink", "nan", "a number from 0 to 1, got 'nan'"),
        ("lock_wait", "-1", "a number of at least 0, got '-1'"),
        ("lock_wait", "nan", "a number of at least 0, got 'nan'"),
        ("mailings_lag", "-1", "a whole number from 0 to 36500, got '-1'"),
        ("mailings_lag", "36501", "a whole number from 0 to 36500, got '36501'"),
        ("mailings_window", "36501", "a whole number from 1 to 36500, got '36501'"),
        ("mailings_lag", "a week", "a whole number from 0 to 36500, got 'a week'"),
        ("mailings_window", "0", "a whole number from 1 to 36500, got '0'"),
        ("mailings_window", "-7", "a whole number from 1 to 36500, got '-7'"),
        ("last_mailed_statuses", '["Mailed"', "a list of texts, got '[\"Mailed\"'"),
    ],
)
def test_a_wrong_value_is_named(resolve: Resolve, key: str, value: str, expected: str) -> None:
    """The error for a wrong value names the variable, what was expected, and what came."""
    variable = f"SOURCES__LETTERS__{key.upper()}"
    assert problem(resolve, {}, **{key.upper(): value}) == f"{variable} in the environment must be {expected}."


def test_a_wrong_value_in_an_environments_section_is_named_there(resolve: Resolve) -> None:
    """The error for a wrong value of an environment's section names the variable of that section."""
    message = problem(resolve, ENVIRONMENT="demo", DEMO__PAGE_SIZE="many")
    assert message == (
        "SOURCES__LETTERS__DEMO__PAGE_SIZE in the environment must be a whole number from 1 to 1000000 or auto, "
        "got 'many'."
    )


def test_a_wrong_type_in_a_file_is_named(resolve: Resolve, project: Path) -> None:
    """The error for a wrong type in a file names the section and the file."""
    (project / ".dlt/config.toml").write_text("[sources.letters]\nmax_workers = true\n")
    Container()[PluggableRunContext].reload_providers()
    with pytest.raises(SettingsError) as caught:
        resolve_settings({"base_url": URL})
    assert str(caught.value) == (
        f"max_workers under [sources.letters] in {project / '.dlt/config.toml'} must be a whole number from 1 to 1000, "
        "got True."
    )
    assert caught.value.key == "sources.letters.max_workers"


def test_a_wrong_value_in_the_file_for_all_projects_is_named_there(project: Path) -> None:
    """The error for a wrong value names dlt's file for all projects if the value is there."""
    (project / "all").mkdir()
    (project / ".dlt/config.toml").write_text("[sources.letters]\nmax_workers = 2\n")
    (project / "all/config.toml").write_text("[sources.letters]\nmax_walks = 0\n")
    providers = [ConfigTomlProvider(str(project / ".dlt"), str(project / "all"))]
    with pytest.raises(SettingsError) as caught:
        resolve_settings({"base_url": URL, "access_token": "a", "refresh_token": "r"}, providers)
    assert str(caught.value) == (
        f"max_walks under [sources.letters] in {project / 'all/config.toml'} must be a whole number of at least 1, "
        "got 0."
    )


@pytest.mark.parametrize(
    "given",
    [{"environment": "staging"}, {"proof": "weak"}, {"date_format": "%d.%m.%Y"}, {"filter_encoding": "Json"}],
)
def test_a_wrong_choice_given_as_an_argument_is_named(resolve: Resolve, given: Overrides) -> None:
    """The error for an argument that is no valid choice lists the choices and quotes the value."""
    ((key, value),) = given.items()
    choices = {
        "environment": "demo or production",
        "proof": "continuous or exact",
        "date_format": "%Y-%m-%d or %d-%m-%Y",
        "filter_encoding": "json or compact",
    }[key]
    assert problem(resolve, given) == f"argument {key} must be {choices}, got {value!r}."


def test_an_empty_base_url_is_not_set(resolve: Resolve) -> None:
    """An empty address, as a variable or an argument, counts as not set."""
    expected = f"sources.letters.base_url is not set; {where('base_url')}{searched()}"
    assert problem(resolve, BASE_URL="") == expected
    assert problem(resolve, {"base_url": ""}) == expected


def test_an_empty_token_given_as_an_argument_is_not_set(resolve: Resolve) -> None:
    """An empty token given as an argument counts as not set, and the one in the files is not used."""
    expected = (
        f"sources.letters.refresh_token is not set; {where('refresh_token', file='secrets')}{searched('secrets')}"
    )
    assert problem(resolve, {"refresh_token": ""}) == expected


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_a_base_url_may_end_in_a_slash(resolve: Resolve, slashes: str) -> None:
    """Slashes at the end of the address are removed, because paths begin with one."""
    assert resolve({"base_url": URL + slashes}).base_url == URL
    assert resolve(BASE_URL=URL + slashes).base_url == URL


def test_the_tokens_of_the_settings_are_both_tokens(resolve: Resolve) -> None:
    """The tokens of the settings are the configured ones without white space around them."""
    assert resolve().tokens == Tokens("file-access", "file-refresh")
    assert resolve(ACCESS_TOKEN=" a ", REFRESH_TOKEN="\tr\n").tokens == Tokens("a", "r")


def test_secrets_in_config_toml_are_ignored(project: Path) -> None:
    """A token in config.toml, which anyone may read, is ignored."""
    (project / ".dlt/config.toml").write_text('[sources.letters]\naccess_token = "canary"\naccount_id = "7"\n')
    Container()[PluggableRunContext].reload_providers()
    providers = Container()[PluggableRunContext].providers.providers
    assert look_up(SETTINGS["account_id"], (SECTION,), providers) == "7"
    assert look_up(SETTINGS["access_token"], (SECTION,), providers) is None


def test_settings_come_from_the_providers_that_the_caller_gives(resolve: Resolve) -> None:
    """Without providers, only arguments and defaults apply."""
    given: Overrides = {"base_url": URL, "access_token": "a", "refresh_token": "r"}
    assert resolve_settings(given, []) == Settings(base_url=URL, access_token="a", refresh_token="r")
    with pytest.raises(SettingsError, match=r"^sources\.letters\.base_url is not set; "):
        resolve_settings({}, [])


def test_the_filters_of_templates_have_their_own_section(resolve: Resolve) -> None:
    """Filters of templates come from files and variables of the section `templates`."""
    assert resolve().template_filters == CONFIGURED
    changed = resolve(TEMPLATES__IS_SHARED="true", TEMPLATES__CREATOR="7", TEMPLATES__PRODUCT_TYPES="Personal Letters")
    assert changed.template_filters == TemplateFilters(
        search=1, product_types=("Personal Letters",), creator="7", is_shared=True
    )
    assert resolve(TEMPLATES__ACCOUNT_ID="502").template_filters == replace(CONFIGURED, account_id="502")


def test_the_filters_of_contacts_have_their_own_section(resolve: Resolve) -> None:
    """Every filter of contacts can come from a variable of the section `contacts`."""
    variables = {
        "SEARCH": "Björn & co", "ADDRESS_STATUS": "Failed, Verified",
        "LAST_MAILED_STATUS": '["In Transit", "Lost, found"]',
        "LAST_MAILED_FROM": "2024-01-31", "LAST_MAILED_TO": "2024-02-29", "TAGS": "4,office",
        "WITH_PROPERTY_ADDRESSES": "false", "IS_RETURN_ADDRESS": "true", "ACCOUNT_ID": "502",
    }  # fmt: skip
    assert set(variables) == {key.name.upper() for key in fields(ContactFilters)}
    found = resolve(**{f"CONTACTS__{name}": value for name, value in variables.items()})
    assert found.contact_filters == ContactFilters(
        search="Björn & co", address_status=("Failed", "Verified"), last_mailed_status=("In Transit", "Lost, found"),
        last_mailed_from=date(2024, 1, 31), last_mailed_to=date(2024, 2, 29), tags=("4", "office"),
        with_property_addresses=False, is_return_address=True, account_id="502",
    )  # fmt: skip


def test_filters_in_a_file_have_toml_s_own_types(resolve: Resolve, project: Path) -> None:
    """Filters in a file may be TOML lists, days and booleans, and identifiers may be numbers."""
    (project / ".dlt/config.toml").write_text(
        "[sources.letters.contacts]\n"
        'address_status = ["Verified"]\n'
        "last_mailed_from = 2024-01-31\n"
        "last_mailed_to = 2024-02-29T12:00:00Z\n"
        'tags = [4, "buyers, past"]\n'
        "is_return_address = false\n"
        "account_id = 502\n"
    )
    Container()[PluggableRunContext].reload_providers()
    assert resolve({"base_url": URL}).contact_filters == ContactFilters(
        address_status=("Verified",), last_mailed_from=date(2024, 1, 31), last_mailed_to=date(2024, 2, 29),
        tags=("4", "buyers, past"), is_return_address=False, account_id="502",
    )  # fmt: skip


def test_an_environment_s_filters_come_before_the_general_ones(resolve: Resolve) -> None:
    """An environment's filters override the general ones, filter by filter, in files and in variables."""
    assert resolve({"environment": "demo"}).template_filters == CONFIGURED_DEMO
    assert resolve({"environment": "production"}, PRODUCTION__PAGE_SIZE="7").template_filters == CONFIGURED
    variables = {"CONTACTS__SEARCH": "all", "CONTACTS__TAGS": "4", "DEMO__CONTACTS__SEARCH": "some"}
    assert resolve(**variables).contact_filters == ContactFilters(search="all", tags=("4",))
    assert resolve(ENVIRONMENT="demo", **variables).contact_filters == ContactFilters(search="some", tags=("4",))


def test_filters_given_as_arguments_come_first(resolve: Resolve) -> None:
    """Filters given as arguments override the configured ones, filter by filter, and are not changed."""
    given = TemplateFilters(search=0, creator="")
    assert resolve({"template_filters": given}).template_filters == replace(CONFIGURED, search=0, creator="")
    assert given == TemplateFilters(search=0, creator="")
    contacts = ContactFilters(tags=("5",), with_property_addresses=False)
    variables = {"CONTACTS__TAGS": "4", "CONTACTS__WITH_PROPERTY_ADDRESSES": "true", "CONTACTS__SEARCH": "ada"}
    found = resolve({"contact_filters": contacts}, **variables).contact_filters
    assert found == ContactFilters(search="ada", tags=("5",), with_property_addresses=False)


def test_filters_given_as_arguments_become_their_types(resolve: Resolve) -> None:
    """Filters given as arguments are converted like those of files, because schedulers pass text and lists."""
    loose: Any = {"tags": [4, "office"], "last_mailed_from": "2024-01-31", "last_mailed_to": date(2024, 2, 1)}
    found = resolve({"contact_filters": ContactFilters(**loose)}).contact_filters
    first, last = date(2024, 1, 31), date(2024, 2, 1)
    assert found == ContactFilters(tags=("4", "office"), last_mailed_from=first, last_mailed_to=last)


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"tags": (4.5,)}, "argument contacts.tags must be a list of texts, got (4.5,)."),
        (
            {"last_mailed_from": "soon"},
            "argument contacts.last_mailed_from must be a day such as 2024-01-31, got 'soon'.",
        ),
        ({"is_return_address": "maybe"}, "argument contacts.is_return_address must be true or false, got 'maybe'."),
    ],
)
def test_filters_given_as_arguments_of_another_type_are_refused(
    resolve: Resolve, filters: dict[str, Any], message: str
) -> None:
    """The error for a filter of another type names the argument and what was expected."""
    assert problem(resolve, {"contact_filters": ContactFilters(**filters)}) == message


def test_an_account_given_as_an_argument_goes_before_those_of_the_sections(resolve: Resolve) -> None:
    """An account given as an argument overrides those of all sections; without it, a section's applies."""
    variables = {"CONTACTS__ACCOUNT_ID": "502", "TEMPLATES__ACCOUNT_ID": "503", "CONTACTS__SEARCH": "ada"}
    argument, none = resolve({"account_id": "501"}, **variables), resolve({"account_id": None}, **variables)
    assert {name: argument.filters(name) for name in ("contacts", "templates")} == {
        "contacts": ContactFilters(search="ada", account_id="501"),
        "templates": replace(CONFIGURED, account_id="501"),
    }
    assert {name: none.filters(name) for name in ("contacts", "templates")} == {
        "contacts": ContactFilters(search="ada", account_id="502"),
        "templates": replace(CONFIGURED, account_id="503"),
    }


def test_filters_of_a_listing_have_an_account(resolve: Resolve) -> None:
    """The filters of a listing have their own account, or else that of the settings."""
    settings = resolve({"contact_filters": ContactFilters(account_id="502")})
    found: dict[str, Filters] = {name: settings.filters(name) for name in ("contacts", "templates")}
    assert found == {
        "contacts": ContactFilters(account_id="502"),
        "templates": replace(CONFIGURED, account_id="77"),
    }


@pytest.mark.parametrize(
    ("listing", "key", "value", "expected"),
    [
        ("templates", "is_shared", "maybe", "true or false"),
        ("templates", "search", "maybe", "a whole number"),
        ("contacts", "with_property_addresses", "maybe", "true or false"),
        ("contacts", "is_return_address", "2", "true or false"),
        ("contacts", "last_mailed_from", "31-01-2024", "a day such as 2024-01-31"),
        ("contacts", "last_mailed_to", "2024-02-30", "a day such as 2024-01-31"),
        ("contacts", "tags", "[4", "a list of texts"),
    ],
)
def test_a_wrong_filter_is_named(resolve: Resolve, listing: str, key: str, value: str, expected: str) -> None:
    """The error for a wrong filter names its variable, of the general or the environment's section."""
    for section in (f"sources.letters.{listing}", f"sources.letters.production.{listing}"):
        variable = f"{section}.{key}".removeprefix("sources.letters.").replace(".", "__").upper()
        variables = {"PRODUCTION__PAGE_SIZE": "7", variable: value}
        assert problem(resolve, {"environment": "production"}, **variables) == (
            f"SOURCES__LETTERS__{variable} in the environment must be {expected}, got {value!r}."
        )


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (
            {"CONTACTS__ADDRESS_STATUS": "Failed,verified,Bounced"},
            "contacts.address_status must be Failed or Verified, got 'verified', 'Bounced' (did you mean Verified?).",
        ),
        (
            {"TEMPLATES__PRODUCT_TYPES": "Postcards"},
            "templates.product_types must be Professional Letters or Personal Letters, got 'Postcards'.",
        ),
        (
            {"CONTACTS__LAST_MAILED_TO": "2024-01-31"},
            "contacts.last_mailed_to needs last_mailed_from too: set both, or none.",
        ),
        (
            {"CONTACTS__LAST_MAILED_FROM": "2024-02-01", "CONTACTS__LAST_MAILED_TO": "2024-01-31"},
            "contacts.last_mailed_from must not be after last_mailed_to (got 2024-02-01 and 2024-01-31).",
        ),
    ],
)
def test_a_filter_that_the_interface_does_not_know_is_named(
    resolve: Resolve, variables: dict[str, str], expected: str
) -> None:
    """The error for values that the interface does not know lists the known ones, and days must go in pairs."""
    assert problem(resolve, None, **variables) == f"sources.letters.{expected}"


def test_the_days_of_the_last_mailing_may_come_from_two_places(resolve: Resolve) -> None:
    """The days of the last mailing are checked together when one is an argument and the other is configured."""
    first, last = ContactFilters(last_mailed_from=date(2024, 1, 31)), ContactFilters(last_mailed_to=date(2024, 2, 29))
    both = replace(first, last_mailed_to=date(2024, 2, 29))
    assert resolve({"contact_filters": first}, CONTACTS__LAST_MAILED_TO="2024-02-29").contact_filters == both
    assert resolve({"contact_filters": last}, CONTACTS__LAST_MAILED_FROM="2024-01-31").contact_filters == both
    assert problem(resolve, {"contact_filters": first}, CONTACTS__LAST_MAILED_TO="2024-01-30") == (
        "sources.letters.contacts.last_mailed_from must not be after last_mailed_to (got 2024-01-31 and 2024-01-30)."
    )
    for one, names in ((first, ("from", "to")), (last, ("to", "from"))):
        assert problem(resolve, {"contact_filters": one}) == (
            "sources.letters.contacts.last_mailed_{} needs last_mailed_{} too: set both, or none.".format(*names)
        )


@pytest.mark.parametrize("listing", ["contacts", "templates"])
@pytest.mark.parametrize("file", ["config.toml", "secrets.toml"])
def test_a_misspelled_filter_in_a_file_is_named(resolve: Resolve, project: Path, file: str, listing: str) -> None:
    """A misspelled filter in a file is an error with a suggestion, if its section is used."""
    with (project / ".dlt" / file).open("a") as config:
        config.write(f'[sources.letters.production.{listing}]\nserch = "ada"\nsearch = 1\n')
    Container()[PluggableRunContext].reload_providers()
    message = problem(resolve, {"environment": "production"})
    assert message == (
        f"unknown setting sources.letters.production.{listing}.serch; did you mean search? "
        f"It is serch under [sources.letters.production.{listing}] in {project / '.dlt' / file}."
    )
    assert resolve({"environment": "demo"}).environment == "demo"


def test_a_misspelled_filter_set_by_hand_is_named(resolve: Resolve) -> None:
    """A misspelled filter in `dlt.config` is an error, even if filters are given as arguments."""
    dlt.config["sources.letters.templates.xyz"] = 1
    assert problem(resolve, {"template_filters": TemplateFilters(search=1)}) == (
        "unknown setting sources.letters.templates.xyz; "
        "known are search, product_types, creator, is_shared, account_id. "
        f"It is xyz under [sources.letters.templates] in {Path.cwd() / '.dlt/config.toml'}."
    )


@pytest.mark.parametrize(
    ("key", "meant"), [("PAGESIZE", "page_size"), ("FACET", "facets"), ("BASEURL", "base_url"), ("CONTACT", "contacts"),
     ("WORKERS", "max_workers"), ("CONTACT_FILTERS", "contacts")]
)  # fmt: skip
def test_a_setting_that_is_misspelled_is_named(resolve: Resolve, key: str, meant: str) -> None:
    """The error for a misspelled variable suggests the setting that was meant."""
    assert problem(resolve, None, **{key: "7"}) == (
        f"unknown setting sources.letters.{key.lower()}; did you mean {meant}? "
        f"It is SOURCES__LETTERS__{key} in the environment."
    )


def test_a_setting_that_is_misspelled_in_a_file_is_named(resolve: Resolve, project: Path) -> None:
    """The error for a misspelled key of an environment's section suggests one, if the section is used."""
    with (project / ".dlt/config.toml").open("a") as config:
        config.write("[sources.letters.production]\nmax_worker = 2\n")
    Container()[PluggableRunContext].reload_providers()
    message = problem(resolve, {"environment": "production"})
    assert message == (
        "unknown setting sources.letters.production.max_worker; did you mean max_workers? "
        f"It is max_worker under [sources.letters.production] in {project / '.dlt/config.toml'}."
    )
    assert resolve({"environment": "demo"}).max_workers == 16


@pytest.mark.parametrize("variable", ["XYZ", "PRODUCTION__XYZ"])
def test_a_key_that_resembles_no_setting_is_named(resolve: Resolve, variable: str) -> None:
    """A key that neither we nor dlt read is an error in one line, also if it is like no setting."""
    message = problem(resolve, {"environment": "production"}, PRODUCTION__PAGE_SIZE="7", **{variable: "freeze"})
    key = variable.lower().replace("__", ".")
    assert message.startswith(f"unknown setting sources.letters.{key}; known are base_url, ")
    assert message.endswith(f" It is SOURCES__LETTERS__{variable} in the environment.")
    assert "\n" not in message


@pytest.mark.parametrize("variable", ["EXTRACT__WORKERS", "LETTERS__DATA_WRITER__FILE_MAX_ITEMS", "SCHEMA__NAMING"])
def test_sections_that_dlt_reads_are_allowed(resolve: Resolve, variable: str) -> None:
    """What dlt reads for this source may be set."""
    assert resolve(**{variable: "2"}).max_workers == 16


def test_a_section_in_capitals_is_named(resolve: Resolve, project: Path) -> None:
    """A section in capitals is an error, because ignoring it would load personal values in clear."""
    with (project / ".dlt/config.toml").open("a") as config:
        config.write("[sources.letters.PII]\nall = 'drop'\n")
    Container()[PluggableRunContext].reload_providers()
    assert problem(resolve, None) == (
        "unknown setting sources.letters.PII; did you mean pii? "
        f"It is PII under [sources.letters] in {project / '.dlt/config.toml'}."
    )


def test_any_last_mailed_status_may_be_requested(resolve: Resolve) -> None:
    """Any status of the last mailing is accepted, because the interface leaves the list open."""
    assert resolve(CONTACTS__LAST_MAILED_STATUS="Returned").contact_filters.last_mailed_status == ("Returned",)
    assert resolve({"last_mailed_statuses": ("Returned",)}).last_mailed_statuses == ("Returned",)
    assert resolve({"last_mailed_statuses": "In Transit"}).last_mailed_statuses == ("In Transit",)


def test_history_and_sync_exclude_each_other(resolve: Resolve) -> None:
    """`history` and `sync` together are an error, whether they are arguments or variables."""
    expected = "sources.letters.history cannot be combined with sync, which deletes what history keeps."
    assert problem(resolve, {"history": True, "sync": True}) == expected
    assert problem(resolve, {"sync": True}, HISTORY="true") == expected
    assert problem(resolve, HISTORY="true", SYNC="true") == expected
    assert resolve({"history": False, "sync": True}).mode == "sync"


@pytest.mark.parametrize(("given", "mode"), [({}, "replace"), ({"history": True}, "history"), ({"sync": True}, "sync")])
def test_a_load_has_one_mode(resolve: Resolve, given: Overrides, mode: Mode) -> None:
    """The mode is `replace` unless `history` or `sync` is set."""
    assert resolve(given).mode == mode


def test_an_argument_that_is_no_setting_is_named(resolve: Resolve) -> None:
    """The error for an argument that is no setting suggests the closest one."""
    misspelled: Any = {"pagesize": 100, "page_size": 10}
    assert problem(resolve, misspelled) == "unknown setting sources.letters.pagesize; did you mean page_size?"


def test_a_single_policy_applies_to_all_columns(resolve: Resolve) -> None:
    """A policy that is one word applies to all personal columns."""
    assert resolve({"pii": "mask"}).privacy == resolve({"pii": {"all": "mask"}}).privacy
    assert resolve({"pii": "mask"}).privacy.policies["email"] == "mask"
    for policy in ("blur", ""):
        assert problem(resolve, {"pii": cast("Any", policy)}) == (
            f"argument pii.all must be keep or hash or mask or drop, got {policy!r}."
        )


@pytest.mark.parametrize("name", ["all", "email", "undocumented"])
def test_an_empty_policy_is_none(resolve: Resolve, name: str) -> None:
    """An empty policy is an error, because it must not keep values in clear."""
    variable = f"PII__{name.upper()}"
    policies = "keep or drop" if name == "undocumented" else "keep or hash or mask or drop"
    expected = f"SOURCES__LETTERS__{variable} in the environment must be {policies}, got ''."
    assert problem(resolve, None, **{variable: ""}) == expected
    given = cast("Any", {name: ""})
    assert problem(resolve, {"pii": given}) == f"argument pii.{name} must be {policies}, got ''."


@pytest.mark.parametrize("key", ["account_id", "contacts.account_id", "templates.account_id"])
def test_an_empty_account_is_refused(resolve: Resolve, key: str) -> None:
    """An empty account is refused, because the service would silently return another account's rows."""
    for blank in ("", "  "):
        message = problem(resolve, None, **{key.replace(".", "__").upper(): blank})
        section, _, name = f"sources.letters.{key}".rpartition(".")
        assert message == f"sources.letters.{key} is empty; {where(name, section).rstrip('.')}, or leave it out."


def test_an_account_in_filters_may_be_a_number(resolve: Resolve) -> None:
    """An account in filters may be a number or text; anything else is an error."""
    given: Any = {"contact_filters": ContactFilters(account_id=cast("Any", 501))}
    assert resolve(given).filters("contacts").account_id == "501"
    given = {"template_filters": TemplateFilters(account_id=cast("Any", ["501"]))}
    assert problem(resolve, given) == "argument templates.account_id must be text, got ['501']."


def test_a_false_argument_is_an_argument(resolve: Resolve) -> None:
    """An argument of false or 0 overrides a configured value."""
    settings = resolve({"history": False, "mailings_lag": 0}, HISTORY="true", MAILINGS_LAG="3")
    assert (settings.history, settings.mailings_lag) == (False, 0)


def test_settings_know_how_requests_write_filters(resolve: Resolve) -> None:
    """The settings give the format of days and the encoding of lists in requests."""
    assert resolve().form == FilterForm("%Y-%m-%d", "json")
    assert resolve(DATE_FORMAT="%d-%m-%Y", FILTER_ENCODING="compact").form == FilterForm("%d-%m-%Y", "compact")


def test_mailings_reach_back_and_are_requested_in_windows(resolve: Resolve) -> None:
    """The lag of mailings is at least 0 days, and their window at least 1 day."""
    settings = resolve({"mailings_lag": 0, "mailings_window": 1, "mailings_since": date(2024, 1, 31)})
    assert (settings.mailings_lag, settings.mailings_window) == (0, 1)
    assert settings.mailings_since == date(2024, 1, 31)
    given: tuple[Overrides, ...] = ({"mailings_lag": -1}, {"mailings_window": 0})
    assert [problem(resolve, each) for each in given] == [
        "argument mailings_lag must be a whole number from 0 to 36500, got -1.",
        "argument mailings_window must be a whole number from 1 to 36500, got 0.",
    ]


def test_tokens_are_read_again_from_the_files(resolve: Resolve, project: Path) -> None:
    """Rotated tokens are read from the files without a new process, and arguments stay as they are."""
    settings, demo = resolve(), resolve({"environment": "demo"})
    assert read_tokens_again(demo, {"environment": "demo"}) == Tokens("demo-access", "file-refresh")
    (project / ".dlt/secrets.toml").write_text(SECRETS.replace("file", "new"))
    assert read_tokens_again(settings, {}) == Tokens("new-access", "new-refresh")
    assert read_tokens_again(settings, {"refresh_token": "argument"}) == Tokens("new-access", "argument")
    assert read_tokens_again(settings, {"access_token": "argument"}) == Tokens("argument", "new-refresh")
    assert read_tokens_again(demo, {}) == Tokens("demo-access", "new-refresh")


def test_tokens_know_where_they_were_set(resolve: Resolve, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens have the variable, file or argument that each came from, also when they are read again."""
    settings, file = resolve(), f"in {project / '.dlt/secrets.toml'}"
    access, refresh = (f"{name} under [sources.letters] {file}" for name in ("access_token", "refresh_token"))
    assert token_source(settings, {}).current().origins == (access, refresh)
    assert token_source(settings, {"access_token": "a"}).current().origins == ("argument access_token", refresh)
    assert token_source(settings, {"access_token": "a", "refresh_token": "r"}).current().origins == ()
    monkeypatch.setenv("SOURCES__LETTERS__ACCESS_TOKEN", "variable")
    variable = "SOURCES__LETTERS__ACCESS_TOKEN in the environment"
    assert read_tokens_again(settings, {}).origins == (variable, refresh)


def test_tokens_are_read_again_from_the_variables(resolve: Resolve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that are read again come from variables before files, without surrounding white space."""
    settings = resolve()
    monkeypatch.setenv("SOURCES__LETTERS__REFRESH_TOKEN", " variable\n")
    assert read_tokens_again(settings, {}) == Tokens("file-access", "variable")


def test_nothing_but_tokens_is_read_again(resolve: Resolve, project: Path) -> None:
    """Reading tokens again ignores other settings that have become wrong or missing in the file."""
    settings = resolve({"environment": "demo"})
    (project / ".dlt/config.toml").write_text('[sources.letters]\npage_size = "many"\nenvironment = "staging"\n')
    assert read_tokens_again(settings, {}) == Tokens("demo-access", "file-refresh")


def test_reading_tokens_again_leaves_the_run_its_settings(resolve: Resolve, project: Path) -> None:
    """Reading tokens again changes neither values set in code, nor providers, nor what dlt read from files."""
    dlt.config["sources.letters.page_size"] = 33
    dlt.config["sources.letters.demo.max_walks"] = 9
    dlt.secrets["sources.letters.refresh_token"] = "by-hand"
    before = resolve({"environment": "demo"})
    assert (before.page_size, before.max_walks, before.tokens) == (60, 9, Tokens("demo-access", "by-hand"))
    providers = list(Container()[PluggableRunContext].providers.providers)
    (project / ".dlt/secrets.toml").write_text(SECRETS.replace("file", "new").replace("demo-access", "new-demo"))
    (project / ".dlt/config.toml").write_text(CONFIG.replace("50", "51").replace("60", "61"))
    assert read_tokens_again(before, {"environment": "demo"}) == Tokens("new-demo", "new-refresh")
    assert resolve({"environment": "demo"}) == before
    assert resolve().page_size == 33
    found = Container()[PluggableRunContext].providers.providers
    assert [one is other for one, other in zip(found, providers, strict=True)] == [True] * len(providers)


def test_tokens_are_read_again_from_providers_that_were_added(resolve: Resolve) -> None:
    """Tokens that are read again come from a vault that the user added if the files lack them."""
    values = {"sources": {"letters": {"access_token": "vault", "production": {"access_token": "vault-production"}}}}
    vault = CustomLoaderDocProvider("vault", lambda: values, supports_secrets=True)
    Container()[PluggableRunContext].providers.add_provider(vault)
    settings = resolve({"environment": "production"})
    assert settings.access_token == "vault-production"
    assert read_tokens_again(settings, {}) == Tokens("vault-production", "file-refresh")
    assert read_tokens_again(resolve(), {}) == Tokens("file-access", "file-refresh")


@pytest.mark.parametrize("left", [None, "", '[sources.letters]\naccess_token = "new"\nrefresh_token = " "\n'])
@pytest.mark.parametrize("given", [{}, {"access_token": "argument"}, {"access_token": ""}])
def test_a_token_that_is_gone_cannot_be_read_again(
    resolve: Resolve, project: Path, left: str | None, given: Overrides
) -> None:
    """Reading a missing or blank token again is an error, and the run keeps its tokens."""
    settings = resolve()
    (project / ".dlt/secrets.toml").unlink()
    if left is not None:
        (project / ".dlt/secrets.toml").write_text(left)
    with pytest.raises(SettingsError) as caught:
        read_tokens_again(settings, given)
    assert "_token is not set; set SOURCES__LETTERS__" in str(caught.value)
    assert resolve().tokens == Tokens("file-access", "file-refresh")


@pytest.mark.parametrize("file", ["secrets.toml", "config.toml"])
@pytest.mark.parametrize("content", [b"[sources.letters\ncanary", b'a = "canary', b"canary = '\xff'"])
def test_files_that_cannot_be_parsed_cannot_be_read_again(
    resolve: Resolve, project: Path, file: str, content: bytes
) -> None:
    """Reading tokens again from a malformed file is an error that quotes nothing of the file."""
    settings = resolve()
    (project / ".dlt" / file).write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        read_tokens_again(settings, {})
    assert str(caught.value).startswith(f"A problem encountered when loading {file} from paths ")
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_tokens_are_read_again_for_the_environment_of_the_run(resolve: Resolve) -> None:
    """Tokens are read again for the environment of the run, even if another is configured by now."""
    dlt.config["sources.letters.environment"] = "demo"
    settings = resolve()
    assert settings.tokens == Tokens("demo-access", "file-refresh")
    assert read_tokens_again(settings, {}) == Tokens("demo-access", "file-refresh")
    dlt.config["sources.letters.environment"] = "production"
    assert read_tokens_again(settings, {}) == Tokens("demo-access", "file-refresh")


def test_tokens_are_read_again_where_the_address_was_set_by_hand(project: Path) -> None:
    """Tokens are read again from the files even if no file has the address."""
    (project / ".dlt/secrets.toml").write_text(SECRETS)
    Container()[PluggableRunContext].reload_providers()
    dlt.config["sources.letters.base_url"] = URL
    settings = resolve_settings({})
    assert settings.tokens == Tokens("file-access", "file-refresh")
    assert read_tokens_again(settings, {}) == Tokens("file-access", "file-refresh")


def test_secrets_are_never_quoted(resolve: Resolve) -> None:
    """Neither the repr of the settings nor an error of a setting contains a secret."""
    settings = resolve({"access_token": "canary", "refresh_token": "canary"})
    assert "canary" not in f"{settings!r} {settings}"
    assert "canary" not in problem(resolve, BASE_URL="https://user:canary@letters.example.org")
    assert "canary" not in problem(resolve, BASE_URL="https://letters.example.org?token=canary")
    assert "canary" not in problem(resolve, ACCESS_TOKEN="canary", MAX_WALKS="0")
