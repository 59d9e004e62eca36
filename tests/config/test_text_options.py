"""Settings as texts become arguments of the declared types."""

from datetime import date

import pytest

from letters_source.config.settings import SECRETS
from letters_source.config.text_options import to_overrides
from letters_source.errors import SettingsError
from letters_source.service.listings import ContactFilters, TemplateFilters


def test_texts_become_what_their_settings_are() -> None:
    """Texts become numbers, switches, lists and days, and a dot in a name leads to a section."""
    texts = {
        "page_size": "auto",
        "max_walks": "3",
        "requests_per_second": "2.5",
        "allow_shared_ids": "true",
        "known_fields": "countryCode, tier",
        "contacts.tags": '["office", "4"]',
        "contacts.last_mailed_from": "2024-01-31",
        "contacts.last_mailed_to": "2024-02-29",
        "templates.is_shared": "false",
        "pii.all": "drop",
        "pii.email": "keep",
    }
    assert to_overrides(texts) == {
        "page_size": "auto",
        "max_walks": 3,
        "requests_per_second": 2.5,
        "allow_shared_ids": True,
        "known_fields": ("countryCode", "tier"),
        "contact_filters": ContactFilters(
            tags=("office", "4"), last_mailed_from=date(2024, 1, 31), last_mailed_to=date(2024, 2, 29)
        ),
        "template_filters": TemplateFilters(is_shared=False),
        "pii": {"all": "drop", "email": "keep"},
    }


def test_no_texts_are_no_arguments() -> None:
    """No options give no arguments."""
    assert to_overrides({}) == {}


@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_refused(secret: str) -> None:
    """A secret among the options is refused, and the message does not quote it."""
    with pytest.raises(SettingsError) as caught:
        to_overrides(dict.fromkeys([secret], "canary"))
    assert str(caught.value) == (
        f"sources.letters.{secret} is a secret, and options are shown; set SOURCES__LETTERS__{secret.upper()} in the "
        f"environment, or {secret} under [sources.letters] in .dlt/secrets.toml."
    )


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("contacts.tag", "4", "unknown setting sources.letters.contacts.tag; did you mean contacts.tags?"),
        ("max_walks", "0", "option max_walks must be a whole number of at least 1, got '0'."),
        (
            "contacts.last_mailed_from",
            "soon",
            "option contacts.last_mailed_from must be a day such as 2024-01-31, got 'soon'.",
        ),
        ("pii.email", "burn", "option pii.email must be keep or hash or mask or drop, got 'burn'."),
    ],
)
def test_unusable_texts_are_refused(name: str, text: str, error: str) -> None:
    """The error for an unusable option names it and says what was expected."""
    with pytest.raises(SettingsError) as caught:
        to_overrides({name: text})
    assert str(caught.value) == error
