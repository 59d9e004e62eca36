"""Settings: declared once, looked up through dlt, and checked."""
