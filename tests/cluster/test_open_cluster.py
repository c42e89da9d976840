"""Handles of sessions that run in shards, which Ray places: they outlive the shard that they pointed to."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from agentrail import RemoteSession, RemoteSupervisor, Secret, connect
from agentrail.cluster import end_cluster, open_cluster, ray_actors
from agentrail.cluster.opened_cluster import join_ray, made_plan, open_shards
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_plan import ShardAddress
from agentrail.errors import BadChoice, HostNotReached
from agentrail.events import AgentEnd, Envelope, Gap, MessageDelta
from agentrail.models import UserMessage
from tests.adapters.journals.postgres.server import needs_postgres
from tests.cluster.desk import WORDS
from tests.cluster.raylets import KEY, Raylets, changed, needs_ray
from tests.host.commanded import SERVE, Served, commanded

pytestmark = [pytest.mark.long, needs_ray, needs_postgres]

PATIENCE = 120.0
"""Seconds: beside other tests, a process of Ray has taken fifteen to start, and it takes turns with them."""

SHARDS = ("shard-0", "shard-1")
DESK = str(Path(__file__).with_name("desk.py"))


@asynccontextmanager
async def cluster(machines: Raylets, url: str, app: str = DESK, **more: object) -> AsyncGenerator[RemoteSupervisor]:
    """Open a cluster of two shards, and end it at the end."""
    options = {"shards": 2, "key": KEY, "journal": url, "ray": machines.address, "lease": 5.0, **more}
    try:
        async with open_cluster(app, **options) as supervisor:  # type: ignore[arg-type]
            yield supervisor
    finally:
        with trio.CancelScope(shield=True):
            await end_cluster(ray=machines.address)


@asynccontextmanager
async def cluster_of_others(machines: Raylets, url: str) -> AsyncGenerator[None]:
    """Join a cluster of two shards that is there, and leave it as it is."""
    plan = made_plan(DESK, 2, Secret("AGENTRAIL_CLUSTER_KEY"), url, 10.0)
    async with open_shards(plan, machines.address, replace=False):
        yield


async def see_turn(session: RemoteSession) -> None:
    """Prompt a session, and see its turn to the end."""
    async with session.subscribe(since=0) as events:
        await session.prompt("hi")
        async for envelope in events:
            if isinstance(envelope.event, AgentEnd):
                return


async def check_views(supervisor: RemoteSupervisor, names: set[str]) -> None:
    """Check that whoever is asked shows the sessions of both shards, and what they have done."""
    tree, rows = await supervisor.tree(), await supervisor.rows()
    assert {child.name for child in tree.children} == {row.session for row in rows.items} == names
    assert {row.host for row in rows.items} == set(SHARDS)
    assert (rows.total, rows.missing) == (len(names), ())
    with trio.fail_after(PATIENCE):
        async with supervisor.watch_rows() as changes:
            watched = set[str]()
            async for change in changes:
                watched |= set(change.changed)
                if watched == names:
                    break
    figures, trouble = await supervisor.figures_over_time("session"), await supervisor.trouble()
    assert {series.name for series in figures.series} == names
    assert figures.missing == trouble.missing == ()


async def check_metrics(served: Served) -> None:
    """Check that figures are those of the front and of both shards."""
    async with httpx.AsyncClient(
        base_url=served.url, headers={"authorization": f"Bearer {served.token}"}, timeout=PATIENCE
    ) as client:
        metrics = (await client.get("/metrics")).text.splitlines()
    for name in ("front", *SHARDS):
        assert f'agentrail_host_up{{host="{name}"}} 1' in metrics
    turns = [line for line in metrics if line.startswith("agentrail_turns_total{")]
    assert {name for name in SHARDS if any(f'host="{name}"' in line for line in turns)} == set(SHARDS)


async def address_of_shard(name: str) -> ShardAddress:
    return await in_thread(partial(ray_actors.where, name, 30.0))


async def stand_in_of(dead: ShardAddress) -> ShardAddress:
    """Wait until the first shard is served again, by the other one or by Ray's new process, and return where."""
    while True:
        address = await in_thread(partial(ray_actors.where_now, *SHARDS, 30.0))
        if address is not None and address.process != dead.process:
            return address
        await trio.sleep(0.05)


async def until_back(dead: ShardAddress) -> None:
    """Wait until Ray has made the first shard anew, and it has its sessions back."""
    while True:
        with suppress(NoAnswerError):
            if (await address_of_shard(SHARDS[0])).process != dead.process:
                return
        await trio.sleep(0.05)


async def test_a_handle_goes_on_when_its_shard_is_killed_in_the_middle_of_a_turn(machines: Raylets, url: str) -> None:
    async with cluster(machines, url, patience=PATIENCE) as supervisor:
        shards = [await address_of_shard(name) for name in SHARDS]
        assert len({shard.node for shard in shards}) == 2
        sessions = [await supervisor.spawn("desk", f"trip{number}") for number in range(6)]
        seen: dict[str, list[Envelope]] = {session.id: [] for session in sessions}
        replies: list[str] = []
        talking: set[str] = set()
        all_talk = trio.Event()

        async def use(number: int) -> None:
            session = sessions[number]
            async with session.subscribe(since=0) as events, trio.open_nursery() as nursery:

                async def ask() -> None:
                    replies.append((await session.ask("hi", command="one")).text)

                nursery.start_soon(ask)
                async for envelope in events:
                    seen[session.id].append(envelope)
                    talking.update([session.id] if isinstance(envelope.event, MessageDelta) else [])
                    if len(talking) == len(sessions):
                        all_talk.set()
                    if isinstance(envelope.event, AgentEnd):
                        break

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for number in range(6):
                    nursery.start_soon(use, number)
                await all_talk.wait()
                os.kill(shards[0].process, signal.SIGKILL)
                await stand_in_of(shards[0])
        assert [text.split()[-1] for text in replies] == [f"word{WORDS - 1}"] * 6
        for session in sessions:
            durable = [
                envelope.seq for envelope in seen[session.id] if not envelope.n and not isinstance(envelope.event, Gap)
            ]
            assert durable == list(range(1, durable[-1] + 1))
            assert len(await session.messages()) == 2
        with trio.fail_after(PATIENCE):
            await until_back(shards[0])
            for session in sessions:  # those with no work sleep in the journal until somebody asks for them
                await see_turn(session)
        tree = await supervisor.tree()
        assert {child.name for child in tree.children} == set(seen)


@pytest.mark.campaign
async def test_another_number_of_shards_or_another_program_is_refused_or_replaced(
    machines: Raylets, url: str, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    text = Path(DESK).read_text()  # noqa: ASYNC240 - it is short
    app.write_text(text)
    opened = partial(open_cluster, str(app), key=KEY, journal=url, ray=machines.address, lease=5.0)
    async with cluster(machines, url, str(app)) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        accepted = await session.prompt("hi")
        with pytest.raises(BadChoice, match="shards=3 is not a choice; use one of 2, as there are"):
            async with opened(shards=3):
                pytest.fail("it is not entered")
        old = await address_of_shard("shard-0")
        app.write_text(f"{text}\n# another version")
        with pytest.raises(BadChoice, match=f"use one of the one of version {re.escape(old.version)} that runs"):
            async with opened(shards=2):
                pytest.fail("it is not entered")
        async with opened(shards=2, replace=True) as other:
            new = await address_of_shard("shard-0")
            assert (new.version != old.version, new.process != old.process) == (True, True)
            reply = await other.session("trip").ask("hi", command="again")
            assert reply.text
            app.write_text(f"{text}\n# a third version, which no process has loaded")
            os.kill(new.process, signal.SIGTERM)
            with trio.fail_after(PATIENCE):
                assert (await stand_in_of(new)).process != (await address_of_shard("shard-1")).process
        assert accepted.ref
        assert [message.text for message in await session.messages() if isinstance(message, UserMessage)] == [
            "hi",
            "hi",
        ]


@pytest.mark.parametrize("address", ["", "nonsense"])
async def test_what_is_no_address_is_told(address: str) -> None:
    problem = f"cannot connect to a host at {address}: Invalid address"
    with changed({}), pytest.raises(HostNotReached, match=problem):
        await end_cluster(ray=address)


@pytest.mark.campaign
async def test_a_host_in_front_answers_for_the_shards_and_runs_nothing(
    machines: Raylets, url: str, tmp_path: Path
) -> None:
    command = [*SERVE, DESK, "--ray", machines.address, "--cores", "2", "--journal", url, "--port", "0"]
    env = {**os.environ, "AGENTRAIL_CLUSTER_KEY": KEY}
    try:
        async with commanded(command, tmp_path, env=env) as served:
            assert "by 2 shards" in served.printed
            async with cluster_of_others(machines, url):
                dead, other = [await address_of_shard(name) for name in SHARDS]
            async with connect(served.url, served.token) as supervisor:
                sessions = [await supervisor.spawn("desk", f"trip{number}") for number in range(4)]
                names = {session.id for session in sessions}
                async with trio.open_nursery() as nursery:
                    for session in sessions:
                        nursery.start_soon(see_turn, session)
                await check_views(supervisor, names)
                await check_metrics(served)
                key = Secret("AGENTRAIL_CLUSTER_KEY")
                async with open_cluster(DESK, shards=2, key=key, journal=url, ray=machines.address) as inside:
                    await check_views(inside, names)
                os.kill(dead.process, signal.SIGKILL)
                for session in sessions:
                    assert (await session.prompt("hi")).ref
                async with cluster_of_others(machines, url):
                    with trio.fail_after(PATIENCE):
                        await until_back(dead)
                with trio.fail_after(PATIENCE):
                    for session in sessions:  # those with no work sleep in the journal until somebody asks for them
                        await see_turn(session)
                assert {child.name for child in (await supervisor.tree()).children} == names
                assert {stored.session_id for stored in await supervisor.stored()} == names
            served.process.terminate()
            assert await served.process.wait() == 0
        async with cluster_of_others(machines, url):  # they outlive the front
            assert await address_of_shard("shard-1") == other
        command = [*SERVE, "end", "--ray", machines.address]
        ended = await trio.run_process(command, capture_stdout=True, cwd=tmp_path)
        assert ended.stdout == b"the shards have ended; their sessions are in the journal\n"
        async with join_ray(machines.address):
            assert not any([await in_thread(partial(ray_actors.is_there, name)) for name in SHARDS])
    finally:
        with trio.CancelScope(shield=True):
            await end_cluster(ray=machines.address)
