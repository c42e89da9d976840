"""A line to a shard asks Ray at each connection where it is: another program may listen where it was."""

from __future__ import annotations

import sys
import time
from functools import partial
from importlib.machinery import ModuleSpec
from inspect import iscoroutinefunction
from types import ModuleType

import msgspec
import pytest
import trio

from agentrail.cluster import ray_actors
from agentrail.cluster.ray_actors import NoAnswerError, in_thread
from agentrail.cluster.shard_actor import ShardActor, StandIn
from agentrail.cluster.shard_cluster import ShardCluster, open_lines
from agentrail.cluster.shard_plan import ShardAddress, ShardPlan
from agentrail.host import Host, Identity, Profile
from agentrail.journals import MemoryJournal
from tests.host.cluster.test_forwarding import talks
from tests.patience import PATIENCE

PLAN = ShardPlan(1, "", "", "", 10.0, "k" * 32)
WHO = Identity("local", "you", frozenset({"sessions", "talk"}))


class OneActor(ModuleType):
    """Ray, as far as it tells where its one shard is."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.__spec__ = ModuleSpec("ray", None)
        self.port = 0

    def is_initialized(self) -> bool:
        return True

    def get_actor(self, name: str, namespace: str) -> OneActor:
        return self

    @property
    def where(self) -> OneActor:
        return self

    @property
    def where_instead(self) -> OneActor:
        return self

    def remote(self) -> bytes:
        return msgspec.json.encode(ShardAddress("127.0.0.1", self.port, "1", 1, "node", 1))

    def wait(self, refs: list[bytes], timeout: float) -> tuple[list[bytes], list[bytes]]:
        return refs[:1], refs[1:]

    def get(self, ref: bytes, timeout: float) -> bytes:
        return ref


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> OneActor:
    actor = OneActor()
    monkeypatch.setitem(sys.modules, "ray", actor)
    return actor


async def serve(
    journal: MemoryJournal,
    ray: OneActor,
    over: trio.Event,
    *,
    task_status: trio.TaskStatus[trio.Event] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the shard on a free port, of which Ray knows, until it is *over*; `task_status` gets what tells its end."""
    host = Host([Profile("desk", talks())], journal=journal, cluster=ShardCluster(PLAN, 0))
    ended = trio.Event()
    async with host.serving(0) as serving:
        ray.port = int(serving.url.rpartition(":")[2])
        task_status.started(ended)
        await over.wait()
    ended.set()


async def hang_up(stream: trio.SocketStream) -> None:
    """What a server of another kind does with a request that it does not understand."""
    await stream.receive_some()
    await stream.send_all(b"\x00\x00\x00\x04\x00")


async def test_a_line_finds_a_shard_whose_old_port_another_program_has(ray: OneActor) -> None:
    journal, ends = MemoryJournal(), (trio.Event(), trio.Event())
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            ended = await nursery.start(serve, journal, ray, ends[0])
            port = ray.port
            async with open_lines(ShardCluster(PLAN), WHO, patience=60.0) as lines:
                await lines.call("open_session", body={"session": "trip"})
                ends[0].set()
                await ended.wait()
                await nursery.start(partial(trio.serve_tcp, hang_up, port, host="127.0.0.1"))
                await nursery.start(serve, journal, ray, ends[1])
                assert await lines.call("show_session", session="trip")
            nursery.cancel_scope.cancel()


class Freezer:
    """Passes connections on to a port, until it is frozen, as a process is that was stopped."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.is_frozen = False

    async def serve(self, client: trio.SocketStream) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", self._port) as server, trio.open_nursery() as nursery:
            nursery.start_soon(self._pass, client, server)
            nursery.start_soon(self._pass, server, client)

    async def _pass(self, source: trio.SocketStream, sink: trio.SocketStream) -> None:
        while piece := await source.receive_some():
            if self.is_frozen:
                await trio.sleep_forever()
            await sink.send_all(piece)


async def test_a_line_to_a_shard_that_is_stopped_is_cut_when_ray_has_it_elsewhere(ray: OneActor) -> None:
    journal, event = MemoryJournal(), trio.Event()
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            await nursery.start(serve, journal, ray, event)
            freezer = Freezer(ray.port)
            listeners = await nursery.start(partial(trio.serve_tcp, freezer.serve, 0, host="127.0.0.1"))
            ray.port = listeners[0].socket.getsockname()[1]
            async with open_lines(ShardCluster(PLAN), WHO, patience=60.0) as lines:
                await lines.call("open_session", body={"session": "trip"})
                freezer.is_frozen = True
                await nursery.start(serve, journal, ray, event)
                assert await lines.call("show_session", session="trip")
            nursery.cancel_scope.cancel()


@pytest.mark.usefixtures("ray")
def test_a_place_that_another_version_tells_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OneActor, "remote", lambda _: b'{"host": "127.0.0.1", "rack": 5}')
    with pytest.raises(NoAnswerError, match="rack"):
        ray_actors.where("shard-0", 1.0)


@pytest.mark.usefixtures("ray")
def test_who_has_left_ray_does_not_begin_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OneActor, "is_initialized", lambda _: False)
    with pytest.raises(NoAnswerError, match="this program has left Ray"):
        ray_actors.ask("shard-0", "where", 1.0)
    assert ray_actors.where_now("shard-0", "shard-1", 1.0) is None


class BusyRay(OneActor):
    """Ray, whose actor answers nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self.inside_at_end: int | None = None

    def _spend(self, timeout: float) -> None:
        self.inside += 1
        time.sleep(timeout)
        self.inside -= 1

    def wait(self, refs: list[bytes], timeout: float) -> tuple[list[bytes], list[bytes]]:
        self._spend(timeout)
        return [], refs

    def get(self, ref: bytes, timeout: float) -> bytes:
        self._spend(timeout)
        raise TimeoutError

    def shutdown(self) -> None:
        self.inside_at_end = self.inside


async def test_who_leaves_ray_waits_for_threads_that_are_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray crashes the process otherwise; a thread that asks an actor ends soon after its caller was cancelled."""
    ray = BusyRay()
    monkeypatch.setitem(sys.modules, "ray", ray)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(in_thread, partial(ray_actors.ask, "shard-0", "where", 1.0))
        while not ray.inside:  # noqa: ASYNC110 - it is a thread
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    began = trio.current_time()
    await ray_actors.leave()
    assert ray.inside_at_end == 0
    assert trio.current_time() - began < ray_actors.LEAVE_SECONDS


def test_a_shard_whose_file_is_not_there_yet_is_made_all_the_same() -> None:
    """Ray makes no actor anew whose constructor has failed."""
    StandIn(ShardPlan(2, "/nowhere/app.py", "", "", 10.0, "k" * 32), 0)


def test_no_method_of_a_shard_holds_up_the_others() -> None:
    """Ray runs all methods of a class with coroutines in one event loop, and calls of a shard wait for what comes."""
    assert not [name for name, value in vars(ShardActor).items() if iscoroutinefunction(value)]
