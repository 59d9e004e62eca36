"""Which pages to read, and whether they are the complete listing."""
