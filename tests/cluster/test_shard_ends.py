"""When a shard leaves a machine that is drained, and who serves a shard whose process is gone; Ray is played."""

from __future__ import annotations

import sys
import time
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest
import trio

from agentrail.cluster.ray_actors import in_thread
from agentrail.cluster.shard_actor import LAST_MS, LOOK_SECONDS, ServedShard, StandIn, until_turn
from agentrail.cluster.shard_plan import ShardAddress, ShardPlan, read_shard_address
from tests.patience import PATIENCE

HERE, THERE = "here", "there"
LOOKS = 6
"""How often a shard that stays asks which machines are drained, until a test believes it."""

PLAN = ShardPlan(3, "", "", "", 10.0, "k" * 32)
PROGRAM = """
from agentrail import SessionSpec
from agentrail.host import Host, Profile
from agentrail.journals import MemoryJournal
from tests.runtime.journals import AwakeJournal

host = Host([Profile("desk", SessionSpec(model="demo"))], journal=AwakeJournal(MemoryJournal()))
"""


class DrainedRay(ModuleType):
    """Ray, of whose machines this one is drained."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.machines = [HERE, THERE]
        self.draining = {HERE: 0}
        self.machine_of = dict.fromkeys(PLAN.names, HERE)
        """The machine of each shard, by its name."""
        self.dead: list[str] = []
        """The shards whose process has died."""
        self.looks = 0
        """How often it was asked which machines are drained."""

    def is_initialized(self) -> bool:
        return True

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(get_node_id=lambda: HERE)

    def get_draining_nodes(self) -> dict[str, int]:
        self.looks += 1
        return self.draining

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "NodeID": name, "Resources": {"CPU": 1.0}} for name in self.machines]

    def get_actor(self, name: str, _namespace: str) -> SimpleNamespace:
        def where() -> bytes:
            return msgspec.json.encode(ShardAddress("127.0.0.1", 1, "1", 3, self.machine_of[name], 1))

        def is_over() -> bool:
            if name in self.dead:
                raise EOFError
            return True

        return SimpleNamespace(where=SimpleNamespace(remote=where), is_over=SimpleNamespace(remote=is_over))

    def wait(self, refs: list[object], timeout: float) -> tuple[list[object], list[object]]:
        return refs[:1], refs[1:]

    def get(self, ref: object, timeout: float) -> object:
        return ref


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> DrainedRay:
    played = DrainedRay()
    state, exceptions, util = ModuleType("state"), ModuleType("exceptions"), ModuleType("util")
    vars(state).update(state=played)
    vars(exceptions).update(RayActorError=EOFError)
    vars(util).update(get_node_ip_address=lambda: "127.0.0.1")
    modules = {"ray": played, "ray._private.state": state, "ray.exceptions": exceptions, "ray.util": util}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return played


@pytest.fixture
def served_plan(tmp_path: Path) -> ShardPlan:
    (tmp_path / "app.py").write_text(PROGRAM)
    return ShardPlan(2, str(tmp_path / "app.py"), "", "", 10.0, "k" * 32)


async def leaves(ray: DrainedRay, name: str) -> bool:
    """Return whether the shard leaves its machine, or still stays after several looks."""
    has_left, looks = False, ray.looks

    async def leave() -> None:
        nonlocal has_left
        await until_turn(PLAN, name)
        has_left = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        while not has_left and ray.looks < looks + LOOKS:  # noqa: ASYNC110 - Ray tells nobody
            await trio.sleep(LOOK_SECONDS)
        nursery.cancel_scope.cancel()
    return has_left


async def test_shards_leave_a_drained_machine_one_after_the_other_and_the_first_before_the_last(
    ray: DrainedRay,
    autojump_clock: object,  # noqa: ARG001
) -> None:
    assert not await leaves(ray, "shard-1")
    ray.machine_of["shard-1"] = THERE
    assert not await leaves(ray, "shard-2"), "it stands in for the first, which is still here"
    ray.machine_of["shard-0"] = THERE
    assert await leaves(ray, "shard-2")
    assert await leaves(ray, "shard-0"), "the first one waits for nobody"


async def test_a_shard_whose_machine_ends_soon_waits_for_no_other(ray: DrainedRay, autojump_clock: object) -> None:  # noqa: ARG001
    ray.draining[HERE] = int(1000 * time.time()) + 10 * LAST_MS
    assert not await leaves(ray, "shard-1")
    ray.draining[HERE] = int(1000 * time.time()) + LAST_MS // 2
    assert await leaves(ray, "shard-1")


async def test_a_shard_stays_while_there_is_no_other_machine(ray: DrainedRay, autojump_clock: object) -> None:  # noqa: ARG001
    ray.machine_of = dict.fromkeys(PLAN.names, THERE)
    ray.machines = [HERE]
    assert not await leaves(ray, "shard-1")
    ray.machines = [HERE, THERE]
    ray.draining = {}
    assert not await leaves(ray, "shard-1"), "its machine is not drained"


@pytest.mark.usefixtures("ray")
async def test_a_shard_tells_no_address_from_when_it_is_told_to_end(served_plan: ShardPlan) -> None:
    shard = ServedShard(served_plan, 0, lambda: None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shard.serve, trio.lowlevel.checkpoint)
        address = read_shard_address(await in_thread(partial(shard.where, PATIENCE)))
        assert (address.host, address.node, address.count) == ("127.0.0.1", HERE, 2)
        shard.end()
        assert (shard.where(0.0), shard.problem) == (b"", "it is ending")


async def test_a_shard_whose_process_is_gone_is_found_where_another_stands_in(
    ray: DrainedRay, served_plan: ShardPlan
) -> None:
    ray.dead.append("shard-1")
    stand_in = StandIn(served_plan, 0)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stand_in.run)
        address = read_shard_address(await in_thread(stand_in.where))
        assert (address.count, address.node) == (2, HERE)
        await in_thread(stand_in.end)
