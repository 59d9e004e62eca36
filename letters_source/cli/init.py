"""Writes the settings files of a new project."""

import os
from pathlib import Path

from letters_source.config.messages import config_toml, secrets_toml
from letters_source.errors import SettingsError

FOLDER = Path(".dlt")


def write_settings() -> list[Path]:
    """Write config.toml and secrets.toml where they do not exist; return those written, or raise `SettingsError`."""
    texts = {FOLDER / "config.toml": config_toml(), FOLDER / "secrets.toml": secrets_toml()}
    missing = [path for path in texts if not os.path.lexists(path)]
    try:
        FOLDER.mkdir(exist_ok=True)
        for path in missing:
            path.touch(0o600 if path.stem == "secrets" else 0o644, exist_ok=False)
            path.write_text(texts[path])
    except OSError as error:
        raise SettingsError(f"{error.filename} cannot be written: {error.strerror}.") from None
    return missing
