"""Subscriptions on a WebSocket: events of several sessions, the tree and what waits for a person."""

from __future__ import annotations

import json
from typing import cast

import pytest
import trio

from agentrail import SessionSpec
from agentrail.api.public_ids import SessionName
from agentrail.host import HostLimits
from agentrail.host.hosted_sessions import HostedSessions
from agentrail.journals import SessionFilter, StoredSession
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import frames, listening, open_desk, scripted
from tests.host.websocket.talking import SocketMessage, Talker, problem, talking
from tests.runtime.tools import quick


async def opened(talker: Talker, *names: str) -> None:
    for name in names:
        await talker.ask("open_session", body={"session": name})


async def test_events_are_those_of_the_stream_over_http_and_go_on_from_a_cursor() -> None:
    async with open_desk(scripted("well said", "again")) as desk, talking(desk) as talker:
        await opened(talker, "trip")
        await talker.say(id="e", listen="events", session="trip", since="0")
        await talker.ask_beside("chat", body={"message": "hi", "session": "trip"})
        heard = [message for message in talker.kept if message["id"] == "e"]
        assert heard[0] == {"id": "e", "cursor": "0.0"}
        async with listening(desk, "GET", "/v1/sessions/trip/events", since="0") as listener:
            text = await listener.until(lambda text: "AgentEnd" in text)
        durable = [message for message in heard[1:] if str(message["cursor"]).endswith(".0")]
        over_http = [frame for frame in frames(text) if frame.get("id", "").endswith(".0")]
        assert [(message["cursor"], message["event"], message["data"]) for message in durable] == [
            (frame["id"], frame["event"], json.loads(frame["data"])) for frame in over_http
        ]
        last = str(durable[-3]["cursor"])
        async with talking(desk) as again:
            await again.say(id="1", listen="events", session="trip", since=last, types=["AgentEnd"])
            assert await again.heard() == {"id": "1", "cursor": last}
            assert await again.heard() == {**durable[-1], "id": "1"}


async def test_one_socket_listens_to_several_sessions_and_an_end_ends_one() -> None:
    async with open_desk(scripted("one", "two")) as desk, talking(desk) as talker:
        await opened(talker, "a", "b")
        for name in ("a", "b"):
            await talker.say(id=name, listen="events", session=name, types=["AgentEnd"])
            begun = await talker.heard()
            assert (begun["id"], set(begun)) == (name, {"id", "cursor"})
        await talker.say(id="a", end=True)
        assert await talker.heard() == {"id": "a", "end": True}
        for name in ("a", "b"):
            await desk.ann.post("/v1/chat", json={"message": "hi", "session": name})
        message = await talker.heard()
        assert (message["id"], message["event"]) == ("b", "AgentEnd")
        assert problem(await talker.ask("show_session", session="none")) == "unknown-session"


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ({"session": "none"}, "unknown-session"),
        ({"session": "trip", "since": "x"}, "bad-query"),
        ({"session": "trip", "since": "900"}, "unknown-cursor"),
        ({"session": "trip", "types": ["None"]}, "bad-query"),
    ],
)
async def test_a_subscription_that_cannot_be_ends_with_the_problem(message: dict[str, object], kind: str) -> None:
    async with open_desk(scripted("one")) as desk, talking(desk) as talker:
        await opened(talker, "trip")
        await talker.say(id="1", listen="events", **message)
        answer = await talker.heard()
        assert (answer["id"], answer["end"], problem(answer)) == ("1", True, kind)
        await talker.say(id="1", listen="events", session="trip")  # its id is free
        assert "cursor" in await talker.heard()


async def test_the_end_of_a_session_ends_its_subscription() -> None:
    async with open_desk(scripted("one")) as desk, talking(desk) as talker:
        await opened(talker, "trip")
        await talker.say(id="1", listen="events", session="trip")
        await talker.heard()
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).status_code == 200
        (*_, last) = await talker.until(lambda message: "end" in message)
        assert last == {"id": "1", "end": True}


async def test_who_may_not_observe_or_decide_gets_no_view() -> None:
    async with open_desk(scripted("one")) as desk, talking(desk, "bob") as bob:
        for view in ({"listen": "tree", "changes": True}, {"listen": "approvals"}):
            await bob.say(id="1", **view)
            answer = await bob.heard()
            assert (answer["end"], problem(answer)) == (True, "scope-missing")


LIMITS = HostLimits(drain_seconds=0.5)


async def test_a_view_is_sent_whole_at_first_and_when_it_has_changed() -> None:
    model = ScriptedModel([say(calls=[call("quick", {})]), "done"])
    spec = SessionSpec(model=model, tools=[quick], plugins=[HumanApproval(tools=("quick",))])
    async with open_desk(spec, limits=LIMITS) as desk, talking(desk) as talker:
        await talker.say(id="a", listen="approvals")
        assert await talker.heard() == {"id": "a", "data": {"items": [], "next": None}}
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        waiting = await talker.heard()
        over_http = (await desk.ann.get("/v1/approvals")).json()
        assert waiting == {"id": "a", "data": over_http}
        assert len(over_http["items"]) == 1
        await desk.ann.post("/v1/sessions/trip/approve", json={"approval": over_http["items"][0]["id"]})
        assert await talker.heard() == {"id": "a", "data": {"items": [], "next": None}}


async def test_what_waits_for_people_is_looked_at_only_when_that_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, listed = list[str](), HostedSessions.listed

    async def noted(
        sessions: HostedSessions,
        session_filter: SessionFilter,
        after: SessionName | None = None,
        most: int | None = None,
    ) -> list[StoredSession]:
        if most is None:  # what looks for all that waits
            looks.append(session_filter.tenant or "")
        return await listed(sessions, session_filter, after, most)

    monkeypatch.setattr(HostedSessions, "listed", noted)
    model = ScriptedModel([say(calls=[call("quick", {})]), "done", "again"])
    spec = SessionSpec(model=model, tools=[quick], plugins=[HumanApproval(tools=("quick",))])
    async with open_desk(spec, limits=LIMITS) as desk, talking(desk) as talker:
        await talker.say(id="a", listen="approvals")
        await talker.heard()
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        (held,) = items(await talker.heard())
        await trio.sleep(0.2)
        looks.clear()
        await trio.sleep(0.5)  # the view would have been looked at 25 times
        assert looks == []
        await desk.ann.post("/v1/sessions/trip/approve", json={"approval": held["id"]})
        assert items(await talker.heard()) == []
        await trio.sleep(0.2)
        looks.clear()
        assert (await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})).json()["text"] == "again"
        await trio.sleep(0.2)
        assert looks == []  # a turn in which nothing waits changes nothing


async def test_a_session_that_is_deleted_waits_no_more() -> None:
    model = ScriptedModel([say(calls=[call("quick", {})])])
    spec = SessionSpec(model=model, tools=[quick], plugins=[HumanApproval(tools=("quick",))])
    async with open_desk(spec, limits=LIMITS) as desk, talking(desk) as talker:
        await talker.say(id="a", listen="approvals")
        await talker.heard()
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        assert len(items(await talker.heard())) == 1
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).status_code == 200
        assert items(await talker.heard()) == []


def items(message: SocketMessage) -> list[dict[str, object]]:
    """Return what waits, of a view of approvals."""
    return cast("dict[str, list[dict[str, object]]]", message["data"])["items"]


@pytest.mark.parametrize("most", [1, 3])
async def test_a_subscription_is_one_of_the_streams_that_a_tenant_may_have(most: int) -> None:
    limits = HostLimits(streams=most, drain_seconds=0.5)
    async with open_desk(scripted("one"), limits=limits) as desk, talking(desk) as talker:
        await opened(talker, "trip")
        for number in range(most):
            await talker.say(id=f"{number}", listen="events", session="trip")
            assert "cursor" in await talker.heard()
        await talker.say(id="more", listen="events", session="trip")
        assert problem(await talker.heard()) == "too-many-streams"
        assert (await desk.ann.get("/v1/sessions/trip/events")).status_code == 429
        await talker.say(id="0", end=True)
        assert await talker.heard() == {"id": "0", "end": True}
        await talker.say(id="more", listen="events", session="trip")
        assert "cursor" in await talker.heard()
