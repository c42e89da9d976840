"""How long a test waits for the world outside."""

PATIENCE = 30.0
"""Seconds after which what has not come never will; on a busy machine anything may take a few."""
