"""Fixtures of whole loads, as in end_to_end."""

from fixtures import begin, letters, project, unwritable

__all__ = ["begin", "letters", "project", "unwritable"]
