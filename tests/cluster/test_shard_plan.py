"""Which shard runs a session and looks after it, what tells programs apart, and where a line sends a call."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from agentrail import Secret
from agentrail.api.public_ids import new_name
from agentrail.cluster.opened_cluster import made_plan
from agentrail.cluster.shard_cluster import ShardCluster, ShardLines
from agentrail.cluster.shard_plan import ShardPlan
from agentrail.errors import BadChoice
from agentrail.host import Identity
from agentrail.ports.journal import SLOTS, slot_of
from agentrail.remote.transport.host_address import HostKey
from agentrail.remote.transport.host_connection import HostConnection, open_line
from tests.patience import PATIENCE
from tests.remote.playing_host import KEY, Message, PlayingHost

ANN = Identity("acme", "ann", frozenset({"talk"}))
LONG = "k" * 32


def plan_of(count: int, **fields: object) -> ShardPlan:
    return ShardPlan(count, "", "", "", 10.0, LONG).but(**fields)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_each_slot_is_looked_after_by_one_shard_which_runs_its_sessions(count: int) -> None:
    plan = plan_of(count)
    owners = {slot: number for number in range(count) for slot in plan.slots(number)}
    assert sorted(owners) == list(range(SLOTS))
    assert sum(len(plan.slots(number)) for number in range(count)) == SLOTS
    for number in range(50):
        session = f"h.acme.ann.s{number}"
        assert plan.home(session) == plan.names[owners[slot_of(session)]]


def test_another_shard_stands_in_for_each_and_each_for_one() -> None:
    plan = plan_of(3)
    assert [plan.stand_in(name) for name in plan.names] == ["shard-2", "shard-0", "shard-1"]


def test_programs_differ_by_all_that_a_shard_is_made_of_but_the_password_and_the_key(tmp_path: Path) -> None:
    file, other = tmp_path / "app.py", tmp_path / "other.py"
    file.write_text("spec = 1")
    other.write_text("spec = 2")
    plan = plan_of(2, file=str(file), name="spec", journal="postgresql://ann:old@db/agents")
    same = [
        plan.but(journal="postgresql://bob:new@db/agents"),
        plan.but(key="x" * 32),
        plan.but(key="", key_variable="KEY"),
    ]
    others = [
        plan.but(journal="postgresql://ann:old@db/others"),
        plan.but(name="other"),
        plan.but(lease=20.0),
        plan.but(file=str(other)),
    ]
    assert {item.version() for item in same} == {plan.version()}
    assert len({plan.version(), *(item.version() for item in others)}) == 1 + len(others)


@pytest.mark.parametrize("shards", [-1, 0, SLOTS + 1])
def test_there_are_as_many_shards_as_slots_at_most_and_one_at_least(tmp_path: Path, shards: int) -> None:
    (tmp_path / "app.py").write_text("")
    with pytest.raises(BadChoice, match=f"shards={shards} is not a choice"):
        made_plan(str(tmp_path / "app.py"), shards, LONG, "", 10.0)
    for least in (1, SLOTS):
        assert made_plan(str(tmp_path / "app.py"), least, LONG, "", 10.0).count == least


def test_a_key_in_a_variable_is_no_part_of_the_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "app.py").write_text("")
    monkeypatch.setenv("SHARD_KEY", LONG)
    plan = made_plan(str(tmp_path / "app.py"), 2, Secret("SHARD_KEY"), "", 10.0)
    assert (plan.key, plan.key_variable, plan.secret) == ("", "SHARD_KEY", Secret("SHARD_KEY"))
    assert made_plan(str(tmp_path / "app.py"), 2, LONG, "", 10.0).secret == LONG


# Lines


def answering(message: Message) -> Sequence[Message]:
    return [{"id": message["id"], "status": 200, "body": {}}]


@asynccontextmanager
async def lines_to(*hosts: PlayingHost) -> AsyncGenerator[ShardLines]:
    """Connect to *hosts*, as if each was a shard."""
    plan = plan_of(len(hosts))
    async with AsyncExitStack() as stack:
        lines = {
            name: await stack.enter_async_context(open_line(host.url, KEY))
            for name, host in zip(plan.names, hosts, strict=True)
        }
        yield ShardLines(ShardCluster(plan), ANN, lines)


async def test_a_session_is_opened_and_called_in_the_shard_that_its_id_says() -> None:
    hosts = [PlayingHost(answering), PlayingHost(answering)]
    with hosts[0].playing(), hosts[1].playing():
        async with lines_to(*hosts) as lines:
            for number in range(8):
                for host in hosts:
                    host.received.clear()
                name = f"s{number}"
                await lines.call("open_session", body={"session": name, "agent": "desk"}, command=f"c{number}")
                await lines.call("show_session", session=name)
                await lines.call("fork", session="bob.other", body={"session": name})
                home = slot_of(new_name("acme", "ann", name).internal) % 2
                opened, output = hosts[home].received[:2]
                assert opened["body"] == {"session": name, "agent": "desk"}
                assert output["session"] == name
                fork = slot_of(new_name("acme", "bob", name).internal) % 2
                assert hosts[fork].received[-1]["call"] == "fork"
                assert opened["command"] == f"c{number}"


async def test_a_session_without_a_name_gets_the_same_one_for_the_same_command() -> None:
    host = PlayingHost(answering)
    with host.playing():
        async with lines_to(host) as lines:
            for command in ("c1", "c1", "c2", None, None):
                await lines.call("open_session", command=command)
    names = [body["session"] for message in host.received if isinstance(body := message["body"], dict)]
    assert names[0] == names[1]
    assert len(set(names)) == 4


async def test_what_is_about_no_session_goes_to_shards_that_are_there_each_in_its_turn() -> None:
    hosts = [PlayingHost(answering), PlayingHost(answering)]
    with hosts[1].playing(), hosts[0].playing():
        async with lines_to(*hosts) as lines:
            for _ in range(4):
                await lines.call("agents")
            assert [len(host.received) for host in hosts] == [2, 2]


async def test_what_is_about_no_session_goes_past_a_shard_that_is_not_there() -> None:
    async def dial() -> trio.abc.Stream:
        raise OSError

    host = PlayingHost(answering)
    with host.playing():
        async with open_line(host.url, KEY) as line:
            away = HostConnection(line.address, HostKey(KEY), dial, 1.0)
            plan = plan_of(2)
            lines = ShardLines(ShardCluster(plan), ANN, dict(zip(plan.names, (away, line), strict=True)))
            with trio.fail_after(PATIENCE):
                for _ in range(4):
                    await lines.call("agents")
    assert len(host.received) == 4
