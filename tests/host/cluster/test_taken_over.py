"""A host whose session another has taken over, and that has not noticed it yet, passes on what it is asked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest
import trio

from agentrail import SessionSpec, connect
from agentrail.events import AgentEnd
from agentrail.journals import Journal, MemoryJournal
from agentrail.testing import ScriptedModel
from tests.host.cluster.several import LEASE, open_member
from tests.host.hosted import KEYS, Desk, frames, listening
from tests.host.websocket.talking import talking
from tests.patience import PATIENCE
from tests.recovery.shared import SharedJournal


@asynccontextmanager
async def one_that_does_not_know() -> AsyncGenerator[tuple[Desk, Desk]]:
    """Yield a host whose session `trip` goes on at another, and that one: no renewal tells the first in time."""
    journal, spec = MemoryJournal(), SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))
    async with (
        open_member(journal, spec) as first,
        open_member(journal, spec) as second,
    ):
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "one"})
        await second.serving.supervisor.resume("h.acme.ann.trip", take_over=True)
        await second.ann.post("/v1/chat", json={"session": "trip", "message": "two"})
        yield first, second


class CutOffJournal(SharedJournal):
    """Lets nothing through to a journal while it is cut off."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.joined = trio.Event()
        self.joined.set()

    async def _ask(self, name: str, *args: object, **more: object) -> object:
        await self.joined.wait()
        return await getattr(self._journal, name)(*args, **more)


class AskedJournal(SharedJournal):
    """Calls *before* once, before it answers whether claims are still valid."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.before: Callable[[], Awaitable[None]] | None = None

    async def _ask(self, name: str, *args: object, **more: object) -> object:
        if name == "renew" and self.before is not None:
            hook, self.before = self.before, None
            await hook()
        return await getattr(self._journal, name)(*args, **more)


async def last_cursor(desk: Desk) -> str:
    """Return the cursor of the last event of two turns, as *desk* tells it."""
    async with listening(desk, "GET", "/v1/sessions/trip/events", since="0.0") as listener:
        heard = frames(await listener.until(lambda text: text.count("event: AgentEnd") == 2))
    return [frame["id"] for frame in heard if "id" in frame][-1]


async def test_a_listener_who_has_heard_more_elsewhere_goes_on() -> None:
    async with one_that_does_not_know() as (first, second):
        last = await last_cursor(second)
        async with listening(first, "GET", "/v1/sessions/trip/events", since=last) as listener:
            assert (await first.ann.post("/v1/chat", json={"session": "trip", "message": "three"})).status_code == 200
            await listener.until(lambda text: "event: AgentEnd" in text)


async def test_a_listener_on_a_socket_goes_on_too() -> None:
    async with one_that_does_not_know() as (first, second):
        seq, _, _ = (await last_cursor(second)).partition(".")
        async with connect(first.serving.url, KEYS["ann"]) as supervisor:
            session = supervisor.session("trip")
            async with session.subscribe(since=int(seq)) as events:
                with trio.fail_after(PATIENCE):
                    await second.ann.post("/v1/chat", json={"session": "trip", "message": "three"})
                    while not isinstance((await anext(events)).event, AgentEnd):
                        pass


async def test_a_listener_on_a_socket_goes_on_when_the_host_has_noticed() -> None:
    async with (
        one_that_does_not_know() as (first, second),
        connect(first.serving.url, KEYS["ann"]) as supervisor,
        supervisor.session("trip").subscribe(since=0) as events,
    ):
        assert (await first.ann.post("/v1/chat", json={"session": "trip", "message": "three"})).status_code == 200
        assert len(second.serving.supervisor.sessions()) == 1
        ends = 0
        with trio.fail_after(PATIENCE):
            while ends < 3:
                ends += isinstance((await anext(events)).event, AgentEnd)


async def test_a_cursor_that_no_host_knows_is_refused() -> None:
    async with one_that_does_not_know() as (first, second):
        for desk in (second, first):
            headers = {"last-event-id": "999.0"}
            answer = await desk.ann.get("/v1/sessions/trip/events", headers=headers)
            assert (answer.status_code, answer.json()["type"]) == (409, "urn:agentrail:problem:unknown-cursor")


@pytest.mark.parametrize("call", ["chat", "prompt", "label"])
async def test_what_is_sent_there_is_carried_out_once(call: str) -> None:
    async with one_that_does_not_know() as (first, second):
        target, body = {
            "chat": ("/v1/chat", {"session": "trip", "message": "three"}),
            "prompt": ("/v1/sessions/trip/prompt", {"message": "three"}),
            "label": ("/v1/sessions/trip/label", {"title": "three"}),
        }[call]
        answer = await first.ann.post(target, json=body)
        assert answer.status_code < 300, answer.text
        texts = (await second.ann.get("/v1/sessions/trip/messages")).text + (await second.ann.get("/v1/sessions")).text
        assert texts.count("three") == 1
        assert [len(desk.serving.supervisor.sessions()) for desk in (first, second)] == [0, 1]


async def test_what_is_sent_there_on_a_socket_is_carried_out_too() -> None:
    async with (
        one_that_does_not_know() as (first, second),
        connect(first.serving.url, KEYS["ann"]) as supervisor,
    ):
        await supervisor.session("trip").prompt("three")
        assert [len(desk.serving.supervisor.sessions()) for desk in (first, second)] == [0, 1]


async def test_what_waited_while_a_host_was_cut_off_from_the_journal_is_carried_out() -> None:
    journal, spec = MemoryJournal(), SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))
    line = CutOffJournal(journal)
    async with (
        open_member(cast("Journal", line), spec, lease=LEASE) as first,
        open_member(journal, spec, lease=LEASE) as second,
        trio.open_nursery() as nursery,
    ):
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "one"})
        line.joined = trio.Event()
        answers: list[int] = []

        async def ask() -> None:
            answer = await first.ann.post("/v1/chat", json={"session": "trip", "message": "two"})
            answers.append(answer.status_code)

        nursery.start_soon(ask)
        await trio.sleep(2.5 * LEASE)  # longer than a refusal would be waited for
        assert (await second.ann.post("/v1/chat", json={"session": "trip", "message": "three"})).status_code == 200
        line.joined.set()
    assert answers == [200]


@pytest.mark.parametrize("way", ["http", "websocket"])
async def test_a_session_that_left_a_host_and_came_back_meanwhile_knows_its_cursors(way: str) -> None:
    journal, spec = MemoryJournal(), SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))
    line = AskedJournal(journal)
    async with open_member(cast("Journal", line), spec) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "one"})
        async with open_member(journal, spec) as second:
            await second.serving.supervisor.resume("h.acme.ann.trip", take_over=True)
            await second.ann.post("/v1/chat", json={"session": "trip", "message": "two"})
            last = await last_cursor(second)

        async def come_back() -> None:
            answer = await first.ann.post("/v1/chat", json={"session": "trip", "message": "three"})
            assert answer.status_code == 200

        line.before = come_back
        if way == "http":
            async with listening(first, "GET", "/v1/sessions/trip/events", since=last) as listener:
                assert "event: AgentEnd" in await listener.until(lambda text: "event: AgentEnd" in text)
        else:
            async with talking(first) as talker:
                await talker.say(id="e", listen="events", session="trip", since=last)
                assert await talker.heard() == {"id": "e", "cursor": last}
        assert line.before is None
