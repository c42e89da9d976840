"""Calls of programs that use a session as they would use one of their own."""
