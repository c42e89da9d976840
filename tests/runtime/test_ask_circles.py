"""Sessions whose tools ask each other: whoever closes the circle gets an error, and nobody waits for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, Supervisor, aio, open_supervisor, tool
from agentrail.events import SubAgentEvent
from agentrail.models import ToolMessage
from agentrail.runtime.access.sending import AskedPrompt
from agentrail.runtime.handle import ask_at_once
from agentrail.testing import ScriptedModel, call, say
from tests.bridge.loops import plain
from tests.kit import Element

AskSession: TypeAlias = Callable[[SessionHandle], Awaitable[object]]
Sessions: TypeAlias = dict[str, SessionHandle]


async def by_ask(session: SessionHandle) -> object:
    return await session.ask("and you?")


async def by_reply(session: SessionHandle) -> object:
    return await (await ask_at_once(session, "and you?")).reply()


WAYS: Final = [by_ask, by_reply]


def asks(sessions: Sessions, name: str, ask: AskSession) -> object:
    """Return a tool that asks the session *name*."""

    async def asking() -> str:
        """Ask it."""
        await ask(sessions[name])
        return "asked"

    return tool(asking)


async def circle(supervisor: Supervisor, ask: AskSession, *names: str) -> Sessions:
    """Return sessions, each of which asks the next one at its first turn, and the last one the first."""
    sessions: Sessions = {}
    for name, other in zip(names, (*names[1:], names[0]), strict=True):
        script: list[Element] = [say(calls=[call("asking")]), "done"] * 2
        spec = SessionSpec(model=ScriptedModel(script, repeat_last=True), tools=[asks(sessions, other, ask)])
        sessions[name] = await supervisor.spawn(spec, name)
    return sessions


def results(session: SessionHandle) -> list[str]:
    return [message.text for message in session.messages() if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("ask", WAYS)
@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c", "d")], ids=["two", "four"])
async def test_whoever_closes_a_circle_gets_an_error_and_the_others_go_on(
    ask: AskSession,
    names: tuple[str, ...],
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    async with open_supervisor() as supervisor:
        began = trio.current_time()
        sessions = await circle(supervisor, ask, *names)
        assert (await sessions["a"].ask("go")).text == "done"
        last = results(sessions[names[-1]])[0]
        path = ", ".join(f"`{name}`" for name in names)
        assert (
            f"`asking` cannot `ask` session `a`, whose turn waits for it (of {path}, each waits for the next)" in last
        )
        assert [results(sessions[name]) for name in names[:-1]] == [["asked"]] * (len(names) - 1)
        assert trio.current_time() - began < 1  # nobody was freed by the time of a tool


async def test_a_wait_that_is_over_counts_no_more() -> None:
    async with open_supervisor() as supervisor:
        sessions = await circle(supervisor, by_ask, "a", "b")
        for name, other in (("a", "b"), ("b", "a")):
            assert (await sessions[name].ask("go")).text == "done"
            assert results(sessions[name])[-1] == "asked"
            assert "whose turn waits for it" in results(sessions[other])[-1]


@pytest.mark.parametrize("ask", WAYS)
async def test_of_sessions_that_ask_each_other_at_once_one_gets_the_error(
    ask: AskSession,
    autojump_clock: trio.testing.MockClock,  # noqa: ARG001
) -> None:
    async with open_supervisor() as supervisor:
        began = trio.current_time()
        sessions = await circle(supervisor, ask, "a", "b")
        async with trio.open_nursery() as nursery:
            for session in sessions.values():
                nursery.start_soon(session.ask, "go")
        refusals = [text for session in sessions.values() for text in results(session) if "waits for it" in text]
        assert refusals
        assert trio.current_time() - began < 1


async def test_a_tool_does_not_wait_for_the_reply_of_its_own_session_either() -> None:
    async with open_supervisor() as supervisor:
        sessions: Sessions = {}
        model = ScriptedModel([say(calls=[call("asking")]), "done", "to itself"])
        sessions["a"] = await supervisor.spawn(SessionSpec(model=model, tools=[asks(sessions, "a", by_reply)]), "a")
        assert (await sessions["a"].ask("go")).text == "done"
        assert "AsksItself: `asking` cannot `ask` session `a`" in results(sessions["a"])[0]


async def test_a_task_of_the_program_that_a_tool_starts_waits_for_the_session() -> None:
    async with open_supervisor() as supervisor:
        sessions: Sessions = {}
        model = ScriptedModel([say(calls=[call("begin")]), "done", "then this"])
        async with trio.open_nursery() as nursery:

            @tool
            async def begin() -> str:
                """Have the program ask the session."""
                nursery.start_soon(sessions["a"].ask, "and then?")
                await trio.sleep(1)  # it asks while the tool runs
                return "begun"

            sessions["a"] = session = await supervisor.spawn(SessionSpec(model=model, tools=[begin]), "a")
            await session.ask("go")
        assert [message.text for message in session.messages()[-2:]] == ["and then?", "then this"]


async def test_the_reply_of_a_turn_that_is_over_is_there_for_a_tool_of_the_session() -> None:
    async with open_supervisor() as supervisor:
        prompts: list[AskedPrompt] = []

        @tool
        async def look() -> str:
            """Look at the reply of the turn before."""
            return str((await prompts[0].reply()).text)

        model = ScriptedModel(["first", say(calls=[call("look")]), "done"])
        session = await supervisor.spawn(SessionSpec(model=model, tools=[look]))
        prompts.append(await ask_at_once(session, "one"))
        await prompts[0].reply()
        await session.ask("two")
        assert results(session) == ["first"]


async def test_a_sub_agent_does_not_ask_the_parent_that_waits_for_it() -> None:
    sessions: Sessions = {}
    asking = call("asking")
    child = SessionSpec(
        model=ScriptedModel([say(calls=[asking]), "told"]),
        tools=[asks(sessions, "a", by_ask)],
        description="Asks its parent.",
    )
    task = call("task", {"agent": "child", "description": "ask", "prompt": "go"})
    spec = SessionSpec(model=ScriptedModel([say(calls=[task]), "done"]), agents={"child": child})
    async with open_supervisor() as supervisor:
        sessions["a"] = session = await supervisor.spawn(spec, "a")
        async with session.subscribe(types=[SubAgentEvent]) as events:
            assert (await session.ask("go")).text == "done"
            texts: list[str] = []
            while (envelope := events.next_now()) is not None:
                texts.append(str(envelope.event))
        assert any("whose turn waits for it" in text for text in texts)


def test_tools_of_a_program_on_asyncio_get_the_error_too() -> None:
    async def main() -> None:
        sessions: dict[str, aio.SessionHandle] = {}

        def asking_of(name: str) -> object:
            @aio.tool
            async def asking() -> str:
                """Ask it."""
                return (await sessions[name].ask("and you?")).text

            return asking

        async with aio.open_supervisor() as supervisor:
            for name, other in (("a", "b"), ("b", "a")):
                model = ScriptedModel([say(calls=[call("asking")]), "done"])
                spec = SessionSpec(model=model, tools=[asking_of(other)])
                sessions[name] = await supervisor.spawn(spec, name)
            assert (await sessions["a"].ask("go")).text == "done"
            assert "whose turn waits for it" in str(sessions["b"].messages()[2])

    plain(main)
