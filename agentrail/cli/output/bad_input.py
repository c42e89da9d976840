"""`BadInputError`: what is wrong with a command line, or with what a prompt is read from."""

from __future__ import annotations

from agentrail.cli.output.screen import LONGEST_ERROR, harmless


class BadInputError(Exception):
    """A command line, a settings file or a prompt cannot be used; the text says why, and what to do."""

    def __str__(self) -> str:
        """Return the text in one line; a folder that was cloned may have written parts of it."""
        # Half of what is shown: with words around it, it must not be shortened again, and the number in it be wrong
        return harmless(super().__str__(), LONGEST_ERROR // 2)
