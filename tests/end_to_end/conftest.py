"""Fixtures of whole loads."""

from fixtures import begin, letters, project, unwritable

__all__ = ["begin", "letters", "project", "unwritable"]
