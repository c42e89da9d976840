"""Parts of the table of calls."""
