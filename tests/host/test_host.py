"""A host from outside: real sockets, clients that nobody here wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
import trio

from agentrail import Secret, SessionSpec, connect, tool
from agentrail.api.openapi import _build_document
from agentrail.errors import BadChoice, BadPlugin, BadProfile, JournalFull, KeyRefused, UsageError, WrongType
from agentrail.host import (
    AfterToolCall,
    Allow,
    ApiKeys,
    BeforeToolCall,
    Deny,
    HandledResponse,
    Host,
    HostLimits,
    HostPlugin,
    Profile,
    Profiles,
    Request,
    RequestContext,
    RequestEnd,
)
from agentrail.journals import NO_LEASE, Claim, Lease, MemoryJournal, SqliteJournal
from agentrail.models import Message
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, fail, say, stall
from tests.host.hosted import KEYS, LINES, Desk, desk_of, frames, listening, open_desk, scripted
from tests.kit import Element
from tests.patience import PATIENCE
from tests.runtime.families import agent, task


async def chat(client: httpx.AsyncClient, message: str, **more: object) -> httpx.Response:
    return await client.post("/v1/chat", json={"message": message, **more})


async def until(holds: Callable[[], bool]) -> None:
    with trio.fail_after(20):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in the host
            await trio.sleep(0.02)


async def test_a_person_talks_to_a_session() -> None:
    async with open_desk(scripted("one", "two", "three")) as desk:
        first = await chat(desk.ann, "hi", session="trip")
        assert first.status_code == 200
        assert (first.json()["text"], first.json()["session"]) == ("one", "ann.trip")
        assert (await chat(desk.ann, "and?", session="ann.trip")).json()["text"] == "two"
        new = (await chat(desk.ann, "hi")).json()
        assert new["text"] == "three"
        listed = (await desk.ann.get("/v1/sessions")).json()
        assert [item["session"] for item in listed["items"]] == sorted(["ann.trip", new["session"]])
        assert listed["next"] is None
        body = (await desk.ann.get("/v1/sessions/trip")).json()
        assert (body["agent"], body["owner"], body["status"]["phase"]) == ("desk", "ann", "idle")
        page = (await desk.ann.get("/v1/sessions/trip/messages", params={"limit": 3})).json()
        assert [item["parts"][0]["text"] for item in page["items"]] == ["hi", "one", "and?"]
        rest = (await desk.ann.get("/v1/sessions/trip/messages", params={"after": page["next"]})).json()
        assert [item["parts"][0]["text"] for item in rest["items"]] == ["two"]


async def test_an_empty_list_is_a_list() -> None:
    async with open_desk(scripted("one")) as desk:
        response = await desk.ann.get("/v1/sessions")
        assert (response.status_code, response.json()) == (200, {"items": [], "next": None})


async def test_lists_are_paged() -> None:
    async with open_desk(scripted("one")) as desk:
        names = [f"s{number}" for number in range(5)]
        for name in names:
            assert (await desk.ann.post("/v1/sessions", json={"session": name})).status_code == 201
        texts: list[str] = []
        after = None
        while True:
            params = {"limit": "2"} | ({} if after is None else {"after": after})
            page = (await desk.ann.get("/v1/sessions", params=params)).json()
            texts += [item["session"] for item in page["items"]]
            after = page["next"]
            if after is None:
                break
        assert texts == [f"ann.{name}" for name in names]
        again = await desk.ann.post("/v1/sessions", json={"session": "s0"})
        assert (again.status_code, again.json()["type"]) == (409, "urn:agentrail:problem:session-exists")


# Streams


async def test_a_stream_has_the_events_of_its_turn_and_ends_with_the_reply() -> None:
    async with open_desk(scripted("one two three", "four")) as desk:
        async with desk.ann.stream("POST", "/v1/stream", json={"message": "hi", "session": "trip"}) as response:
            assert (response.status_code, response.headers["content-type"]) == (200, "text/event-stream")
            all_frames = frames("".join([piece async for piece in response.aiter_text()]))
        names = [frame["event"] for frame in all_frames]
        assert names[0] == "PromptReceived"
        assert names[-2:] == ["AgentEnd", "reply"]
        assert "MessageDelta" in names
        assert json.loads(all_frames[-1]["data"])["text"] == "one two three"
        ids = [tuple(map(int, frame["id"].split("."))) for frame in all_frames[:-1]]
        assert ids == sorted(set(ids))


async def test_a_stream_that_was_cut_goes_on_where_it_was() -> None:
    async with open_desk(scripted("one two three", "four five six", "seven")) as desk:
        for message in ("hi", "and?"):
            await chat(desk.ann, message, session="trip")
        all_frames = await replayed(desk, "0", lambda text: text.count("event: AgentEnd") == len(("hi", "and?")))
        assert [frame["event"] for frame in all_frames][:2] == ["PromptReceived", "AgentStart"]
        last = f"id: {all_frames[-1]['id']}\n"
        for index in range(0, len(all_frames) - 1, 3):
            assert await replayed(desk, all_frames[index]["id"], lambda text: last in text) == all_frames[index + 1 :]
        some = await desk.ann.get("/v1/sessions/trip/events", params={"since": "x"})
        assert (some.status_code, some.json()["type"]) == (400, "urn:agentrail:problem:bad-query")


async def replayed(desk: Desk, since: str, is_all: Callable[[str], bool]) -> list[dict[str, str]]:
    """Return the durable events of some types after *since*, until the text *is_all*."""
    types = "PromptReceived,AgentStart,RequestStart,ResponseComplete,AgentEnd"
    async with listening(desk, "GET", f"/v1/sessions/trip/events?types={types}", since=since) as listener:
        assert listener.status == 200
        return frames(await listener.until(is_all))


async def test_those_who_listen_together_hear_the_same() -> None:
    async with open_desk(scripted("one two three")) as desk, AsyncExitStack() as stack:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        path = "/v1/sessions/trip/events"
        three = [await stack.enter_async_context(listening(desk, "GET", path)) for _ in range(3)]
        await chat(desk.ann, "hi", session="trip")
        heard = [frames(await listener.until(lambda text: "event: AgentEnd" in text)) for listener in three]
        assert heard[0] == heard[1] == heard[2]
        assert {"PromptReceived", "MessageDelta", "AgentEnd"} <= {listener["event"] for listener in heard[0]}


async def test_a_client_that_goes_away_stops_nothing() -> None:
    witness = Witness()
    async with open_desk(scripted("one two three", "four"), [witness]) as desk:
        async with listening(desk, "POST", "/v1/stream", message="hi") as listener:
            await listener.until(lambda text: "AgentStart" in text)
        await until(lambda: len(witness.heard) == 4)
        assert witness.heard[2:] == ["persisted stream ann.trip", "end finished None"]
        assert (await chat(desk.ann, "and?", session="trip")).json()["text"] == "four"
        messages = (await desk.ann.get("/v1/sessions/trip/messages")).json()["items"]
        assert [message["parts"][0]["text"] for message in messages] == ["hi", "one two three", "and?", "four"]


# Who it is


@pytest.mark.long
async def test_a_foreign_session_is_one_that_is_not_there() -> None:
    async with open_desk(scripted("one", "two")) as desk:
        await chat(desk.ann, "hi", session="trip")
        calls = [
            ("GET", "", None),
            ("GET", "/messages", None),
            ("GET", "/events", None),
            ("POST", "/prompt", {"message": "x"}),
            ("POST", "/steer", {"text": "x"}),
            ("POST", "/abort", {}),
            ("POST", "/fork", {}),
            ("DELETE", "", None),
        ]
        for method, path, body in calls:
            for name in ("eve", "bob"):
                client = desk.clients[name]
                theirs = await client.request(method, f"/v1/sessions/ann.trip{path}", json=body)
                missing = await client.request(method, f"/v1/sessions/ann.gone{path}", json=body)
                assert (theirs.status_code, theirs.content) == (missing.status_code, missing.content)
                assert theirs.status_code in {403, 404}
            internal = await desk.clients["eve"].request(method, f"/v1/sessions/h.acme.ann.trip{path}", json=body)
            assert internal.status_code == 404
        assert (await desk.clients["boss"].get("/v1/sessions/ann.trip")).status_code == 200
        everybody = await desk.clients["boss"].get("/v1/sessions", params={"owner": "*"})
        assert [item["session"] for item in everybody.json()["items"]] == ["ann.trip"]
        assert (await desk.clients["eve"].get("/v1/sessions", params={"owner": "*"})).json()["items"] == []


async def test_without_a_key_nothing_but_health_is_told() -> None:
    async with (
        open_desk(scripted("one")) as desk,
        httpx.AsyncClient(base_url=desk.serving.url, timeout=PATIENCE) as client,
    ):
        assert (await client.get("/healthz")).json() == {"status": "ok"}
        assert (await client.get("/readyz")).json()["ready"] is True
        refused = await client.get("/v1/sessions")
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert refused.headers["content-type"] == "application/problem+json"
        assert (await desk.clients["bob"].get("/v1/tree")).status_code in {403, 404}


async def test_a_command_that_is_sent_twice_is_carried_out_once() -> None:
    async with open_desk(scripted("one", "two")) as desk:
        again = {"idempotency-key": "k1"}
        answers = [(await desk.ann.post("/v1/chat", json={"message": "hi"}, headers=again)).json() for _ in range(3)]
        assert answers[0] == answers[1] == answers[2]
        other = await desk.ann.post(
            "/v1/chat", json={"message": "other", "session": answers[0]["session"]}, headers=again
        )
        assert (other.status_code, other.json()["type"]) == (409, "urn:agentrail:problem:command-conflict")


async def test_a_tenant_that_is_too_fast_is_told_when_to_come_back() -> None:
    limits = HostLimits(requests_per_second=0.01, burst=3)
    async with open_desk(scripted("one"), limits=limits) as desk:
        status_codes = [
            (await desk.clients[name].get("/v1/sessions")).status_code for name in ("ann", "bob", "ann", "boss")
        ]
        assert status_codes == [200, 200, 200, 429]
        refused = await desk.ann.get("/v1/sessions")
        assert 100 - PATIENCE < int(refused.headers["retry-after"]) <= 100
        assert (await desk.clients["eve"].get("/v1/sessions")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/tree", 403), ("GET", "/v1/sessions/none", 404), ("POST", "/v1/sessions", 415)],
)
async def test_a_request_that_is_refused_counts_for_the_rate_of_its_tenant(method: str, path: str, status: int) -> None:
    limits = HostLimits(requests_per_second=0.01, burst=3)
    async with open_desk(scripted("one"), limits=limits) as desk:
        status_codes = [(await desk.ann.request(method, path)).status_code for _ in range(4)]
        assert status_codes == [status, status, status, 429]
        assert (await desk.clients["bob"].get("/v1/sessions")).status_code == 429


async def test_without_keys_only_this_machine_is_served() -> None:
    host = Host([Profile("desk", scripted("one"))])
    with pytest.raises(BadChoice, match="`authenticator`"):
        async with host.serving(host="0.0.0.0"):  # noqa: S104 - it is refused
            pass
    async with host.serving() as serving:
        token = serving.entry.partition("#token=")[2]
        assert token
        async with httpx.AsyncClient(
            base_url=serving.url, headers={"authorization": f"Bearer {token}"}, timeout=PATIENCE
        ) as client:
            assert (await chat(client, "hi")).json()["text"] == "one"
        async with httpx.AsyncClient(base_url=serving.url, cookies={"token": token}, timeout=PATIENCE) as client:
            assert (await chat(client, "hi")).status_code == 401
            assert (await client.get("/healthz", headers={"host": "evil.example"})).status_code == 403


async def test_at_a_socket_there_is_a_port_only_if_one_is_given(tmp_path: Path) -> None:
    host = Host([Profile("desk", scripted("one"))])
    async with host.serving(unix=tmp_path / "s") as serving:
        assert serving.url == f"unix:{tmp_path / 's'}"
    with pytest.raises(BadChoice, match="`authenticator`"):
        async with host.serving(0, "0.0.0.0", unix=tmp_path / "s"):  # noqa: S104 - it is refused
            pass
    async with host.serving(0, unix=tmp_path / "s") as serving:
        key = {"authorization": f"Bearer {serving.entry.partition('#token=')[2]}"}
        async with (
            httpx.AsyncClient(base_url=serving.url, headers=key, timeout=PATIENCE) as at_port,
            httpx.AsyncClient(
                base_url="http://localhost", headers=key, transport=httpx.AsyncHTTPTransport(uds=str(tmp_path / "s"))
            ) as at_socket,
        ):
            assert (await chat(at_port, "hi", session="s")).json()["text"] == "one"
            listed = (await at_socket.get("/v1/sessions")).json()["items"]
            assert [session["session"] for session in listed] == ["you.s"]
            assert (await at_socket.get("/v1/sessions", headers={"authorization": "Bearer x"})).status_code == 401


async def test_the_address_of_a_relative_socket_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    host = Host([Profile("desk", scripted("one"))])
    async with host.serving(unix=Path("s")) as serving, connect(serving.entry) as supervisor:
        assert await supervisor.sessions() == ()


# Plugins


class Witness(HostPlugin):
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_request_start(self, context: RequestContext) -> None:
        self.heard.append(f"start {context.kind} {context.session_id} {context.tenant_id}/{context.user_id}")

    def intercept(self, request: Request) -> HandledResponse | None:
        self.heard.append(f"intercept {request.message}")
        return HandledResponse(429, {"text": "pong"}, {"Retry-After": "7"}) if request.message == "/ping" else None

    async def on_turn_persisted(self, context: RequestContext) -> None:
        await trio.lowlevel.checkpoint()
        self.heard.append(f"persisted {context.kind} {context.session_id}")

    def on_request_end(self, context: RequestEnd) -> None:
        self.heard.append(f"end {context.outcome} {context.error}")


async def test_plugins_hear_the_life_of_each_request() -> None:
    witness = Witness()
    async with open_desk(scripted("one", stall(after=1)), [witness]) as desk:
        await chat(desk.ann, "hi", session="trip")
        answered = await chat(desk.ann, "/ping", session="trip")
        assert (answered.status_code, answered.json(), answered.headers["retry-after"]) == (429, {"text": "pong"}, "7")
        assert (await chat(desk.ann, "hi", session="bob.trip")).status_code == 404
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(chat, desk.ann, "stay", session="trip"))
            while not (await desk.ann.get("/v1/sessions/trip")).json()["status"]["turn_open"]:  # noqa: ASYNC110 - by HTTP
                await trio.sleep(0.05)
            assert (await desk.ann.post("/v1/sessions/trip/abort", json={})).status_code == 204
    start = "start chat ann.trip acme/ann"
    assert witness.heard == [
        *[start, "intercept hi", "persisted chat ann.trip", "end finished None"],
        *[start, "intercept /ping", "end intercepted None"],
        *[start, "intercept stay", "persisted chat ann.trip", "end aborted TurnAborted"],
    ]


async def test_to_steer_is_to_talk_too() -> None:
    """It begins a turn if none is open, so interceptors hear it."""
    witness = Witness()
    async with open_desk(scripted("one", "two"), [witness]) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        path = "/v1/sessions/trip/steer"
        refused = await desk.ann.post(path, json={"text": "/ping"})
        assert (refused.status_code, refused.json()) == (429, {"text": "pong"})
        begun = await desk.ann.post(path, json={"text": "go on"})
        assert (begun.status_code, begun.json()["status"]) == (202, "started")
        await until(lambda: "persisted chat ann.trip" in witness.heard)
        assert "intercept go on" in witness.heard
        assert (await desk.ann.post("/v1/sessions/gone/steer", json={"text": "x"})).status_code == 404


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def payer() -> SessionSpec:
    script: list[Element] = [say(calls=[call("pay", {"to": "ann"})]), "done", "more"]
    return SessionSpec(model=ScriptedModel(script), tools=[pay], plugins=[HumanApproval(tools=["pay"])])


async def test_a_turn_that_waits_ends_its_request_and_is_persisted_later() -> None:
    witness = Witness()
    async with open_desk(payer(), [witness]) as desk:
        held = await chat(desk.ann, "pay", session="trip")
        assert (held.status_code, held.json()["stop_reason"]) == (202, "held")
        (waits,) = held.json()["held"]
        assert (waits["tool"], waits["args"]) == ("pay", {"to": "ann"})
        assert witness.heard[-1] == "end held None"
        refused = await desk.clients["bob"].post("/v1/sessions/ann.trip/approve", json={"approval": waits["id"]})
        assert refused.status_code == 403
        await desk.ann.post("/v1/sessions/trip/approve", json={"approval": waits["id"]})
        await until(lambda: witness.heard[-1] == "persisted chat ann.trip")
        assert (await chat(desk.ann, "and?", session="trip")).json()["text"] == "more"


class Guard(HostPlugin):
    """Rules on tool calls, and adds the tenant to each turn."""

    critical = True

    def __init__(self) -> None:
        self.context_providers = [self.tenant]
        self.ran: list[tuple[str, str, str]] = []

    async def tenant(self, context: RequestContext, messages: Sequence[Message]) -> list[str]:
        await trio.lowlevel.checkpoint()
        return [f"{context.kind} of {context.tenant_id}, {len(messages)} messages"]

    def before_tool_call(self, event: BeforeToolCall) -> Allow | Deny:
        if event.arguments["to"] == "eve":
            return Deny("eve is not paid")
        return Allow({"to": f"{event.arguments['to']} of {event.context.tenant_id}"})

    async def after_tool_call(self, event: AfterToolCall) -> None:
        await trio.lowlevel.checkpoint()
        self.ran.append((event.tool, event.outcome, event.context.session_id))


async def test_plugins_of_the_host_reach_into_turns_and_again_after_a_restart(tmp_path: Path) -> None:
    path, guard = tmp_path / "agentrail.db", Guard()
    calls = [call("pay", {"to": "ann"}), call("pay", {"to": "eve"})]
    script: list[Element] = [say(calls=calls), "done", say(calls=calls[1:]), "done"]
    model = ScriptedModel(script)
    spec = SessionSpec(model=model, tools=[pay])
    for number in (1, 2):
        async with open_desk(spec, [guard], journal=SqliteJournal(path)) as desk:
            assert (await chat(desk.ann, "pay", session="trip")).json()["text"] == "done"
            messages = (await desk.ann.get("/v1/sessions/trip/messages")).json()["items"]
            problem = [message["parts"][0]["text"] for message in messages if message["$"] == "ToolMessage"]
            assert problem[: number + 1] == ["paid ann of acme", *["blocked by HostTools: eve is not paid"] * number]
    assert guard.ran == [("pay", "ok", "ann.trip")]
    added = [
        [message.text for message in request.messages if "of acme, " in message.text] for request in model.requests
    ]
    assert added == [["chat of acme, 1 messages"]] * 2 + [["chat of acme, 6 messages"]] * 2


async def test_the_host_has_providers_of_its_own_before_those_of_profiles_and_also_after_a_restart(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(["one", "two"])
    profile = Profile("desk", SessionSpec(model=model), context_providers=[lambda *_: ["of the profile"]])
    for _ in range(2):
        host = Host(
            [profile],
            authenticator=ApiKeys(lines=LINES),
            journal=SqliteJournal(tmp_path / "agentrail.db"),
            context_providers=[lambda context, _: [f"of {context.tenant_id}"]],
        )
        async with desk_of(host) as desk:
            await chat(desk.ann, "hi", session="trip")
    added = [request.messages[-1].text for request in model.requests]
    assert added == ["of acme\n\nof the profile"] * 2


@pytest.mark.parametrize("bad", [3, ["text"], [lambda _: []]])
def test_providers_that_cannot_be_asked_are_refused(bad: object) -> None:
    with pytest.raises(BadPlugin, match="`context_providers`"):
        Host([Profile("desk", SessionSpec())], context_providers=cast("Any", bad))


@pytest.mark.long
async def test_sessions_come_back_without_the_plugins_of_the_host_that_reached_into_their_turns(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    model = ScriptedModel([say(calls=[call("pay", {"to": "eve"})]), "held no more", "done"])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(["pay"])])
    async with open_desk(spec, [Guard()], journal=SqliteJournal(path)) as desk:
        held = (await chat(desk.ann, "pay", session="trip")).json()["held"][0]["id"]
    async with open_desk(spec, journal=SqliteJournal(path)) as desk:
        assert (await desk.ann.post("/v1/sessions/trip/approve", json={"approval": held})).status_code == 204
        assert (await chat(desk.ann, "hi", session="trip")).json()["text"] == "done"
        fork = (await desk.ann.post("/v1/sessions/trip/fork", json={"session": "other"})).json()["session"]
        assert fork == "ann.other"
        problem = (await desk.ann.get("/v1/sessions/other/messages")).json()["items"]
        assert [message["parts"][0]["text"] for message in problem if "parts" in message] == [
            "pay",
            "paid eve",
            "held no more",
            "hi",
            "done",
        ]
    added = [
        [message.text for message in request.messages if "of acme, " in message.text] for request in model.requests
    ]
    assert added == [["chat of acme, 1 messages"], ["chat of acme, 1 messages"], []]


# Restarts


async def test_sessions_of_tenants_come_back_by_their_profiles(tmp_path: Path) -> None:
    built: list[tuple[str, str, str]] = []

    async def build(context: RequestContext) -> SessionSpec:
        await trio.sleep(0.01)
        built.append((context.kind, context.tenant_id, context.agent_id))
        return SessionSpec(model=ScriptedModel([context.tenant_id, stall(after=1), "back"]))

    witness = Witness()
    path = tmp_path / "agentrail.db"
    async with open_desk([Profile("desk", build)], journal=SqliteJournal(path)) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).json()["text"] == "acme"
        assert (await chat(desk.clients["eve"], "hi", session="trip")).json()["text"] == "evil"
        accepted = await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "stay"})
        assert accepted.status_code == 202
        while not (await desk.ann.get("/v1/sessions/trip")).json()["status"]["turn_open"]:  # noqa: ASYNC110 - by HTTP
            await trio.sleep(0.05)
    async with open_desk([Profile("desk", build)], [witness], journal=SqliteJournal(path)) as desk:
        await until(lambda: "persisted chat ann.trip" in witness.heard)
        assert (await chat(desk.clients["eve"], "and?", session="trip")).json()["text"] == "evil"
    assert built == [
        ("chat", "acme", "desk"),
        ("chat", "evil", "desk"),
        ("none", "acme", "desk"),
        ("none", "evil", "desk"),
    ]


async def test_a_session_whose_profile_is_gone_harms_no_other(tmp_path: Path) -> None:
    path = tmp_path / "agentrail.db"
    two = [Profile("old", scripted("one")), Profile("new", scripted("two", "three"))]
    async with open_desk(two, journal=SqliteJournal(path)) as desk:
        await chat(desk.ann, "hi", session="a", agent="old")
        await chat(desk.ann, "hi", session="b", agent="new")
        unknown = await chat(desk.ann, "hi", session="c", agent="nwe")
        assert (unknown.status_code, unknown.json()["to_do"]) == (404, "did you mean `new`?")
    async with open_desk(two[1:], journal=SqliteJournal(path)) as desk:
        refused = await chat(desk.ann, "and?", session="a")
        assert refused.json()["type"] == "urn:agentrail:problem:spec-missing"
        assert (await chat(desk.ann, "and?", session="b")).json()["text"] == "three"
        listed = (await desk.ann.get("/v1/sessions")).json()["items"]
        assert [row["agent"] for row in listed] == ["old", "new"]


# Further calls


async def test_the_tree_has_the_sessions_of_the_tenant_alone() -> None:
    async with open_desk(scripted("one", "two", "three")) as desk:
        await chat(desk.ann, "hi", session="trip")
        for session in ("trip", "spy"):
            await chat(desk.clients["eve"], "hi", session=session)
        assert (await desk.ann.get("/v1/tree")).status_code == 403
        for name, sessions in (("boss", ["ann.trip"]), ("eve", ["ann.trip", "ann.spy"])):
            tree = (await desk.clients[name].get("/v1/tree")).json()
            assert [child["name"] for child in tree["children"]] == sessions


async def test_a_model_is_switched_by_name() -> None:
    profile = Profile("desk", SessionSpec(model="demo"), models=["demo:slow", "nobody:y"])
    async with open_desk(lambda _: profile) as desk:
        await desk.clients["boss"].post("/v1/sessions", json={"session": "trip"})
        path = "/v1/sessions/boss.trip/model"
        assert (await desk.clients["boss"].post(path, json={"model": "demo:slow"})).status_code == 204
        body = (await desk.clients["boss"].get("/v1/sessions/trip")).json()
        assert body["status"]["model"] == "demo:slow"
        for names in ("openai:gpt-4o", ["demo", "openai:gpt-4o"]):
            other = await desk.clients["boss"].post(path, json={"model": names})
            assert (other.status_code, other.json()["type"]) == (422, "urn:agentrail:problem:not-registered")
            assert "but `demo`, `demo:slow`, `nobody:y`" in other.json()["found"]
        unknown = await desk.clients["boss"].post(path, json={"model": "nobody:y"})
        assert (unknown.status_code, unknown.json()["type"]) == (422, "urn:agentrail:problem:unknown-model")


MISSING_KEY: Final = SessionSpec(model="openai:gpt-4o", model_options={"api_key": Secret("NO_SUCH_KEY")})
NOBODYS: Final = "cannot set up the session `h.acme.ann.trip`: there is no model `nobody:x`; known here"
UNKNOWN_OPTION: Final = (
    "cannot set up the session `h.acme.ann.trip`: `openai:x` does not take these options: there is no"
)
LACKS_KEY: Final = (
    "there is no key for this provider: `NO_SUCH_KEY` is not set; set it, or name another one by the option"
)


@pytest.mark.parametrize(
    ("spec", "source", "kind", "problem"),
    [
        (SessionSpec(model="nobody:x"), "/v1/sessions", "model-missing", NOBODYS),
        (SessionSpec(model="nobody:x"), "/v1/chat", "model-missing", NOBODYS),
        (SessionSpec(model="openai:x", model_options={"zork": 1}), "/v1/sessions", "bad-model-options", UNKNOWN_OPTION),
        (
            MISSING_KEY,
            "/v1/chat",
            "model-error",
            f"a model of `h.acme.ann.trip` (desk) failed: KeyMissing: {LACKS_KEY}",
        ),
    ],
)
async def test_what_the_host_has_set_up_wrongly_is_no_fault_of_the_request(
    spec: SessionSpec, source: str, kind: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_desk([Profile("desk", lambda _: spec)]) as desk:
        body = {"session": "trip"}
        refused = await desk.ann.post(source, json={**body, "message": "hi"} if source.endswith("chat") else body)
        assert (refused.status_code, refused.json()["type"]) == (502, f"urn:agentrail:problem:{kind}")
        assert "NO_SUCH_KEY" not in refused.text
    warnings = [record for record in caplog.records if record.levelname == "WARNING"]
    about, answered = [record for record in warnings if record.name != "agentrail.watchdog"]  # of a busy machine
    assert about.message.startswith(problem)
    assert answered.message.startswith("cannot ")


async def test_the_log_says_what_a_cloud_lacks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)
    async with open_desk(SessionSpec(model="vertex:gemini-3-flash-preview")) as desk:
        assert (await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})).status_code == 502
    texts = [record.message for record in caplog.records if record.levelname == "WARNING"]
    about = (
        "there are no credentials for this provider: cannot use the credentials of Google Cloud: it needs packages of"
    )
    assert texts[0].startswith(f"the profile `desk` cannot use its model `vertex:gemini-3-flash-preview`: {about}")
    assert texts[1].startswith(f"a model of `h.acme.ann.trip` (desk) failed: CredentialsMissing: {about}")


async def test_the_log_says_which_sub_agent_lacks_a_key_at_any_depth(caplog: pytest.LogCaptureFixture) -> None:
    helper = MISSING_KEY.but(description="helps")
    middle = agent([task("helper"), "done"], agents={"helper": helper})
    desk_spec = SessionSpec(
        model=ScriptedModel([task("helper"), task("middle"), "well"]), agents={"helper": helper, "middle": middle}
    )
    async with open_desk(desk_spec) as desk:
        answered = await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        assert (answered.status_code, answered.json()["text"]) == (200, "well")
    messages = [record.message for record in caplog.records if "failed" in record.message]
    assert messages == [
        f"a model of `h.acme.ann.trip.{child}` (desk) failed: KeyMissing: {LACKS_KEY} `api_key`"
        for child in ("c3", "c5.c3")
    ]


async def test_the_log_has_no_words_of_a_provider(caplog: pytest.LogCaptureFixture) -> None:
    async with open_desk(scripted(fail(KeyRefused("you said: blue whale")))) as desk:
        assert (await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})).status_code == 502
    about, answered = [record for record in caplog.records if record.levelname == "WARNING"]
    assert about.message == "a model of `h.acme.ann.trip` (desk) failed: KeyRefused: the session's events say more"
    assert (answered.exc_info, answered.exc_text) == (None, None), "the line about the model says why"


async def test_at_its_start_a_host_warns_of_each_model_whose_key_is_missing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("MISTRAL_API_KEY", "mk")
    claude = SessionSpec(model="anthropic:claude-sonnet-5", description="thinks")
    profiles = [
        Profile("desk", claude.but(agents={"helper": claude, "heir": SessionSpec(description="inherits")})),
        Profile("editor", MISSING_KEY, models=["mistral:mistral-large-latest", "demo", "gpt-5"]),
        Profile("own", SessionSpec(model=["ollama:llama3", ScriptedModel([])])),
    ]
    async with open_desk(profiles):
        pass
    messages = [record.message for record in caplog.records if record.levelname == "WARNING"]
    no_key = "there is no key for this provider"
    assert [line.removeprefix("the profile ").partition("; ")[0] for line in messages] == [
        f"`desk` cannot use its model `anthropic:claude-sonnet-5`: {no_key}: `ANTHROPIC_API_KEY` is not set",
        f"`editor` cannot use its model `openai:gpt-4o`: {no_key}: `NO_SUCH_KEY` is not set",
        "`editor` cannot use its model `gpt-5`: there is no model `gpt-5` (did you mean `openai:gpt-5`?)",
    ]


KEYS_WANTED: Final = (
    "`authenticator`; give an object with `async def identify(self, headers)`, such as `ApiKeys(path)`, or None"
)
BAD_PARTS: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "keys": ({"authenticator": "keys.txt"}, f"cannot take a `str`, which has no method `identify`, as {KEYS_WANTED}"),
    "a class": ({"authenticator": ApiKeys}, "cannot take the class `ApiKeys`, and no object of it, as `authenticator`"),
    "a path": (
        {"journal": "kept.db"},
        "cannot take a `str`, which has no method `claim`, as `journal`; give an object",
    ),
}


DEMO: Final = SessionSpec(model="demo")
BAD_PROFILES: Final[dict[str, tuple[Any, str]]] = {
    "none": ([], "cannot take an empty list as `profiles`; give at least one `Profile`, such as `Profile("),
    "one alone": (Profile("desk", DEMO), "cannot take a `Profile` as `profiles`; give a list of `Profile`"),
    "swapped": (
        [cast("Any", Profile)(DEMO, "desk")],
        "cannot use the profile 'SessionSpec': its `id` must be a text, and comes first: `Profile(",
    ),
    "two of a name": ([Profile("a", DEMO)] * 2, "two of this name; give one of them another `id`"),
}


@pytest.mark.parametrize(("profiles", "problem"), BAD_PROFILES.values(), ids=BAD_PROFILES)
def test_a_host_is_not_made_of_profiles_that_are_none(profiles: Profiles, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        Host(profiles)
    assert problem in str(refused.value)


async def test_a_field_that_is_not_known_is_told_with_those_that_there_are() -> None:
    async with open_desk(scripted("one")) as desk:
        misspelt = (await desk.ann.post("/v1/chat", json={"mesage": "hi"})).json()["found"]
        other = (await desk.ann.post("/v1/sessions/trip/steer", json={"zork": 1})).json()["found"]
    assert misspelt.endswith("it has the key `mesage`, which is not known (did you mean `message`?)")
    assert "`zork`, which is not known (its fields are `text`, `when`" in other


@pytest.mark.parametrize(("parts", "problem"), BAD_PARTS.values(), ids=BAD_PARTS)
def test_a_host_is_not_made_of_what_is_none_of_its_parts(parts: dict[str, Any], problem: str) -> None:
    with pytest.raises(WrongType) as refused:
        Host([Profile("desk", SessionSpec(model="demo"))], **parts)
    assert str(refused.value).startswith(problem)


NO_SPACE: Final = "the disk is full"


async def test_a_host_whose_journal_is_full_at_the_start_serves(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryJournal):
        async def claim(
            self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
        ) -> Claim:
            raise JournalFull(NO_SPACE)

    async with open_desk(scripted("one"), journal=Full()) as desk:
        assert (await desk.ann.get("/healthz")).status_code == 200
    assert "the journal cannot be written now: " in caplog.text


@pytest.mark.parametrize(
    "profile",
    [
        Profile("desk", SessionSpec(model="gpt-5")),
        Profile("desk", SessionSpec(model=["demo", "gpt-5"])),
        Profile("desk", SessionSpec(model="demo", agents={"a": SessionSpec(model="gpt-5", description="a")})),
    ],
)
async def test_a_host_does_not_serve_a_profile_with_a_model_of_no_provider(profile: Profile) -> None:
    problem = (
        r"cannot use the profile 'desk': there is no model `gpt-5` \(did you mean `openai:gpt-5`\?\); .*`mistral:…`"
    )
    with pytest.raises(BadProfile, match=problem):
        async with open_desk([profile]):
            pass


# Clients that nobody here wrote


@pytest.mark.long
async def test_curl_talks_to_it() -> None:
    async with open_desk(scripted("one", "two three")) as desk:
        values: list[Any] = [
            await trio.run_process(
                [
                    *[
                        "curl",
                        "--silent",
                        "--noproxy",
                        "*",
                        "--no-buffer",
                        "-H",
                        f"Authorization: Bearer {KEYS['ann']}",
                    ],
                    *["-H", "Content-Type: application/json", "-d", '{"message": "hi", "session": "trip"}'],
                    desk.serving.url + path,
                ],
                capture_stdout=True,
            )
            for path in ("/v1/chat", "/v1/stream")
        ]
        assert json.loads(values[0].stdout)["text"] == "one"
        assert json.loads(frames(values[1].stdout.decode())[-1]["data"])["text"] == "two three"


async def test_the_document_of_a_host_is_made_when_it_is_asked_for() -> None:
    """A start does not pay for it: after a deployment, clients wait for that."""
    _build_document.cache_clear()
    async with open_desk(scripted("one")) as desk:
        assert (await desk.ann.get("/healthz")).status_code == 200
        assert _build_document.cache_info().currsize == 0
        first, second = [await desk.ann.get("/openapi.json") for _ in range(2)]
        assert _build_document.cache_info().currsize == 1
        assert (first.content, first.headers["etag"]) == (second.content, second.headers["etag"])


async def test_each_call_of_the_table_answers_or_is_not_there() -> None:
    async with open_desk(scripted("one")) as desk:
        document = (await desk.ann.get("/openapi.json")).json()
        assert set(document["paths"]) >= {"/v1/chat", "/v1/sessions/{id}/events", "/healthz"}
        page = await desk.ann.get("/")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "/openapi.json" in page.text
        assert page.headers["content-security-policy"].startswith("default-src 'none'; base-uri 'none';")


async def test_a_stream_of_a_session_that_is_deleted_ends_with_the_problem() -> None:
    async with open_desk(scripted(stall(after=1))) as desk:
        eve = desk.clients["eve"]
        await eve.post("/v1/sessions", json={"session": "trip"})
        await eve.post("/v1/sessions/trip/prompt", json={"message": "stay"})
        async with listening(desk, "POST", "/v1/stream", message="next", user="eve") as listener:
            await listener.until(lambda text: "PromptQueued" in text)
            assert (await eve.delete("/v1/sessions/trip")).status_code == 200
            last = frames(await listener.until(lambda text: "event: problem" in text))[-1]
        assert last["event"] == "problem"
