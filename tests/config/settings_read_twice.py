"""Resolves settings without dlt, then as dlt reads them: a program, since tests of other modules import dlt.

Takes layouts as JSON on standard input; prints what each gave in both ways, or null where dlt is needed.
"""

import json
import logging
import os
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

from letters_source.config.direct_providers import direct_providers
from letters_source.config.messages import report_misspelled_sections
from letters_source.config.providers import present_providers
from letters_source.config.resolve import resolve_settings, token_origins
from letters_source.errors import SettingsError


class Messages(logging.Handler):
    """Keeps messages."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message."""
        self.texts.append(record.getMessage())


def resolved() -> list[str]:
    """Return the settings or their error, secrets and origins, after the warnings."""
    messages = Messages()
    logging.getLogger("letters_source").handlers = [messages]
    report_misspelled_sections(present_providers())
    try:
        settings = resolve_settings({})
    except SettingsError as error:
        return [*messages.texts, str(error)]
    return [*messages.texts, repr(settings), repr(settings.tokens), *token_origins(settings, {}, present_providers())]


def read_all(layouts: list[dict[str, Any]], read: Callable[[int], list[str] | None]) -> list[list[str] | None]:
    """Return what is read in a folder of each layout."""
    found = []
    for number, layout in enumerate(layouts):
        folder = Path(str(number), ".dlt")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in layout["files"].items():
            (folder / name).write_text(text, newline="")
        os.environ.update(layout["environment"])
        with chdir(folder.parent):
            found.append(read(number))
        for name in layout["environment"]:
            del os.environ[name]
    return found


def with_dlt() -> list[str]:
    """Return what is resolved once dlt has read the files."""
    from dlt.common.configuration.container import Container
    from dlt.common.configuration.specs import PluggableRunContext

    # a program that starts has no context yet
    Container()[PluggableRunContext] = PluggableRunContext()
    return resolved()


if __name__ == "__main__":
    layouts = json.load(sys.stdin)
    direct = read_all(layouts, lambda _: resolved() if direct_providers() else None)
    print(json.dumps([direct, read_all(layouts, lambda number: direct[number] and with_dlt())]))
