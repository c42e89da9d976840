"""State that all supervisors of a tree share: sessions by id, crash reports, and quarantined sessions."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Final
from weakref import WeakSet

from agentrail.runtime.actor.session import Session
from agentrail.runtime.diagnosis.crash_reports import CrashReport
from agentrail.runtime.resources import SharedServices
from agentrail.runtime.supervision.children import Child, forget_records, session_of

log = logging.getLogger("agentrail.supervisor")

MAX_REPORTS: Final = 100
"""How many crash reports are kept per tree: the newest ones."""

MAX_QUARANTINED: Final = 100
"""How many quarantined sessions are kept per tree; for a further one, the oldest is removed."""


class Tree:
    """State that all supervisors of a tree share."""

    __slots__ = ("_aside", "_past", "closing", "parks", "reports", "sessions", "shared")

    def __init__(self, shared: SharedServices) -> None:
        self.shared = shared
        self.parks = shared.forget is None
        self.sessions: dict[str, Child] = {}
        self.reports: deque[CrashReport] = deque(maxlen=MAX_REPORTS)
        self.closing = False
        self._aside: dict[str, Callable[[], None]] = {}
        self._past: WeakSet[Session] = WeakSet()

    def quarantine(self, session_id: str, let_go: Callable[[], None]) -> None:
        """Keep a quarantined session so that it can be read; if there are too many, call *let_go* with the oldest."""
        self._aside[session_id] = let_go
        if self.shared.parkable is not None:
            self.shared.parkable[session_id].set()
        if len(self._aside) > MAX_QUARANTINED:
            oldest = next(iter(self._aside))
            log.warning("session %s is let go: %d others were set aside after it", oldest, MAX_QUARANTINED)
            self._aside[oldest]()

    def let_go(self, session_id: str) -> None:
        """Let go of a quarantined session; no-op if there is none of this id."""
        if session_id in self._aside:
            self._aside[session_id]()

    def forget(self, session_id: str) -> None:
        """Remove a session that will not run again."""
        child = self.sessions.pop(session_id, None)
        session = None if child is None else session_of(child)
        if session is not None:
            self._past.add(session)
        self.shared.leases.release(session_id)
        self._aside.pop(session_id, None)
        if self.shared.figures is not None:
            self.shared.figures.changed(session_id)
        if self.shared.parkable is not None:
            self.shared.parkable[session_id].set()

    def delete(self, session_id: str) -> None:
        """Let handles of a past session and its sub-agents read no records: their ids may be used again."""
        for session in tuple(self._past):
            if session_id in (session.session_id, *session.state.setup.path[::2]):
                forget_records(session)

    def doom(self) -> None:
        """Cancel all sessions at once, so that none writes or does anything more."""
        self.closing = True
        for child in self.sessions.values():
            child.cancel()
