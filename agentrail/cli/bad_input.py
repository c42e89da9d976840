"""`BadInputError`: what is wrong with a command line, or with what a prompt is read from."""


class BadInputError(Exception):
    """A command line, a settings file or a prompt cannot be used; the text says why, and what to do."""
