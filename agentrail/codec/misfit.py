"""`MisfitError`, the only exception inside the codec, and words for its messages.

The functions of `agentrail.codec.values` turn it into a public error.
"""

from __future__ import annotations

TAG = "$"
"""Key of a JSON object that names the class of the value, where there is a choice of classes."""

_LONGEST = 400
"""The most characters of a path that a message shows."""


class MisfitError(Exception):
    """A value cannot be written as JSON, or JSON cannot be read as a value.

    Each enclosing level catches it, adds its own part of the path (`under`) and raises it again.
    """

    def __init__(self, at: str, problem: str) -> None:
        super().__init__(at, problem)
        self.problem = problem
        self._path = [at]

    def under(self, at: str) -> None:
        """Put *at* before the path."""
        self._path.append(at)

    @property
    def place(self) -> str:
        """The path of the value in question, as the subject of a sentence: "its `items[3].name`", or "it"."""
        path = "".join(reversed(self._path)).removeprefix(".")
        if len(path) > _LONGEST:
            path = f"{path[: _LONGEST // 2]}…{path[-_LONGEST // 2 :]}"
        return f"its `{path}`" if path else "it"


def described(found: object) -> str:
    """Return a predicate with the type of *found*, such as "is a `dict`"; the content may be secret."""
    return "is nothing" if found is None else f"is {one(type(found))}"


def one(cls: type[object]) -> str:
    """Return the name of *cls* with its article, such as "an `int`"."""
    return f"{'an' if cls.__name__[0] in 'aeioAEIO' else 'a'} `{cls.__name__}`"


def shortened(name: object) -> str:
    """Return *name*, of a key or a class, cut to 60 characters, with all but ASCII escaped, for a message."""
    shown = str(name)
    return ascii(shown if len(shown) <= 60 else shown[:57] + "...")[1:-1]  # noqa: PLR2004 - about half a line
