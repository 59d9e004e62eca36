"""An emulator of the service: real HTTP on loopback, sample rows. For `letters demo`, `letters serve` and the tests."""

from letters_source.emulator.emulator import Emulator
from letters_source.emulator.listing import Listing, Row, Traits

__all__ = ["Emulator", "Listing", "Row", "Traits"]
