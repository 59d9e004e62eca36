"""A stand-in for the service over real HTTP on loopback, for the demo and the tests."""

from letters_source.emulator.app import Hit
from letters_source.emulator.behaviour import Behaviour, Drift
from letters_source.emulator.canned import Reply, When
from letters_source.emulator.rows import Row, Traits
from letters_source.emulator.server import Emulator
from letters_source.emulator.shelf import Shelf

__all__ = ["Behaviour", "Drift", "Emulator", "Hit", "Reply", "Row", "Shelf", "Traits", "When"]
