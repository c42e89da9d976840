"""Base classes that answer what people try first with what to write here: names of other libraries, missing `async`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from agentrail.errors import UsageError
from agentrail.other_names import hint_for


def missing_attribute(owner: str, instance: object, name: str) -> AttributeError:
    """Return the error for *name*, an attribute that *instance*, shown as *owner*, does not have."""
    problem = f"{type(instance).__name__!r} object has no attribute {name!r}"
    hint = hint_for(owner, name)
    # with these arguments, Python adds the nearest attribute to a traceback
    return AttributeError(f"{problem}: {hint}") if hint else AttributeError(problem, name=name, obj=instance)


class HandleHints:
    """Base class of handles of sessions: a name of another library raises an error that says what to write here."""

    __slots__ = ()

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing methods

        def __getattr__(self, name: str) -> Never:
            """Raise the `AttributeError`, with a hint if there is one."""
            raise missing_attribute("SessionHandle", self, name)


class SupervisorHints:
    """Base class of supervisors: a name of another library raises an error that says what to write here."""

    __slots__ = ()

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing methods

        def __getattr__(self, name: str) -> Never:
            """Raise the `AttributeError`, with a hint if there is one."""
            raise missing_attribute("Supervisor", self, name)


class TurnHints:
    """Base class of streams of a turn: a name of another library raises an error that says what to write here."""

    __slots__ = ()

    if not TYPE_CHECKING:  # hidden from type checkers, so that they report missing attributes

        def __getattr__(self, name: str) -> Never:
            """Raise the `AttributeError`, with a hint if there is one."""
            raise missing_attribute("TurnStream", self, name)


class AsyncOnly:
    """Base class of what is read by `async with` and `async for`: any other statement raises an error that says so."""

    __slots__ = ()

    if not TYPE_CHECKING:  # hidden from type checkers, which report these uses as errors

        def __iter__(self) -> Never:
            """Raise `UsageError`, for `for` in place of `async for`."""
            raise _not_async(self, "for", "async for")

        def __enter__(self) -> Never:
            """Raise `UsageError`, for `with` in place of `async with`."""
            raise _not_async(self, "with", "async with")

        def __exit__(self, *_: object) -> None:
            """Never called; without this method, Python would refuse a `with` before `__enter__` raises its error."""

        def __await__(self) -> Never:
            """Raise `UsageError`, for `await` in place of `async with`."""
            raise _not_async(self, "await", "async with")


def _not_async(instance: object, statement: str, instead: str) -> UsageError:
    return UsageError("async-wanted", type(instance).__name__, statement, instead)
