"""How many rows to request per page: as set, or many at first, and fewer if the first such page fails. Pure."""

from typing import Literal

Rows = int | Literal["auto"]
"""A number of rows, or `auto`: one that the service can deal with."""
LARGE, SMALL = 1_000, 100
# 1,000 full rows take half a megabyte; as many pages as there are requests in flight must fit into memory
LARGEST_BODY = 8 * 2**20


class PageSize:
    """The page size of a listing; a load's tasks that read the listing, one after another, share one.

    `is_trial` tells that the size is not yet known to work, and may become smaller.
    """

    def __init__(self, setting: Rows) -> None:
        self.is_trial = setting == "auto"
        self.rows = LARGE if setting == "auto" else setting

    def settle(self, *, works: bool) -> None:
        """Keep the size that was tried if it works, otherwise take the smaller one."""
        self.is_trial = False
        self.rows = self.rows if works else SMALL
