"""`Leases`: the claims of one tree of supervisors, whose leases are renewed together until they are released."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio

from agentrail.errors import AgentrailError, JournalUnavailable
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Claim, Journal, Lease
from agentrail.reprs import in_brackets, some
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.timers import Timers

log = logging.getLogger("agentrail.supervisor")

RENEWALS: Final = 3
"""How often a lease is renewed before it would end: two renewals may fail before another holder can claim."""

RELEASE_AFTER: Final = 0.05
"""Seconds in which sessions that end are gathered, to be released by one call."""

RENEWAL: Final = ("", "renewal of leases")
RELEASE: Final = ("", "release of leases")
"""Keys of the two timers; no session has the empty id."""


def _ignore(_: Claim) -> None:
    """No-op, until the sessions of the tree set their own."""


class Leases:
    """Claims sessions for the supervisor at *address*; their leases last *lasts* milliseconds, or not at all if 0."""

    __slots__ = (
        "_claims",
        "_is_due",
        "_journal",
        "_lasts",
        "_leaving",
        "_lock",
        "_timers",
        "_wakeup",
        "address",
        "lost",
    )

    def __init__(self, journal: Journal, timers: Timers, address: str, lasts: int) -> None:
        self.address = address
        self.lost: Callable[[Claim], None] = _ignore
        self._journal = journal
        self._timers = timers
        self._lasts = lasts
        self._claims: dict[str, Claim] = {}
        self._leaving: list[Claim] = []
        self._wakeup = trio.Event()
        self._is_due = False
        self._lock = trio.Lock()

    @in_brackets
    def __repr__(self) -> str:
        return f"at {self.address!r}, {some(len(self._claims), 'claim') or 'no claims'}"

    async def claim(self, session_id: str, *, take_over: bool | str = False) -> Claim:
        """Claim a session, and keep its lease until `release`; raise `SessionHeld` if another supervisor holds it."""
        claim = await self._journal.claim(session_id, self.address, self._lease(), take_over=take_over)
        if self._lasts:
            if not self._claims:
                self._set_timer()
            self._claims[session_id] = claim
            try:
                await trio.lowlevel.checkpoint_if_cancelled()
            except trio.Cancelled:  # the caller was cancelled, and nothing else would release the claim
                self.release(session_id)
                raise
        return claim

    def has(self, session_id: str) -> bool:
        """Whether a session is claimed here, as far as the last renewal has told."""
        return session_id in self._claims

    def release(self, session_id: str) -> None:
        """Stop renewing the lease of a session, and have it released soon. No-op if there is none."""
        claim = self._claims.pop(session_id, None)
        if claim is not None:
            if not self._leaving:
                self._timers.set(RELEASE, self._timers.clock.after(RELEASE_AFTER), self._release_is_due)
            self._leaving.append(claim)

    async def run(self) -> None:
        """Renew and release leases; runs until cancelled."""
        while True:
            await self._wakeup.wait()
            self._wakeup = trio.Event()
            await self.let_go()
            if self._is_due:
                self._is_due = False
                await self.renew()
                if self._claims:
                    self._set_timer()

    async def close(self) -> None:
        """Release all leases that are left."""
        for session_id in tuple(self._claims):
            self.release(session_id)
        await self.let_go()

    async def let_go(self) -> None:
        """Release the leases that are to be released soon; if the journal fails, they expire by themselves."""
        async with self._lock:
            leaving, self._leaving = self._leaving, []
            if not leaving:
                return
            try:
                await self._journal.release(leaving)
            except AgentrailError as error:
                _complain("released", error)
        reach("RELEASED")

    async def renew(self) -> None:
        """Renew all leases, as often as it takes; tell of those that are lost."""
        try:
            lost = await patiently(self._renewed)
        except AgentrailError as error:
            _complain("renewed", error)
            return
        reach("RENEWED")
        for claim in lost:
            if self._claims.get(claim.session_id) == claim:
                del self._claims[claim.session_id]
                self.lost(claim)

    async def _renewed(self) -> tuple[Claim, ...]:
        """Renew all leases once; return the claims that are lost."""
        async with self._lock:
            claims = tuple(self._claims.values())
            return await self._journal.renew(claims, self._lease()) if claims else ()

    def _lease(self) -> Lease:
        """Return a lease that begins now."""
        return Lease(self._timers.clock.now_ms(), self._lasts)

    def _set_timer(self) -> None:
        """Set the timer for the next renewal."""
        self._timers.set(RENEWAL, self._timers.clock.after(self._lasts / 1000 / RENEWALS), self._renewal_is_due)

    def _renewal_is_due(self) -> None:
        """Wake the task to renew the leases."""
        self._is_due = True
        self._wakeup.set()

    def _release_is_due(self) -> None:
        """Wake the task to release leases."""
        self._wakeup.set()


def _complain(what: str, error: AgentrailError) -> None:
    """Log an error of the journal, unless it is an outage, which is logged elsewhere.

    `CommitUnknown` ends no session here, because only leases are in doubt. A session meets it at its own next record.
    """
    if not isinstance(error, JournalUnavailable):
        log.error("leases of sessions could not be %s, and end unless the next attempt succeeds: %s", what, error)
