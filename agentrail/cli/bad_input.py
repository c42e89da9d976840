"""`BadInputError`: what is wrong with a command line, or with what a prompt is read from."""


class BadInputError(Exception):
    """What was given to a command cannot be used; the text says why, and what to do."""
