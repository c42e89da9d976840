"""`Opening`: what `open_supervisor` returns, which says what is wrong if it is used in any way but `async with`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Never, TypeVar

from agentrail.errors import NotOpened

T = TypeVar("T")


class Opening(Generic[T]):
    """The return value of `open_supervisor`: an async context manager that opens the supervisor.

    Any other use of it raises `NotOpened`.
    """

    def __init__(self, opened: AbstractAsyncContextManager[T], made: type[T]) -> None:
        self._opened = opened
        self._made = made

    async def __aenter__(self) -> T:
        return await self._opened.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(kind, error, trace)  # noqa: ASYNC102 - it shields itself what must be done

    if not TYPE_CHECKING:  # hidden from type checkers, which report these uses as errors

        def __await__(self) -> Never:
            """Raise `NotOpened`, for `await open_supervisor()`."""
            raise NotOpened("await")

        def __enter__(self) -> Never:
            """Raise `NotOpened`, for `with` in place of `async with`."""
            raise NotOpened("with")

        def __exit__(self, *_: object) -> None:
            """Never called; without this method, Python would refuse a `with` before `__enter__` raises its error."""

        def __getattr__(self, name: str) -> Never:
            """Raise `NotOpened` for a name of `Supervisor`, which exists only inside of `async with`."""
            if hasattr(self._made, name) and not name.startswith("_"):
                raise NotOpened(name)
            message = f"`open_supervisor()` has no `{name}`"
            raise AttributeError(message)
