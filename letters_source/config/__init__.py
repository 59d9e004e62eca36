"""Settings: which there are, where they come from, whether they are right."""
