"""The command `agentrail`: its words and options, and what all its folders need."""
