"""What does not fit, and where: the one exception inside the codec, which its doors translate."""

from __future__ import annotations

TAG = "$"
"""The key that says which class of a union an object is."""

_LONGEST = 400
"""Characters of a path that a message shows."""


class MisfitError(Exception):
    """Something has no place in a value, or in JSON; each level adds where it was found."""

    def __init__(self, at: str, problem: str) -> None:
        super().__init__(at, problem)
        self.problem = problem
        self._path = [at]

    def under(self, at: str) -> None:
        """Say that all this was found at *at*."""
        self._path.append(at)

    @property
    def place(self) -> str:
        """The path from the outside to what does not fit, as a sentence begins with it."""
        path = "".join(reversed(self._path)).removeprefix(".")
        if len(path) > _LONGEST:
            path = f"{path[: _LONGEST // 2]}…{path[-_LONGEST // 2 :]}"
        return f"its `{path}`" if path else "it"


def described(found: object) -> str:
    """Name what was found by its kind, never by its content, which may be a secret."""
    return "is nothing" if found is None else f"is {one(type(found))}"


def one(cls: type[object]) -> str:
    """Return the name of *cls* with its article."""
    return f"{'an' if cls.__name__[0] in 'aeioAEIO' else 'a'} `{cls.__name__}`"


def shortened(name: object) -> str:
    """Return the *name* of a key or a class as a message may show it."""
    shown = str(name)
    return ascii(shown if len(shown) <= 60 else shown[:57] + "...")[1:-1]  # noqa: PLR2004 - about half a line
