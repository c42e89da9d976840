"""What all errors have in common, and the five branches: who must act?

A leaf takes facts and owns its wording: what was attempted, what was found, what to do. Errors are values: two of the
same class with the same facts are equal, so an answer that refuses can be stored and compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, TypeVar


def listed(names: Iterable[str]) -> str:
    """Return *names* as an error message shows them."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the one of *names* that *name* is most like, `None` if it is like none."""
    from difflib import get_close_matches  # noqa: PLC0415 - only an error needs it

    return next(iter(get_close_matches(name, list(names), 1)), None)


def meant(name: str, names: Iterable[str], all_of_them: str) -> str:
    """Return the advice for a misspelt *name*: the nearest of *names*, or *all_of_them*, listed, if none is near."""
    known = sorted(names)
    near = nearest(name, known)
    return f"did you mean `{near}`?" if near else f"{all_of_them} {listed(known)}"


class AgentrailError(Exception):
    """Catch this to catch anything that agentrail raises on purpose."""

    wording: ClassVar[str] = ""

    def __init__(self, *facts: object) -> None:
        super().__init__(*facts)

    def __str__(self) -> str:
        return self.wording.format(*self.args)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentrailError) and type(self) is type(other) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self).__name__, len(self.args)))


class UsageError(AgentrailError):
    """You can fix it: the call was wrong."""


class RefusedError(AgentrailError):
    """A person, a plugin or a limit said no; the reason is theirs."""


class OutsideError(AgentrailError):
    """Something outside failed: a model, a tool, a process."""


class InfrastructureError(AgentrailError):
    """Whoever runs this can fix it: the journal failed, or the disk or the server under it."""


class BrokenContractError(AgentrailError):
    """We or a plugin broke a promise; please report it to whoever wrote it."""


E = TypeVar("E", bound=AgentrailError)


def fresh(error: E) -> E:
    """Return *error* anew, so that each caller has a traceback of its own."""
    return type(error)(*error.args)
