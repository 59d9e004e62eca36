"""Do the settings files that `letters init` writes make a load work?"""

from pathlib import Path

import pexpect
import pytest
from commands import start_command
from terminals import COMMAND, Letters, Outcome, run_command
from worlds import ACCESS, REFRESH, Begin

from letters_source.config.settings_files import config_toml, secrets_toml
from programmable_emulator import Emulator

CONFIG, SECRETS = Path(".dlt/config.toml"), Path(".dlt/secrets.toml")
REACHABLE = "The service is reachable and accepts the tokens; the access token does not say when it expires."


@pytest.fixture
def base_url(begin: Begin, project: Path) -> str:
    """The address of 45 contacts and 7 templates; no setting names it, and there are no settings files."""
    (project / ".dlt").rmdir()
    return str(begin(Emulator(45, 7)).settings["base_url"])


def test_without_answers_it_writes_files_to_fill_in(letters: Letters, project: Path) -> None:
    """`letters init` writes all settings, never overwrites files, and lets only the user read secrets."""
    done = letters("init")
    assert done == Outcome(
        0,
        "Created .dlt/config.toml\nCreated .dlt/secrets.toml\nKeep .dlt/secrets.toml out of version control.\n"
        "Set base_url in .dlt/config.toml and access_token in .dlt/secrets.toml and refresh_token in "
        ".dlt/secrets.toml, then run: letters check\n",
        "",
    )
    assert (CONFIG.read_text(), SECRETS.read_text()) == (config_toml(), secrets_toml())
    assert SECRETS.stat().st_mode & 0o777 == 0o600
    SECRETS.write_text("")
    assert letters("init").out.splitlines()[0] != "Created .dlt/secrets.toml"
    assert (project / SECRETS).read_text() == ""


@pytest.mark.usefixtures("project")
def test_a_folder_that_cannot_be_written_ends_with_2(letters: Letters) -> None:
    """The error for a folder that cannot be written is one line with the path and the cause."""
    Path(".dlt").rmdir()
    Path(".dlt").write_text("")
    assert letters("init") == Outcome(2, "", "letters: .dlt cannot be written: File exists.\n")


def test_options_are_written_and_tested(base_url: str) -> None:
    """Options are written to the settings files, which are all that a check and a load need."""
    done = run_command("init", "--base-url", base_url, "--access-token", ACCESS, "--refresh-token", REFRESH)
    assert (done.code, done.err, done.out.splitlines()[-1]) == (0, "", REACHABLE)
    assert f'\nbase_url = "{base_url}"  # Address of the service' in CONFIG.read_text()
    assert f'\naccess_token = "{ACCESS}"  # Bearer token.\nrefresh_token = "{REFRESH}"  #' in SECRETS.read_text()
    assert run_command("load", "--quiet") == Outcome(0, "", "")


def test_a_user_at_a_terminal_is_prompted(base_url: str) -> None:
    """Tokens typed at a terminal are not shown."""
    child = pexpect.spawn(COMMAND, ["init", "--base-url", base_url], encoding="utf-8", timeout=60)
    for name, answer in (("access_token", ACCESS), ("refresh_token", REFRESH)):
        child.expect_exact(f"({name}): ")
        child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    seen = str(child.before)
    assert (child.exitstatus, seen.split("\r\n")[-2]) == (0, REACHABLE)
    assert ACCESS not in seen
    assert f'access_token = "{ACCESS}"' in SECRETS.read_text()


@pytest.mark.usefixtures("project")
def test_an_address_to_which_no_token_may_be_sent_is_not_written(letters: Letters) -> None:
    """An address that is not https is an error, and no file is written."""
    done = letters("init", "--base-url", "http://letters.example.org/api/v1")
    words = "letters: sources.letters.base_url must begin with https://, since tokens are sent there; set "
    assert (done.code, done.out, done.err[: len(words)], CONFIG.exists()) == (2, "", words, False)


@pytest.mark.usefixtures("project")
def test_an_option_for_a_file_that_exists_is_refused(letters: Letters) -> None:
    """An option for an existing file is an error, because existing files are not changed."""
    CONFIG.write_text("")
    assert letters("init", "--base-url", "https://letters.example.org") == Outcome(
        2,
        "Created .dlt/secrets.toml\n",
        "letters: files that exist are not changed: set base_url in .dlt/config.toml, then run: letters check\n",
    )


def test_the_package_runs_as_a_module(base_url: str) -> None:
    """`python -m letters_source` runs the command."""
    with start_command(
        "--version", code="import runpy; runpy.run_module('letters_source', run_name='__main__')"
    ) as done:
        out, err = done.communicate()
    assert (done.returncode, err, out.split(",")[0]) == (0, "", "letters")
