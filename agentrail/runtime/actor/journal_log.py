"""Journal records of one session: written in order, before their effects are seen; and read to rebuild the session."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

import trio

from agentrail.core.vocabulary.changes import NO_CHANGE, change, fold
from agentrail.core.vocabulary.history_prefix import NO_STEM, Results, Stem, stem_after
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.core.vocabulary.state import State
from agentrail.errors import (
    AgentrailError,
    BadRecord,
    CommitUnknown,
    Fenced,
    JournalUnavailable,
    NothingWritten,
    PluginMismatch,
    ReplayDiffers,
    SessionForgotten,
)
from agentrail.hooks.plugin import UNKNOWN, AnyPlugin, state_type
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import (
    Claim,
    Journal,
    OnWritten,
    Record,
    RecordWithStates,
    Snapshot,
    Withdraw,
    changed,
    folded,
    grown,
    opening_of,
    snapshot_of,
    stem_of,
)
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.past_records import PAGE
from agentrail.runtime.shared.untrusted_calls import traced
from agentrail.values.json import Json, canonical
from agentrail.values.value import quick

if TYPE_CHECKING:  # commands that only read a journal import no machine
    from agentrail.core.machine.step import Step
    from agentrail.runtime.resources import SharedServices

_record = quick(Record)
_at: Callable[[tuple[str, int]], int] = itemgetter(1)


class RebuiltState(NamedTuple):
    """A session's state, rebuilt from its snapshot and records."""

    state: State
    """The state."""
    number: int
    """Number of the last record that it includes."""
    stem: Stem
    """Stem of its history."""
    kept: int
    """Number of the record after which the snapshot was made; 0 if there is none."""


async def rebuild_state(journal: Journal, session_id: str, upto: int | None = None) -> RebuiltState:
    """Rebuild a session's state from its snapshot and records, up to record *upto* or all."""
    latest = await journal.latest(session_id, upto, PAGE)
    snapshot, records = latest.snapshot, latest.records
    reach("SNAPSHOT_READ")
    state, number, stem = None, 0, NO_STEM
    if snapshot is not None:
        state, number, stem = await _whole(journal, snapshot), snapshot.number, stem_of(snapshot)
    while True:
        for record in records:
            number = record.number
            state = folded(opening_of(record) if state is None else state, record)
            stem = stem_after(stem, number, record.change, state)
        await trio.lowlevel.checkpoint()
        reach("RECORDS_FOLDED")
        count = PAGE if upto is None else min(PAGE, upto - number)
        if len(records) < PAGE or not count:
            break
        records = await journal.read(session_id, number, count)
    if state is None:
        raise BadRecord(session_id, number, "there are no records")
    return RebuiltState(state, number, stem, 0 if snapshot is None else snapshot.number)


async def _whole(journal: Journal, snapshot: Snapshot) -> State:
    """Return the state of *snapshot* with its whole history; messages that it leaves out are read from the records."""
    state = snapshot.state
    if snapshot.since is None:
        return state
    number, history, results = snapshot.since, state.history, Results()
    while number < snapshot.number:
        records = await journal.read(snapshot.session_id, number, min(PAGE, snapshot.number - number))
        if not records:
            raise BadRecord(snapshot.session_id, number + 1, "it is lost")
        history = grown(history, records, results)
        number = records[-1].number
        await trio.lowlevel.checkpoint()
    return state.but(history=history)


def _texts(values: Iterable[Json]) -> list[str]:
    """Return each JSON value as canonical text, to compare plugin states before and after the journal."""
    return [canonical(data) for data in values]


def with_plugins_of(state: State, live: State, number: int) -> State:
    """Return *state*, rebuilt from records, with the plugin states of *live*, the state in memory.

    Records do not have the classes of plugin states. Raise `ReplayDiffers` if the two differ as JSON.
    """
    if state.plugin_states == live.plugin_states:
        return state.but(plugin_states=live.plugin_states)
    from agentrail.codec.plugin_states import data_of  # noqa: PLC0415 - only what was written and read again needs it

    if _texts(map(data_of, state.plugin_states)) != _texts(map(data_of, live.plugin_states)):
        raise ReplayDiffers(state.session_id, number, "the states of its plugins")
    return state.but(plugin_states=live.plugin_states)


def revived(session_id: str, key: str, plugin: AnyPlugin, state: object) -> object:
    """Return a stored plugin state as an object of the class the plugin declares; raise `PluginMismatch` if unfit."""
    from agentrail.codec.plugin_states import Stored  # noqa: PLC0415 - only what was written and read again needs it
    from agentrail.codec.plugin_types import revive  # noqa: PLC0415 - only what was written and read again needs it

    type_ = state_type(type(plugin))
    if type_ is UNKNOWN:
        if isinstance(state, Stored):
            problem = f"its state is a `{state.name}`, and its class does not say so: write `Plugin[…]` with the type"
            raise PluginMismatch(session_id, key, problem)
        return state
    try:
        return revive(type_, state)
    except AgentrailError as error:
        raise PluginMismatch(session_id, key, f"its state cannot be read: {error}") from error


log = logging.getLogger("agentrail.session")

T = TypeVar("T")

ATTEMPTS: Final = 2
"""How often the first record after `spawn` or `resume` is tried before the caller, who still waits, gets an error."""

SNAPSHOT_EVERY: Final = 200
"""After how many records a snapshot is stored, so that a rebuild is quick."""

SNAPSHOT_AFTER_RETURN: Final = 10
"""After how many records one is stored by a session that came back from at least as many, so that the next return is
quick: not at once, when many sessions come back."""


class Callers(Protocol):
    """Interface: the session, which answers some callers early while the journal cannot write."""

    def relieve(self) -> None:
        """Answer the callers of abort and stop now, before their commands are journaled."""
        ...


class ResponseBegin(NamedTuple):
    """The first chunk of a response, which has no record of its own, but is part of the next one."""

    request_id: str
    """Id of the request."""
    before: State
    """State before it."""
    after: State
    """State after it."""


class JournalLog:
    """Writer of a session's journal; *opening* is the state it is spawned with, stored by the first record."""

    __slots__ = (
        "_doubtful",
        "_kept",
        "_opening",
        "_response_begin",
        "_shared",
        "callers",
        "claim",
        "forgotten",
        "has_written",
        "head",
        "outage",
        "stem",
        "unwritten",
    )

    def __init__(self, claim: Claim, shared: SharedServices, opening: State | None, callers: Callers) -> None:
        self.claim = claim
        """The right to write the session; its epoch is compared at each write."""
        self._shared = shared
        self._opening = opening
        """The state that the first record stores; `None` once that is made, and if the session came back."""
        self._kept = claim.head
        """Number of the record after which the last snapshot was stored, or counts as stored."""
        self.head: int = claim.head
        """Number of the last record."""
        self.stem = NO_STEM
        """The first messages of the history, which a snapshot keeps; the records after them have the others."""
        self.unwritten: tuple[RecordWithStates, ...] = ()
        """Records that the journal has not stored yet, with the states before and after each."""
        self._response_begin: ResponseBegin | None = None
        """The begin of a response, until the next record notes it."""
        self.outage: JournalUnavailable | None = None
        """Why the journal cannot write now; `None` if it can."""
        self.callers: Callers | None = callers
        """Is told of an outage; `None` once the session has ended."""
        self.forgotten = False
        """Whether the journal has the session no more."""
        self._doubtful = False
        """Whether a failed attempt may have written the unwritten records."""
        self.has_written = False
        """Whether a record was written since the start: until then, the caller of `spawn` or `resume` may wait."""

    def continue_from(self, rebuilt: RebuiltState) -> None:
        """Continue after the last record of a session that was rebuilt."""
        self.stem, self._kept = rebuilt.stem, rebuilt.kept
        if rebuilt.number - rebuilt.kept >= SNAPSHOT_AFTER_RETURN:
            self._kept = min(rebuilt.kept, rebuilt.number + SNAPSHOT_AFTER_RETURN - SNAPSHOT_EVERY)

    @property
    def fenced(self) -> Fenced:
        """The error to raise if another process has taken over the session."""
        return Fenced(self.claim.session_id, self.claim.epoch)

    def check_kept(self) -> None:
        """Raise `SessionForgotten` if the journal no longer has the session."""
        if self.forgotten:
            raise SessionForgotten(self.claim.session_id)

    async def read(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return records after number *after*; none if the session was forgotten, as its id may be used again."""
        if self.forgotten:
            await trio.lowlevel.checkpoint()
            return ()
        return await self._shared.journal.read(self.claim.session_id, after, limit)

    async def record_of_seq(self, seq: int) -> int:
        """Return a record's number: the events after *seq* are in the records after it."""
        if self.forgotten:
            await trio.lowlevel.checkpoint()
            return 0
        return await self._shared.journal.record_of_seq(self.claim.session_id, seq)

    def begin(self, request_id: str, old: State, new: State) -> None:
        """Note that the response to a request has begun; the next record says so."""
        self._response_begin = ResponseBegin(request_id, old, new)

    async def write(self, old: State, arrival: Arrival, outcome: Step, command: str | None) -> None:
        """Write the record of a step from the state *old*; while the session is starting, records are kept."""
        if not self._add(old, arrival, outcome, command):
            return
        try:
            records = await self._append()
        except JournalUnavailable as error:
            records = await self._append_again(error)
        self.note_written(old, records)

    def submit(
        self, old: State, arrival: Arrival, outcome: Step, command: str | None, on_written: OnWritten
    ) -> Withdraw | None:
        """Write as `write` does, to a journal that `submits`, but without a wait.

        `None` if that is done. Else *on_written* is called later, and then `note_written` or `write_after` is called.
        """
        if not self._add(old, arrival, outcome, command):
            return None
        withdraw = self._submit(on_written)
        if withdraw is None:
            self.note_written(old, ())
        return withdraw

    async def write_after(self, error: JournalUnavailable, old: State) -> None:
        """Write what was submitted, and could not be written because of *error*."""
        self._doubtful = not isinstance(error, NothingWritten)
        self.note_written(old, await self._append_again(error))

    async def _append_again(self, error: JournalUnavailable) -> Sequence[Record]:
        return await self.retry(self._append, None if self.has_written else ATTEMPTS, error)

    def _add(self, old: State, arrival: Arrival, outcome: Step, command: str | None) -> bool:
        """Add the record of a step to those that are unwritten; return whether they are to be written now."""
        after, begin = outcome.state, self._response_begin
        record = _record(
            self.claim.session_id,
            self.head + len(self.unwritten) + 1,
            arrival,
            outcome.rulings,
            outcome.events,
            tuple([type(effect).__name__ for effect in outcome.effects]),
            NO_CHANGE,
            None if begin is None else begin.request_id,
            command,
            outcome.answer,
            self._opening,
            min(map(_at, after.timers)) if after.timers else None,
            after.has_running_work,
        )
        self._opening = None
        entry = RecordWithStates(record, old if begin is None else begin.before, after)
        self.unwritten = (*self.unwritten, entry)
        return not after.is_starting

    def note_written(self, old: State, records: Sequence[Record]) -> None:
        """Note that all entries are written, as *records* if not with their states; store a snapshot if one is due."""
        entries, self.unwritten, self._response_begin = self.unwritten, (), None
        self.head = entries[-1].record.number
        self.has_written = True
        shared = self._shared
        for entry, record in zip(entries, records, strict=False):
            self.stem = stem_after(self.stem, record.number, record.change, entry.after)
        if shared.listener is not None:
            for record in records or changed(entries):
                shared.listener(old, record)
        if self.head >= self._kept + SNAPSHOT_EVERY:
            self._kept = self.head
            name = f"snapshot ({self.claim.session_id})"
            shared.nursery.start_soon(self.keep, entries[-1].after, self.head, self.stem, name=name)

    async def retry(
        self, call: Callable[[], Awaitable[T]], attempts: int | None = None, failed: JournalUnavailable | None = None
    ) -> T:
        """Call *call* until the journal succeeds, and return its result; callers are refused in the meantime.

        *failed* is the error of an attempt that was already made. The first attempt is made outside, so a write that
        succeeds at once costs no call of this function.
        """
        try:
            return await patiently(call, waits=self._wait, attempts=attempts, failed=failed)
        finally:
            self.outage = None

    async def _append(self) -> Sequence[Record]:
        """Append the unwritten records, unless a failed attempt has written them after all; return them.

        None are returned by a journal that `is_direct`, which makes their changes when somebody reads them.
        """
        if self._shared.journal.is_direct:
            self._submit(_unheard)
            return ()
        records = changed(self.unwritten)
        if self._doubtful:
            stored = await self._shared.journal.read(self.claim.session_id, self.head, len(records))
            self._doubtful = False
            if len(stored) == len(records) and all(map(_is_same, stored, records)):
                return records
        reach("APPEND")
        try:
            await self._shared.journal.append(self.claim, self.head, records)
        except JournalUnavailable as error:
            self._doubtful = not isinstance(error, NothingWritten)
            raise
        reach("APPENDED")
        return records

    def _submit(self, on_written: OnWritten) -> Withdraw | None:
        """Submit the unwritten records; `None` if that has written them."""
        reach("APPEND")
        withdraw = self._shared.journal.submit(self.claim, self.head, self.unwritten, on_written)
        if withdraw is None:
            reach("APPENDED")
        return withdraw

    def come_back(self, state: State, head: int, stem: Stem) -> State:
        """After a crash, drop unwritten records and continue after record *head*, the last one, at *state*.

        *stem* is that of its history. Return the state to continue with: *state*, with the first chunk of the response
        noted if one has begun since then.
        """
        if head != self.head:
            self._response_begin = None
        self.head, self.stem, self.unwritten, self._doubtful = head, stem, (), False
        if self._response_begin is None:
            return state
        begun = fold(state, change(self._response_begin.before, self._response_begin.after))
        self._response_begin = ResponseBegin(self._response_begin.request_id, state, begun)
        return begun

    async def keep(self, state: State, number: int, stem: Stem) -> None:
        """Store a snapshot of the state, unless the journal keeps states anyway; a failure is only logged."""
        if self._shared.journal.is_direct:
            return
        session_id = self.claim.session_id
        try:
            await self._shared.journal.keep(self.claim, snapshot_of(state, number, stem))
        except (JournalUnavailable, Fenced):
            return
        except CommitUnknown:
            raise
        except Exception as error:  # noqa: BLE001 - a snapshot only saves time
            log.error("session %s: its snapshot could not be kept: %s", session_id, traced(error))
            return
        self._kept = max(self._kept, number)
        reach("SNAPSHOT_KEPT")

    def _wait(self, error: JournalUnavailable) -> None:
        """Note the outage *error*, and answer callers that need not wait for its end."""
        self.outage = error
        if self.callers is not None:
            self.callers.relieve()
        reach("NO_ROOM")


def _unheard(_: object) -> None:
    """No-op: a journal that `is_direct` calls nobody."""


def _is_same(stored: Record, attempted: Record) -> bool:
    """Whether *stored* is the record that was *attempted*: number, time and random number are equal."""
    stored_arrival, attempted_arrival = stored.arrival, attempted.arrival
    return (stored.number, stored_arrival.at, stored_arrival.random) == (
        attempted.number,
        attempted_arrival.at,
        attempted_arrival.random,
    )
