"""Metrics of a host, and checks of whether it is ready."""
