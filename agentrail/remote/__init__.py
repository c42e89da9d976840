"""A host from the outside: one connection to it that is made again whenever it is cut, and handles of its sessions."""
