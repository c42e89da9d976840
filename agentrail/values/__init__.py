"""Frozen values that all other packages use: messages, their content, tool calls, usage and events."""
