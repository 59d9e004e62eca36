"""Shows the findings of a check: as tables at a terminal, or as JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from letters_source.cli.display import console, make_table, print_table, shown_progress
from letters_source.extract.check import Findings, check_service

MORE_ROWS = "the service lists more rows than it counts; set sources.letters.count to at_least to load them all."


def check_shown(
    accounts: Sequence[str], settings: Mapping[str, Any], *, probe: bool, as_json: bool, quiet: bool
) -> None:
    """Check the service with progress, then show what was found."""
    with shown_progress(quiet=quiet, unit="probes") as progress:
        found = check_service(accounts, probe=probe, progress=progress, **settings)
    if as_json:
        expires = found.expires.isoformat() if found.expires else None
        click.echo(json.dumps({"token_expires": expires, "listings": [asdict(each) for each in found.listings]}))
    elif not quiet:
        show_findings(found)


def show_findings(findings: Findings) -> None:
    """Print what a load would find, how long it would take, what filters do, and when the access token expires."""
    probed = ("largest page",) if any(found.largest_page is not None for found in findings.listings) else ()
    # narrow terminals drop the last ones
    table = make_table("listing", "rows", "estimate", *probed, "rows per page", "requests", "latency")
    for found in findings.listings:
        table.add_row(
            found.listing,
            f"{found.count:,}{' or more' if found.has_more else ''}",
            f"{found.seconds:.1f} s",
            *(f"{found.largest_page or 0:,}" for _ in probed),
            f"{found.page_size:,}" if found.page_size else "one page",
            f"{found.requests:,}",
            f"{found.latency * 1000:.0f} ms",
        )
    print_table(table)
    for found in findings.listings:
        effects = make_table(f"filter of {found.listing}", "effect")
        for name, effect in found.filters.items():
            effects.add_row(name, str(effect))
        print_table(effects)
    for found in findings.listings:
        for effect in found.filters.values():
            if effect.message:
                console().print(effect.message)
    for found in findings.listings:
        if found.has_more:
            console().print(f"{found.listing}: {MORE_ROWS}")
    end = findings.expires
    expires = f"expires at {end:%Y-%m-%d %H:%M} UTC" if end else "does not say when it expires"
    console().print(f"The service is reachable and accepts the tokens; the access token {expires}.")
