"""Fixtures of whole loads."""

from fixtures import begin, letters, project, unwritable, world

__all__ = ["begin", "letters", "project", "unwritable", "world"]
