"""Rebuilds sessions of an earlier process; `Returning` does so when a supervisor is opened.

The state comes from the journal, the code from the program. Those come back that have work under way, or that are due.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail.core.machine.forking import branch
from agentrail.core.vocabulary.inputs import SessionBranched, SessionReturned
from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import (
    AgentrailError,
    BadRecord,
    Fenced,
    JournalUnavailable,
    SessionCrashed,
    SessionForgotten,
    SessionHeld,
    SessionNotAlive,
    SessionNotStored,
    UnknownRecord,
)
from agentrail.hooks.ruling import Section
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Journal, SessionFilter, StoredSession, opening_of
from agentrail.runtime.actor.journal_log import rebuild_state
from agentrail.runtime.actor.session import Session
from agentrail.runtime.resources import FindCode, SessionCode, SharedServices
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.past_records import events_of, intact, record_before
from agentrail.runtime.shared.timers import Key
from agentrail.runtime.shared.untrusted_calls import Contained, traced
from agentrail.values.events.tools import ToolExecutionStart
from agentrail.values.json import INT_MAX, canonical
from agentrail.values.tools import EffectClass

LEAST_PAUSE: Final = 250
"""The fewest milliseconds after which a session that another supervisor holds is claimed again."""

MAX_SHOWN: Final = 200
"""The most characters of a call's arguments that the list of calls left behind by a fork shows."""


async def bring_back(
    shared: SharedServices, session_id: str, find_code: FindCode, *, take_over: bool | str, is_read: bool
) -> tuple[Session, SessionReturned]:
    """Claim and rebuild a stored session, and return it with its first input; no record is written yet.

    Without *is_read*, read its opening first.
    """
    if not is_read:
        await read_opening(shared, session_id)  # raise for a missing or damaged session before claiming it
    reach("OPENING_READ")
    claim = await shared.leases.claim(session_id, take_over=take_over)
    reach("CLAIMED")
    rebuilt = await rebuild_state(shared.journal, session_id)
    state, number = rebuilt.state, rebuilt.number
    reach("REBUILT")
    if number != claim.head:
        raise Fenced(session_id, claim.epoch)
    if state.phase is Phase.ENDED:
        raise SessionNotAlive(session_id, state.stop_reason or "stopped")
    if state.quarantine_cause is not None:
        raise SessionCrashed(session_id, state.quarantine_cause)
    state, code, returned = await find_code(state, number)
    reach("CODE_FOUND")
    if code.section_files is not None or state.sections:
        returned = returned.but(sections=await _changed_sections(state, code))
    session = Session(state, claim, shared, code, find_code, returned=True)
    session.records.continue_from(rebuilt)
    if code.sources:
        session.effect_runner.late.expect()
    return session, returned


async def _changed_sections(state: State, code: SessionCode) -> tuple[Section, ...]:
    """Return the sections of files of the specification that are not as in *state*; those that are gone have no text.

    Sections that a plugin has set are left alone.
    """
    files = () if code.section_files is None else await code.section_files.sections(state.session_id, tell=False)
    now = {section.key: section for section in files}
    old = {section.key: section for section in state.sections}
    removed = [section.but(text=None) for section in state.sections if not section.by and section.key not in now]
    changed = [
        section for key, section in now.items() if key not in old or (not old[key].by and old[key].text != section.text)
    ]
    return (*removed, *changed)


async def read_opening(shared: SharedServices, session_id: str) -> State:
    """Return the state with which a stored session was spawned."""
    first = await shared.journal.read(session_id, 0, 1)
    if not first:
        raise SessionNotStored(session_id) if shared.forget is None else SessionForgotten(session_id)
    return opening_of(first[0])


async def stored_state(shared: SharedServices, session_id: str) -> State:
    """Return the state of a stored session after its last record; it is neither claimed nor started."""
    await read_opening(shared, session_id)  # raises if it is not stored
    return (await rebuild_state(shared.journal, session_id)).state


async def forked(
    shared: SharedServices,
    origin: str,
    point: int | str | None,
    session_id: str,
    find_code: FindCode,
    set_up: SetUpFork | None,
) -> tuple[State, SessionCode, SessionBranched]:
    """Return state, code and first input of a fork of *origin* after record *point* (the last one if `None`).

    If *point* is the ref of a prompt, it is the record before the one with which the turn of that prompt began.
    *set_up* changes the state with which the fork begins.
    """
    if isinstance(point, int) and point < 1:
        raise UnknownRecord(origin, point)
    await read_opening(shared, origin)  # raises if it does not exist
    if isinstance(point, str):
        point = await record_before(shared.journal, origin, point)
    state, number, *_ = await rebuild_state(shared.journal, origin, point)
    if point is not None and number != point:
        raise UnknownRecord(origin, point)
    left_calls = await left_behind(shared.journal, origin, number, state)
    begun = branch(state, session_id)
    if set_up is not None:
        begun = set_up(begun)
    state, code, now = await find_code(begun, number)
    if set_up is not None and code.section_files is not None:
        names = {section.key for section in state.sections}
        files = await code.section_files.sections(session_id, tell=True)
        state = state.but(sections=(*state.sections, *(section for section in files if section.key not in names)))
    return (
        state,
        code,
        SessionBranched(
            origin, number, left_calls, now.attached_plugins, now.tools, now.removed_tools, now.revision, now.options
        ),
    )


async def left_behind(journal: Journal, origin: str, after: int, state: State) -> tuple[str, ...]:
    """Return the calls that *origin* started after the fork and that cannot be undone, as text."""
    calls: dict[str, str] = {}
    while records := await intact(journal, origin, after):
        if isinstance(records, BadRecord):
            return (*calls.values(), f"whatever stood from record {after + 1} on: {records}")
        after = records[-1].number
        for event in (event for record in records for event in events_of(record)):
            if isinstance(event, ToolExecutionStart) and not _only_reads(state, event.name):
                calls[event.call_id] = f"{event.name} {canonical(event.args)[:MAX_SHOWN]}"
    return tuple(calls.values())


def _only_reads(state: State, tool: str) -> bool:
    attached = state.tools.get(tool)
    return attached is not None and attached.spec.effect is EffectClass.PURE


log = logging.getLogger("agentrail.supervisor")

SetUpFork: TypeAlias = Callable[[State], State]
"""Changes the state with which a fork begins, before its code is found."""

List: TypeAlias = Callable[[SessionFilter, StoredSession | None, int], Awaitable[tuple[StoredSession, ...]]]
"""Reads a page of the list of stored sessions."""

DUE_PAGE: Final = 1000
"""How many stored sessions are listed at once."""

AT_ONCE: Final = 16
"""How many sessions are brought back at the same time."""

AT_WORK: Final = SessionFilter(at_work=True, ended=False)
DUE: Final = SessionFilter(ended=False, due_before=INT_MAX)
"""The sessions that are brought back: at once, and when their first timer is due."""

FIRST_PAUSE: Final = 1.0
"""Seconds until a session is brought back again whose specification could not be built; doubled before each attempt."""

MAX_PAUSE: Final = 300.0
"""The longest pause between two such attempts, in seconds."""

AGAIN: Final = "\nit is tried again in %g s"

NEXT_PAGE: Final = ("", "next page of due sessions")
"""Key of the timer; no session has the empty id."""


class Returning:
    """Brings sessions back: *listed* lists those that are stored, *resume* resumes one whose opening was read."""

    def __init__(self, shared: SharedServices, listed: List, resume: Callable[[str], Awaitable[None]]) -> None:
        self._shared = shared
        self._listed = listed
        self._resume = resume
        self._slots = shared.slots
        self._room = trio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Bring back what had work under way and what is due, at first also what was left at this address; for ever."""
        if self._slots is None:
            await self._bring_back_all(None)
            return
        round_ = await self._slots.after(0)
        await self._bring_back_all(self._slots.first)
        while True:
            round_ = await self._slots.after(round_)
            await self._bring_back_all(self._slots.held)

    async def _bring_back_all(self, slots: frozenset[int] | None) -> None:
        """Bring back the sessions that had work under way and those that are due; set timers for the next ones."""

        def log_failure(error: BaseException) -> None:
            log.error("the sessions that had something under way are not brought back: %s", _error_text(error))

        with Contained(log_failure):  # a journal may be code of users
            last = None
            while page := await self._page(_within(AT_WORK, slots), last):
                last = page[-1]
                for stored in page:
                    await self._begin(stored)
        await self._bring_back_due(_within(DUE, slots), None)

    async def _page(self, filter_: SessionFilter, after: StoredSession | None) -> tuple[StoredSession, ...]:
        return await patiently(partial(self._listed, filter_, after, DUE_PAGE))

    async def _bring_back_due(self, session_filter: SessionFilter, after: StoredSession | None) -> None:
        """Bring back what is due after *after*; set timers for the rest of the last page and for the next page.

        So only the next ones of many sessions with timers are known here.
        """

        def log_failure(error: BaseException) -> None:
            log.error("the sessions that wait for a timer are not brought back: %s", _error_text(error))

        with Contained(log_failure):
            while page := await self._page(session_filter, after):
                after = page[-1]
                now = self._shared.clock.now_ms()
                for stored in page:
                    if stored.due is None or stored.due <= now:
                        await self._begin(stored)
                    elif not stored.problem:
                        self._bring_back_at(stored.session_id, stored.due)
                if len(page) == DUE_PAGE and after.due is not None and after.due > now:
                    self._set_timer(NEXT_PAGE, after.due, partial(self._bring_back_due, session_filter, after))
                    return

    async def _begin(self, stored: StoredSession) -> None:
        """Bring a session back in a task of its own, as soon as there is room for one more."""
        if not stored.ended and not stored.problem:
            await self._room.acquire()
            self._shared.nursery.start_soon(self._bring_back_in_its_room, stored.session_id)

    async def _bring_back_in_its_room(self, session_id: str) -> None:
        try:
            await self._bring_back(session_id, attempts=1)
        finally:
            self._room.release()

    def _bring_back_at(self, session_id: str, due_ms: int) -> None:
        self._set_timer((session_id, "due"), due_ms, partial(self._bring_back, session_id))

    def _set_timer(self, key: Key, due_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        """Start *work* in a task at a time in milliseconds since 1970."""

        def is_due() -> None:
            self._shared.nursery.start_soon(work)

        self._shared.timers.set(key, self._shared.clock.trio_time(due_ms), is_due)

    async def _bring_back(self, session_id: str, attempts: int | None = None, pause: float = FIRST_PAUSE) -> None:
        """Resume one session; any error is logged, and does not keep others from being resumed.

        If the journal fails *attempts* times, continue in the background. If another supervisor holds the session, try
        again when its lease would end, or when its slots show that it has died. If the program's code raises an
        exception of its own, try again after *pause* seconds: what it builds the specification from may be away for a
        while, and nobody else may ask for the session.
        """

        def log_failure(error: BaseException) -> None:
            if isinstance(error, JournalUnavailable):
                self._shared.nursery.start_soon(self._bring_back, session_id)
            elif isinstance(error, SessionHeld):
                if self._slots is None or error.holder not in self._slots.others:
                    rest = max(error.left, LEAST_PAUSE)
                    self._bring_back_at(session_id, self._shared.clock.now_ms() + rest)
            elif isinstance(error, AgentrailError):
                log.error("session %s cannot be brought back: %s", session_id, error)
            else:
                log.error("session %s cannot be brought back: %s%s", session_id, traced(error), AGAIN % pause)
                again = partial(self._bring_back, session_id, None, min(2 * pause, MAX_PAUSE))
                due_ms = self._shared.clock.now_ms() + int(pause * 1000)
                self._set_timer((session_id, "again"), due_ms, again)

        with Contained(log_failure):  # specifications are built by code of users
            await patiently(partial(self._bring_back_once, session_id), attempts=attempts)

    async def _bring_back_once(self, session_id: str) -> None:
        if not (await read_opening(self._shared, session_id)).setup.path:  # a sub-agent is resumed by its parent
            await self._resume(session_id)


def _within(filter_: SessionFilter, slots: frozenset[int] | None) -> SessionFilter:
    return filter_ if slots is None else filter_.but(slots=slots)


def _error_text(error: BaseException) -> object:
    return error if isinstance(error, AgentrailError) else traced(error)
