"""Checks values against JSON Schema in counted steps, so that no check takes too long."""
