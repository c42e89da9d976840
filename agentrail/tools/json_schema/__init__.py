"""Checks values against JSON Schema and regular expressions, in counted steps, so that no check takes too long."""
