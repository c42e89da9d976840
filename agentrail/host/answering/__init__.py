"""Functions that carry out the calls of a host."""
