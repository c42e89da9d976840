"""A supervisor with scripted models; at the end of a test, its sessions are rebuilt from their records and compared."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import TypeVar

import trio
import trio.testing
from attrs import define, field

from agentrail import SessionHandle, SessionSpec, State, Supervisor, open_supervisor
from agentrail.codec.json_text import to_text
from agentrail.codec.plugin_states import data_of
from agentrail.codec.values import check_same
from agentrail.core.audit import differences
from agentrail.core.machine.responses import begun
from agentrail.events import Envelope, Event, MessageDelta
from agentrail.journals import Journal
from agentrail.models import Model
from agentrail.ports.journal import folded
from agentrail.testing import ScriptedModel
from tests.kit import Element, Phase
from tests.runtime.journals import TestJournal

E = TypeVar("E", bound=Event)


@define
class Heard:
    """What one subscriber has got so far."""

    envelopes: list[Envelope] = field(factory=list)

    @property
    def events(self) -> list[Event]:
        return [envelope.event for envelope in self.envelopes]

    @property
    def durable(self) -> list[Envelope]:
        return [envelope for envelope in self.envelopes if envelope.event.durable]

    @property
    def names(self) -> list[str]:
        """Class names of the durable events."""
        return [type(envelope.event).__name__ for envelope in self.durable]

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def only(self, kind: type[E]) -> E:
        (event,) = self.of(kind)
        return event

    def at(self, kind: type[Event]) -> list[int]:
        return [envelope.at for envelope in self.envelopes if isinstance(envelope.event, kind)]

    @property
    def said(self) -> str:
        """All text that was streamed."""
        return "".join(delta.delta for delta in self.of(MessageDelta))


@define
class World:
    """A supervisor under test, with its journal and the sessions that were spawned."""

    supervisor: Supervisor
    journal: Journal
    nursery: trio.Nursery
    spawned: list[tuple[SessionHandle, Heard]] = field(factory=list)

    async def spawn(
        self, script: Iterable[Element] | Model = (), session_id: str | None = None, **spec: object
    ) -> SessionHandle:
        model = ScriptedModel(script) if isinstance(script, Iterable) else script
        handle = await self.supervisor.spawn(spec_of(model, **spec), session_id)
        heard = Heard()
        self.spawned.append((handle, heard))
        await self.nursery.start(listen, handle, heard)
        return handle

    def heard(self, handle: SessionHandle) -> Heard:
        return next(heard for entry, heard in self.spawned if entry is handle)


def spec_of(model: Model | str, **spec: object) -> SessionSpec:
    return SessionSpec(model=model, **spec)  # type: ignore[arg-type]  # a test may give any field


async def listen(
    handle: SessionHandle, heard: Heard, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
) -> None:
    async with handle.subscribe(since=0) as events:
        task_status.started()
        async for envelope in events:
            heard.envelopes.append(envelope)


def stop_at_the_end(supervisor: Supervisor) -> None:
    """Let sessions end with the supervisor, as without a journal: most tests look at how they end."""
    supervisor._sessions.tree.parks = False  # noqa: SLF001 - for users, a journal of their own says it


@asynccontextmanager
async def open_world(
    journal: Journal | None = None,
    *,
    gate_width: float = 8,
    parks: bool = False,
    stop_within: float | None = None,
) -> AsyncIterator[World]:
    """Open a supervisor; at the end, compare every session with its records."""
    used = TestJournal() if journal is None else journal
    async with trio.open_nursery() as nursery:
        async with open_supervisor(journal=used, seed=1, gate_width=gate_width, stop_within=stop_within) as supervisor:
            if not parks:
                stop_at_the_end(supervisor)
            world = World(supervisor, used, nursery)
            yield world
            await settle()
            for handle, _ in world.spawned:
                await check_records(used, handle)
        await settle()
        for handle, heard in world.spawned:
            await check_records(used, handle)
            await check_heard(used, handle, heard)
        nursery.cancel_scope.cancel()


async def rebuilt(journal: Journal, session_id: str) -> State:
    """Return the session's state, rebuilt from its records."""
    records = await journal.read(session_id, 0, 1_000_000)
    assert records[0].opening is not None
    state = records[0].opening
    for number, record in enumerate(records, 1):
        assert record.number == number
        old, state = state, folded(state, record)
        assert not differences(old, state, record)
        due = min((time for _, time in state.timers), default=None)
        assert (due, state.has_running_work) == (record.due, record.at_work)
    return state


async def check_records(journal: Journal, handle: SessionHandle) -> None:
    """Check that the records of a session lead to its live state."""
    live = handle.inspect()
    state = await rebuilt(journal, handle.id)
    if live.phase is Phase.STREAMING and state.phase is Phase.RUNNING and live.request is not None:
        state = begun(state, live.request.request_id)
    assert [to_text(data_of(s)) for s in state.plugin_states] == [to_text(data_of(s)) for s in live.plugin_states]
    state = state.but(plugin_states=live.plugin_states)  # read without their classes, they compare as data
    for name in State.__struct_fields__:
        assert getattr(state, name) == getattr(live, name), name
    assert state == live
    check_same(live, state)


async def check_heard(journal: Journal, handle: SessionHandle, heard: Heard) -> None:
    """Check that the durable events published are those in the journal, and that all events came in order."""
    records = await journal.read(handle.id, 0, 1_000_000)
    stored = [envelope for record in records for envelope in record.events]
    assert [envelope.seq for envelope in stored] == list(range(1, len(stored) + 1))
    assert heard.durable == stored
    cursors = [envelope.cursor for envelope in heard.envelopes]
    assert cursors == sorted(set(cursors))


async def settle() -> None:
    """Let all tasks run until they wait; no time passes."""
    await trio.testing.wait_all_tasks_blocked(0.0)


async def until(holds: Callable[[], object], seconds: float = 100.0) -> None:
    """Wait, in virtual time, until *holds* returns something true."""
    with trio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - nobody sets an event for it
            await trio.sleep(0.001)


async def all_events(session: SessionHandle) -> list[Event]:
    """Return all events of *session* so far."""
    found_events: list[Event] = []
    async with session.subscribe(since=0) as events:
        async for envelope in events:
            found_events.append(envelope.event)
            if envelope.seq >= session.inspect().last_seq:
                break
    return found_events
