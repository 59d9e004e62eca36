"""Asks for what a load needs, writes the settings files, and tests them."""

import sys
from collections.abc import Mapping, Sequence

import click

from letters_source.cli.findings import show_findings
from letters_source.config.network import check_base_url
from letters_source.config.settings import SETTINGS
from letters_source.config.settings_files import CONFIG, FOLDER, SECRET, missing_files, write_settings
from letters_source.errors import SettingsError
from letters_source.extract.check import check_service
from letters_source.service.listings import SECTION

ASKED = ("base_url", "access_token", "refresh_token")
"""What every load needs."""
FILE_OF = {name: SECRET if SETTINGS[name].secret else CONFIG for name in ASKED}


def set_up_project(options: Mapping[str, str]) -> None:
    """Write the settings files with what the options and the user say, then check the service if nothing is missing."""
    missing = missing_files()
    given = dict(options)
    if sys.stdin is not None and sys.stdin.isatty():
        given |= {name: ask(name) for name in ASKED if name not in given and FILE_OF[name] in missing}
    if given.get("base_url"):
        check_base_url(given["base_url"])
    for path in write_settings(given):
        click.echo(f"Created {path}")
    if unwritten := [name for name in options if FILE_OF[name] not in missing]:
        raise SettingsError(
            f"files that exist are not changed: set {with_files(unwritten)}, then run: letters check",
            key=f"{SECTION}.{unwritten[0]}",
        )
    click.echo(f"Keep {SECRET} out of version control.")
    if unset := [name for name, file in FILE_OF.items() if file in missing and not given.get(name)]:
        click.echo(f"Set {with_files(unset)}, then run: letters check")
        return
    click.echo(f"Checking the service with the settings in {FOLDER} ...")
    show_findings(check_service())


def with_files(names: Sequence[str]) -> str:
    """Return settings with the files that they belong in."""
    return " and ".join(f"{name} in {FILE_OF[name]}" for name in names)


def ask(name: str) -> str:
    """Return what the user types; secrets are not shown."""
    key = SETTINGS[name]
    meaning = str(key.about.description).rstrip(".")
    return click.prompt(f"{meaning} ({name})", hide_input=key.secret, default="", show_default=False)
