"""Which rows come or go before this answer?"""

from random import Random

from letters_source.emulator.behaviour import Drift
from letters_source.emulator.shelf import Shelf


def drift_once(shelf: Shelf, drift: Drift, rng: Random) -> None:
    """Change the shelf once, or not at all, as the drift's rate and the dice say."""
    if rng.random() >= drift.rate:
        return
    if drift.kind != "insert" and shelf.count:
        place = "anywhere" if drift.kind == "swap" else drift.place
        shelf.delete(_position(place, shelf.count - 1, rng))
    if drift.kind != "delete":
        shelf.grow(_position(drift.place, shelf.count, rng))


def _position(place: str, last: int, rng: Random) -> int:
    if place == "front":
        return 0
    return last if place == "end" else rng.randint(0, last)
