"""The emulator with controls for tests: rows, canned replies, faults, rate limits, drift, and a request log."""

from letters_source.emulator import Row, Traits
from programmable_emulator.behavior import Behavior, Drift
from programmable_emulator.canned_replies import Hold, Reply, When
from programmable_emulator.changing_listing import ChangingListing
from programmable_emulator.emulator import TODAY, Emulator, Hit

__all__ = ["TODAY", "Behavior", "ChangingListing", "Drift", "Emulator", "Hit", "Hold", "Reply", "Row", "Traits", "When"]
