"""The command `agentrail`: chat with a session in a terminal, and check plugins."""
