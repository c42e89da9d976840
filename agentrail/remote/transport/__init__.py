"""The connection to a host: made again when it is cut."""
