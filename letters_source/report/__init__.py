"""The HTML report that `letters report` writes."""
