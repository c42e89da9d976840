"""`stream` of a handle in each flavour: the events of one turn end with it, and it has the reply that `ask` returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

import pytest

from agentrail import SessionSpec, TurnStream, aio
from agentrail.errors import NotEntered, TurnAborted, UsageError
from agentrail.events import AgentEnd, ApprovalRequired, Event, MessageDelta
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say, stall
from tests.bridge.flavours import Open, Scenario, in_each_flavour
from tests.patience import PATIENCE

Play: TypeAlias = Callable[[Scenario], None]


def lookup() -> str:
    """Look it up."""
    return "looked up"


def calling(name: str) -> ScriptedModel:
    return ScriptedModel([say("Wait.", calls=[call(name)]), "Done."])


async def exhausted(turn: TurnStream[object]) -> list[Event]:
    return [event async for event in turn]


@in_each_flavour
def test_the_events_end_with_the_turn(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=calling("lookup"), tools=[lookup]))
            async with session.stream("hi") as turn:
                events = [event async for event in turn]
            assert isinstance(events[-1], AgentEnd)
            assert "".join(event.delta for event in events if isinstance(event, MessageDelta)) == "Wait.Done."
            assert turn.reply.text == "Done."
            assert turn.reply.messages == events[-1].messages

    play(scenario)


@in_each_flavour
def test_a_held_call_ends_them_too(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            spec = SessionSpec(model=calling("lookup"), tools=[lookup], plugins=[HumanApproval(tools=["lookup"])])
            session = await supervisor.spawn(spec)
            async with session.stream("hi") as turn:
                events = [event async for event in turn]
            assert isinstance(events[-1], ApprovalRequired)
            assert [held.tool for held in turn.reply.held] == ["lookup"]

    play(scenario)


@in_each_flavour
def test_an_abort_is_raised_after_the_last_event(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel([stall(after=1)])))
            async with session.stream("hi") as turn:
                async for event in turn:
                    if isinstance(event, MessageDelta):
                        break
                await session.abort("enough")
                with pytest.raises(TurnAborted, match="enough"):
                    await exhausted(turn)
                with pytest.raises(TurnAborted, match="enough"):
                    _ = turn.reply

    play(scenario)


@in_each_flavour
def test_the_reply_is_there_with_the_last_event(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=calling("lookup"), tools=[lookup]))
            turn = session.stream("hi")
            with pytest.raises(NotEntered):
                await exhausted(turn)
            with pytest.raises(UsageError, match="there is no `reply` yet"):
                _ = turn.reply
            async with turn:
                async for event in turn:
                    if isinstance(event, AgentEnd):
                        break
            assert turn.reply.text == "Done."

    play(scenario)


@in_each_flavour
def test_a_session_that_has_ended_refuses_when_it_is_entered(play: Play) -> None:
    async def scenario(open_supervisor: Open) -> None:
        async with open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel([])))
            await session.stop()
            turn = session.stream("hi")
            with pytest.raises(UsageError, match="has ended"):
                await turn.__aenter__()

    play(scenario)


def test_a_task_of_asyncio_that_is_cancelled_leaves_and_the_turn_goes_on() -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say("One two three.", delay=0.05)])))
            begun = asyncio.Event()

            async def listen() -> None:
                async with session.stream("hi", command="c1") as turn:
                    async for event in turn:
                        if isinstance(event, MessageDelta):
                            begun.set()

            task = asyncio.create_task(listen())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await session.ask("hi", command="c1")).text == "One two three."

    asyncio.run(asyncio.wait_for(main(), PATIENCE))
