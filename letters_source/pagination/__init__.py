"""Which pages to read, and whether they are the whole listing."""
