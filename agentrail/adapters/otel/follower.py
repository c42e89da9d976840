"""Follows the records of all sessions of a supervisor, behind the sessions, and folds them to spans.

A span is handed on by the process that wrote the record which ends it, and only then. Records that are read again, when
a session comes back in mid-turn, bring back what is open, and hand on nothing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import trio

from agentrail.adapters.otel.span_fold import NOTHING_OPEN, OpenSpans, fold
from agentrail.adapters.otel.spans import Ancestors, Span
from agentrail.core.vocabulary.inputs import SessionReturned
from agentrail.core.vocabulary.state import Setup, State
from agentrail.ports.journal import Journal, Record
from agentrail.values.events.life import AgentStart
from agentrail.values.events.tools import SubagentStart
from agentrail.values.untrusted_values import error_text

log = logging.getLogger("agentrail.otel")

ROOM: Final = 10_000
"""How many records may wait to be folded. Of a session with open spans, those that found no room are read again."""

AT_ONCE: Final = 50
"""How many records are folded before other tasks may run."""

PAGE: Final = 100
"""How many records are read from the journal at once."""

MAX_PAGES: Final = 100
"""How many pages are read at the most to find where an open turn began."""


class WrittenRecord(NamedTuple):
    """A record that the journal has stored, on its way to the spans."""

    setup: Setup
    """Setup of its session."""
    record: Record
    """The record."""
    before: State | None
    """The state before it, if the session came back with it while something was open; else `None`."""


class Follower:
    """Folds records to spans, in a task of its own, and hands each span on when it has ended."""

    def __init__(self, journal: Journal | None, hand_on: Callable[[Span], None]) -> None:
        self._journal = journal
        self._hand_on = hand_on
        self._waiting: deque[WrittenRecord] = deque()
        self._woken = trio.Event()  # set while records wait
        self._is_finishing = False
        self._finished = trio.Event()
        # Records of sub-agents, by session id, while that they were started is not known: their parents' record of it
        # may be stored after their own.
        self._early: dict[str, list[WrittenRecord]] = {}
        self._unread = 0  # records that found no room since the last line about them in the log
        self._open: dict[str, OpenSpans] = {}  # by session id: sessions without open spans are not in it

    def listen(self, old_state: State, record: Record) -> None:
        """Take a record that the journal has stored; *old_state* is that before it. It neither waits nor raises."""
        if len(self._waiting) >= ROOM:
            self._unread += 1
            return
        was_working = old_state.turn is not None or old_state.subagents
        comes_back = isinstance(record.arrival.input, SessionReturned) and was_working
        self._waiting.append(WrittenRecord(old_state.setup, record, old_state if comes_back else None))
        if not self._woken.is_set():
            self._woken.set()

    async def finish(self) -> None:
        """Fold what waits, and end the task."""
        self._is_finishing = True
        self._woken.set()
        await self._finished.wait()

    async def run(self) -> None:
        """Fold records until `finish` is called."""
        while self._waiting or not self._is_finishing:
            await self._woken.wait()
            self._woken = trio.Event()
            folded = 0
            if self._unread:
                log.warning("%d records found no room, so spans of sessions that were idle are lost", self._unread)
                self._unread = 0
            while self._waiting:
                entry = self._waiting.popleft()
                try:
                    await self._take(entry)
                except Exception as error:  # noqa: BLE001 - journals are code of others; sessions must notice nothing
                    self._give_up(entry.record.session_id, error)
                folded += 1
                if folded % AT_ONCE == 0:
                    await trio.lowlevel.checkpoint()
        self._finished.set()

    async def _take(self, entry: WrittenRecord) -> None:
        """Fold one record, after those before it that are missing; a sub-agent's not before its parent knows of it."""
        setup, record, old_state = entry
        session_id, number = record.session_id, record.number
        if self._is_early(entry):
            self._early.setdefault(session_id, []).append(entry)
            return
        spans = self._open.get(session_id, NOTHING_OPEN)
        # A new session may have the id of one that was deleted, and of one that comes back, others have had the rest:
        # tests/adapters/otel/test_spans.py::test_what_another_supervisor_has_exported_meanwhile_is_not_exported_again
        if number == 1 or isinstance(record.arrival.input, SessionReturned):
            self._open.pop(session_id, None)
            spans = NOTHING_OPEN
        elif number <= spans.number:  # it has been read again already
            return
        if old_state is not None:
            await self._read_back(old_state, number)
        elif not spans.is_empty and number > spans.number + 1:
            await self._catch_up(session_id, setup, spans.number, number)
        for span in self._fold(setup, record):
            self._hand_on(span)
        for child, waiting in tuple(self._early.items()):
            if waiting[0].setup.path[-2] == session_id and not self._is_early(waiting[0], again=True):
                del self._early[child]
                for early in waiting:
                    await self._take(early)

    def _give_up(self, session_id: str, error: Exception) -> None:
        """Drop what is open in a session, because its records could not be read or folded."""
        log.warning("session %s: the spans of its open turn are lost: %s", session_id, error_text(error))
        self._open.pop(session_id, None)
        for child in [
            child for child, entries in self._early.items() if session_id in (child, entries[0].setup.path[-2])
        ]:
            del self._early[child]

    def _is_early(self, entry: WrittenRecord, *, again: bool = False) -> bool:
        """Whether a record is one of a sub-agent of which its parent has not recorded the start yet.

        *again* says that it has waited for that already; all later ones of the sub-agent wait with it.
        """
        path, session_id = entry.setup.path, entry.record.session_id
        parent = self._open.get(path[-2]) if path else None
        if parent is None or session_id in self._open or session_id in parent.subagents:
            return False
        return path[-1] in parent.calls or (session_id in self._early and not again)

    def _fold(self, setup: Setup, record: Record) -> tuple[Span, ...]:
        """Fold a record to the open spans of its session, and return those that have ended."""
        session_id = record.session_id
        spans, ended = fold(self._open.get(session_id, NOTHING_OPEN), setup, record, self._ancestors(setup, session_id))
        if spans.is_empty:
            self._open.pop(session_id, None)
        else:
            self._open[session_id] = spans
        return ended

    def _ancestors(self, setup: Setup, session_id: str) -> Ancestors | None:
        """Return the spans from which a session was started, if it is a sub-agent of one that is followed here."""
        if not setup.path:
            return None
        parent = self._open.get(setup.path[-2])
        return None if parent is None else parent.subagents.get(session_id)

    async def _catch_up(self, session_id: str, setup: Setup, after: int, number: int) -> None:
        """Fold the records after *after* and before *number*, which this process wrote, and hand on what they end.

        They found no room, or it was not known at first whether they were stored.
        """
        for record in await self._read(session_id, after, number):
            for span in self._fold(setup, record):
                self._hand_on(span)

    async def _read_back(self, old_state: State, number: int) -> None:
        """Fold the records before *number* that earlier processes wrote, from where what is open began."""
        session_id, first = old_state.session_id, number
        self._open.pop(session_id, None)
        missing = {agent.child for agent in old_state.subagents}
        if old_state.turn is not None:
            missing.add(old_state.turn.ref)
        records: list[Record] = []
        for _ in range(MAX_PAGES):
            if not missing or first == 1:
                break
            page = await self._read(session_id, max(0, first - 1 - PAGE), first)
            missing -= {begun for record in page for begun in _begun_in(record)}
            records[:0] = page
            first = max(1, first - PAGE)
        for record in records:
            self._fold(old_state.setup, record)

    async def _read(self, session_id: str, after: int, number: int) -> list[Record]:
        """Return the records after *after* and before *number*; those that are gone, or cannot be read, are missing."""
        records: list[Record] = []
        while self._journal is not None and after < number - 1:
            page = await self._journal.read(session_id, after, min(PAGE, number - 1 - after))
            if not page:
                break
            records += page
            after = page[-1].number
        return records


def _begun_in(record: Record) -> Iterator[str]:
    """Yield the prompts whose turns begin in *record*, and the sub-agents that do."""
    for envelope in record.events:
        match envelope.event:
            case AgentStart(ref=ref):
                yield ref
            case SubagentStart(child=child):
                yield child
            case _:
                pass
