"""Hosts believe each other for one request and for seconds, by a key that can be replaced, and no user pays for it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from agentrail.errors import BadChoice, ClusterFault
from agentrail.host import ApiKeys, Cluster, Host, HostLimits, Profile
from agentrail.host.authentication.api_keys import KeyFile
from agentrail.host.cluster.signatures import AGAIN, FRESH, SignedCall, UsedNumbers, read_signature, signed_key
from agentrail.journals import Journal, MemoryJournal
from agentrail.runtime.shared.clock import Clock
from tests.free_port import free_port
from tests.host.cluster.played_holder import journal_with, played_holder
from tests.host.cluster.several import KEY, KNOWN_LEASE, LONG_LEASE, open_member, until_known
from tests.host.cluster.test_forwarding import ANN, running, talks
from tests.host.hosted import KEYS, LINES, Desk
from tests.host.websocket.talking import talking
from tests.patience import PATIENCE

FAULT = "urn:agentrail:problem:cluster-fault"
CHAT = {"session": "trip", "message": "hi"}
OLD, NEW = "o" * 32, "n" * 32


async def status_of(desk: Desk, key: str, method: str, path: str, body: bytes = b"") -> int:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    async with httpx.AsyncClient(base_url=desk.serving.url, trust_env=False, timeout=PATIENCE) as client:
        return (await client.request(method, path, headers=headers, content=body)).status_code


@pytest.mark.long
async def test_a_signature_is_for_one_request() -> None:
    path, body = "/v1/sessions/ann.trip/prompt", b'{"message": "hi"}'
    async with open_member(MemoryJournal(), talks()) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        cluster = Cluster(desk.serving.url, KEY)
        key = signed_key(cluster, ANN, cluster.address, Clock().now_ms(), SignedCall("POST", path, "", body))
        for other in (("POST", "/v1/sessions", body), ("DELETE", "/v1/sessions/ann.trip", b"")):
            assert await status_of(desk, key, *other) == 503
        assert await status_of(desk, key, "POST", path + "?more=1", body) == 503
        assert await status_of(desk, key, "POST", path, body) == 202
        assert await status_of(desk, key, "POST", path, body) == 503
        key = signed_key(cluster, ANN, cluster.address, Clock().now_ms(), SignedCall("POST", path, "", body))
        assert await status_of(desk, key, "POST", path, body.replace(b"hi", b"no")) == 503
        text = (await desk.ann.get("/v1/sessions/trip/messages")).text
        assert '"hi"' in text
        assert '"no"' not in text


@pytest.mark.parametrize("ahead", [-FRESH, 0, FRESH])
def test_a_signature_is_taken_once_also_if_the_clock_of_its_host_is_ahead_or_behind(ahead: int) -> None:
    cluster, used, now = Cluster("http://127.0.0.1:80", KEY), UsedNumbers(), 1_000_000

    def take(key: str, now_ms: int) -> None:
        used.use(read_signature(cluster, key, now_ms).number, now_ms)

    key = signed_key(cluster, ANN, cluster.address, now + ahead, SignedCall("GET", "/v1/sessions"))
    take(key, now)
    for later in range(0, ahead + FRESH + 1, FRESH // 4):
        take(signed_key(cluster, ANN, cluster.address, now + later, SignedCall("GET", "/v1/agents")), now + later)
        with pytest.raises(ClusterFault, match=AGAIN):
            take(key, now + later)
    with pytest.raises(ClusterFault, match="the clock of the host"):
        take(key, now + ahead + FRESH + 1)


async def test_what_was_signed_before_a_host_began_is_signed_again() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    cluster = Cluster(address, KEY)
    key = signed_key(cluster, ANN, address, Clock().now_ms() - 1000, SignedCall("GET", "/v1/sessions"))
    async with open_member(MemoryJournal(), talks(), cluster=Cluster(address, KEY, lease=LONG_LEASE)):
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE) as client:
            answer = await client.get("/v1/sessions", headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (503, "urn:agentrail:problem:host-closing")


async def test_a_user_with_a_good_key_hears_of_a_fault_of_the_cluster(caplog: pytest.LogCaptureFixture) -> None:
    journal = MemoryJournal()
    async with (
        open_member(journal, talks(), lease=KNOWN_LEASE) as first,
        open_member(journal, talks(), key="x" * 32, lease=KNOWN_LEASE) as second,
    ):
        await first.ann.post("/v1/sessions", json={"session": "trip"})
        caplog.clear()
        answer = await second.ann.post("/v1/chat", json=CHAT)
        assert (answer.status_code, answer.json()["type"]) == (503, FAULT)
        assert second.serving.url not in answer.text
        assert first.serving.url not in answer.text
        lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert any("with none of the keys of the cluster" in line for line in lines)
        assert any(first.serving.url in line and "does not take what this one signs" in line for line in lines)
        async with talking(second) as talker:
            await talker.say(id="e", listen="events", session="trip", since="0")
            assert FAULT in str(await talker.heard())
        await until_known(first, second)
        rows = (await second.clients["boss"].get("/v1/tree/rows")).json()
        assert rows["missing"] == [first.serving.url]


async def test_a_host_of_an_older_version_that_refuses_a_signature_is_a_fault_too() -> None:
    old = (
        b'HTTP/1.1 401 Unauthorized\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n{"type": "x"}'
    )
    async with played_holder(old) as holder:
        journal = await journal_with(holder.address, talks())
        async with open_member(journal, talks()) as desk:
            answer = await desk.ann.post("/v1/chat", json=CHAT)
    assert (answer.status_code, answer.json()["type"]) == (503, FAULT)


async def test_no_key_of_a_client_goes_to_the_host_that_runs_its_session() -> None:
    answer = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\r\n{}"
    secrets = {"x-api-key": "s1", "cookie": "id=s2", "x-user": "s3", "proxy-authorization": "s4", "api-token": "s5"}
    async with played_holder(answer) as holder:
        journal = await journal_with(holder.address, talks())
        async with open_member(journal, talks()) as desk:
            headers = {**secrets, "idempotency-key": "once", "accept-language": "de"}
            await desk.ann.post("/v1/chat", json=CHAT, headers=headers)
    assert not secrets.keys() & holder.headers.keys()
    assert KEYS["ann"].encode() not in holder.heads[-1]
    assert holder.headers["idempotency-key"] == "once"
    assert holder.headers["content-type"] == "application/json"


# Keys of users


def file_of_keys(path: Path) -> KeyFile:
    path.write_text(LINES, encoding="utf-8")
    path.chmod(0o600)
    return KeyFile(path)


@asynccontextmanager
async def place_with_keys(journal: Journal, keys: KeyFile, lease: float = LONG_LEASE) -> AsyncGenerator[str]:
    """Serve a host of the cluster with a file of keys of its own; yield its address."""
    address = f"http://127.0.0.1:{free_port()}"
    host = Host(
        [Profile("desk", talks())],
        authenticator=ApiKeys(keys.path),
        journal=journal,
        limits=HostLimits(heartbeat_seconds=0.2, drain_seconds=0.3),
        cluster=Cluster(address, KEY, lease=lease),
    )
    async with host.serving(int(address.rpartition(":")[2])):
        yield address


async def test_a_key_that_is_withdrawn_at_one_host_uses_none_of_its_sessions_by_way_of_another(tmp_path: Path) -> None:
    journal, headers = MemoryJournal(), {"authorization": f"Bearer {KEYS['ann']}"}
    keys, others = file_of_keys(tmp_path / "first.txt"), file_of_keys(tmp_path / "second.txt")
    async with (
        place_with_keys(journal, keys) as first,
        place_with_keys(journal, others) as second,
        httpx.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE) as ann,
    ):
        assert (await ann.post(f"{first}/v1/sessions", json={"session": "trip"})).status_code == 201
        assert (await ann.post(f"{second}/v1/chat", json=CHAT)).status_code == 200
        async with ann.stream("GET", f"{second}/v1/sessions/trip/events?since=0") as stream:
            name = next(key.id for key in keys.keys().values() if key.identity.user == "ann")
            keys.withdraw(name)
            with trio.fail_after(PATIENCE):
                text = "".join([piece async for piece in stream.aiter_text()])
        assert "urn:agentrail:problem:key-withdrawn" in text
        answer = await ann.post(f"{second}/v1/chat", json=CHAT)
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:agentrail:problem:key-withdrawn")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert (await ann.get(f"{second}/v1/agents")).status_code == 200  # of that host itself, which has the key


async def test_a_key_that_is_withdrawn_at_one_host_sees_nothing_of_it_when_all_hosts_are_asked(tmp_path: Path) -> None:
    journal, headers = MemoryJournal(), {"authorization": f"Bearer {KEYS['boss']}"}
    keys, others = file_of_keys(tmp_path / "first.txt"), file_of_keys(tmp_path / "second.txt")
    async with (
        place_with_keys(journal, keys, KNOWN_LEASE) as first,
        place_with_keys(journal, others, KNOWN_LEASE) as second,
        httpx.AsyncClient(headers=headers, trust_env=False, timeout=PATIENCE) as boss,
    ):

        async def missing() -> list[str]:
            answer = (await boss.get(f"{second}/v1/tree/rows")).json()
            assert isinstance(answer, dict)
            return list(answer["missing"])

        async def seen() -> bool:
            tree = (await boss.get(f"{second}/v1/tree")).json()
            return any(child.get("host") == first for child in tree["children"])

        await boss.post(f"{first}/v1/sessions", json={"session": "trip"})
        with trio.fail_after(PATIENCE):
            while not await seen():  # noqa: ASYNC110 - it hears of the other host in its own time
                await trio.sleep(0.05)
        assert await missing() == []
        keys.withdraw(next(key.id for key in keys.keys().values() if key.identity.user == "boss"))
        with trio.fail_after(PATIENCE):
            while await missing() != [first]:  # noqa: ASYNC110 - the file is read again in its own time
                await trio.sleep(0.05)


# The key of the cluster


@pytest.mark.parametrize(
    ("of_first", "of_second", "answers"),
    [
        (f"{OLD} {NEW}", OLD, True),
        (f"{OLD} {NEW}", f"{NEW} {OLD}", True),
        (NEW, f"{NEW} {OLD}", True),
        (f"{NEW} {OLD}", f"{OLD}\n{NEW}\n", True),
        (NEW, OLD, False),
    ],
)
async def test_the_key_of_a_cluster_is_replaced_host_by_host(of_first: str, of_second: str, answers: bool) -> None:
    journal = MemoryJournal()
    async with (
        open_member(journal, talks(), key=of_first) as first,
        open_member(journal, talks(), key=of_second) as second,
    ):
        for opens, asks, name in ((first, second, "one"), (second, first, "two")):
            await opens.ann.post("/v1/sessions", json={"session": name})
            answer = await asks.ann.post("/v1/chat", json={"session": name, "message": "hi"})
            assert (answer.status_code == 200) is answers
        assert running(first, second) == [1, 1]


@pytest.mark.parametrize("key", ["", "short", f"{OLD} short", f"{OLD} {NEW} {KEY}"])
def test_each_of_at_most_two_keys_is_long(key: str) -> None:
    with pytest.raises(BadChoice, match="the new key and the one before"):
        Cluster("http://127.0.0.1:1", key)
