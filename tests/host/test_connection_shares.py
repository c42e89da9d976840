"""One caller cannot lock out the others: the connections of a host are shared, by tenant and by key."""

from __future__ import annotations

import json
import re
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

import httpx
import pytest
import trio
import trio.testing

from agentrail.host import ApiKeys, Host, HostLimits, Identity, Profile
from agentrail.host.requests.connection_slots import MAX_HEARD, SILENT
from tests.host.hosted import CERTIFICATES, KEYS, LINES, Desk, desk_of, open_desk, scripted
from tests.host.http11.served import everything, statuses
from tests.host.rfc6455.raw_peer import KEY
from tests.host.websocket.talking import finding_of, problem, talking
from tests.kit import Element
from tests.patience import PATIENCE

MOST: Final = 20
IN_USE: Final = MOST - MOST // 8
OF_KEY: Final = IN_USE // 3
OF_TENANT: Final = IN_USE // 2
OF_SECOND_KEY: Final = 2
"""Connections of a key while another one of its tenant uses `OF_KEY`."""
PATIENT: Final = HostLimits(
    drain_seconds=0.5,
    requests_per_second=1e6,
    burst=10**6,
    connections_per_address=10_000,
    ping_seconds=1e6,
    body_seconds=1e6,
)
"""All that could end the connections of these clients, besides the shares, takes long."""
LIMITS: Final = PATIENT.but(connections=MOST)


def sent(kind: str, user: str | None, session: str = "trip") -> bytes:
    """Return what a client sends for a connection of a *kind*, which then stays in use."""
    body = json.dumps({"message": "stay", "session": session}).encode()
    line, headers, rest = {
        "socket": (
            "GET /v1/ws",
            ["Upgrade: websocket", "Connection: upgrade", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY}"],
            b"",
        ),
        "body": (
            "POST /v1/chat",
            ["Content-Type: application/json", f"Content-Length: {len(body)}", "Expect: 100-continue"],
            b"",
        ),
        "stream": ("GET /v1/sessions/trip/events", [], b""),
        "sessions": ("GET /v1/sessions", [], b""),
        "health": ("GET /healthz", [], b""),
        "chat": ("POST /v1/chat", ["Content-Type: application/json", f"Content-Length: {len(body)}"], body),
    }[kind]
    keys = [] if user is None else [f"Authorization: Bearer {KEYS[user]}"]
    return "\r\n".join([f"{line} HTTP/1.1", "Host: localhost", *keys, *headers, "", ""]).encode() + rest


BEGUN: Final = {"socket": 101, "body": 100, "stream": 200}
"""Status of the first answer, by which a client of each kind knows that its connection is in use."""


def _is_whole(answer: bytes | bytearray) -> bool:
    """Whether an answer is there with its content, if it has any whose length it says."""
    head, end, content = answer.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    return bool(end) and (length is None or len(content) >= int(length[1]))


class Crowd:
    """Connections of clients that stay."""

    def __init__(self, desk: Desk) -> None:
        host, _, port = desk.serving.url.removeprefix("http://").partition(":")
        self._address = host, int(port)
        self.streams: list[trio.SocketStream] = []

    async def connect(self, first: bytes) -> trio.SocketStream:
        """Connect a client that sends something."""
        stream = await trio.open_tcp_stream(*self._address)
        self.streams.append(stream)
        await stream.send_all(first)
        return stream

    async def join(self, kind: str, user: str | None) -> tuple[trio.SocketStream, str]:
        """Connect a client, and return its first answer."""
        stream = await self.connect(sent(kind, user))
        answer = bytearray()
        with trio.fail_after(60):
            while not _is_whole(answer):
                piece = await stream.receive_some(65536)
                assert piece
                answer += piece
        return stream, answer.decode()

    async def join_unread(self, nursery: trio.Nursery, path: str, user: str | None) -> None:
        """Connect a client that sends one request after the other, and reads no more than the first status."""
        created = trio.socket.socket()
        created.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await created.connect(self._address)
        stream = trio.SocketStream(created)
        self.streams.append(stream)
        keys = [] if user is None else [f"Authorization: Bearer {KEYS[user]}"]
        requests = "\r\n".join([f"GET {path} HTTP/1.1", "Host: localhost", *keys, "", ""]).encode()

        async def ask() -> None:
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while True:
                    await stream.send_all(requests)

        nursery.start_soon(ask)
        with trio.fail_after(60):
            assert await stream.receive_some(12) == b"HTTP/1.1 200"

    async def fill(self, kind: str, user: str, number: int) -> list[str]:
        """Connect so many clients; return the answers to those that were refused."""
        answers = [(await self.join(kind, user))[1] for _ in range(number)]
        return [answer for answer in answers if not answer.startswith(f"HTTP/1.1 {BEGUN[kind]} ")]

    async def close(self) -> None:
        for stream in self.streams:
            await trio.aclose_forcefully(stream)


@asynccontextmanager
async def crowded(limits: HostLimits = LIMITS, *script: Element) -> AsyncGenerator[tuple[Desk, Crowd]]:
    async with open_desk(scripted(*(script or ("one",))), limits=limits) as desk:
        for user in ("ann", "bob", "eve"):
            await desk.clients[user].post("/v1/sessions", json={"session": "trip"})
        crowd = Crowd(desk)
        try:
            yield desk, crowd
        finally:
            await crowd.close()


async def status(desk: Desk, user: str) -> int:
    """Return the status of the answer to a user with a connection of their own."""
    async with httpx.AsyncClient(base_url=desk.serving.url, trust_env=False, verify=CERTIFICATES, timeout=60) as client:
        headers = {"authorization": f"Bearer {KEYS[user]}"}
        return (await client.get("/v1/sessions", headers=headers)).status_code


def refusal_facts(answer: str) -> tuple[int, str, str, str]:
    """Return of a refusal its status, kind, what was found, and after how many seconds to try again."""
    head, _, content = answer.partition("\r\n\r\n")
    problem = json.loads(content)
    fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:])
    assert fields["retry-after"] == str(problem["retry_after"])
    kind = str(problem["type"]).removeprefix("urn:agentrail:problem:")
    return problem["status"], kind, problem["found"], fields["retry-after"]


KEY_FULL: Final = (
    429,
    "connections-in-use",
    f"the key uses {OF_KEY} connections, as many as `connections` lets it",
    "5",
)
TENANT_FULL: Final = (
    429,
    "connections-in-use",
    f"the tenant uses {OF_TENANT} connections, as many as `connections` lets it",
    "5",
)


@pytest.mark.parametrize("kinds", [["socket"], ["body"], ["stream"], ["socket", "body", "stream"]])
async def test_one_key_has_its_share_and_all_others_are_answered(kinds: Sequence[str]) -> None:
    async with crowded() as (desk, crowd):
        refused: list[str] = []
        for number in range(MOST):
            refused += await crowd.fill(kinds[number % len(kinds)], "ann", 1)
        assert Counter(map(refusal_facts, refused)) == {KEY_FULL: MOST - OF_KEY}
        assert await status(desk, "ann") == 429
        assert [await status(desk, user) for user in ("bob", "boss", "eve")] == [200, 200, 200]


async def test_a_key_that_comes_as_the_first_message_has_the_same_share() -> None:
    async with crowded() as (desk, crowd):
        assert await crowd.fill("body", "ann", OF_KEY) == []
        async with talking(desk, None) as talker:
            await talker.say(key=KEYS["ann"])
            answer = await talker.heard()
            assert (problem(answer), finding_of(answer)) == KEY_FULL[1:3]
            assert await talker.closed() == (1013, "too many connections are in use; connect again later")
        async with talking(desk, None) as talker:
            await talker.say(key=KEYS["bob"])
            assert (await talker.ask("commands"))["status"] == 200
            assert await crowd.fill("socket", "bob", OF_SECOND_KEY - 1) == []
            assert [refusal_facts(answer)[:2] for answer in await crowd.fill("socket", "bob", 1)] == [KEY_FULL[:2]]


async def test_a_share_is_free_again_when_a_connection_ends() -> None:
    async with crowded() as (desk, crowd):
        for kind in BEGUN:
            assert await crowd.fill(kind, "ann", OF_KEY) == []
            assert await status(desk, "ann") == 429
            await crowd.close()
            with trio.fail_after(60):
                while await status(desk, "ann") != 200:
                    pass


async def test_keys_of_one_tenant_leave_each_other_as_many_as_they_use() -> None:
    async with crowded() as (desk, crowd):
        assert await crowd.fill("socket", "ann", OF_KEY) == []
        assert await crowd.fill("stream", "bob", OF_SECOND_KEY) == []
        assert [await status(desk, user) for user in ("eve", "boss")] == [200, 200]
        assert await crowd.fill("body", "boss", OF_TENANT - OF_KEY - OF_SECOND_KEY) == []
        assert [refusal_facts(answer) for answer in await crowd.fill("socket", "boss", 1)] == [TENANT_FULL]
        assert [await status(desk, user) for user in ("eve", "root")] == [200, 200]


async def test_tenants_leave_each_other_as_many_as_they_use_and_nobody_loses_a_connection() -> None:
    async with crowded() as (desk, crowd):
        for user in ("ann", "bob", "boss"):
            await crowd.fill("stream", user, OF_TENANT)
        for _ in range(3):
            assert await status(desk, "root") == 200
            refused = await crowd.fill("socket", "eve", OF_TENANT)
            assert {refusal_facts(answer)[:2] for answer in refused} == {(429, "connections-in-use")}
        assert await status(desk, "root") == 200
        assert (await crowd.join("socket", "root"))[1].startswith("HTTP/1.1 101 ")
        assert await status(desk, "root") == 200


async def test_a_host_whose_connections_are_all_in_use_refuses_who_comes() -> None:
    async with crowded(LIMITS.but(connections=2)) as (desk, crowd):
        assert await crowd.fill("socket", "ann", 1) == []
        refused = await crowd.fill("socket", "eve", 1)
        assert [refusal_facts(answer)[:2] for answer in refused] == [(503, "too-many-connections")]
        assert "1 connections in use" in refused[0]
        await crowd.close()
        with trio.fail_after(60):
            while await status(desk, "eve") != 200:
                pass


@pytest.mark.long
async def test_connections_of_callers_that_nobody_knows_are_closed_for_those_who_come(
    mock_clock: trio.testing.MockClock,
) -> None:
    async with crowded() as (desk, crowd):
        heads = [await crowd.connect(b"GET /v1/sess") for _ in range(MOST // 2)]
        sockets = [(await crowd.join("socket", None))[0] for _ in range(MOST // 2)]
        assert [await status(desk, user) for user in ("ann", "eve", "ann")] == [200, 200, 200]
        assert refusal_facts((await everything(heads[0])).decode())[:2] == (503, "too-many-connections")
        mock_clock.jump(SILENT)
        for _ in range(MOST):
            assert await status(desk, "ann") == 200
        assert sockets


@pytest.mark.long
async def test_connections_of_callers_that_nobody_knows_and_that_do_not_read_are_closed(
    mock_clock: trio.testing.MockClock,
) -> None:
    limits = LIMITS.but(write_seconds=1e6, answer_seconds=1e6)
    async with crowded(limits) as (desk, crowd), trio.open_nursery() as nursery:
        for _ in range(MOST):
            await crowd.join_unread(nursery, "/openapi.json", None)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(SILENT)
        assert [await status(desk, user) for user in ("ann", "eve", "root")] == [200, 200, 200]
        nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_answers_that_are_not_read_count_for_their_key_alone() -> None:
    limits = LIMITS.but(write_seconds=1e6, answer_seconds=1e6)
    async with crowded(limits, "so many words " * 20_000) as (desk, crowd), trio.open_nursery() as nursery:
        await desk.clients["ann"].post("/v1/chat", json={"message": "go", "session": "trip"})
        await desk.clients["ann"].aclose()  # its connection may still be in use
        for _ in range(OF_KEY):
            await crowd.join_unread(nursery, "/v1/sessions/trip/messages", "ann")
        await trio.testing.wait_all_tasks_blocked()
        assert [await status(desk, user) for user in ("ann", "bob", "eve", "root")] == [429, 200, 200, 200]
        nursery.cancel_scope.cancel()


class Slow:
    """An authenticator that takes for ever to find out whose one of the keys is."""

    def __init__(self) -> None:
        self._keys = ApiKeys(lines=LINES)

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        who = await self._keys.identify(headers)
        if who.user == "bob":
            await trio.sleep_forever()
        return who


async def test_connections_of_callers_whose_keys_take_long_to_check_are_closed(
    mock_clock: trio.testing.MockClock,
) -> None:
    host = Host([Profile("desk", scripted("one"))], authenticator=Slow(), limits=LIMITS)
    async with desk_of(host) as desk:
        crowd = Crowd(desk)
        slow = [await crowd.connect(sent("stream", "bob")) for _ in range(MOST)]
        assert await status(desk, "ann") == 200
        assert refusal_facts((await everything(slow[0])).decode())[:2] == (503, "too-many-connections")
        await crowd.close()
        mock_clock.rate = 10  # for the end of the host, which waits for requests


@pytest.mark.parametrize("line", ["POST /v1/chat", "GET /healthz", "GET /v1/nowhere"])
async def test_a_body_of_a_caller_that_is_not_known_is_not_waited_for(line: str) -> None:
    async with crowded() as (desk, crowd):
        streams = [
            await crowd.connect(f"{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n1".encode())
            for _ in range(MOST)
        ]
        assert await status(desk, "eve") == 200
        for stream in streams:
            assert statuses(await everything(stream))


async def test_with_default_settings_a_crowd_of_one_key_stops_nobody() -> None:
    async with crowded(HostLimits(ping_seconds=1e6, drain_seconds=0.5)) as (desk, crowd):
        for kind in ("socket", "body", "stream"):
            assert await crowd.fill(kind, "ann", 10) == []
        assert [await status(desk, user) for user in ("ann", "bob", "eve")] == [200, 200, 200]


DEFAULT: Final = HostLimits()
OF_KEY_BY_DEFAULT: Final = 292
NO_ROOM: Final = (
    503,
    "too-many-connections",
    (
        f"{DEFAULT.connections_per_address} connections of one address that no known caller uses, as many as "
        "`connections_per_address` lets there be"
    ),
    "1",
)


async def answer_to(crowd: Crowd, path: str, user: str | None = None) -> str:
    """Return the answer to a client with a connection of its own."""
    keys = "" if user is None else f"Authorization: Bearer {KEYS[user]}\r\n"
    stream = await crowd.connect(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{keys}Connection: close\r\n\r\n".encode())
    return (await everything(stream)).decode()


async def answered(crowd: Crowd) -> list[list[int]]:
    """Return the statuses of answers to another tenant, and to those who ask for the health of the host."""
    answers = [
        await answer_to(crowd, "/v1/sessions", "eve"),
        await answer_to(crowd, "/healthz"),
        await answer_to(crowd, "/readyz"),
    ]
    return [statuses(answer.encode()) for answer in answers]


@pytest.mark.long
@pytest.mark.parametrize("kind", [*BEGUN])
async def test_by_default_a_key_that_uses_up_its_share_stops_nobody_of_its_address(
    kind: str, mock_clock: trio.testing.MockClock
) -> None:
    number = OF_KEY_BY_DEFAULT
    most = min(number, DEFAULT.streams) if kind == "stream" else number
    async with crowded(DEFAULT) as (desk, crowd):
        for _ in range(most):
            assert await crowd.fill(kind, "ann", 1) == []
            mock_clock.jump(1.1 / DEFAULT.requests_per_second)
        assert await answered(crowd) == [[200], [200], [200]]
        assert [await status(desk, user) for user in ("bob", "eve")] == [200, 200]
        refused = refusal_facts((await crowd.join(kind, "ann"))[1])
        assert refused[:2] == (429, "too-many-streams" if kind == "stream" else "connections-in-use")
        mock_clock.rate = 10  # for the end of the host, which waits for requests


@pytest.mark.long
@pytest.mark.parametrize("first", [b"", b"GET /v1/sess", sent("socket", None)], ids=["silent", "half", "keyless"])
async def test_by_default_connections_without_a_caller_are_closed_for_others_of_their_address(
    first: bytes,
    mock_clock: trio.testing.MockClock,  # time stands still
) -> None:
    async with crowded(DEFAULT) as (desk, crowd):
        for _ in range(DEFAULT.connections_per_address):
            stream = await crowd.connect(first)
            if first.endswith(b"\r\n\r\n"):
                assert statuses(await stream.receive_some(65536)) == [101]
        await trio.testing.wait_all_tasks_blocked()
        assert await answered(crowd) == [[200], [200], [200]]
        assert [await status(desk, user) for user in ("ann", "eve")] == [200, 200]
        mock_clock.rate = 10  # for the end of the host, which waits for requests


@pytest.mark.parametrize("seconds", [0, 2 * SILENT])
async def test_by_default_half_heads_that_go_on_coming_close_no_new_connection_of_their_address(
    seconds: float, mock_clock: trio.testing.MockClock
) -> None:
    async with crowded(DEFAULT) as (_, crowd):
        for _ in range(DEFAULT.connections_per_address):
            await crowd.connect(b"GET /v1/sess")
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(seconds)
        late = await crowd.connect(b"")  # such as a browser's, or one that begins with TLS
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(DEFAULT.connections_per_address // 2):
            await crowd.connect(b"GET /v1/sess")
            await trio.testing.wait_all_tasks_blocked()
        key = f"Authorization: Bearer {KEYS['eve']}"
        await late.send_all(f"GET /v1/sessions HTTP/1.1\r\nHost: localhost\r\n{key}\r\n\r\n".encode())
        assert statuses(await late.receive_some(65536)) == [200]
        mock_clock.rate = 10  # for the end of the host, which waits for requests


@pytest.mark.long
async def test_by_default_health_is_answered_to_an_address_that_may_have_no_more() -> None:
    begun, go_on = 0, trio.Event()

    async def slow() -> bool:
        nonlocal begun
        begun += 1
        await go_on.wait()
        return True

    limits = DEFAULT.but(drain_seconds=0.5, check_seconds=PATIENCE, loop_lag_seconds=PATIENCE)
    async with open_desk(scripted("one"), limits=limits, checks={"slow": slow}) as desk:
        crowd = Crowd(desk)
        for _ in range(DEFAULT.connections_per_address):
            await crowd.connect(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not begun:
            await trio.testing.wait_all_tasks_blocked()
        assert statuses((await answer_to(crowd, "/healthz")).encode()) == [200]
        refused = await answer_to(crowd, "/")
        assert refusal_facts(refused) == NO_ROOM
        assert "name it with `--proxy`" in refused
        assert statuses((await answer_to(crowd, "/v1/sessions", "eve")).encode()) == [200]
        go_on.set()
        assert statuses((await answer_to(crowd, "/readyz")).encode()) == [200]
        await crowd.close()


@pytest.mark.long
@pytest.mark.parametrize("first", [b"", b"GET /v1/sess", b"\x16\x03\x01"], ids=["silent", "half", "half of TLS"])
async def test_by_default_a_thousand_connections_of_one_address_stop_nobody_there(first: bytes) -> None:
    async with crowded(DEFAULT.but(drain_seconds=0.5)) as (desk, crowd):
        for number in range(1_000):
            await crowd.connect(first)
            if not number % 40:
                assert await answered(crowd) == [[200], [200], [200]]
        assert statuses((await answer_to(crowd, "/")).encode()) == [200]
        figure = (await desk.clients["root"].get("/metrics")).text
        open_ = int(re.findall(r"^agentrail_connections (\d+)", figure, re.MULTILINE)[0])
        assert open_ <= DEFAULT.connections_per_address + MAX_HEARD + 10


async def test_idle_connections_of_others_do_not_cut_the_one_that_a_user_keeps() -> None:
    async with crowded(DEFAULT.but(drain_seconds=0.5)) as (_, crowd):
        stored, answer = await crowd.join("sessions", "ann")
        assert answer.startswith("HTTP/1.1 200 ")
        for _ in range(DEFAULT.connections_per_address * 2):
            await crowd.join("health", None)
        await stored.send_all(sent("sessions", "ann"))
        assert statuses(await stored.receive_some(65536)) == [200]


async def test_two_users_whose_keys_have_the_same_id_have_their_own_share() -> None:
    host = Host([Profile("desk", scripted("one"))], authenticator=SameIds(), limits=LIMITS)
    async with desk_of(host) as desk:
        crowd = Crowd(desk)
        assert await crowd.fill("socket", "ann", OF_KEY) == []
        assert [refusal_facts(answer)[:2] for answer in await crowd.fill("socket", "ann", 1)] == [KEY_FULL[:2]]
        assert [await status(desk, user) for user in ("bob", "boss", "eve")] == [200, 200, 200]
        await crowd.close()


class SameIds:
    """An authenticator whose keys all have the same id."""

    def __init__(self) -> None:
        self._keys = ApiKeys(lines=LINES)

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        return (await self._keys.identify(headers)).but(key="1")
