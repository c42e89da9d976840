"""Runs one scenario on Trio, on asyncio in each of its forms, and with calls that block."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Final, TypeAlias, cast

import pytest
import trio

from agentrail import (
    Monitor,
    SessionHandle,
    Subscription,
    Supervisor,
    TurnStream,
    aio,
    open_supervisor,
    sync,
)
from tests.bridge.loops import debug, on_uvloop, plain
from tests.patience import PATIENCE

Open: TypeAlias = Callable[..., AbstractAsyncContextManager[Supervisor]]
Scenario: TypeAlias = Callable[[Open], Coroutine[object, object, None]]

ORIGINALS: Final = (SessionHandle, Supervisor, Monitor, Subscription, TurnStream)


class Awaited:
    """What blocks, in the form in which Trio has it: its calls are awaited, and never wait."""

    def __init__(self, blocking: object) -> None:
        self._blocking = blocking

    def __getattr__(self, name: str) -> object:
        member: object = getattr(self._blocking, name)
        if not inspect.isroutine(member):
            return member
        is_async = any(inspect.iscoroutinefunction(getattr(cls, name, None)) for cls in ORIGINALS)
        return partial(self._later if is_async else self._now, cast("Callable[..., object]", member))

    def _now(self, method: Callable[..., object], *args: object, **named: object) -> object:
        return awaited(method(*args, **named))

    async def _later(self, method: Callable[..., object], *args: object, **named: object) -> object:
        return awaited(method(*args, **named))

    async def __aenter__(self) -> object:
        return awaited(cast("sync.Subscription", self._blocking).__enter__())

    async def __aexit__(self, *error: object) -> None:
        cast("Callable[..., None]", getattr(self._blocking, "__exit__", None))(*error)

    def __aiter__(self) -> Awaited:
        return self

    async def __anext__(self) -> object:
        try:
            return next(cast("sync.Subscription", self._blocking))
        except StopIteration:
            raise StopAsyncIteration from None


def awaited(value: object) -> object:
    """Return *value*, or what stands for it if it has calls that block."""
    if isinstance(value, tuple):
        return tuple(map(awaited, cast("tuple[object, ...]", value)))
    return Awaited(value) if type(value).__module__.startswith("agentrail.sync") else value


def on_trio(scenario: Scenario) -> None:
    async def main() -> None:
        with trio.fail_after(PATIENCE):
            await scenario(open_supervisor)

    trio.run(main)


def on_asyncio(run: Callable[[Callable[[], Coroutine[object, object, None]]], None], scenario: Scenario) -> None:
    run(partial(scenario, cast("Open", aio.open_supervisor)))


def blocking(scenario: Scenario) -> None:
    opened = cast("Open", lambda **options: Awaited(sync.open_supervisor(**options)))
    with pytest.raises(StopIteration):
        scenario(opened).send(None)


FLAVOURS: Final = {
    "trio": on_trio,
    "asyncio": partial(on_asyncio, plain),
    "debug": partial(on_asyncio, debug),
    "uvloop": partial(on_asyncio, on_uvloop),
    "sync": blocking,
}

in_each_flavour: Final = pytest.mark.parametrize("play", FLAVOURS.values(), ids=FLAVOURS)
