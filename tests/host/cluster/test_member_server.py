"""A socket for the other hosts alone answers what they have signed, and nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest

from agentrail.cli.host.workers.worker_link import reserve_port
from agentrail.host import Cluster, Host, HostLimits, Identity, Profile
from agentrail.host.cluster.signatures import SignedCall, signed_key
from agentrail.journals import MemoryJournal
from agentrail.runtime.shared.clock import Clock
from tests.host.cluster.several import KEY, LEASE
from tests.host.cluster.test_forwarding import talks
from tests.patience import PATIENCE

USER = Identity("local", "you", frozenset({"talk"}))
PATH = "/v1/sessions"


@asynccontextmanager
async def member(journal: MemoryJournal) -> AsyncGenerator[tuple[Cluster, httpx.AsyncClient]]:
    """Serve a host whose other hosts have a socket of their own; yield its cluster, and a client."""
    with reserve_port() as listener:
        listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        cluster = Cluster(url, KEY, lease=LEASE, descriptor=listener.detach())
    host = Host([Profile("desk", talks())], journal=journal, cluster=cluster, limits=HostLimits(drain_seconds=0.3))
    async with (
        host.serving() as serving,
        httpx.AsyncClient(
            base_url=serving.url,
            headers={"authorization": f"Bearer {cluster.local_token}"},
            trust_env=False,
            timeout=PATIENCE,
        ) as client,
    ):
        yield cluster, client


async def test_the_hosts_reach_each_other_there_and_share_the_token_for_this_machine() -> None:
    journal = MemoryJournal()
    async with member(journal) as (_, first), member(journal) as (_, second):
        await first.post(PATH, json={"session": "trip"})
        answer = await second.post("/v1/chat", json={"session": "trip", "message": "hi"})
        assert (answer.status_code, answer.json()["text"]) == (200, "fine")
        assert first.headers == second.headers


@pytest.mark.parametrize("path", [PATH, "/healthz", "/", "/v1/none"])
async def test_what_no_host_has_signed_is_refused(path: str) -> None:
    async with member(MemoryJournal()) as (cluster, client):
        now = Clock().now_ms()
        forged = Cluster(cluster.address, "f" * 32)
        call = SignedCall("GET", path)
        keys = {
            f"Bearer {cluster.local_token}": 401,
            "": 401,
            f"Bearer {signed_key(forged, USER, cluster.address, now, call)}": 503,
            f"Bearer {signed_key(cluster, USER, 'http://127.0.0.1:1', now, call)}": 503,
        }
        for key, status in keys.items():
            assert (await client.get(cluster.address + path, headers={"authorization": key})).status_code == status
        signed = f"Bearer {signed_key(cluster, USER, cluster.address, now, SignedCall('GET', PATH))}"
        assert (await client.get(cluster.address + PATH, headers={"authorization": signed})).status_code == 200


@pytest.mark.parametrize("header", [{"host": "agents.example"}, {"origin": "https://pages.example"}])
async def test_what_a_page_may_send_is_refused(header: dict[str, str]) -> None:
    async with member(MemoryJournal()) as (cluster, client):
        call = SignedCall("GET", PATH)
        signed = f"Bearer {signed_key(cluster, USER, cluster.address, Clock().now_ms(), call)}"
        answer = await client.get(cluster.address + PATH, headers={"authorization": signed, **header})
        assert answer.status_code == 403
