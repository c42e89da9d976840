"""What comes to a session: its mailbox, and the callers that wait for an answer."""
