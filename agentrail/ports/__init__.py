"""The Protocols between the machine, its shell and the outside."""
