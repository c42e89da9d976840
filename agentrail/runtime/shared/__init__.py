"""What all sessions of a process share, and what has no session at all."""
