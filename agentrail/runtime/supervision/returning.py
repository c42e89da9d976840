"""`Returning`: brings stored sessions back when a supervisor is opened: those with work under way, and those due."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeAlias

import trio

from agentrail.errors import AgentrailError, JournalUnavailable, SessionHeld
from agentrail.ports.journal import SessionFilter, StoredSession
from agentrail.runtime.resources import SharedServices
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.sanitize import Contained, traced
from agentrail.runtime.shared.timers import Key
from agentrail.runtime.supervision.recovery import read_opening
from agentrail.values.json import INT_MAX

log = logging.getLogger("agentrail.supervisor")

List: TypeAlias = Callable[[SessionFilter, StoredSession | None, int], Awaitable[tuple[StoredSession, ...]]]
"""Reads a page of the list of stored sessions."""

PAGE: Final = 1000
"""How many stored sessions are listed at once."""

AT_ONCE: Final = 16
"""How many sessions are brought back at the same time."""

AT_WORK: Final = SessionFilter(at_work=True, ended=False)
DUE: Final = SessionFilter(ended=False, due_before=INT_MAX)
"""The sessions that are brought back: at once, and when their first timer is due."""

FIRST_PAUSE: Final = 1.0
"""Seconds until a session is brought back again whose specification could not be built; doubled before each attempt."""

LONGEST_PAUSE: Final = 300.0
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
        self._room = trio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Bring back the sessions that had work under way and those that are due; set timers for the next ones."""

        def told(error: BaseException) -> None:
            log.error("the sessions that had something under way are not brought back: %s", _said(error))

        with Contained(told):  # a journal may be code of users
            last = None
            while page := await self._page(AT_WORK, last):
                last = page[-1]
                for stored in page:
                    await self._begin(stored)
        await self._bring_back_due(None)

    async def _page(self, wanted: SessionFilter, after: StoredSession | None) -> tuple[StoredSession, ...]:
        return await patiently(partial(self._listed, wanted, after, PAGE))

    async def _bring_back_due(self, after: StoredSession | None) -> None:
        """Bring back what is due after *after*; set timers for the rest of the last page and for the next page.

        So only the next ones of many sessions with timers are known here.
        """

        def told(error: BaseException) -> None:
            log.error("the sessions that wait for a timer are not brought back: %s", _said(error))

        with Contained(told):
            while page := await self._page(DUE, after):
                after = page[-1]
                now = self._shared.clock.now_ms()
                for stored in page:
                    if stored.due is None or stored.due <= now:
                        await self._begin(stored)
                    elif not stored.problem:
                        self._bring_back_at(stored.session_id, stored.due)
                if len(page) == PAGE and after.due is not None and after.due > now:
                    self._set_timer(NEXT_PAGE, after.due, partial(self._bring_back_due, after))
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

    def _bring_back_at(self, session_id: str, at: int) -> None:
        self._set_timer((session_id, "due"), at, partial(self._bring_back, session_id))

    def _set_timer(self, key: Key, at: int, work: Callable[[], Awaitable[None]]) -> None:
        """Start *work* in a task at a time in milliseconds since 1970."""

        def is_due() -> None:
            self._shared.nursery.start_soon(work)

        self._shared.timers.set(key, self._shared.clock.moment(at), is_due)

    async def _bring_back(self, session_id: str, attempts: int | None = None, pause: float = FIRST_PAUSE) -> None:
        """Resume one session; any error is logged, and does not keep others from being resumed.

        If the journal fails *attempts* times, continue in the background. If another supervisor holds the session, try
        again when its lease has ended. If the program's code raises an exception of its own, try again after *pause*
        seconds: what it builds the specification from may be away for a while, and nobody else may ask for the session.
        """

        def told(error: BaseException) -> None:
            if isinstance(error, JournalUnavailable):
                self._shared.nursery.start_soon(self._bring_back, session_id)
            elif isinstance(error, SessionHeld):
                _, _, until = error.args
                self._bring_back_at(session_id, until)
            elif isinstance(error, AgentrailError):
                log.error("session %s cannot be brought back: %s", session_id, error)
            else:
                log.error("session %s cannot be brought back: %s%s", session_id, traced(error), AGAIN % pause)
                again = partial(self._bring_back, session_id, None, min(2 * pause, LONGEST_PAUSE))
                at = self._shared.clock.now_ms() + int(pause * 1000)
                self._set_timer((session_id, "again"), at, again)

        with Contained(told):  # specifications are built by code of users
            await patiently(partial(self._bring_back_once, session_id), attempts=attempts)

    async def _bring_back_once(self, session_id: str) -> None:
        if not (await read_opening(self._shared, session_id)).setup.path:  # a sub-agent is resumed by its parent
            await self._resume(session_id)


def _said(error: BaseException) -> object:
    return error if isinstance(error, AgentrailError) else traced(error)
