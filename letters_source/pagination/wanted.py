"""What a listing must be proven to be. Pure, and without Arrow, so that the settings can be declared with it."""

from dataclasses import dataclass
from typing import Literal

Proof = Literal["continuous", "exact"]
"""The least that a listing must be proven to be."""
Duplicates = Literal["fail", "drop"]
"""What to do if the service lists an id more than once: refuse the listing, or load the id once."""
Count = Literal["exact", "at_least"]
"""What the service's count is: the number of rows, or a lower bound."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a listing must be proven to be, in how many passes, and whether it may list an id more than once."""

    proof: Proof = "continuous"
    max_walks: int = 4
    duplicates: Duplicates = "fail"
