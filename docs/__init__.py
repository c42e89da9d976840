"""The documentation, and `docs.printing`, which prints the parts of it that the code itself knows."""
