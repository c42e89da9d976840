"""How shards are made, replaced and found, with a Ray that is played."""

from __future__ import annotations

import sys
from collections import Counter
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import msgspec
import pytest

from agentrail.cluster.opened_cluster import Shards
from agentrail.cluster.shard_cluster import ShardCluster
from agentrail.cluster.shard_plan import ShardAddress, ShardPlan, read_plan
from agentrail.errors import BadChoice


class PlayedActor:
    """A shard, as far as Ray tells of it."""

    def __init__(self, ray: PlayedRay, name: str, number: int, plan: ShardPlan, node: str) -> None:
        self._ray = ray
        self.name = name
        self.node = node
        self.address = ShardAddress("127.0.0.1", 1000 + number, plan.version(), plan.count, node, 1)

    def __getattr__(self, method: str) -> SimpleNamespace:
        def call() -> bytes:
            if method != "where":
                self._ray.calls.append((self.name, method))
            return msgspec.json.encode(self.address) if method == "where" else b""

        return SimpleNamespace(remote=call)


class PlayedRay(ModuleType):
    """Ray with two machines, whose actors answer at once."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.actors: dict[str, PlayedActor] = {}
        self.calls: list[tuple[str, str]] = []

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, object]]:
        return [{"Alive": True, "NodeID": name, "Resources": {"CPU": 1.0}} for name in ("left", "right")]

    def get_actor(self, name: str, _namespace: str) -> PlayedActor:
        if name not in self.actors:
            raise ValueError(name)
        return self.actors[name]

    def kill(self, actor: PlayedActor, *, no_restart: bool) -> None:
        assert no_restart
        self.calls.append((actor.name, "kill"))
        del self.actors[actor.name]

    def wait(self, refs: list[bytes], timeout: float) -> tuple[list[bytes], list[bytes]]:
        return refs[:1], refs[1:]

    def get(self, ref: bytes, timeout: float) -> bytes:
        return ref

    def remote(self, _kind: type[object]) -> SimpleNamespace:
        def options(*, name: str, scheduling_strategy: str, **_: object) -> SimpleNamespace:
            def make(number: int, plan: bytes) -> None:
                self.actors[name] = PlayedActor(self, name, number, read_plan(plan), scheduling_strategy)

            return SimpleNamespace(remote=make)

        return SimpleNamespace(options=options)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    played = PlayedRay()
    strategies, exceptions = ModuleType("strategies"), ModuleType("exceptions")

    def affinity(node: str, *, soft: bool) -> str:
        assert soft
        return node

    vars(strategies).update(NodeAffinitySchedulingStrategy=affinity)
    vars(exceptions).update(RayActorError=EOFError)
    modules = {"ray": played, "ray.util.scheduling_strategies": strategies, "ray.exceptions": exceptions}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setitem(sys.modules, "ray._private.state", ModuleType("state"))
    return played


@pytest.fixture
def plan(tmp_path: Path) -> ShardPlan:
    (tmp_path / "app.py").write_text("")
    return ShardPlan(4, str(tmp_path / "app.py"), "", "", 10.0, "k" * 32)


async def test_shards_are_made_on_the_machine_with_the_fewest_and_once(ray: PlayedRay, plan: ShardPlan) -> None:
    for _ in range(2):
        await Shards(plan).ensure(replace=False)
    assert sorted(ray.actors) == list(plan.names)
    assert Counter(actor.node for actor in ray.actors.values()) == {"left": 2, "right": 2}
    assert ray.calls == []


async def test_shards_of_another_number_are_refused_or_ended_in_order(ray: PlayedRay, plan: ShardPlan) -> None:
    await Shards(plan).ensure(replace=False)
    fewer = plan.but(count=2)
    with pytest.raises(BadChoice, match="shards=2"):
        await Shards(fewer).ensure(replace=False)
    assert ray.calls == []
    await Shards(fewer).ensure(replace=True)
    assert sorted(ray.actors) == list(fewer.names)
    assert Counter(ray.calls) == Counter((name, what) for name in plan.names for what in ("end", "kill"))


async def test_shards_of_another_program_are_refused_or_park_their_sessions_first(
    ray: PlayedRay, plan: ShardPlan
) -> None:
    await Shards(plan).ensure(replace=False)
    other = plan.but(name="other")
    with pytest.raises(BadChoice, match="replace=True"):
        await Shards(other).ensure(replace=False)
    await Shards(other).ensure(replace=True)
    assert ray.calls == [(name, what) for name in plan.names for what in ("drain", "kill")]
    assert {actor.address.version for actor in ray.actors.values()} == {other.version()}


async def test_where_a_shard_was_is_forgotten_when_it_is_lost_or_found_elsewhere(
    ray: PlayedRay, plan: ShardPlan
) -> None:
    await Shards(plan).ensure(replace=False)
    cluster, name = ShardCluster(plan), plan.names[0]
    ports: list[int] = []

    async def found(again: bool = False) -> None:
        address = await (cluster.find_again(name) if again else cluster.find(name))
        assert address is not None
        ports.append(address.port)

    await found()
    ray.actors[name].address = ray.actors[name].address.but(port=7)
    await found()
    await found(again=True)
    await found()
    ray.actors[name].address = ray.actors[name].address.but(port=8)
    cluster.lose(name)
    await found()
    assert ports == [1000, 1000, 7, 7, 8]
