"""Who may read what a load writes? Its owner alone: files are made 0600, folders 0700."""

import os
from threading import Lock

OWNER_ALONE = 0o077


class PrivateFiles:
    """The process's umask, tightened while a load runs; of several side by side, until the last one ends.

    Nothing else reaches the files that DuckDB makes beside its own, such as its log. Files and folders that exist
    keep their modes.
    """

    def __init__(self) -> None:
        self._counting = Lock()
        self._loads = self._before = 0

    def __enter__(self) -> None:
        with self._counting:
            self._loads += 1
            if self._loads == 1:
                self._before = os.umask(OWNER_ALONE)

    def __exit__(self, *_: object) -> None:
        with self._counting:
            self._loads -= 1
            if not self._loads:
                os.umask(self._before)


private_files = PrivateFiles()
