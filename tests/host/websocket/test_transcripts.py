"""A subscription to the conversation of a session tells what `Transcript` makes of its events, wherever it begins."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Sequence
from typing import cast

import pytest

from agentrail import SessionSpec, tool
from agentrail.api.transcript import Transcript
from agentrail.api.transcript_views import changes_view
from agentrail.api.views import to_json
from agentrail.codec.values import read
from agentrail.events import Envelope
from agentrail.host.operations import view_calls
from agentrail.journals import NO_LEASE, Claim, Lease, MemoryJournal, Record
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import Desk, open_desk, scripted
from tests.host.websocket.talking import SocketMessage, Talker, problem, talking


@tool
async def look() -> str:
    """Look."""
    return "nothing"


HELPS = {"agent": "helper", "description": "helps", "prompt": "go"}


def delegating() -> SessionSpec:
    """Return an agent whose sub-agent asks before a call."""
    helper = ScriptedModel([say("I look.", calls=[call("look")]), "Looked."])
    script = [say("I let it look.", thinking="Well.", calls=[call("task", HELPS)])]
    return SessionSpec(
        model=ScriptedModel([*script, "It looked well."]),
        agents={"helper": SessionSpec(description="Helps.", model=helper, tools=[look])},
        plugins=[HumanApproval(tools=("look",))],
    )


async def listen(talker: Talker, name: str = "t", **more: object) -> list[SocketMessage]:
    """Listen to the conversation of `trip`, and return what comes up to the end of its last turn, or of all."""
    await talker.say(id=name, listen="transcript", **{"session": "trip", **more})
    heard = await talker.until(lambda message: message["id"] == name and is_last(message))
    return [message for message in heard if message["id"] == name]


def is_last(message: SocketMessage) -> bool:
    return "end" in message or message.get("event") == "AgentEnd" or "AgentEnd" in kinds_in([message])


async def have_turn(desk: Desk) -> None:
    """Have a turn in `trip`, whose sub-agent waits for a person."""
    await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
    (held,) = (await desk.ann.get("/v1/approvals")).json()["items"]
    await desk.ann.post("/v1/sessions/trip/approve", json={"approval": held["id"]})


def folded(events: Sequence[SocketMessage]) -> list[tuple[object, object]]:
    """Return what a `Transcript` tells of events as a client gets them, with their cursors."""
    transcript, facts = Transcript(), list[tuple[object, object]]()
    for message in events:
        envelope = read(Envelope, json.dumps(message["data"]).encode())
        if changes := [*transcript.take(envelope)]:
            facts.append((message["cursor"], json.loads(to_json(changes_view(envelope, changes)))))
    return facts


def told_in(messages: Sequence[SocketMessage]) -> list[tuple[object, object]]:
    return [(message["cursor"], message["data"]) for message in messages if "data" in message]


def kinds_in(messages: Sequence[SocketMessage]) -> list[str]:
    """Return the names of the changes in messages, but for those of sub-agents."""
    datas = [cast("dict[str, list[dict[str, str]]]", data) for _, data in told_in(messages)]
    return [change["$"] for data in datas for change in data.get("changes", ())]


def is_stored(cursor: object) -> bool:
    return str(cursor).endswith(".0")


async def test_it_tells_what_the_transcript_makes_of_the_events_from_the_beginning_or_from_a_cursor_on() -> None:
    async with open_desk(delegating()) as desk, talking(desk) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        await talker.say(id="e", listen="events", session="trip", since="0")
        await talker.say(id="t", listen="transcript", session="trip", since="0")
        await have_turn(desk)
        heard = [message for _ in range(2) for message in await talker.until(is_last)]
        live = [message for message in heard if message["id"] == "t"]
        assert live[0] == {"id": "t", "cursor": "0.0"}
        all_changes = told_in(live)
        assert all_changes == folded([message for message in heard if message["id"] == "e" and "event" in message])
        assert kinds_in(live)[-1] == "AgentEnd"
        assert {"MessageDelta", "ResponseEnded", "CallChanged", "CallEnded", "OfSubagent"} <= {*kinds_in(live)}
        assert "h.acme" not in json.dumps(live)
        stored = [change for change in all_changes if is_stored(change[0])]
        for index in range(0, len(stored) - 1, 6):
            rest = told_in(await listen(talker, f"from {index}", since=stored[index][0]))
            assert [change for change in rest if is_stored(change[0])] == stored[index + 1 :]


async def test_who_misses_deltas_is_told_of_a_gap_and_of_the_whole_answer() -> None:
    async with open_desk(scripted("one two three")) as desk:
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        async with talking(desk) as talker:
            heard = await listen(talker, since="0")
    assert [message["gap"] for message in heard if "gap" in message]
    assert "MessageDelta" not in kinds_in(heard)
    assert "ResponseEnded" in kinds_in(heard)


class CountingJournal(MemoryJournal):
    """A journal that counts the records that are read, and fails at the next *failures* of the reads.

    The session *lost* cannot be claimed; the session *erased* is deleted at the next read.
    """

    records = failures = 0
    lost = erased = ""

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        if session_id == self.lost:
            raise OSError(errno.EIO, "lost")
        return await super().claim(session_id, holder, lease, take_over=take_over)

    async def read(self, session_id: str, after: int = 0, limit: int = 1000) -> tuple[Record, ...]:
        if session_id == self.erased:
            await self.delete(session_id, "", sys.maxsize)
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EIO, "lost")
        records = await super().read(session_id, after, limit)
        self.records += len(records)
        return records


async def cost_of_rest(talker: Talker, journal: CountingJournal, stored: Sequence[tuple[object, object]]) -> int:
    """Go on near the end of what is *stored*, which has to be told; return how many records are read for that."""
    earlier = journal.records
    rest = await listen(talker, f"after {earlier}", session="ann.trip", since=stored[-4][0])
    assert [change for change in told_in(rest) if is_stored(change[0])] == stored[-3:]
    return journal.records - earlier


async def test_who_goes_on_from_a_cursor_costs_no_more_in_a_long_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_calls, "AT_ONCE", 3)
    monkeypatch.setattr(view_calls, "BACK", 9)
    rounds, look_on = (1, 1, 5, 6), say("I look.", calls=[call("look")])
    model = ScriptedModel([answer for n in rounds for answer in (*(look_on,) * n, say("Looked."))])
    journal, costs, stored = CountingJournal(), list[int](), list[tuple[object, object]]()
    spec = SessionSpec(model=model, tools=[look])
    async with open_desk(spec, journal=journal) as desk, talking(desk, "boss") as boss, talking(desk) as talker:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        await talker.say(id="w", listen="transcript", session="trip", since="0")
        for _ in rounds:  # a turn of 5 rounds has more records than are looked at
            await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
            stored = [change for change in told_in(await talker.until(is_last)) if is_stored(change[0])]
            costs.append(await cost_of_rest(boss, journal, stored))
        await desk.ann.post("/v1/sessions/trip/stop", json={})
        costs.append(await cost_of_rest(boss, journal, stored))
    assert costs == [costs[0]] * 2 + [costs[2]] * 3


async def test_a_journal_that_fails_for_a_while_ends_no_conversation() -> None:
    journal = CountingJournal()
    async with open_desk(scripted("one"), journal=journal) as desk, talking(desk) as talker:
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        journal.failures = 2
        assert "AgentEnd" in kinds_in(await listen(talker, since="2"))
    assert not journal.failures


async def test_a_subagent_that_is_not_back_yet_has_not_ended() -> None:
    journal = CountingJournal()
    async with open_desk(delegating(), journal=journal) as desk:
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        (task,) = (await desk.ann.get("/v1/sessions/trip/tasks")).json()["items"]
    journal.lost = f"h.acme.{task['child']}"
    async with open_desk(delegating(), journal=journal) as desk, talking(desk, "boss") as boss:
        earlier = await listen(boss, "before", session=task["child"], since="1")
        assert (earlier[-1]["end"], problem(earlier[-1])) == (True, "host-closing")
        assert "CallChanged" in kinds_in(earlier)
        await desk.ann.post("/v1/sessions/trip/stop", json={})
        after = await listen(boss, "after", session=task["child"], since="1")
    assert after == [*[{**message, "id": "after"} for message in earlier[:-1]], {"id": "after", "end": True}]


async def test_a_session_that_is_deleted_while_it_is_told_does_not_end_as_if_that_were_all() -> None:
    journal = CountingJournal()
    async with open_desk(scripted("one"), journal=journal) as desk, talking(desk, "boss") as boss:
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        await desk.ann.post("/v1/sessions/trip/stop", json={})
        journal.erased = "h.acme.ann.trip"
        heard = await listen(boss, session="ann.trip", last=99)
    assert problem(heard[-1]) == "unknown-session"


async def test_nobody_hears_of_the_sessions_of_others() -> None:
    async with open_desk(scripted("one")) as desk, talking(desk, "eve") as eve, talking(desk, "bob") as bob:
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        for stranger, session in ((eve, "trip"), (eve, "ann.trip"), (bob, "ann.trip")):
            for more in ({}, {"since": "1.0"}, {"last": 9}):
                await stranger.say(id="1", listen="transcript", session=session, **more)
                answer = await stranger.heard()
                kind = "scope-missing" if stranger is bob and "last" in more else "unknown-session"
                assert (answer["end"], problem(answer)) == (True, kind)


async def test_of_a_session_that_is_only_stored_the_records_are_told_to_whoever_may_read_them() -> None:
    async with open_desk(scripted("one two", "three")) as desk, talking(desk, "boss") as boss, talking(desk) as talker:
        await talker.say(id="o", call="open_session", body={"session": "trip"})
        await talker.heard()
        await talker.say(id="t", listen="transcript", session="trip", since="0")
        for message in ("hi", "again"):
            await desk.ann.post("/v1/chat", json={"message": message, "session": "trip"})
        records = (await desk.clients["boss"].get("/v1/sessions/ann.trip/records")).json()["records"]
        last = next(record["number"] for record in records if '"AgentEnd"' in json.dumps(record["events"]))
        await boss.say(id="1", listen="transcript", session="ann.trip", last=last)
        live_before = await boss.until(lambda frame: "end" in frame)
        await desk.ann.post("/v1/sessions/trip/stop", json={})
        live = [change for change in told_in(await talker.until(lambda frame: "end" in frame)) if is_stored(change[0])]
        await boss.say(id="2", listen="transcript", session="ann.trip", since="0")
        stored_after = await boss.until(lambda frame: "end" in frame)
        await boss.say(id="3", listen="transcript", session="ann.trip", since=live[4][0])
        rest = await boss.until(lambda frame: "end" in frame)
        await talker.say(id="s", listen="transcript", session="trip", since="0")
        assert problem(await talker.heard()) == "session-not-alive"
    assert (stored_after[0], stored_after[-1]) == ({"id": "2", "cursor": "0.0"}, {"id": "2", "end": True})
    assert told_in(stored_after) == live
    assert told_in(rest) == live[5:]
    assert told_in(live_before) == live[: len(told_in(live_before))]
    assert kinds_in(live_before).count("AgentEnd") == 1
