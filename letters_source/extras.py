"""What if something is not installed that only some users need?"""

from collections.abc import Iterator
from contextlib import contextmanager

from letters_source.errors import SettingsError


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Import what belongs to an extra in the block.

    Raises:
        SettingsError: it is not installed; the message tells how to install it.
    """
    try:
        yield
    except ModuleNotFoundError as missing:
        raise SettingsError(f"{missing.name} is not installed: pip install 'letters-source[{extra}]'.") from None
