"""The base class of all errors, and its five subclasses, one for each answer to the question: who has to act?

An error class takes facts as arguments and has the text itself, in `wording`: what was attempted, what was found, what
to do. Two errors of one class with the same facts are equal, so an error can be stored as an answer and compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, TypeVar


def listed(names: Iterable[str]) -> str:
    """Return *names* as one text for an error message, each in backquotes; `none` if there are none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


ALIKE: Final = 0.6
"""Similarity of two names, from 0 to 1, from which one counts as misspelt, unless the caller gives another."""


LONGEST_NAME: Final = 1_000
"""The most characters of a name for which a similar one is looked for."""


def nearest(name: str, names: Iterable[str], alike: float = ALIKE) -> str | None:
    """Return the most similar of *names* to *name*; `None` if none has a similarity of at least *alike*."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    if len(name) > LONGEST_NAME:
        return None
    return next(iter(get_close_matches(name, list(names), 1, alike)), None)


def meant(name: str, names: Iterable[str], all_of_them: str) -> str:
    """Return advice for an unknown *name*: the most similar of *names*, or *all_of_them* and the list of all names."""
    known = sorted(names)
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else f"{all_of_them} {listed(known)}"


class AgentrailError(Exception):
    """Base class of all errors that agentrail raises on purpose; catch it to catch them all."""

    wording: ClassVar[str] = ""

    told: str = ""
    """What a host said in place of the wording, because it keeps some of the facts to itself; else empty."""

    def __init__(self, *facts: object) -> None:
        super().__init__(*facts)

    def __str__(self) -> str:
        return self.told or self.wording.format(*self._worded())

    def _worded(self) -> tuple[object, ...]:
        """Return the facts as the wording takes them."""
        return self.args

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentrailError) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self).__name__, len(self.args)))


class UsageError(AgentrailError):
    """The call was wrong: its caller can fix it."""


class RefusedError(AgentrailError):
    """A person, a plugin or a limit has refused; the error has their reason."""


class OutsideError(AgentrailError):
    """Something outside of agentrail failed: a model, a tool, a process."""


class InfrastructureError(AgentrailError):
    """The journal failed, or its disk or server: the operator of the program can fix it."""


class BrokenContractError(AgentrailError):
    """The code of agentrail, of a plugin or of an adapter breaks its contract; please report it to its author."""


E = TypeVar("E", bound=AgentrailError)


def fresh(error: E) -> E:
    """Return a copy of *error*, so that each caller who gets it has a separate traceback."""
    return type(error)(*error.args)
