"""Fixtures of whole loads, shared with end_to_end."""

from fixtures import begin, letters, project, unwritable

__all__ = ["begin", "letters", "project", "unwritable"]
