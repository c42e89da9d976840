"""Deletion of sessions from the file: of their rows, of free pages, and of the copies that SQLite leaves."""
