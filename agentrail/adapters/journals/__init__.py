"""The journals that are part of agentrail (in memory, in an SQLite file), and archives of single sessions."""
