"""Destinations: pipelines, checks before a load, the load itself, and verification."""
