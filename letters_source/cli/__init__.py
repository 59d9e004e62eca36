"""The `letters` command."""
