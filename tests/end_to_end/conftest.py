"""Fixtures of whole loads."""

from fixtures import begin, letters, project

__all__ = ["begin", "letters", "project"]
