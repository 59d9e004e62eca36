"""Read a listing in parts: `tasks` share it, and one load judges and joins what they read."""
