"""Warns of settings in a section whose name is almost ours, which nothing would read."""

import logging
import os
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, get_args

from letters_source.config.messages import nearest, variable_of
from letters_source.config.providers import TYPO, Providers, present_providers
from letters_source.config.settings import FILTERS, SETTINGS, SUBSECTIONS, Environment
from letters_source.service.listings import SECTION

logger = logging.getLogger("letters_source")

TOP, OURS = SECTION.split(".")
NAMES = {*SETTINGS, *SUBSECTIONS, *get_args(Environment)} | {name for keys in FILTERS.values() for name in keys}
"""What a section of ours can contain."""


def report_misspelled_sections(providers: Providers | None = None) -> None:
    """Warn of each section and variable that would be one of ours if its name were spelled right.

    It is no error: another source may have such a name.
    """
    found = present_providers() if providers is None else providers
    for wrong, right in (*misspelled_sections(found), *misspelled_variables()):
        logger.warning("%s is not used; did you mean %s?", wrong, right)


def misspelled_sections(providers: Providers) -> Iterator[tuple[str, str]]:
    """Yield sections of files with a name that is almost ours and a key that is ours, and the right name."""
    # the singular is the likely slip; providers cannot list the sections at their top
    for provider, top in product(providers, (TOP, TOP.removesuffix("s"))):
        sections = provider.get_value(top, Any, None)[0]
        for name, keys in sections.items() if isinstance(sections, Mapping) else ():
            if is_near(top, name) and isinstance(keys, Mapping) and not NAMES.isdisjoint(keys):
                yield f"section [{top}.{name}] in {provider.name}", f"[{SECTION}]"


def misspelled_variables() -> Iterator[tuple[str, str]]:
    """Yield environment variables in such a section, and the right name."""
    for variable in sorted(os.environ):
        top, _, rest = variable.lower().partition("__")
        name, _, key = rest.partition("__")
        if is_near(top, name) and key.rpartition("__")[2] in NAMES:
            yield variable, variable_of(f"{SECTION}.{key}")


def is_near(top: str, name: str) -> bool:
    """Return whether two parts of a name are almost ours, but not ours."""
    return (top, name) != (TOP, OURS) and bool(nearest(top, (TOP,), TYPO) and nearest(name, (OURS,), TYPO))
