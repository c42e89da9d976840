"""A session can be called only in the Trio run that it lives in; elsewhere it raises, and is not harmed."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import pytest
import trio

from agentrail import SessionHandle
from agentrail.errors import UsageError
from agentrail.runtime.handle import ask_at_once
from tests.runtime.world import open_world

Doing = Callable[[SessionHandle], Coroutine[object, object, object]]


def in_asyncio(doing: Callable[[], Coroutine[object, object, object]]) -> str:
    return refusal(lambda: asyncio.run(doing()))


def in_another_trio(doing: Callable[[], Awaitable[object]]) -> str:
    return refusal(lambda: trio.run(doing))


def refusal(doing: Callable[[], object]) -> str:
    try:
        doing()
    except UsageError as error:
        return f"{error.code}: {error}"
    return "it was not refused"


@pytest.mark.parametrize("elsewhere", [in_asyncio, in_another_trio])
@pytest.mark.parametrize(
    "doing",
    [
        lambda session: session.prompt("hi"),
        lambda session: session.ask("hi"),
        lambda session: ask_at_once(session, "hi"),
        lambda session: session.steer("hi"),
        lambda session: session.abort(),
        lambda session: session.stop(),
        lambda session: session.reject("x"),
        lambda session: session.detach_tools("x"),
    ],
)
def test_a_call_from_elsewhere_is_refused(doing: Doing, elsewhere: Callable[[Callable[[], object]], str]) -> None:
    async def there_and_back() -> None:
        async with open_world() as world:
            session = await world.spawn(["hello"])
            text = await trio.to_thread.run_sync(elsewhere, lambda: doing(session))
            assert text.startswith("not-in-its-run: ")
            assert f"`{session.id}`" in text
            assert "trio.from_thread.run" in text
            with trio.fail_after(5):
                assert (await session.ask("hi")).text == "hello"

    trio.run(there_and_back)


def test_a_thread_of_its_run_may_call_it() -> None:
    async def through_a_thread() -> None:
        async with open_world() as world:
            session = await world.spawn(["hello"])
            reply = await trio.to_thread.run_sync(lambda: trio.from_thread.run(session.ask, "hi"))
            assert reply.text == "hello"

    trio.run(through_a_thread)
