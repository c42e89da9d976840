"""Incoming messages of a session: its mailbox, repeated commands, and callers that wait for an answer."""
