"""The client of a host: one connection, which is made again whenever it is cut, and handles of the host's sessions."""
