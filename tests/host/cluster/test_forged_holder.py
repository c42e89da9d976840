"""Who can write leases sends requests of users nowhere but to hosts, and what answers there gets bounded room."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest
import trio

from agentrail.errors import BadChoice
from agentrail.host import Cluster
from agentrail.host.cluster import holder_connection
from tests.free_port import free_port
from tests.host.cluster.played_holder import ENDS, journal_with, played_holder
from tests.host.cluster.several import KEY, open_member
from tests.host.cluster.test_forwarding import talks
from tests.host.websocket.talking import problem, talking
from tests.patience import PATIENCE

CHAT = {"session": "trip", "message": "hi"}
FAULT = "urn:agentrail:problem:cluster-fault"
HELD = "urn:agentrail:problem:session-held"


# Where hosts may be


@pytest.mark.parametrize(
    ("own_address", "networks", "may", "may_not"),
    [
        (
            "http://127.0.0.1:1",
            (),
            ("http://127.0.0.1:2", "http://localhost:2", "http://[::1]:2", "http://127.9.9.9:2", "http://host-2:2"),
            ("http://10.0.0.5:2", "http://93.184.216.34:2", "unix:/run/docker.sock", "http://169.254.169.254"),
        ),
        (
            "http://10.0.0.5:1",
            (),
            (
                "http://10.9.9.9:2",
                "https://192.168.1.1",
                "http://172.20.0.3:2",
                "http://[fd00::7]:2",
                "http://host-2:2",
            ),
            ("http://127.0.0.1:2", "http://169.254.169.254", "http://93.184.216.34", "unix:/s", "http://[fe80::1]:2"),
        ),
        (
            "http://host-1:1",
            ("10.1.0.0/16", "203.0.113.7"),
            ("http://10.1.2.3:2", "http://203.0.113.7:2", "http://[::ffff:10.1.2.3]:2"),
            ("http://10.2.0.1:2", "http://203.0.113.8:2", "http://localhost:2", "unix:/run/agents.sock"),
        ),
        ("unix:/run/first.sock", (), ("unix:/run/second.sock", "http://127.0.0.1:2"), ("http://10.0.0.5:2",)),
    ],
)
def test_where_the_other_hosts_may_be(
    own_address: str, networks: tuple[str, ...], may: tuple[str, ...], may_not: tuple[str, ...]
) -> None:
    cluster = Cluster(own_address, KEY, networks=networks)
    assert [address for address in (*may, *may_not) if cluster.has(address)] == [*may]


@pytest.mark.parametrize("network", ["everywhere", "10.0.0.1/8", "unix"])
def test_a_network_that_is_none_is_refused(network: str) -> None:
    with pytest.raises(BadChoice, match="networks of the other hosts"):
        Cluster("http://10.0.0.5:1", KEY, networks=[network])


class OneName(trio.abc.HostnameResolver):
    """Finds this machine under each name."""

    async def getaddrinfo(self, host: object, port: object, *_: object) -> list[tuple[object, ...]]:  # type: ignore[override]
        await trio.lowlevel.checkpoint()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", int(str(port))))]

    async def getnameinfo(self, sockaddr: object, flags: int) -> tuple[str, str]:
        raise NotImplementedError


async def test_nothing_goes_to_a_place_outside_of_the_networks(caplog: pytest.LogCaptureFixture) -> None:
    trio.socket.set_custom_hostname_resolver(OneName())
    cluster = Cluster(f"http://127.0.0.1:{free_port()}", KEY, lease=1.0, networks=["127.0.0.9"])
    async with played_holder(ENDS + b"\r\n{}") as number, played_holder(ENDS + b"\r\n{}", "host-2") as name:
        for holder, status, kind in ((number, 503, HELD), (name, 503, FAULT)):
            journal = await journal_with(holder.address, talks())
            async with open_member(journal, talks(), cluster=cluster) as desk:
                answer = await desk.ann.post("/v1/chat", json=CHAT)
            assert (answer.status_code, answer.json()["type"]) == (status, kind)
            assert holder.heads == []
    warnings = [record.getMessage() for record in caplog.records if "--member NETWORK" in record.getMessage()]
    assert len(warnings) == 2


async def test_no_request_goes_to_a_socket_of_this_machine(tmp_path: Path) -> None:
    path, heard = tmp_path / "docker.sock", list[bytes]()

    async def serve(stream: trio.SocketStream) -> None:
        heard.append(await stream.receive_some())

    listener = trio.socket.socket(trio.socket.AF_UNIX)
    await listener.bind(str(path))
    listener.listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [trio.SocketListener(listener)])
        journal = await journal_with(f"unix:{path}", talks())
        async with open_member(journal, talks()) as desk:
            answer = await desk.ann.post("/v1/chat", json=CHAT)
        nursery.cancel_scope.cancel()
    assert (answer.status_code, answer.json()["type"]) == (503, HELD)
    assert heard == []


# What answers there


async def flood(stream: trio.SocketStream) -> None:
    """Send a body without end."""
    await stream.send_all(ENDS + b"\r\n")
    while True:
        await stream.send_all(b"x" * 65536)


async def frame_without_end(stream: trio.SocketStream) -> None:
    """Send an event without end."""
    await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
    while True:
        await stream.send_all(b"x" * 65536)


async def drip(stream: trio.SocketStream) -> None:
    """Send a byte of a body now and then."""
    await stream.send_all(ENDS + b"\r\n")
    while True:
        await stream.send_all(b"x")
        await trio.sleep(0.05)


async def silence(_: trio.SocketStream) -> None:
    await trio.sleep_forever()


async def go_on(stream: trio.SocketStream) -> None:
    """Say again and again that the client may go on, and no more."""
    while True:
        await stream.send_all(b"HTTP/1.1 100 Continue\r\n\r\n")
        await trio.sleep(0.05)


@pytest.mark.parametrize("answer", [flood, drip, silence, go_on], ids=lambda answer: answer.__name__)
async def test_an_answer_has_bounded_room_and_time(answer: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder_connection, "CONTENT_BYTES", 1_000_000)
    monkeypatch.setattr(holder_connection, "CONTENT_SECONDS", 0.5)
    monkeypatch.setattr(holder_connection, "HEAD_SECONDS", 0.5)
    async with played_holder(answer) as holder:  # type: ignore[arg-type]  # one of those above
        journal = await journal_with(holder.address, talks())
        async with open_member(journal, talks()) as desk:
            with trio.fail_after(PATIENCE):
                response = await desk.ann.post("/v1/chat", json=CHAT)
    assert (response.status_code, response.json()["type"]) == (503, FAULT)


@pytest.mark.long
async def test_a_holder_that_takes_connections_and_says_nothing_is_told_within_ten_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with played_holder(silence) as holder:
        journal = await journal_with(holder.address, talks())
        cluster = Cluster(f"http://127.0.0.1:{free_port()}", KEY)
        async with open_member(journal, talks(), cluster=cluster) as desk:
            for ask in (desk.ann.post("/v1/chat", json=CHAT), desk.ann.get("/v1/sessions/trip/events?since=0")):
                with trio.fail_after(10):
                    problem = await ask
                assert (problem.status_code, problem.json()["type"]) == (503, FAULT)
        assert caplog.text.count(f"the host at {holder.address} takes requests, answers none") == 2


async def test_a_frame_of_a_stream_has_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holder_connection, "FRAME_BYTES", 1_000_000)
    async with played_holder(frame_without_end) as holder:
        journal = await journal_with(holder.address, talks())
        async with open_member(journal, talks()) as desk:
            with trio.fail_after(PATIENCE):
                response = await desk.ann.get("/v1/sessions/trip/events?since=0")
    assert "host-closing" in response.text
    assert "xxx" not in response.text


async def test_only_headers_that_hosts_send_come_to_the_client() -> None:
    head = (
        b"HTTP/1.1 201 Created\r\ncontent-type: text/html\r\nconnection: close\r\nset-cookie: id=evil\r\n"
        b"access-control-allow-origin: *\r\nlocation: https://evil.example\r\nx-accel-redirect: /etc/passwd\r\n"
        b"refresh: 0; url=https://evil.example\r\ncache-control: no-store\r\nretry-after: 3\r\n\r\n"
    )
    async with played_holder(head + b"<script>alert(1)</script>") as holder:
        journal = await journal_with(holder.address, talks())
        async with open_member(journal, talks()) as desk:
            answer = await desk.ann.post("/v1/chat", json=CHAT)
    own_names = {"date", "content-length", "connection", "x-request-id", "content-type", "cache-control", "retry-after"}
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/octet-stream"
    assert set(answer.headers) <= own_names, set(answer.headers) - own_names


async def test_no_browser_is_made_to_ask_for_a_password() -> None:
    head = b'HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic realm="again"\r\nconnection: close\r\n\r\n'
    async with played_holder(head + b'{"type": "urn:agentrail:problem:key-withdrawn"}') as holder:
        journal = await journal_with(holder.address, talks())
        async with open_member(journal, talks()) as desk:
            answer = await desk.ann.post("/v1/chat", json=CHAT)
    assert (answer.status_code, answer.headers.get("www-authenticate")) == (401, None)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 204 No Content\r\nset-cookie: a=b\r\nconnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/\xff\xfe\r\nconnection: close\r\n\r\n{}",
        b"HTTP/1.1 700 What\r\nconnection: close\r\n\r\n{}",
        b"HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Basic\r\nconnection: close\r\n\r\nlog in",
    ],
)
async def test_no_answer_of_another_program_is_an_error_of_this_host(
    head: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with played_holder(head) as holder:
        journal = await journal_with(holder.address, talks())
        async with open_member(journal, talks()) as desk:
            answer = await desk.ann.post("/v1/chat", json=CHAT)
    assert answer.status_code in {200, 204, 503}
    assert "set-cookie" not in answer.headers
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("content", [b"{}", b"[1]", b"\xff", b'{"items": [{}], "next": 3}', b'{"items": 7}'])
async def test_what_another_program_lists_breaks_no_list(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with played_holder(ENDS + b"\r\n" + content) as holder:
        journal = await journal_with(holder.address, talks())
        cluster = Cluster(f"http://127.0.0.1:{free_port()}", KEY, lease=60)
        cluster.members = frozenset({holder.address})
        async with open_member(journal, talks(), cluster=cluster) as desk:
            for path in ("/v1/approvals", "/v1/sessions/trip", "/v1/sessions/trip/tasks", "/v1/tree", "/v1/tree/rows"):
                answer = await desk.clients["boss"].get(path.replace("trip", "ann.trip"))
                assert answer.status_code in {200, 503}, (path, answer.text)
    assert "answers as no host does" in caplog.text


async def test_a_host_that_tells_no_events_ends_a_conversation_as_a_fault() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    for data in (b"id: 1.0\nevent: AgentEnd\ndata: {}", b'event: gap\ndata: {"from": "x"}', b"event: gap\ndata: []"):
        async with played_holder(head + b"id: 0.0\n\n" + data + b"\n\n") as holder:
            journal = await journal_with(holder.address, talks())
            async with open_member(journal, talks()) as desk, talking(desk) as talker:
                await talker.say(id="t", listen="transcript", session="trip", since="0")
                begun, end = await talker.until(lambda frame: "end" in frame)
        assert (begun["cursor"], problem(end)) == ("0.0", "cluster-fault")
