"""Parts that all sessions of a process share, and helpers that need no session."""
