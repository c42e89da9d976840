"""Parses shell command lines for the plugins that rule on calls, and judges them; nothing is run."""
