"""A terminal that sends single keys: rows that change, below all that stays; needs the extra `cli`."""
