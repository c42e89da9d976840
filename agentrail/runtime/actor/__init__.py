"""The actor of a session: its loop, its journal records, and the work it starts."""
