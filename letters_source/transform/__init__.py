"""Rows to tables, and what happens to personal values on the way."""
