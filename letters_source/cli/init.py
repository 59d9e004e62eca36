"""Asks for what a load needs, writes the settings files, and tests them."""

import sys
from collections.abc import Mapping

import click

from letters_source.cli.findings import show_findings
from letters_source.config.network import check_base_url
from letters_source.config.settings import SETTINGS
from letters_source.config.settings_files import CONFIG, FOLDER, SECRET, missing_files, write_settings
from letters_source.errors import SettingsError
from letters_source.extract.check import check_service

ASKED = ("base_url", "access_token", "refresh_token")
"""What every load needs."""


def set_up_project(options: Mapping[str, str]) -> None:
    """Write the settings files with what the options and the user say, then check the service if nothing is missing."""
    missing = missing_files()
    written_to = {name: SECRET if SETTINGS[name].secret else CONFIG for name in ASKED}
    for name in options:
        if written_to[name] not in missing:
            raise SettingsError(f"{written_to[name]} exists and is not changed: set {name} in it.")
    given = dict(options)
    if sys.stdin.isatty():
        given |= {name: ask(name) for name in ASKED if name not in given and written_to[name] in missing}
    if given.get("base_url"):
        check_base_url(given["base_url"])
    for path in write_settings(given):
        click.echo(f"Created {path}")
    if any(path in missing and not given.get(name) for name, path in written_to.items()):
        click.echo(
            f"Set base_url in {CONFIG} and both tokens in {SECRET}, then run: letters check\n"
            f"Keep {SECRET} out of version control."
        )
        return
    click.echo(f"Keep {SECRET} out of version control. Checking the service with the settings in {FOLDER} ...")
    show_findings(check_service())


def ask(name: str) -> str:
    """Return what the user types; secrets are not shown."""
    key = SETTINGS[name]
    return click.prompt(f"{name} ({key.about.description})", hide_input=key.secret, default="", show_default=False)
