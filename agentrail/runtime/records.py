"""The records of one session: written in order, each before anybody hears of it, and again while there is no room."""

from __future__ import annotations

import logging
from typing import Final

import trio

from agentrail.core.inputs import Arrival
from agentrail.core.state import State
from agentrail.core.step import Step
from agentrail.errors import CommitUnknown, Fenced, JournalFull
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.journal import Claim, Record, Snapshot
from agentrail.runtime.border import traced
from agentrail.runtime.parts import House
from agentrail.runtime.slot import Slot

log = logging.getLogger("agentrail.session")

FULL_PAUSE: Final = 1.0
"""Seconds between attempts to write a record that the journal had no space for."""

SNAPSHOT_EVERY: Final = 200
"""Records after which the state is kept, so that coming back is quick."""


class Records:
    """What a session writes; *opening* is what it is spawned as, of which the first record tells."""

    __slots__ = ("_claim", "_house", "_kept", "_opening", "began", "forgotten", "head", "stuck", "unwritten")

    def __init__(self, claim: Claim, house: House, opening: State | None) -> None:
        self._claim = claim
        self._house = house
        self._opening = opening
        self._kept = claim.head
        self.head: int = claim.head
        self.unwritten: tuple[Record, ...] = ()
        self.began: str | None = None
        self.stuck: JournalFull | None = None
        self.forgotten = False

    @property
    def fenced(self) -> Fenced:
        """Why nothing more can be written, if others have."""
        return Fenced(self._claim.session_id, self._claim.epoch)

    async def read(self, after: int, limit: int) -> tuple[Record, ...]:
        """Return records behind number *after*; none if they are forgotten: others may have the id by now."""
        if self.forgotten:
            await trio.lowlevel.checkpoint()
            return ()
        return await self._house.journal.read(self._claim.session_id, after, limit)

    async def place(self, seq: int) -> int:
        """Return the number of the record behind which the events after *seq* are to be read."""
        if self.forgotten:
            await trio.lowlevel.checkpoint()
            return 0
        return await self._house.journal.place(self._claim.session_id, seq)

    async def write(self, arrival: Arrival, outcome: Step, command: str | None) -> None:
        """Write down what happened; what happens before the session has started is written when it has."""
        record = Record(
            self._claim.session_id,
            self.head + len(self.unwritten) + 1,
            arrival,
            outcome.rulings,
            outcome.events,
            outcome.state.timers,
            self.began,
            command,
            outcome.answer,
            self._opening,
            outcome.state.at_work,
        )
        self.began = self._opening = None
        self.unwritten = (*self.unwritten, record)
        while not outcome.state.opening:
            try:
                reach(Failpoint.APPEND)
                self.head = await self._house.journal.append(self._claim, self.head, self.unwritten)
                reach(Failpoint.APPENDED)
            except JournalFull as full:
                self._wait_for_space(full)
                await self._pause()
            else:
                self.unwritten = ()
                self.stuck = None
                if self.head >= self._kept + SNAPSHOT_EVERY:
                    self._kept = self.head
                    self._house.nursery.start_soon(self.keep, outcome.state, self.head)
                return

    def come_back(self, head: int) -> str | None:
        """Go on behind record *head*; return the request whose first chunk came behind it."""
        if head == self.head and self.unwritten:
            self.began = self.unwritten[0].began
        self.head, self.unwritten = head, ()
        return self.began

    async def keep(self, state: State, number: int) -> None:
        """Keep the state behind a record, so that coming back is quick; it is no loss if that fails."""
        session_id = self._claim.session_id
        try:
            await self._house.journal.keep(self._claim, Snapshot(session_id, number, state))
        except (JournalFull, Fenced):
            return
        except CommitUnknown:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no loss
            log.error("session %s: its snapshot could not be kept: %s", session_id, traced(error))  # noqa: TRY400
            return
        reach(Failpoint.SNAPSHOT_KEPT)

    def _wait_for_space(self, full: JournalFull) -> None:
        if self.stuck is None:
            log.error("session %s: %s", self._claim.session_id, full)
        self.stuck = full
        reach(Failpoint.NO_ROOM)

    async def _pause(self) -> None:
        slot: Slot[None] = Slot()
        key = (self._claim.session_id, "journal")
        self._house.timers.set(key, self._house.clock.after(FULL_PAUSE), lambda: slot.settle(None))
        await slot.wait()
