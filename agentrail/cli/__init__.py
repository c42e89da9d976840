"""Talking to a session in a terminal."""
