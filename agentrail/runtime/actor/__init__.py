"""The actor of a session: its loop, its records, and what it starts."""
