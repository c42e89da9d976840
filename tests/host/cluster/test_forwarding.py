"""A request for a session of another host is passed on to it, and the client notices nothing."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from agentrail import SessionSpec, connect, tool
from agentrail.errors import BadChoice, BadConnection, ClusterFault, SessionHeld
from agentrail.events import AgentEnd, Envelope, Gap
from agentrail.host import ApiKeys, Cluster, Host, HostLimits, HostPlugin, Identity, Profile, RequestContext
from agentrail.host.authentication.identity import ForwardedIdentity
from agentrail.host.cluster.forwarding import MAX_HOPS, PAUSE
from agentrail.host.cluster.signatures import FRESH, SignedCall, read_signature, signed_key
from agentrail.journals import NO_LEASE, Claim, Lease, MemoryJournal
from agentrail.plugins import HumanApproval
from agentrail.ports.journal import SLOTS, slot_claim
from agentrail.remote.transport.host_address import HostAddress
from agentrail.runtime.shared.clock import Clock
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say
from tests.free_port import free_port
from tests.host.cluster.several import KEY, KNOWN_LEASE, LEASE, open_member, two_members, until_known
from tests.host.hosted import CERTIFICATES, KEYS, LINES, Desk, frames, listening
from tests.host.uploaded.test_uploads import sizes
from tests.host.websocket.talking import SocketMessage, talking
from tests.patience import PATIENCE, within


def talks() -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))


def running(*desks: Desk) -> list[int]:
    """Return how many sessions run on each of *desks*."""
    return [len(desk.serving.supervisor.sessions()) for desk in desks]


async def test_whoever_is_asked_answers() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        opened = await first.ann.post("/v1/sessions", json={"session": "trip"})
        assert opened.status_code == 201
        for desk in (second, first):
            answer = await desk.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
            assert (answer.status_code, answer.json()["text"]) == (200, "fine")
        answer = await second.ann.post("/v1/sessions/trip/prompt", json={"message": "hi"})
        assert answer.status_code == 202
        missing = await second.ann.post("/v1/sessions/none/prompt", json={"message": "hi"})
        assert missing.status_code == 404
        assert running(first, second) == [1, 0]


async def test_a_stream_of_another_host_is_passed_on_as_it_comes() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        answers = [
            await desk.ann.post("/v1/stream", json={"session": "trip", "message": "hi"}) for desk in (first, second)
        ]
        assert [answer.headers["content-type"] for answer in answers] == ["text/event-stream"] * 2
        names = [[frame["event"] for frame in frames(answer.text)] for answer in answers]
        assert names[1][-1] == "reply"
        assert set(names[0]) == set(names[1])
        async with listening(second, "GET", "/v1/sessions/trip/events", since="0.0") as listener:
            text = await listener.until(lambda text: text.count("event: AgentEnd") == 2)
        async with listening(first, "GET", "/v1/sessions/trip/events", since="0.0") as listener:
            own_text = await listener.until(lambda text: text.count("event: AgentEnd") == 2)
        events = [frame for frame in frames(text) if "event" in frame]
        assert events == frames(own_text)
        assert running(first, second) == [1, 0]


async def test_a_stream_too_many_is_refused_before_the_other_host_takes_the_prompt() -> None:
    limits = HostLimits(drain_seconds=0.3, streams=1)
    async with two_members(MemoryJournal(), talks(), limits=limits) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        async with listening(second, "GET", "/v1/sessions/trip/events", since="0.0"):
            refused = await second.ann.post("/v1/stream", json={"session": "trip", "message": "hi"})
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:agentrail:problem:too-many-streams")
        response = await first.ann.get("/v1/sessions/trip/messages")
        assert response.json()["items"] == []


async def test_a_stream_that_is_passed_on_counts_where_its_client_is_alone() -> None:
    limits = HostLimits(drain_seconds=0.3, streams=1)
    async with two_members(MemoryJournal(), talks(), limits=limits) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        async with listening(first, "GET", "/v1/sessions/trip/events"):
            answer = await second.ann.post("/v1/stream", json={"session": "trip", "message": "hi"})
        assert answer.status_code == 200
        assert "too-many-streams" not in answer.text


async def test_a_remote_handle_works_on_a_session_of_another_host() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        await until_known(first, second)
        async with connect(second.serving.url, KEYS["ann"]) as supervisor:
            session = supervisor.session("trip")
            seen: list[Envelope] = []
            async with session.subscribe(since=0) as events:
                assert (await session.ask("hi")).text == "fine"
                with trio.fail_after(PATIENCE):
                    async for envelope in events:
                        seen.append(envelope)
                        if isinstance(envelope.event, AgentEnd):
                            break
            durable = [envelope.seq for envelope in seen if not envelope.n and not isinstance(envelope.event, Gap)]
            assert durable == list(range(1, durable[-1] + 1))
            assert (await session.status()).phase
            assert running(first, second) == [1, 0]
            async with session.subscribe() as events:
                await session.stop()
                with trio.fail_after(PATIENCE):
                    assert [envelope async for envelope in events]


async def test_a_file_is_as_large_by_way_of_another_host(tmp_path: Path) -> None:
    spec, limits = talks().but(sandbox=LocalSandbox(tmp_path)), HostLimits(file_bytes=3_000_000, drain_seconds=0.3)
    async with two_members(MemoryJournal(), spec, limits=limits) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        for desk in (first, second):
            taken = await upload(desk, limits.file_bytes)
            assert (taken.status_code, taken.json().get("size")) == (201, limits.file_bytes)
            refused = await upload(desk, limits.file_bytes + 1)
            assert (refused.status_code, "more than 3000000 bytes" in refused.text) == (413, True)
        cluster = Cluster(first.serving.url, KEY)
        path, signed = "/v1/sessions/ann.trip/files", b"y" * limits.file_bytes
        key = signed_key(cluster, ANN, cluster.address, Clock().now_ms(), SignedCall("POST", path, "", signed))
        other = await upload(first, limits.file_bytes, path, key)
        assert (other.status_code, other.json()["type"]) == (503, "urn:agentrail:problem:cluster-fault")
    assert sizes(tmp_path) == [limits.file_bytes] * 2


async def upload(
    desk: Desk, size: int, path: str = "/v1/sessions/trip/files", key: str = KEYS["ann"]
) -> httpx.Response:
    async def pieces() -> AsyncGenerator[bytes]:
        yield b"x" * size

    headers = {"authorization": f"Bearer {key}", "content-length": str(size)}
    async with aclosing(pieces()) as content:
        return await desk.ann.post(path, content=content, headers=headers)


async def test_what_one_tenant_does_by_way_of_another_host_stops_no_other_tenant() -> None:
    limits = HostLimits(drain_seconds=0.3, connections=16, connections_per_address=2)
    of_key = 5  # of the 14 that known callers may use
    async with two_members(MemoryJournal(), talks(), limits=limits) as (first, second), AsyncExitStack() as stack:
        for user in ("ann", "eve"):
            await first.clients[user].post("/v1/sessions", json={"session": "trip"})
        for desk in (second, first, second, first)[: of_key - 1]:
            await stack.enter_async_context(listening(desk, "GET", "/v1/sessions/trip/events", since="0.0"))
        for desk in (first, second):
            answer = await desk.clients["eve"].post("/v1/chat", json={"session": "trip", "message": "hi"})
            assert (answer.status_code, answer.json().get("text")) == (200, "fine")
        await stack.enter_async_context(listening(first, "GET", "/v1/sessions/trip/events", since="0.0"))
        refused = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:agentrail:problem:connections-in-use")


class Moved(Cluster):
    """The cluster of a host that first finds the others where another program listens now."""

    def __init__(self, port: int) -> None:
        super().__init__(f"http://127.0.0.1:{free_port()}", KEY, lease=KNOWN_LEASE)
        self.port: int | None = port

    async def find(self, address: str) -> HostAddress | None:
        return await super().find(address if self.port is None else f"http://127.0.0.1:{self.port}")

    def lose(self, address: str) -> None:
        self.port = None


async def hang_up(stream: trio.SocketStream) -> None:
    """Answer as a server of another kind."""
    await stream.receive_some()
    await stream.send_all(b"\x00\x00\x00\x04\x00")


async def test_a_host_is_looked_for_again_where_another_program_listens_at_its_old_port() -> None:
    journal = MemoryJournal()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, hang_up, 0, host="127.0.0.1"))
        cluster = Moved(listeners[0].socket.getsockname()[1])
        async with open_member(journal, talks()) as first, open_member(journal, talks(), cluster=cluster) as second:
            await first.ann.post("/v1/sessions", json={"session": "trip"})
            answer = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
            assert (answer.status_code, answer.json().get("text")) == (200, "fine")
        nursery.cancel_scope.cancel()


async def test_a_view_has_the_sessions_of_a_host_that_is_not_where_it_was() -> None:
    journal, cluster = MemoryJournal(), Moved(free_port())
    async with (
        open_member(journal, talks(), lease=KNOWN_LEASE) as first,
        open_member(journal, talks(), cluster=cluster) as second,
    ):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        await until_known(first, second)
        cluster.port = free_port()
        answer = await second.clients["boss"].get("/v1/tree")
        assert [child["name"] for child in answer.json()["children"]] == ["ann.trip"]


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@pytest.mark.long
async def test_the_tree_and_what_waits_are_those_of_all_hosts() -> None:
    model = ScriptedModel([say(calls=[call("pay", {"to": "Bo"})]), "done"])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(["pay"])])
    async with two_members(MemoryJournal(), spec) as (first, second):
        await until_known(first, second)
        held = await first.ann.post("/v1/chat", json={"session": "trip", "message": "pay"})
        assert held.status_code == 202
        listed = [(await desk.ann.get("/v1/approvals")).json()["items"] for desk in (first, second)]
        assert listed[0] == listed[1]
        (waiting,) = listed[1]
        for desk in (first, second):
            tree = (await desk.clients["boss"].get("/v1/tree")).json()
            assert [child["name"] for child in tree["children"]] == ["ann.trip"]
        assert (await second.clients["eve"].get("/v1/tree")).json()["children"] == []
        decided = await second.ann.post("/v1/sessions/trip/approve", json={"approval": waiting["id"]})
        assert decided.status_code < 300, decided.text
        with trio.fail_after(PATIENCE):
            while (await second.ann.get("/v1/approvals")).json()["items"]:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.01)
        assert running(first, second) == [1, 0]


@pytest.mark.long
async def test_what_waits_on_several_hosts_comes_in_pages() -> None:
    model = ScriptedModel([say(calls=[call("pay", {"to": "Bo"})])], repeat_last=True)
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(["pay"])])
    async with two_members(MemoryJournal(), spec) as (first, second):
        await until_known(first, second)
        for number, desk in enumerate((first, second, first)):
            assert (
                await desk.ann.post("/v1/chat", json={"session": f"s{number}", "message": "pay"})
            ).status_code == 202
        assert running(first, second) == [2, 1]
        for desk in (first, second):
            texts, after = list[str](), ""
            while after is not None:
                page = (await desk.ann.get(f"/v1/approvals?limit=1{after}")).json()
                texts += [call["session"] for call in page["items"]]
                after = page["next"] and f"&after={page['next']}"
            assert texts == ["ann.s0", "ann.s1", "ann.s2"]


class Counting(HostPlugin):
    """Counts the requests that it hears of."""

    name = "counting"
    version = "1"

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_request_start(self, context: RequestContext) -> None:
        self.heard.append(context.session_id)


async def test_plugins_hear_of_a_request_once_and_limits_count_it_once() -> None:
    plugin, limits = Counting(), HostLimits(drain_seconds=0.3, requests_per_second=0.001, burst=3)
    async with two_members(MemoryJournal(), talks(), [plugin], limits) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        for _ in range(3):
            answer = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
            assert answer.status_code == 200
        assert plugin.heard == ["ann.trip"] * 3
        assert (await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})).status_code == 429
        assert (await first.ann.get("/v1/sessions")).status_code == 200


async def test_another_tenant_sees_nothing_of_a_session_on_any_host() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        for desk in (first, second):
            for path in ("/v1/sessions/trip", "/v1/sessions/ann.trip/messages"):
                assert (await desk.clients["eve"].get(path)).status_code == 404
        response = await second.clients["eve"].post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert response.status_code == 200
        assert running(first, second) == [1, 1]


ANN = Identity("acme", "ann", frozenset({"talk"}))


async def asked_with(desk: Desk, key: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        base_url=desk.serving.url, trust_env=False, verify=CERTIFICATES, timeout=PATIENCE
    ) as client:
        return await client.get("/v1/sessions", headers=headers)


async def test_only_a_host_with_the_key_may_ask_for_a_user() -> None:
    async with open_member(MemoryJournal(), talks()) as desk:
        url, now = desk.serving.url, Clock().now_ms()
        cluster = Cluster(url, KEY)
        call = SignedCall("GET", "/v1/sessions")
        good = signed_key(cluster, ANN, url, now, call)
        assert (await asked_with(desk, good)).status_code == 200
        mark, body, seal = good.split(".")
        for bad in (
            good,
            signed_key(Cluster(url, "x" * 32), ANN, url, now, call),
            signed_key(cluster, ANN, "http://127.0.0.1:1", now, call),
            signed_key(cluster, ANN, url, now - FRESH - 10_000, call),
            signed_key(cluster, ANN, url, now + FRESH + 10_000, call),
            signed_key(cluster, ANN, url, now, SignedCall("POST", "/v1/sessions")),
            signed_key(cluster, ANN, url, now, SignedCall("GET", "/v1/tree")),
            signed_key(cluster, ANN, url, now, SignedCall("GET", "/v1/sessions", "limit=1")),
            f"{mark}.{body}.{'0' * len(seal)}",
            f"{mark}.{body[:-4]}.{seal}",
            f"{mark}.{body}",
            f"{mark}..",
        ):
            answer = await asked_with(desk, bad)
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:agentrail:problem:cluster-fault")
        with pytest.raises(ClusterFault):
            read_signature(cluster, f"{mark}.é.{seal}", now)


async def test_a_host_that_runs_something_else_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    journal = MemoryJournal()
    other = SessionSpec(model=ScriptedModel(["fine"], repeat_last=True), system="Be brief.")
    async with (
        open_member(journal, talks()) as first,
        open_member(journal, other) as second,
        open_member(journal, talks()) as third,
    ):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        for desk in (second, third, second):
            answer = await desk.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
            assert answer.status_code == 200
        assert running(first, second, third) == [1, 0, 0]
    (warning,) = [record.getMessage() for record in caplog.records if " runs `" in record.getMessage()]
    assert re.match(r"the host at http://127.0.0.1:\d+ runs `agentrail \S+, desk, \w{8}`, and this one", warning)


async def test_a_request_does_not_go_round_for_ever() -> None:
    journal = MemoryJournal()
    async with two_members(journal, talks()) as (first, second):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        url = second.serving.url
        who = ForwardedIdentity("acme", "ann", frozenset({"talk"}), hops=MAX_HOPS - 1)
        path, body = "/v1/sessions/ann.trip/prompt", b'{"message": "hi"}'
        key = signed_key(Cluster(url, KEY), who, url, Clock().now_ms(), SignedCall("POST", path, "", body))
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=CERTIFICATES, timeout=PATIENCE) as client:
            answer = await client.post(path, headers=headers, content=body)
        assert answer.status_code == 503
        assert answer.json()["type"] == "urn:agentrail:problem:session-held"
        assert running(first, second) == [1, 0]


async def test_a_session_of_a_dead_host_comes_back_where_it_is_asked_for() -> None:
    journal = MemoryJournal()
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
    dead = f"http://127.0.0.1:{free_port()}"
    async with open_member(journal, talks(), lease=LEASE) as second:
        await journal.claim("h.acme.ann.trip", dead, Lease(Clock().now_ms(), int(LEASE * 1000)))
        began = trio.current_time()
        answer = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert (answer.status_code, answer.json()["text"]) == (200, "fine")
        assert LEASE / 2 < trio.current_time() - began < within(LEASE + 1)
        assert running(second) == [1]


async def test_a_host_that_refuses_connections_and_renews_no_lease_is_not_waited_for() -> None:
    journal = MemoryJournal()
    async with open_member(journal, talks()) as first:
        for name in ("trip", "fresh"):
            await first.ann.post("/v1/chat", json={"session": name, "message": "hi"})
    dead = f"http://127.0.0.1:{free_port()}"
    async with open_member(journal, talks()) as second:
        missing, fresh = Lease(Clock().now_ms(), 39_000), Lease(Clock().now_ms(), 60_000)
        await journal.claim("h.acme.ann.trip", dead, missing)  # it was renewed 21 seconds ago
        with trio.fail_after(PATIENCE):
            answer = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert (answer.status_code, answer.json()["text"]) == (200, "fine")
        await journal.claim("h.acme.ann.fresh", dead, fresh)
        with trio.move_on_after(0.5) as waited:  # it has missed nothing yet
            await second.ann.post("/v1/chat", json={"session": "fresh", "message": "hi"})
        assert waited.cancelled_caught


async def test_a_listener_on_a_websocket_waits_in_the_host_for_the_session_of_a_dead_one() -> None:
    journal = MemoryJournal()
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
    dead = f"http://127.0.0.1:{free_port()}"
    async with open_member(journal, talks()) as second, talking(second) as talker:
        await journal.claim("h.acme.ann.trip", dead, Lease(Clock().now_ms(), 39_000))
        with trio.fail_after(PATIENCE):
            await talker.say(id="e", listen="events", session="trip", since="0")
            assert await talker.heard() == {"id": "e", "cursor": "0.0"}
        assert running(second) == [1]


async def test_a_listener_to_a_session_of_another_host_is_told_where_its_subscription_begins() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        for more in ({}, {"since": "2.0"}):
            begun = list[SocketMessage]()
            for desk in (first, second):
                async with talking(desk) as talker:
                    await talker.say(id="e", listen="events", session="trip", **more)
                    begun.append(await talker.heard())
            assert begun[0] == begun[1] != {"id": "e", "cursor": "0.0"}


async def test_the_conversation_of_a_session_of_another_host_is_told_as_there() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        heard: list[list[SocketMessage]] = []
        for desk in (first, second):
            async with talking(desk) as talker:
                await talker.say(id="t", listen="transcript", session="trip", since="0")
                heard.append(await talker.until(lambda frame: "AgentEnd" in str(frame)))
                await talker.say(id="r", listen="transcript", session="trip", since=heard[0][4]["cursor"])
                heard[-1] += [
                    {**frame, "id": "t"} for frame in await talker.until(lambda frame: "AgentEnd" in str(frame))
                ]
        assert running(first, second) == [1, 0]
    assert heard[0] == heard[1]
    assert any("gap" in frame for frame in heard[1])


class CountingJournal(MemoryJournal):
    """Notes when sessions are claimed that others hold, and is away for a while when somebody claims the first."""

    def __init__(self, away: float = 0.0) -> None:
        super().__init__()
        self.refused: list[float] = []
        self._away = away

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        try:
            return await super().claim(session_id, holder, lease, take_over=take_over)
        except SessionHeld:
            await trio.sleep(self._away)
            self._away = 0.0
            self.refused.append(trio.current_time())
            raise


@pytest.mark.campaign
@pytest.mark.long
async def test_those_who_wait_for_the_session_of_a_dead_host_ask_the_journal_together() -> None:
    journal, dead = CountingJournal(), f"http://127.0.0.1:{free_port()}"
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
    async with open_member(journal, talks()) as second:
        await journal.claim("h.acme.ann.trip", dead, Lease(Clock().now_ms(), 60_000))
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(partial(second.ann.post, "/v1/sessions/trip/prompt", json={"message": "hi"}))
            while len(refused := [time for time in journal.refused if time > journal.refused[0] + 1.0]) < 3:  # noqa: ASYNC110 - no event tells of it
                await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
    assert refused[2] - refused[0] > PAUSE


@pytest.mark.campaign
@pytest.mark.long
async def test_all_who_wait_are_answered_as_soon_as_the_lease_has_ended() -> None:
    journal, statuses = MemoryJournal(), list[int]()
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})

    async def prompt(desk: Desk) -> None:
        statuses.append((await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "hi"})).status_code)

    async with trio.open_nursery() as around:
        listeners = await around.start(partial(trio.serve_tcp, hang_up, 0, host="127.0.0.1"))
        holder = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        async with open_member(journal, talks(), lease=LEASE) as second:
            await journal.claim("h.acme.ann.trip", holder, Lease(Clock().now_ms(), int(1500 * LEASE)))
            async with trio.open_nursery() as nursery:
                for _ in range(12):
                    nursery.start_soon(prompt, second)
        around.cancel_scope.cancel()
    assert statuses == [202] * 12


async def test_the_patience_of_a_listener_begins_when_the_journal_is_there() -> None:
    journal, dead = CountingJournal(away=2.5 * LEASE), f"http://127.0.0.1:{free_port()}"
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
    async with open_member(journal, talks(), lease=LEASE) as second, talking(second) as talker:
        await journal.claim("h.acme.ann.trip", dead, Lease(Clock().now_ms(), int(3000 * LEASE)))
        with trio.fail_after(PATIENCE):
            await talker.say(id="e", listen="events", session="trip", since="0")
            assert await talker.heard() == {"id": "e", "cursor": "0.0"}


async def test_a_session_that_a_dead_host_claimed_and_did_not_begin_is_opened() -> None:
    journal, dead = MemoryJournal(), f"http://127.0.0.1:{free_port()}"
    await journal.claim("h.acme.ann.trip", dead, Lease(Clock().now_ms(), 500))
    async with open_member(journal, talks()) as desk:
        with trio.fail_after(PATIENCE):
            answer = await desk.ann.post("/v1/sessions", json={"session": "trip"})
    assert answer.status_code == 201, answer.text


class OvertakenJournal(MemoryJournal):
    """Has another host take over the first session that is taken over, before anything is written to it."""

    is_overtaken = False

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        claim = await super().claim(session_id, holder, lease, take_over=take_over)
        if take_over and not self.is_overtaken:
            self.is_overtaken = True
            await super().claim(session_id, f"http://127.0.0.1:{free_port()}", lease.but(lasts=500), take_over=True)
        return claim


class TakenJournal(MemoryJournal):
    """Has another host claim a session of a dead one as soon as somebody was refused it."""

    def __init__(self, other: str) -> None:
        super().__init__()
        self._other = other
        self.claims: list[Claim] = []

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        try:
            return await super().claim(session_id, holder, lease, take_over=take_over)
        except SessionHeld:
            if not self.claims:
                self.claims.append(await super().claim(session_id, self._other, lease, take_over=True))
            raise


async def test_a_session_that_another_host_has_taken_over_is_not_taken_from_it() -> None:
    alive, dead = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    journal = TakenJournal(alive)
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
    async with open_member(journal, talks()) as second:
        await journal.claim("h.acme.ann.trip", dead, Lease(Clock().now_ms(), 39_000))
        with trio.move_on_after(0.5):
            await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert not await journal.renew(journal.claims, Lease(Clock().now_ms(), 60_000))


async def test_two_hosts_that_take_over_at_once_both_answer() -> None:
    journal, dead = OvertakenJournal(), f"http://127.0.0.1:{free_port()}"
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
    async with open_member(journal, talks()) as second:
        await journal.claim("h.acme.ann.trip", dead, Lease(Clock().now_ms(), 39_000))
        with trio.fail_after(PATIENCE):
            answer = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert (answer.status_code, answer.json()["text"], journal.is_overtaken) == (200, "fine", True)


async def test_a_host_that_hears_and_does_not_answer_is_waited_for_as_long_as_its_lease() -> None:
    journal = MemoryJournal()
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
    with socket.create_server(("127.0.0.1", 0)) as stopped:
        address = f"http://127.0.0.1:{stopped.getsockname()[1]}"
        lease = Lease(Clock().now_ms(), int(LEASE * 1000))
        for name in ("h.acme.ann.trip", slot_claim(0)):
            await journal.claim(name, address, lease)
        async with open_member(journal, talks(), lease=LEASE) as second:
            with trio.fail_after(within(3 * LEASE)):
                answer = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
            assert (answer.status_code, answer.json()["text"]) == (200, "fine")


async def test_a_session_of_a_program_that_is_no_host_is_refused_at_once() -> None:
    journal = MemoryJournal()
    async with open_member(journal, talks()) as first:
        await first.ann.post("/v1/sessions", json={"session": "trip"})
    async with open_member(journal, talks()) as second:
        await journal.claim("h.acme.ann.trip", "worker-1", Lease(Clock().now_ms(), 60_000))
        with trio.fail_after(within(1.0)):
            answer = await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert answer.status_code == 503


class Homes(Cluster):
    """A cluster in which each session has its home at the same host, and a host in front runs none."""

    def __init__(self, url: str, home: str) -> None:
        super().__init__(url, KEY, lease=KNOWN_LEASE)
        self._home = home
        self.slots = frozenset(range(SLOTS)) if url == home else frozenset()
        self.members = frozenset({home}) - {url}

    def home(self, session_id: str) -> str | None:
        assert session_id.startswith("h.acme.ann.")
        return self._home


class Frozen(Homes):
    """The same, and the home is first found where nobody answers."""

    def __init__(self, url: str, home: str, port: int) -> None:
        super().__init__(url, home)
        self._port = port

    async def find(self, address: str) -> HostAddress | None:
        return HostAddress("127.0.0.1", self._port)

    async def find_again(self, address: str) -> HostAddress | None:
        self._port = int(address.rpartition(":")[2])
        return await self.find(address)


async def say_nothing(_: trio.SocketStream) -> None:
    """Accept, as the system of a process does that is stopped."""
    await trio.sleep_forever()


async def test_what_waits_where_a_shard_is_stopped_is_sent_to_where_it_is_now() -> None:
    journal, home = MemoryJournal(), f"http://127.0.0.1:{free_port()}"
    front = f"http://127.0.0.1:{free_port()}"
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, say_nothing, 0, host="127.0.0.1"))
        cluster = Frozen(front, home, listeners[0].socket.getsockname()[1])
        async with (
            open_member(journal, talks(), cluster=Homes(home, home)),
            open_member(journal, talks(), cluster=cluster) as first,
        ):
            with trio.fail_after(PATIENCE):
                answer = await first.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
            assert answer.json()["text"] == "fine"
        nursery.cancel_scope.cancel()


async def test_a_session_runs_at_its_home_whoever_is_asked() -> None:
    journal, home = MemoryJournal(), f"http://127.0.0.1:{free_port()}"
    front = f"http://127.0.0.1:{free_port()}"
    async with (
        open_member(journal, talks(), cluster=Homes(home, home)) as shard,
        open_member(journal, talks(), cluster=Homes(front, home)) as first,
    ):
        for path, body in (
            ("/v1/chat", {"session": "trip", "message": "hi"}),
            ("/v1/chat", {"message": "hi"}),
            ("/v1/sessions", {}),
            ("/v1/sessions/trip/fork", {"session": "copy"}),
            ("/v1/sessions/trip/prompt", {"message": "hi"}),
        ):
            answer = await first.ann.post(path, json=body)
            assert answer.status_code < 300, answer.text
        assert (await first.ann.post("/v1/chat", json={"session": 5})).status_code == 422
        async with connect(front, KEYS["ann"]) as supervisor:
            session = await supervisor.spawn("desk")
            async with session.subscribe(since=0) as events:
                assert (await session.ask("hi")).text == "fine"
                assert (await anext(events)).seq == 1
        tree = (await first.clients["boss"].get("/v1/tree")).json()
        assert len(tree["children"]) == 5
        assert running(first, shard) == [0, 5]


async def test_a_program_with_the_key_asks_without_a_host_in_front_for_as_long_as_it_is_connected() -> None:
    async with two_members(MemoryJournal(), talks()) as (first, second):
        await until_known(first, second)
        await second.ann.post("/v1/chat", json={"session": "trip", "message": "hi"})
        url = first.serving.url
        who = Identity("acme", "ann", frozenset({"talk", "observe"}))
        call = SignedCall("GET", "/v1/ws")
        key = signed_key(Cluster(url, KEY), who, url, Clock().now_ms(), call, is_first=True)
        async with connect(url, key) as supervisor:
            session = await supervisor.spawn("desk", "other")
            async with httpx.AsyncClient(
                base_url=url, trust_env=False, verify=CERTIFICATES, timeout=PATIENCE
            ) as client:
                again = await client.get("/v1/ws", headers={"authorization": f"Bearer {key}"})
            assert (again.status_code, again.json()["type"]) == (503, "urn:agentrail:problem:cluster-fault")
            assert (await session.ask("hi")).text == "fine"
            assert {child.name for child in (await supervisor.tree()).children} == {"ann.trip", "ann.other"}


@pytest.mark.parametrize("lacks", ["journal", "authenticator"])
def test_a_cluster_needs_what_its_hosts_share(lacks: str) -> None:
    parts = {"journal": MemoryJournal(), "authenticator": ApiKeys(lines=LINES)}
    del parts[lacks]
    with pytest.raises(BadChoice, match="cluster="):
        Host([Profile("desk", talks())], cluster=Cluster("http://10.0.0.5:1", KEY), **parts)  # type: ignore[arg-type]


def test_a_cluster_wants_an_address_a_long_key_and_a_lease() -> None:
    with pytest.raises(BadConnection):
        Cluster("nowhere", KEY)
    for key, lease in (("short", 10.0), (KEY, 0.5)):
        with pytest.raises(BadChoice):
            Cluster("http://127.0.0.1:1", key, lease=lease)
    assert KEY not in repr(Cluster("http://127.0.0.1:1", KEY))
