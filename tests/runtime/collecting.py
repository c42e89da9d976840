"""What a program may have the garbage collector do: full collections come less often, and see fewer objects.

`test_collector` runs these tests in an interpreter of their own: each of them has all objects looked at several times.
"""

import gc
import weakref
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest
import trio

import agentrail
from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.host import Host, Profile
from agentrail.models import EmitChunk, ModelRequest, Response, Text
from agentrail.runtime.diagnosis import watchdog
from agentrail.runtime.shared import collector
from agentrail.runtime.shared.collector import fewer_full_collections
from agentrail.testing import ScriptedModel
from tests.profiles import CAMPAIGN

Main: TypeAlias = Callable[[], Awaitable[None]]

SESSIONS = 20
TURNS = 1000 if CAMPAIGN else 100
IN_A_CYCLE = 10_000_000 // TURNS // 10
"""So many objects that all turns together make a million: the collector comes as often as with a thousand a turn."""


gc.collect()
IMMORTAL = gc.get_freeze_count()
"""So many objects of its own CPython 3.12 counts as frozen, after each collection."""


def is_nothing_frozen() -> bool:
    return gc.get_freeze_count() <= IMMORTAL


@pytest.fixture(autouse=True)
def _own_collector(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Have a test begin with Python's own thresholds and nothing frozen."""
    monkeypatch.setattr(watchdog, "SLOW", 3600.0)
    old = gc.get_threshold()
    gc.collect()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*old)


@pytest.fixture
def _asked(_own_collector: None) -> Generator[None]:
    """Have a test run in a program that has asked for fewer collections."""
    with fewer_full_collections():
        yield


@pytest.fixture
def _few_are_many(_asked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have objects frozen from `SESSIONS` sessions on."""
    monkeypatch.setattr(collector, "MANY", SESSIONS)


class Ring:
    """A cycle of lists."""

    def __init__(self, size: int) -> None:
        self.links = [[self] for _ in range(size)]


class Littering:
    """A model of a user that makes a cycle at each request, and drops it."""

    name = "littering"

    def __init__(self, size: int) -> None:
        self._size = size
        self.rings: list[weakref.ref[Ring]] = []

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        self.rings.append(weakref.ref(Ring(self._size)))
        await trio.lowlevel.checkpoint()
        return Response((Text("fine"),))


def saying() -> SessionSpec:
    return SessionSpec(model=ScriptedModel(["fine"], repeat_last=True))


async def spawned(supervisor: Supervisor) -> list[SessionHandle]:
    return [await supervisor.spawn(saying(), f"s{number}") for number in range(SESSIONS)]


# The thresholds


@pytest.mark.parametrize("started_by", [agentrail.run, trio.run])
def test_supervisors_and_hosts_leave_the_collector_alone(started_by: Callable[[Main], None]) -> None:
    async def main() -> None:
        async with open_supervisor() as supervisor, Host([Profile("desk", saying())]).serving(port=0):
            await supervisor.spawn(saying())
            assert gc.get_threshold() == (700, 10, 10)
            assert collector._COLLECTOR._collected not in gc.callbacks  # noqa: SLF001

    started_by(main)
    assert gc.get_threshold() == (700, 10, 10)


def test_full_collections_are_rarer_in_a_program_that_asks_for_it() -> None:
    async def main() -> None:
        assert gc.get_threshold() == (700, 10, 100)

    agentrail.run(main, fewer_collections=True)
    assert gc.get_threshold() == (700, 10, 10)


def test_however_many_ask_the_thresholds_are_set_once() -> None:
    with fewer_full_collections():
        gc.set_threshold(700, 10, 50)  # somebody else chooses: the second one leaves that alone, and so the end
        with fewer_full_collections():
            assert gc.get_threshold() == (700, 10, 50)
        assert gc.get_threshold() == (700, 10, 50)
    assert gc.get_threshold() == (700, 10, 50)


def test_the_first_of_two_may_end_first() -> None:
    first, second = fewer_full_collections(), fewer_full_collections()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 100)
    second.__exit__(None, None, None)
    assert gc.get_threshold() == (700, 10, 10)


def test_whoever_else_empties_the_list_of_those_who_listen_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    old_callbacks = list(gc.callbacks)
    with fewer_full_collections():
        monkeypatch.setattr(gc, "callbacks", [])
    monkeypatch.undo()
    assert len(gc.callbacks) == len(old_callbacks) + 1
    gc.callbacks[:] = old_callbacks


def test_a_higher_threshold_is_kept() -> None:
    gc.set_threshold(700, 10, 1000)
    with fewer_full_collections():
        assert gc.get_threshold() == (700, 10, 1000)
        gc.collect(1)  # which has the threshold chosen again
        assert gc.get_threshold() == (700, 10, 1000)
    assert gc.get_threshold() == (700, 10, 1000)


# What lives long


@pytest.mark.usefixtures("_asked")
async def test_with_few_sessions_nothing_is_frozen() -> None:
    async with open_supervisor() as supervisor:
        await spawned(supervisor)
        gc.collect()
        assert is_nothing_frozen()


@pytest.mark.usefixtures("_few_are_many")
async def test_with_many_sessions_a_full_collection_looks_at_what_is_new() -> None:
    async with open_supervisor() as supervisor:
        sessions = await spawned(supervisor)
        gc.collect()
        assert len(gc.get_objects()) < 100 < 20 * SESSIONS < gc.get_freeze_count()
        for session in sessions:
            await session.ask("go")
        new = len(gc.get_objects())
        gc.collect()
        assert len(gc.get_objects()) < 100 < new < 100 * SESSIONS
    gc.collect()
    assert is_nothing_frozen()


@pytest.mark.usefixtures("_few_are_many")
async def test_with_many_connections_of_a_host_a_full_collection_looks_at_what_is_new() -> None:
    async with Host([Profile("desk", saying())]).serving(port=0) as actual, AsyncExitStack() as stack:
        time = urlsplit(actual.url)
        address, port = time.netloc, time.port or 0

        async def connect() -> None:
            stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
            await stream.send_all(f"GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")

        for _ in range(SESSIONS - 1):
            await connect()
        gc.collect()
        assert is_nothing_frozen()
        await connect()
        gc.collect()
        assert len(gc.get_objects()) < 100 < gc.get_freeze_count()
    gc.collect()
    assert is_nothing_frozen()


@pytest.mark.usefixtures("_few_are_many")
async def test_with_many_sessions_full_collections_come_soon_as_they_look_at_little() -> None:
    async with open_supervisor() as supervisor:
        sessions = await spawned(supervisor)
        gc.collect(1)
        assert gc.get_threshold() == (700, 10, 5)
        await sessions[0].stop()
        gc.collect(1)
        assert gc.get_threshold() == (700, 10, 100)
        gc.set_threshold(700, 10, 50)  # somebody else chooses
        await supervisor.spawn(saying(), "x")
        gc.collect(1)
        assert gc.get_threshold() == (700, 10, 50)


@pytest.mark.usefixtures("_few_are_many")
async def test_while_sessions_become_more_nothing_is_looked_at_again() -> None:
    async with open_supervisor() as supervisor:
        await spawned(supervisor)
        gc.collect()
        ring = Ring(gc.get_freeze_count())
        for number in range(2 * SESSIONS):
            await supervisor.spawn(saying(), f"more{number}")
        removed = weakref.ref(ring)
        gc.collect()
        del ring
        gc.collect()
        assert removed() is not None  # twice as much is frozen, and there are three times as many sessions


@pytest.mark.usefixtures("_few_are_many")
async def test_a_session_that_is_frozen_and_stopped_is_freed() -> None:
    async with open_supervisor() as supervisor:
        await spawned(supervisor)
        model = Littering(1)
        session = await supervisor.spawn(SessionSpec(model=model), "x")
        await session.ask("go")
        removed = weakref.ref(model)
        gc.collect()
        gc.disable()
        await session.stop()
        del session, model
        gc.enable()
        assert removed() is None


async def test_a_session_that_waits_to_sleep_and_is_stopped_is_freed() -> None:
    async with open_supervisor() as supervisor:
        model = Littering(1)
        session = await supervisor.spawn(SessionSpec(model=model, hibernate_after=1000.0), "x")
        await session.ask("go")
        removed = weakref.ref(model)
        gc.disable()
        await session.stop()
        del session, model
        gc.enable()
        assert removed() is None


@pytest.mark.usefixtures("_few_are_many")
async def test_when_few_sessions_are_left_everything_is_looked_at_again() -> None:
    async with open_supervisor() as supervisor:
        sessions = await spawned(supervisor)
        gc.collect()
        assert not is_nothing_frozen()
        await sessions[0].stop()
        gc.collect()
        assert is_nothing_frozen()


# What becomes of cycles of users


async def _littered() -> int:
    """Return how many objects are left of the cycles that the first half of the turns made."""
    model = Littering(IN_A_CYCLE)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model), "x")
        for _ in range(2 * TURNS):
            await session.ask("go on")
        if not is_nothing_frozen():
            gc.collect()
            assert 2 * _left(model) <= gc.get_freeze_count()  # at most half of what is frozen is garbage
        return _left(model)


def _left(model: Littering) -> int:
    return IN_A_CYCLE * sum(1 for ring in model.rings[:TURNS] if ring() is not None)


@pytest.mark.usefixtures("_asked")
async def test_cycles_that_turns_leave_behind_are_gone_within_a_thousand_turns() -> None:
    assert await _littered() == 0
    gc.collect()
    assert is_nothing_frozen()


@pytest.mark.usefixtures("_asked")
async def test_of_cycles_no_more_stay_than_half_of_what_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were in use when objects were frozen stay until everything is looked at again."""
    monkeypatch.setattr(collector, "MANY", 1)
    assert await _littered() < IN_A_CYCLE * TURNS / 3


@pytest.mark.usefixtures("_few_are_many")
async def test_cycles_that_were_frozen_go_when_as_much_is_frozen_again() -> None:
    async with open_supervisor() as supervisor:
        await spawned(supervisor)
        gc.collect()
        ring = Ring(gc.get_freeze_count() + 100)
        removed = weakref.ref(ring)
        gc.collect()  # freezes the ring, and finds that twice as much is frozen now
        del ring
        assert removed() is not None
        gc.collect()
        assert removed() is None
