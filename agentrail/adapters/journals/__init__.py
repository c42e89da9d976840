"""The journals that ship (in memory, in an SQLite file), and archives of single sessions."""
