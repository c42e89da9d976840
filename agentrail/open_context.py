"""`OpenContext`: what `open_supervisor`, `connect` and `Host.serving` return, for `async with` alone.

It says what is wrong if it is used in another way, or outside of Trio.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NamedTuple, Never, TypeVar

import trio

from agentrail.errors import NotOpened, UsageError

T = TypeVar("T")


class Way(NamedTuple):
    """How something is opened, for errors."""

    attempt: str
    """What the opening does, as in "open a supervisor"."""
    function: str
    """The function that returns the `OpenContext`."""
    variable: str
    """The name that users give to what is opened."""
    arguments: str = ""
    """The arguments of the function, as users write them."""


class OpenContext(Generic[T]):
    """An async context manager that opens something; any other use of it raises `NotOpened`."""

    def __init__(self, opened: AbstractAsyncContextManager[T], kind: type[T], way: Way) -> None:
        self._opened = opened
        self._kind = kind
        self._way = way

    async def __aenter__(self) -> T:
        """Open it; raise `UsageError` outside of Trio."""
        if not trio.lowlevel.in_trio_run():
            raise UsageError("no-trio-run", self._way.attempt)
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it shields itself what must be done

    if not TYPE_CHECKING:  # hidden from type checkers, which report these uses as errors

        def __await__(self) -> Never:
            """Raise `NotOpened`, for `await open_supervisor()`."""
            raise self._not_opened("await")

        def __enter__(self) -> Never:
            """Raise `NotOpened`, for `with` in place of `async with`."""
            raise self._not_opened("with")

        def __exit__(self, *_: object) -> None:
            """Never called; without this method, Python would refuse a `with` before `__enter__` raises its error."""

        def __getattr__(self, name: str) -> Never:
            """Raise `NotOpened` for a name of what is opened, which exists only inside of `async with`."""
            if hasattr(self._kind, name) and not name.startswith("_"):
                raise self._not_opened(name)
            message = f"`{self._way.function}()` has no `{name}`"
            raise AttributeError(message)

        def _not_opened(self, attempt: str) -> NotOpened:
            return NotOpened(attempt, *self._way[1:])
