"""Is a section that is almost ours reported, and no other?"""

from pathlib import Path

import pytest
from dlt.common.configuration.container import Container
from dlt.common.configuration.specs import PluggableRunContext

from letters_source.config.messages import report_misspelled_sections
from letters_source.config.providers import present_providers


@pytest.mark.parametrize(
    ("variable", "right"),
    [
        ("SOURCES__LETTER__PAGE_SIZE", "SOURCES__LETTERS__PAGE_SIZE"),
        ("SOURCE__LETTERS__BASE_URL", "SOURCES__LETTERS__BASE_URL"),
        ("SOURCES__LETERS__DEMO__ACCESS_TOKEN", "SOURCES__LETTERS__DEMO__ACCESS_TOKEN"),
        ("SOURCES__LETTERS___PAGE_SIZE", None),
        ("SOURCES__LETTERS__PAGE_SIZE", None),
        ("SOURCES__LETTER__OTHER", None),
        ("SOURCES__NEWSLETTERS__PAGE_SIZE", None),
        ("PAGE_SIZE", None),
    ],
)
def test_variables_of_a_section_that_is_almost_ours_are_reported(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    right: str | None,
) -> None:
    """A variable with almost our section and one of our keys is reported with the right name."""
    monkeypatch.setenv(variable, "canary")
    report_misspelled_sections(present_providers())
    assert caplog.messages == ([f"{variable} is not used; did you mean {right}?"] if right else [])


@pytest.mark.parametrize(
    ("section", "key", "is_reported"),
    [
        ("sources.leters", "page_size", True),
        ("source.letters", "base_url", True),
        ("sources.letter.contacts", "search", True),
        ("sources.letter", "host", False),
        ("sources.newsletters", "page_size", False),
        ("sources.letters", "page_size", False),
    ],
)
def test_sections_of_files_that_are_almost_ours_are_reported(
    project: Path, caplog: pytest.LogCaptureFixture, section: str, key: str, *, is_reported: bool
) -> None:
    """A section with almost our name is reported only if it holds one of our keys."""
    (project / ".dlt/config.toml").write_text(f"[{section}]\n{key} = 'canary'\n")
    Container()[PluggableRunContext].reload_providers()
    report_misspelled_sections(present_providers())
    name = ".".join(section.split(".")[:2])
    expected = f"section [{name}] in config.toml is not used; did you mean [sources.letters]?"
    assert caplog.messages == ([expected] if is_reported else [])
