"""A host in trouble: clients that go too early or come twice, sessions that do not come back, and its own end."""

from __future__ import annotations

import json
import socket
import struct
from collections import Counter
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from agentrail import SessionSpec, open_supervisor
from agentrail.api.limits import DEFAULTS
from agentrail.errors import BadName, BrokenPlugin, CannotListen
from agentrail.events import Envelope, MessageDelta
from agentrail.host import Host, HostLimits, HostPlugin, Profile, RequestContext, RequestEnd, TurnEnd
from agentrail.host.authentication.api_keys import new_key
from agentrail.host.hosted_turns import SessionTurns
from agentrail.host.operations.event_frames import KEPT_BYTES, EventFrames
from agentrail.journals import SqliteJournal
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, stall
from tests.host.hosted import KEYS, frames, listening, open_desk, scripted
from tests.host.test_decisions import pay
from tests.host.test_host import chat, until
from tests.patience import PATIENCE


class Ends(HostPlugin):
    """Notes how requests end."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_request_end(self, context: RequestEnd) -> None:
        self.heard.append(f"{context.kind} {context.outcome} {context.error}")


async def test_a_request_ends_although_its_client_went_before_the_first_byte() -> None:
    ends = Ends()
    async with open_desk(scripted("word " * 300), [ends]) as desk:  # more frames than may wait for a client
        host, _, port = desk.serving.url.removeprefix("http://").partition(":")
        stream = await trio.open_tcp_stream(host, int(port))
        body = json.dumps({"message": "hi", "session": "trip"})
        head = f"POST /v1/stream HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {KEYS['ann']}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        await stream.send_all(f"{head}{body}".encode())
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it is reset, not closed
        await trio.aclose_forcefully(stream)
        await until(lambda: bool(ends.heard))
    assert ends.heard == ["stream finished None"]


def one_approval_then_none() -> list[SessionSpec]:
    """Return two specifications: a session of the first does not come back with the second."""
    model = ScriptedModel(["one"])
    return [SessionSpec(model=model, plugins=[HumanApproval()]), SessionSpec(model=model)]


@pytest.mark.parametrize(("then", "problem"), [("the same", "plugin-mismatch"), ("an exception", "bad-profile")])
async def test_a_session_that_does_not_come_back_is_tried_once(tmp_path: Path, then: str, problem: str) -> None:
    specs, built = one_approval_then_none(), list[str]()

    def build(context: RequestContext) -> SessionSpec:
        built.append(context.kind)
        if then == "an exception" and len(built) > 1:
            raise ValueError(then)
        return specs[min(len(built), len(specs)) - 1]

    path = tmp_path / "agentrail.db"
    async with open_desk([Profile("desk", build)], journal=SqliteJournal(path)) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
    async with open_desk([Profile("desk", build)], journal=SqliteJournal(path)) as desk:
        refused = await chat(desk.ann, "hi", session="trip")
        assert refused.json()["type"] == f"urn:agentrail:problem:{problem}"
        with trio.fail_after(20):  # it comes to rest
            await wait_all_tasks_blocked(0.2)
        assert (await desk.ann.get("/healthz")).status_code == 200
    assert built == ["chat", "none"]


class SlowEnds(Ends):
    """Takes a moment to hear of a turn, and notes whose it was."""

    async def on_turn_persisted(self, context: TurnEnd) -> None:
        await trio.sleep(0.05)
        self.heard.append(f"{context.kind} of {context.agent_id}")


async def test_what_is_known_of_a_session_that_could_not_begin_is_not_taken_for_a_later_one(tmp_path: Path) -> None:
    journal, ends = SqliteJournal(tmp_path / "agentrail.db"), SlowEnds()
    async with open_desk([Profile("desk", scripted("one", "two"))], journal=journal) as desk:
        for _ in range(2):
            assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
    profiles = [Profile("desk", lambda _: SessionSpec(model="nobody:knows")), Profile("other", scripted("one"))]
    async with open_desk(profiles, [ends], journal=journal) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 502
        assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).status_code == 200
        assert (await chat(desk.ann, "hi", session="trip", agent="other")).status_code == 200
    assert ends.heard == ["chat failed ModelMissing", "chat of other", "chat finished None"]


async def test_a_session_that_hibernates_is_woken_by_who_looks_at_it() -> None:
    spec = SessionSpec(model=ScriptedModel(["one", "two"]), hibernate_after=0.5)
    async with open_desk(spec) as desk:
        await chat(desk.ann, "hi", session="trip")

        async def asleep() -> None:
            while (await desk.clients["boss"].get("/v1/tree")).json()["children"][0]["state"] != "asleep":  # noqa: ASYNC110 - by HTTP
                await trio.sleep(0.05)

        with trio.fail_after(20):
            await asleep()
            assert (await desk.ann.get("/v1/sessions/trip")).json()["plugins"] == []
            await asleep()
            items = (await desk.ann.get("/v1/sessions/trip/messages")).json()["items"]
            assert [message["parts"][0]["text"] for message in items] == ["hi", "one"]
            await asleep()
            response = await desk.ann.post("/v1/stream", json={"message": "and?", "session": "trip"})
            assert json.loads(frames(response.text)[-1]["data"])["text"] == "two"


async def test_a_stream_that_is_asked_for_again_ends_with_the_same_reply() -> None:
    async with open_desk(scripted("one", "two")) as desk:
        body, again = {"message": "hi", "session": "trip"}, {"idempotency-key": "k1"}
        with trio.fail_after(20):
            streams = [frames((await desk.ann.post("/v1/stream", json=body, headers=again)).text) for _ in range(2)]
        assert streams[1] == streams[0][-1:]
        assert json.loads(streams[1][0]["data"])["text"] == "one"


async def test_the_name_of_a_sub_agent_is_not_given_to_a_new_session() -> None:
    async with open_desk(scripted("one")) as desk:
        refused = await chat(desk.ann, "hi", session="ann.trip.sub")
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:agentrail:problem:bad-name")
        assert (await desk.ann.get("/v1/sessions")).json()["items"] == []


async def test_two_who_open_a_session_at_once_talk_to_the_same() -> None:
    both, texts = trio.Event(), list[str]()

    async def build(context: RequestContext) -> SessionSpec:
        texts.append(context.session_id)
        if len(texts) == 2:
            both.set()
        await both.wait()
        return scripted("one", "two")

    async with open_desk([Profile("desk", build)]) as desk:
        answers = list[str]()

        async def talk() -> None:
            answered = await chat(desk.ann, "hi", session="trip")
            answers.append(answered.json().get("text", answered.text))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk)
            nursery.start_soon(talk)
        assert (sorted(answers), texts) == (["one", "two"], ["ann.trip", "ann.trip"])


@pytest.mark.long
async def test_who_begins_a_session_at_the_same_time_as_others_is_answered() -> None:
    counts = Counter[int]()
    limits = HostLimits(requests_per_second=10_000, burst=10_000)
    spec = SessionSpec(model=ScriptedModel(["one"], repeat_last=True))
    async with open_desk(spec, limits=limits) as desk:

        async def talk(user: str, session: str) -> None:
            body = {"message": "hi", "session": session}
            counts[(await desk.clients[user].post("/v1/chat", json=body)).status_code] += 1

        for session in range(10):
            async with trio.open_nursery() as nursery:
                for user in ("ann", "bob", "eve") * 5:
                    nursery.start_soon(talk, user, f"s{session}")
    assert counts == {200: 150}


@pytest.mark.parametrize("name", ["command", "model", "self"])
async def test_an_option_of_a_model_with_a_name_of_ours_is_refused(name: str) -> None:
    async with open_desk(SessionSpec(model="demo")) as desk:
        boss = desk.clients["boss"]
        await boss.post("/v1/sessions", json={"session": "trip"})
        refused = await boss.post("/v1/sessions/trip/model", json={"model": "demo", "options": {name: "x"}})
        assert (refused.status_code, refused.json()["type"]) == (422, "urn:agentrail:problem:bad-options")


@pytest.mark.parametrize(
    "options",
    [
        {"base_url": "http://127.0.0.1:9", "api_key": {"secret": "HOME"}},
        {"api_key": {"secret": "HOME"}},
        {"base_url": "http://127.0.0.1:9"},
        {"headers": {"x-more": "1"}},
        {"extra": {"deep": [{"secret": "HOME"}]}},
        {"judge_model": ["vllm:x", {"base_url": "http://127.0.0.1:9"}]},
    ],
)
async def test_a_client_gets_at_no_secret_of_the_host_by_options(options: dict[str, object]) -> None:
    async with open_desk(SessionSpec(model="demo", tools=[pay], plugins=[HumanApproval(tools=["pay"])])) as desk:
        boss = desk.clients["boss"]
        await boss.post("/v1/sessions", json={"session": "trip"})
        for what, body in (
            ("model", {"model": "openai:x"}),
            ("plugins", {"do": "update", "plugin": "HumanApproval"}),
        ):
            refused = await boss.post(f"/v1/sessions/trip/{what}", json={**body, "options": options})
            assert (refused.status_code, refused.json()["type"]) == (422, "urn:agentrail:problem:bad-options")
            assert "the program of the host alone" in refused.json()["found"]
        status = (await boss.get("/v1/sessions/trip")).json()["status"]
        assert status["model"] == "demo"


async def test_a_host_is_served_at_the_loopback_of_ipv6() -> None:
    async with Host([Profile("desk", scripted("one"))]).serving(host="::1") as serving:
        assert serving.url.startswith("http://[::1]:")
        async with httpx.AsyncClient(base_url=serving.url, trust_env=False, timeout=PATIENCE) as client:
            assert (await client.get("/healthz")).status_code == 200


async def test_a_host_that_closes_does_not_wait_for_streams_of_events() -> None:
    limits = HostLimits(drain_seconds=2 * PATIENCE)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            heard = list[str]()
            async with open_desk(scripted("one"), limits=limits) as desk:
                await desk.ann.post("/v1/sessions", json={"session": "trip"})

                async def hear(*, task_status: trio.TaskStatus[None]) -> None:
                    async with listening(desk, "GET", "/v1/sessions/trip/events") as listener:
                        task_status.started()
                        await listener.until(lambda _: False)
                        heard.append(listener.text)

                await nursery.start(hear)
    assert heard == [":\n\n"]


class NeverStarts(HostPlugin):
    """Fails at the start."""

    def start(self, host: object) -> None:
        raise ValueError(host)


async def test_why_a_host_does_not_start_is_one_error() -> None:
    with pytest.raises(BrokenPlugin):
        async with Host([Profile("desk", scripted("one"))], [NeverStarts()]).serving():
            pass
    async with Host([Profile("desk", scripted("one"))]).serving() as serving:
        with pytest.raises(CannotListen):
            async with Host([Profile("desk", scripted("one"))]).serving(int(serving.url.rpartition(":")[2])):
                pass
    with pytest.raises(KeyError):
        async with Host([Profile("desk", scripted("one"))]).serving():
            raise KeyError


async def test_a_session_that_is_opened_or_forked_again_is_the_same() -> None:
    async with open_desk(scripted("one")) as desk:
        for path, key in (("/v1/sessions", "k1"), ("/v1/sessions/trip/fork", "k2")):
            await desk.ann.post("/v1/sessions", json={"session": "trip"})
            responses = [await desk.ann.post(path, json={}, headers={"idempotency-key": key}) for _ in range(2)]
            assert [response.status_code for response in responses] == [201, 201]
            assert responses[0].json() == responses[1].json()
        header = {"idempotency-key": "k3"}
        assert (await desk.ann.post("/v1/sessions", json={"session": "trip"}, headers=header)).status_code == 409


async def test_a_fork_belongs_to_whom_its_past_belongs() -> None:
    async with open_desk(scripted("one")) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        forked = await desk.clients["boss"].post("/v1/sessions/ann.trip/fork", json={"session": "copy"})
        assert (forked.status_code, forked.json()) == (201, {"session": "ann.copy"})
        listed = (await desk.ann.get("/v1/sessions")).json()["items"]
        assert [(response["session"], response["owner"]) for response in listed] == [
            ("ann.copy", "ann"),
            ("ann.trip", "ann"),
        ]
        assert (await desk.ann.get("/v1/sessions/ann.copy/messages")).status_code == 200


@pytest.mark.parametrize(("tenant", "user"), [("", "ann"), ("acme", ""), ("acme", "a" * 41), ("ac\nme", "ann")])
def test_a_key_is_made_for_those_alone_who_can_have_sessions(tenant: str, user: str) -> None:
    with pytest.raises(BadName):
        new_key(tenant, user, ["talk"])


def test_frames_that_are_kept_have_a_limit_in_bytes() -> None:
    event_frames = EventFrames(DEFAULTS)
    events = [Envelope("h.acme.ann.trip", 1, n, 0, 1, 1, MessageDelta("x" * (KEPT_BYTES // 4))) for n in range(6)]
    for event in events:
        event_frames.frame(event)
    encoded = event_frames.encoded
    event_frames.frame(events[-1])
    assert event_frames.encoded == encoded
    event_frames.frame(events[0])
    assert event_frames.encoded == encoded + 1


async def test_a_session_takes_no_task_of_the_host() -> None:
    async with open_desk(scripted(*["well"] * 9)) as desk:
        await chat(desk.ann, "hi", session="first")
        tasks = trio.lowlevel.current_statistics().tasks_living
        for name in ("a", "b", "c"):
            assert (await chat(desk.ann, "hi", session=name)).status_code == 200
        await wait_all_tasks_blocked(0.01)
        assert trio.lowlevel.current_statistics().tasks_living <= tasks


class SlowListener(HostPlugin):
    """Takes its time to hear of a turn, and notes the words of its messages."""

    def __init__(self) -> None:
        self.heard = list[list[str]]()
        self.go_on = trio.Event()

    async def on_turn_persisted(self, context: TurnEnd) -> None:
        await self.go_on.wait()
        self.heard.append([message.text for message in context.messages])


async def test_a_slow_plugin_hears_of_each_turn_in_order_also_of_a_session_that_is_gone() -> None:
    listener = SlowListener()
    async with open_desk(scripted("one", "two", stall(after=1)), [listener]) as desk:
        for message in ("a", "b", "c"):
            assert (await desk.ann.post("/v1/sessions", json={"session": "trip"})).status_code in {201, 409}
            sent = await desk.ann.post("/v1/sessions/trip/prompt", json={"message": message})
            assert sent.status_code == 202
        session = desk.serving.supervisor.session("h.acme.ann.trip")
        await until(lambda: session.inspect().turn_count == 3)
        assert (await desk.ann.post("/v1/sessions/trip/stop", json={})).status_code == 204
        assert (await session.monitor().wait()).session_id == session.id
        assert listener.heard == []
        listener.go_on.set()
        await until(lambda: len(listener.heard) == 3)
    assert [words[0] for words in listener.heard] == ["a", "b", "c"]
    assert listener.heard[:2] == [["a", "one"], ["b", "two"]]


async def test_a_prompt_that_is_dropped_before_its_id_is_known_has_no_end_to_wait_for() -> None:
    async with open_desk(scripted("one")) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        session = desk.serving.supervisor.session("h.acme.ann.trip")
        turns = SessionTurns(session.inspect())
        context = RequestContext("chat", "acme", "ann", "ann.trip", "desk", "r-1")
        with turns.sending(context), turns.sending(context):
            turns.dropped("p1")
            turns.began("p1", context)
        with trio.fail_after(20):
            await turns.wait_ended("p1")


async def test_whoever_waits_for_the_end_of_a_prompt_hears_that_it_is_dropped(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(scripted("one"), "trip")
        turns = SessionTurns(session.inspect())
        turns.began("p1", RequestContext("chat", "acme", "ann", "trip", "", "r-1"))
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(turns.wait_ended, "p1")
                await wait_all_tasks_blocked()
                turns.dropped("p1")


async def test_what_is_told_of_a_prompt_after_its_turn_is_not_kept() -> None:
    async with open_supervisor() as supervisor:
        turns = SessionTurns((await supervisor.spawn(scripted("one"), "trip")).inspect())
        context = RequestContext("chat", "acme", "ann", "trip", "", "r-1")
        turns.ended("p1", 1)
        turns.began("p1", context)
        assert turns.has_ended("p1")
        with turns.sending(context):
            turns.dropped("p2")
        assert not turns._dropped  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - nobody else could tell


async def test_whoever_waits_for_the_end_of_a_prompt_hears_that_its_session_has_ended() -> None:
    async with open_supervisor() as supervisor:
        turns = SessionTurns((await supervisor.spawn(scripted("one"), "trip")).inspect())
        turns.began("p1", RequestContext("chat", "acme", "ann", "trip", "", "r-1"))
        with trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(turns.wait_ended, "p1")
                await wait_all_tasks_blocked()
                turns.closed()


async def test_the_request_of_a_turn_that_was_open_before_anybody_listened_is_known() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(scripted(stall()), "trip")
        accepted = await session.prompt("hi")
        turns = SessionTurns(session.inspect())
        context = RequestContext("chat", "acme", "ann", "trip", "", "r-1")
        turns.began(accepted.ref, context)
        assert turns.current(accepted.ref) is context


async def test_sessions_that_are_opened_at_once_are_counted() -> None:
    most, tries = 2, 6
    here, all_here = list[RequestContext](), trio.Event()

    async def build(context: RequestContext) -> SessionSpec:
        here.append(context)
        if len(here) == tries:
            all_here.set()
        await all_here.wait()
        return scripted("one")

    async with open_desk([Profile("desk", build)], limits=HostLimits(sessions=most)) as desk:
        numbers = list[int]()

        async def open_one() -> None:
            numbers.append((await desk.ann.post("/v1/sessions", json={})).status_code)

        async with trio.open_nursery() as nursery:
            for _ in range(tries):
                nursery.start_soon(open_one)
        assert sorted(numbers) == [201] * most + [429] * (tries - most)
        assert len((await desk.ann.get("/v1/sessions")).json()["items"]) == most


class SlowToHear(HostPlugin):
    """Hears of the first turn that is persisted until it is let go."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.let_go = trio.Event()

    async def on_turn_persisted(self, context: RequestContext) -> None:
        self.heard.append(f"{context.kind} persisted")
        if self.heard.count("chat persisted") == 1 and context.kind == "chat":
            await self.let_go.wait()

    def on_request_end(self, context: RequestEnd) -> None:
        self.heard.append(f"{context.kind} {context.outcome}")


async def test_the_turns_of_a_session_are_not_those_of_a_deleted_one_of_its_name() -> None:
    slow = SlowToHear()
    async with open_desk(scripted("one", "two"), [slow]) as desk:
        eve = desk.clients["eve"]
        await eve.post("/v1/sessions", json={"session": "trip"})
        await eve.post("/v1/sessions/trip/prompt", json={"message": "hi"})
        await until(lambda: "chat persisted" in slow.heard)
        assert (await eve.delete("/v1/sessions/trip")).status_code == 200
        await eve.post("/v1/sessions", json={"session": "trip"})
        assert (await eve.post("/v1/stream", json={"message": "hi", "session": "trip"})).status_code == 200
        await until(lambda: "stream finished" in slow.heard)
        slow.let_go.set()
    assert slow.heard[-2:] == ["stream persisted", "stream finished"]


class SlowWitness(HostPlugin):
    """Notes turns in some slow place."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.hears = trio.Event()

    async def on_turn_persisted(self, context: RequestContext) -> None:
        self.hears.set()
        await trio.sleep(0.1)
        self.heard.append(context.kind)

    def stop(self) -> None:
        self.heard.append("stopped")


@pytest.mark.parametrize("is_kept", [True, False])
async def test_plugins_hear_to_the_end_of_a_turn_that_is_over_when_the_host_ends(tmp_path: Path, is_kept: bool) -> None:
    witness = SlowWitness()
    journal = SqliteJournal(tmp_path / "agentrail.db") if is_kept else None
    async with open_desk(scripted("one", "two"), [witness], journal=journal) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        for message in ("hi", "and?"):
            accepted = await desk.ann.post("/v1/sessions/trip/prompt", json={"message": message})
            assert accepted.status_code == 202
        session = desk.serving.supervisor.session("h.acme.ann.trip")
        await until(lambda: session.inspect().turn_count == 2)  # plugins still hear of the first
        await witness.hears.wait()
    assert witness.heard == ["chat", "chat", "stopped"]
