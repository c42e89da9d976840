"""Servers that ask a person: by their answer (2026-07-28), or while their call runs (2025-11-25)."""

from collections.abc import AsyncIterator

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.mcp import McpServer
from agentrail.models import ToolMessage
from tests.mcp.rig import ASKING, NO_EXTRA, RAW, Forking, Marked, Remote, asked, obedient, remote, use
from tests.patience import PATIENCE
from tests.runtime.journals import TestJournal
from tests.runtime.world import World

pytest.importorskip("mcp", reason=NO_EXTRA)
pytestmark = pytest.mark.long


@pytest.fixture
async def by_http(forking: Forking) -> AsyncIterator[Remote]:
    async with remote(*ASKING, "{port}", start=forking.start) as started:
        yield started


@pytest.fixture(params=["stdio", "http"])
async def asking(request: pytest.FixtureRequest, marked: Marked, forking: Forking) -> AsyncIterator[McpServer]:
    if request.param == "stdio":
        yield marked.server(ASKING, name="asking")
        return
    async with remote(*ASKING, "{port}", start=forking.start) as started:
        yield McpServer(url=started.url, name="asking")


async def begin(session: SessionHandle, tool: str, **args: str) -> str:
    """Have the session call a tool that asks; return the question."""
    with trio.fail_after(PATIENCE):
        await session.ask(asked(tool, args))
    (held,) = session.status().held
    return held.hint


async def reply(session: SessionHandle, answer: str) -> str:
    """Answer the open question; return the next one, or what came of the call."""
    (held,) = session.status().held
    with trio.fail_after(PATIENCE):
        await session.respond(held.id, answer)
        while session.status().phase != "idle":  # noqa: ASYNC110 - nobody tells of the end of a turn that goes on
            await trio.sleep(0.005)
    still = session.status().held
    return still[0].hint if still else session.messages()[-2].text


async def test_a_form_is_asked_field_by_field_and_then_asked_again(world: World, asking: McpServer) -> None:
    session = await world.spawn(obedient(), tools=[asking])
    assert await begin(session, "asking__book", room="7") == (
        "The MCP server `asking` asks, for its tool `book`: Who comes?\nIt wants:\n- name (text)\n"
        "- nights (whole number, may be left out)\nGive it no password, key or other secret."
    )
    assert session.status().held[0].options == ("answer", "decline", "cancel")
    assert await reply(session, "answer") == "The MCP server `asking` wants: name (text)"
    assert (await reply(session, "x")).startswith("That does not fit: 1 characters is less than 2.")
    await reply(session, "decline")  # within a form, this is a name
    second = await reply(session, "2")
    assert second == "The MCP server `asking` asks, for its tool `book`: Really?\nsure (yes or no)"
    assert session.status().held[0].options == ("yes", "no", "decline", "cancel")
    done = await reply(session, "yes")
    assert done == "7: second {'name': 'decline', 'nights': 2} accept {'sure': True}"


@pytest.mark.parametrize("word", ["decline", "cancel"])
async def test_a_person_refuses(world: World, by_http: Remote, word: str) -> None:
    session = await world.spawn(obedient(), tools=[McpServer(url=by_http.url, name="asking")])
    await begin(session, "asking__book", room="7")
    assert await reply(session, word) == f"not booked: {word}"


async def test_a_page_is_shown_with_its_host_first(world: World, by_http: Remote) -> None:
    session = await world.spawn(obedient(), tools=[McpServer(url=by_http.url, name="asking")])
    question = await begin(session, "asking__pay", url="https://xn--pypal-4ve.example:8/x?to=you")
    assert "`pay`, that you open a page of the host xn--pypal-4ve.example:8: Pay first.\n" in question
    assert question.splitlines()[1] == "https://xn--pypal-4ve.example:8/x?to=you"
    assert (await reply(session, "sure")).startswith("That does not fit")
    assert await reply(session, "accept") == "accept"
    for url in ("javascript:alert(1)", "http://bank.example/", "https://bank.example@evil.example/", "file:///etc"):
        failed = await use(session, "asking__pay", url=url)
        assert (failed.is_error, "nobody was asked" in failed.text) == (True, True), failed.text


async def test_what_is_no_question_to_a_person_is_an_error(world: World, by_http: Remote) -> None:
    session = await world.spawn(obedient(), tools=[McpServer(url=by_http.url, name="asking")])
    assert "`sampling/createMessage`, which it cannot have" in (await use(session, "asking__think")).text
    assert (await use(session, "asking__later")).text == "now"
    never = await use(session, "asking__never")
    assert (never.is_error, "put the call off 20 times" in never.text) == (True, True)


async def test_the_question_outlives_the_process(by_http: Remote) -> None:
    journal = TestJournal()
    spec = SessionSpec(model=obedient(), tools=[McpServer(url=by_http.url, name="asking")])
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec, "s")
        await begin(session, "asking__book", room="7")
        await reply(session, "answer")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec)
        await reply(session, "Bob")
        await reply(session, "-")
        assert await reply(session, "no") == "7: second {'name': 'Bob'} accept {'sure': False}"


async def test_a_server_that_asks_while_its_call_runs_is_answered(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[marked.server((*RAW, "asks"), name="raw")])
    assert "e1?" in await begin(session, "raw__good")
    await reply(session, "answer")
    assert "e2?" in await reply(session, "Bob")
    assert await reply(session, "no") == (
        '[{"action": "accept", "content": {"name": "Bob"}}, {"action": "accept", "content": {"sure": false}}]'
    )


async def test_a_dropped_question_is_cancelled_at_the_server_by_the_next_turn(world: World, marked: Marked) -> None:
    session = await world.spawn(obedient(), tools=[marked.server((*RAW, "asks"), name="raw")])
    await begin(session, "raw__good")
    assert "e1?" in await begin(session, "raw__good", again="yes")  # the prompt has superseded the first question
    dropped = [message.text for message in session.messages() if isinstance(message, ToolMessage)]
    assert dropped[0].startswith("superseded by a new message of the user; it may have taken effect")
    assert "e2?" in await reply(session, "decline")


async def test_a_call_that_ran_while_the_process_ended_is_in_doubt(marked: Marked) -> None:
    journal = TestJournal()
    spec = SessionSpec(model=obedient(), tools=[marked.server((*RAW, "asks"), name="raw")])
    async with open_supervisor(journal=journal) as supervisor:
        await begin(await supervisor.spawn(spec, "s"), "raw__good")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec)
        lost = await reply(session, "decline")
    assert "its question was lost with the connection); it is not known whether it took effect" in lost
