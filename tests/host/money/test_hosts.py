"""Hosts keep the money of their tenants: over HTTP, two on one journal, as guests, and after a kill -9."""

from __future__ import annotations

import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import httpx
import pytest
import trio

from agentrail import SessionSpec, Supervisor, open_supervisor
from agentrail.errors import BadChoice
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.journals import Balance, Expense, Journal, MemoryJournal, SqliteJournal
from agentrail.testing import ScriptedModel
from tests.host.cluster.several import two_members
from tests.host.commanded import SERVE, commanded
from tests.host.hosted import KEYS, LIMITS, LINES, open_desk
from tests.host.money.desk import build_spec
from tests.host.money.paying import PRICE, balance, in_virtual_time
from tests.patience import within

BILLION = 10**9
LEFT = "usd_per_day=12 of the host has ${} left until 00:00 UTC"


async def asked(client: httpx.AsyncClient, session: str, seconds: float = 0.0) -> tuple[int, str]:
    """Return the status of an answer, and its text or what its problem says."""
    response = await client.post("/v1/chat", json={"message": str(seconds), "session": session})
    body = response.json()
    return response.status_code, body.get("text") or body["detail"]


@pytest.fixture
def limits() -> HostLimits:
    return LIMITS.but(usd_per_day=12.0)


async def test_a_tenant_that_has_spent_its_money_is_told_so_and_others_are_not(limits: HostLimits) -> None:
    journal = MemoryJournal()
    async with open_desk([Profile("desk", build_spec)], journal=journal, limits=limits) as desk:
        for name in ("one", "two", "one"):
            assert await asked(desk.ann, name) == (200, "fine")
        status, problem = await asked(desk.ann, "two")
        assert (status, LEFT.format("9.0000") in problem) == (409, True), problem
        assert await asked(desk.clients["eve"], "one") == (200, "fine")
        assert await balance(journal) == Balance(is_reserved=False, spent=3 * BILLION, reserved=0)
        assert await balance(journal, "evil") == Balance(is_reserved=False, spent=BILLION, reserved=0)


async def test_a_host_without_a_limit_writes_nothing_of_money(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "a.db")
    async with open_desk([Profile("desk", build_spec)], journal=journal) as desk:
        assert await asked(desk.ann, "one") == (200, "fine")
    assert b"money" not in (tmp_path / "a.db").read_bytes()  # noqa: ASYNC240 - nobody else waits


async def test_at_its_start_a_host_warns_of_each_model_whose_price_is_not_known(
    limits: HostLimits, caplog: pytest.LogCaptureFixture
) -> None:
    helper = SessionSpec(model=[ScriptedModel([], name="priced"), ScriptedModel([], name="spare")], description="helps")
    desk = SessionSpec(model="demo", agents={"helper": helper, "heir": SessionSpec(description="inherits")})
    profiles = [
        Profile("desk", desk.but(prices={"priced": PRICE})),
        Profile("editor", desk.but(prices=lambda _, __: 1.0)),
        Profile("own", SessionSpec(model="demo", prices={"demo": PRICE}), models=["demo", "ollama:llama3"]),
        Profile("built", build_spec),
    ]
    for some in (limits, LIMITS):
        async with open_desk(profiles, limits=some):
            pass
    assert [line.partition("; ")[0].partition(": the price")[0] for line in caplog.messages] == [
        "the profile `desk` cannot use its model `demo`",
        "the profile `desk` cannot use its model `spare`",
        "the profile `own` cannot use its model `ollama:llama3`",
    ]
    assert "`demo`: the price of `demo` is not known, so usd_per_day=12 of the host" in caplog.messages[0]


@pytest.mark.long
async def test_two_hosts_on_one_journal_keep_one_limit(tmp_path: Path, limits: HostLimits) -> None:
    journal = SqliteJournal(tmp_path / "a.db")
    spec = build_spec(None)
    async with two_members(journal, spec, limits=limits) as (first, second):
        assert await asked(first.ann, "one") == (200, "fine")
        assert await asked(second.ann, "two") == (200, "fine")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asked, first.ann, "one", 0.3)
            await until_reserved(journal)
            # it waits for the other host's request to end, and has then enough no more
            status, problem = await asked(second.ann, "two")
        assert (status, LEFT.format("9.0000") in problem) == (409, True), problem
        assert await asked(second.clients["eve"], "two") == (200, "fine")
    await journal.close()


@pytest.mark.parametrize("usd", [None, 12.0])
async def test_clients_may_not_give_fields_that_make_a_request_cost_more_than_is_reserved(usd: float | None) -> None:
    async with open_desk(SessionSpec(model="demo"), limits=LIMITS.but(usd_per_day=usd)) as desk:
        boss = desk.clients["boss"]
        await boss.post("/v1/sessions", json={"session": "one"})
        body = {"model": "demo", "options": {"max_tokens": 1, "extra": {"n": 128}}}
        refused = await boss.post("/v1/sessions/one/model", json=body)
        assert ("clients may not give `extra`" in refused.text) is (usd is not None), refused.text


def guest(limits: HostLimits) -> Host:
    return Host([Profile("desk", build_spec)], authenticator=ApiKeys(lines=LINES), limits=limits)


@asynccontextmanager
async def guest_client(host: Host, supervisor: Supervisor) -> AsyncGenerator[httpx.AsyncClient, None]:
    """Open *host* in *supervisor*, and yield ann's client."""
    async with host.asgi(supervisor) as app:
        headers = {"authorization": f"Bearer {KEYS['ann']}"}
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            yield client


async def test_a_guest_reserves_nothing_any_more_when_it_has_ended(limits: HostLimits) -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        async with guest_client(guest(limits), supervisor) as client:
            assert await asked(client, "one") == (200, "fine")
        assert await balance(journal) == Balance(is_reserved=False, spent=BILLION, reserved=0)
        own = await supervisor.spawn(build_spec(None), tenant="acme")
        await own.ask("0")
        assert await balance(journal) == Balance(is_reserved=False, spent=BILLION, reserved=0)


async def test_of_guests_in_one_supervisor_the_least_limit_holds_as_long_as_its_guest(limits: HostLimits) -> None:
    """As of apps with a few routes each, of one host."""
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor, guest_client(guest(limits), supervisor) as first:
        async with guest_client(guest(limits.but(usd_per_day=5.0)), supervisor) as second:
            assert "usd_per_day=5 of the host has $5.0000 left" in (await asked(first, "one"))[1]
        async with guest_client(guest(limits.but(usd_per_day=50.0)), supervisor) as second:
            for client in (first, second, first):
                assert await asked(client, "one") == (200, "fine")
            assert LEFT.format("9.0000") in (await asked(second, "one"))[1]
        assert LEFT.format("9.0000") in (await asked(first, "one"))[1]


@in_virtual_time
async def test_a_request_that_ends_after_its_guest_gives_back_what_it_did_not_cost() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        running, waiting = [await supervisor.spawn(build_spec(None), tenant="acme") for _ in range(2)]
        async with guest(LIMITS.but(usd_per_day=12.0)).asgi(supervisor):
            await running.prompt("40")  # at 60 seconds, it would be given up as stalled
            await trio.sleep(1)
            await waiting.prompt("0")
            await trio.sleep(1)
        assert await balance(journal) == Balance(is_reserved=False, spent=0, reserved=10 * BILLION)
        for session in (running, waiting):
            assert (await session.reply()).text == "fine"
        assert await balance(journal) == Balance(is_reserved=False, spent=2 * BILLION, reserved=0)


# Journals of others


class Careless:
    """A journal of another author, which keeps no money."""

    def __init__(self) -> None:
        self._journal = MemoryJournal()

    def __getattr__(self, name: str) -> object:
        if "money" in name:
            raise AttributeError(name)
        return getattr(self._journal, name)


async def test_a_journal_that_keeps_no_money_is_refused_when_the_host_opens(limits: HostLimits) -> None:
    with pytest.raises(BadChoice, match="this one keeps no money"):
        async with open_desk([Profile("desk", build_spec)], journal=cast("Journal", Careless()), limits=limits):
            pass
    async with open_desk([Profile("desk", build_spec)], journal=cast("Journal", Careless())) as desk:
        assert await asked(desk.ann, "one") == (200, "fine")


class Liar(MemoryJournal):
    """A journal of another author that says nothing of use."""

    async def reserve_money(self, expense: Expense, limit: int) -> Balance:
        await super().reserve_money(expense, limit)
        return cast("Balance", True)


async def test_what_a_journal_of_another_author_says_of_money_is_checked(
    limits: HostLimits, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_desk([Profile("desk", build_spec)], journal=Liar(), limits=limits) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "one"})
        await desk.ann.post("/v1/sessions/one/prompt", json={"message": "0"})
        while "`reserve_money` returned True where a `Balance` is wanted" not in caplog.text:
            await trio.lowlevel.checkpoint()
        # no request was sent, and the turn can be ended
        assert (await desk.ann.post("/v1/sessions/one/abort", json={})).status_code == 204
        assert (await desk.ann.get("/v1/sessions/one")).json()["status"]["usage"]["input_tokens"] == 0


# A kill -9


@pytest.mark.long
async def test_what_a_killed_host_had_reserved_counts_when_its_session_is_back(tmp_path: Path) -> None:
    (tmp_path / "keys.txt").write_text(LINES, encoding="utf-8")  # noqa: ASYNC240 - nobody else waits
    (tmp_path / "keys.txt").chmod(0o600)  # noqa: ASYNC240
    command = [*SERVE, str(Path(__file__).with_name("desk.py"))]
    journal = SqliteJournal(tmp_path / "agentrail.db")
    async with commanded(command, tmp_path) as served, client_of(served.url) as client:
        assert await asked(client, "one") == (200, "fine")
        response = await client.post("/v1/sessions/one/prompt", json={"message": "60"})
        assert response.status_code < 300, response.text
        await until_reserved(journal)
        served.process.kill()
        assert await served.process.wait() == -signal.SIGKILL
    assert await balance(journal) == Balance(is_reserved=False, spent=BILLION, reserved=10 * BILLION)
    async with commanded(command, tmp_path):
        await until_reserved(journal, spent=11)  # the session is back, and asks again
    await journal.close()


async def until_reserved(journal: SqliteJournal, spent: int | None = None) -> None:
    """Wait until a request runs, after so many dollars were spent."""
    with trio.fail_after(within(20)):
        found = await balance(journal)
        while not found.reserved or spent not in (None, found.spent // BILLION):
            await trio.sleep(0.02)
            found = await balance(journal)


def client_of(url: str) -> httpx.AsyncClient:
    headers = {"authorization": f"Bearer {KEYS['ann']}"}
    return httpx.AsyncClient(base_url=url, headers=headers, timeout=90, trust_env=False)
