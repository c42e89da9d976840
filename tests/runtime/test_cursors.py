"""Where a subscription begins: cursors that were stored, from before a restart, of another session, and no cursors."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from agentrail import SessionHandle, SessionSpec, Subscription, open_supervisor
from agentrail.errors import AlreadyLeft, AlreadyRead, UnknownCursor, UsageError, WrongType
from agentrail.events import AgentEnd, AgentStart, Envelope, Event, Gap, MessageDelta, RequestStart
from agentrail.journals import SqliteJournal
from agentrail.models import EmitChunk, ModelRequest, Response
from agentrail.testing import ScriptedModel, say
from tests.runtime.journals import AwakeJournal
from tests.runtime.world import World


class Stuck:
    """A model that has said all, and does not end."""

    name = "stuck"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        await ScriptedModel([say("a b c")]).stream(request, emit)
        await trio.sleep_forever()
        raise AssertionError


async def heard(
    session: SessionHandle, since: object, last: type[Event], types: list[type[Event]] | None = None
) -> list[Event]:
    """Return the events after *since*, up to one of the type *last*."""
    got: list[Event] = []
    async with session.subscribe(since=since, types=types) as events:  # type: ignore[arg-type]  # as JSON gives it
        async for envelope in events:
            got.append(envelope.event)
            if isinstance(envelope.event, last):
                return got
    return got


@pytest.mark.long
@pytest.mark.parametrize("index", [MessageDelta, RequestStart])
async def test_deltas_of_an_earlier_process_are_a_gap(tmp_path: Path, index: type[Event]) -> None:
    path = tmp_path / "journal.db"
    stored = ""
    async with open_supervisor(journal=AwakeJournal(SqliteJournal(path))) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=Stuck()), "a")
        async with session.subscribe() as events:
            await session.prompt("hello")
            async for envelope in events:
                if isinstance(envelope.event, index):
                    stored = json.dumps(list(envelope.cursor))
                    break

    async with open_supervisor(journal=AwakeJournal(SqliteJournal(path))) as supervisor:
        session = await supervisor.resume("a", SessionSpec(model=ScriptedModel(["again"], name="stuck")))
        since = json.loads(stored)
        first, *rest = await heard(session, since, AgentEnd)
        assert isinstance(first, Gap)
        assert [first.from_seq, first.from_n] == since
        assert (first.to_seq, first.to_n) == (since[0] + 1, 0)
        assert not any(isinstance(event, Gap) for event in rest)
        assert [type(event) for event in rest if isinstance(event, RequestStart)] == [RequestStart]
        durable = await heard(session, since, AgentEnd, [AgentStart, AgentEnd])
        assert [type(event) for event in durable] == [AgentEnd]

    async with open_supervisor(journal=AwakeJournal(SqliteJournal(path))) as supervisor:
        session = await supervisor.resume("a", SessionSpec(model=ScriptedModel(["more"], name="stuck")))
        last = session.inspect().last_seq
        async with session.subscribe(since=last) as events:
            await session.prompt("more")
            assert not isinstance((await anext(aiter(events))).event, Gap), "nothing was missed since then"


NO_CURSORS: tuple[object, ...] = (
    "7.0",
    "7",
    b"7",
    7.0,
    math.nan,
    math.inf,
    -1,
    True,
    (),
    (1, -1),
    (1, 2, 3),
    [1, None],
    (1, 2.5),
    {"seq": 1},
    object(),
)


@pytest.mark.parametrize("since", NO_CURSORS, ids=lambda item: f"{item!r:.8}")
async def test_what_is_no_cursor_is_refused_with_what_is_one(world: World, since: object) -> None:
    session = await world.spawn(["hello"])
    with pytest.raises(WrongType, match="as `since`; give the `cursor` of an envelope"):
        session.subscribe(since=since)  # type: ignore[arg-type]  # on purpose


async def test_a_cursor_that_was_not_reached_is_refused(world: World) -> None:
    session = await world.spawn(["hello"])
    await session.ask("hi")
    last = session.inspect().last_seq
    for since in (last + 1, (last + 1, 0), 9999):
        with pytest.raises(UnknownCursor, match=f"has no event .*: its last one is {last}, so"):
            session.subscribe(since=since)
    session.subscribe(since=last)
    session.subscribe(since=(last, 0))
    session.subscribe(since=[last, 7])  # type: ignore[arg-type]  # as JSON gives it


@pytest.mark.parametrize("types", [AgentEnd, ["AgentEnd"], "AgentEnd", [Gap(0, 0, 0, 0)], 5, [int]])
async def test_types_that_are_no_classes_of_events_are_refused_where_they_are_given(
    world: World, types: list[type[Event]]
) -> None:
    session = await world.spawn(["hello"])
    with pytest.raises(WrongType, match=r"as `types`; give a list of classes of events, such as `\[AgentEnd\]`"):
        session.subscribe(types=types)
    assert (await session.ask("hi")).text == "hello"


async def test_what_has_happened_is_told_apart_from_what_comes() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel(["one", "two"])))
        await session.ask("first")
        async with session.subscribe(since=0, types=[AgentStart, AgentEnd]) as events:
            await session.ask("second")
            past = [await events.next_past() for _ in range(3)]
            assert [type(envelope.event) for envelope in past if envelope is not None] == [AgentStart, AgentEnd]
            assert await events.next_past() is None
            assert isinstance((await anext(events)).event, AgentStart)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_read_all, events)
                await trio.testing.wait_all_tasks_blocked()
                with pytest.raises(AlreadyRead):
                    await events.next_past()
                nursery.cancel_scope.cancel()
        with pytest.raises(AlreadyLeft):
            await events.next_past()


@pytest.mark.parametrize("types", [None, [Event]])
async def test_events_that_are_taken_together_are_those_that_come_one_by_one(types: list[type[Event]] | None) -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say("a b c")])))
        async with session.subscribe(types=types) as one_by_one, session.subscribe(types=types) as together:
            await session.ask("first")
            wanted = [envelope async for envelope in _there(one_by_one)]
            assert together.take_now(0) == []
            taken = [together.take_now(3), together.take_now(len(wanted))]
            assert [len(taken[0]), taken[0] + taken[1]] == [3, wanted]
            assert together.position == wanted[-1].cursor
            assert (together.waiting, together.take_now(1)) == (0, [])
        async with session.subscribe(since=0, types=types) as events:
            assert events.take_now(100) == []  # these are read again, which may take time
        assert one_by_one.take_now(1) == []


async def test_events_of_a_turn_that_are_taken_together_are_its_own_without_the_last() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=ScriptedModel([say("a b c")], repeat_last=True)))
        async with session.stream("first") as one_by_one:
            wanted = [event async for event in one_by_one]
        async with session.stream("first") as turn:
            await trio.testing.wait_all_tasks_blocked()
            await session.ask("not of this turn")
            assert turn.take_now(100) == []  # the first is of the prompt
            first = await anext(turn)
            assert turn.take_now(0) == []
            taken = [first, *turn.take_now(3), *turn.take_now(100)]
            assert [type(event) for event in taken] == [type(event) for event in wanted[:-1]]
            assert turn.take_now(100) == []
            with pytest.raises(UsageError):
                _ = turn.reply
            assert isinstance(await anext(turn), AgentEnd)
            assert turn.reply.text == "a b c"
            assert turn.take_now(100) == []


async def _there(events: Subscription) -> AsyncIterator[Envelope]:
    """Yield the events that wait."""
    while events.waiting:
        yield await anext(events)


async def _read_all(events: Subscription) -> None:
    async for _ in events:
        pass
