"""`Slots`: which sessions of a journal one of several supervisors looks after while no supervisor runs them.

Any of them may run any session: whoever claims it first. But what a dead one leaves has to be brought back, timers are
due, and old sessions are deleted: for the sessions of each slot, that is up to the holder of the slot. Slots are held
by leases, as sessions are, and are renewed with them: so they also tell which other supervisors are alive.

Each supervisor claims what is free, and takes slots from those that have more than their share until it has its own.
So it holds at least one, if there are not more supervisors than slots. Who loses a slot keeps the sessions that run.
Who leaves keeps its slots until its sessions are parked: nobody lists them before they can be claimed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

import trio

from agentrail.errors import SessionHeld
from agentrail.ports.journal import SLOTS, slot_claim
from agentrail.reprs import in_brackets
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.leases import Leases
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.supervisor")


def _ignore(_: frozenset[str]) -> None:
    """No-op, until somebody wants to know who has died."""


class OwnSlots:
    """The slots that a supervisor was given, for good; whoever gave them knows the other supervisors."""

    def __init__(self, slots: frozenset[int]) -> None:
        self.held = slots
        """The slots."""
        self.others: frozenset[str] = frozenset()
        """Nothing is known here of other supervisors."""
        self.first: frozenset[int] | None = slots
        """Slots of what may have been left by whoever ran at this address before."""
        self.died: Callable[[frozenset[str]], None] = _ignore
        """Never called."""

    @in_brackets
    def __repr__(self) -> str:
        return f"{len(self.held)} of {SLOTS}"

    def look_now(self) -> None:
        """No-op: nothing is looked at."""

    def settle(self) -> None:
        """No-op: no slot is claimed."""

    def end(self) -> None:
        """Let go of all slots: the supervisor takes no more sessions."""
        self.held = frozenset[int]()

    async def after(self, round_: int) -> int:
        """Return the number of the only round; wait for ever if that is over, or nothing is to be looked after."""
        if round_ or not self.held:
            await trio.sleep_forever()
        return round_ + 1


class Slots:
    """The slots that a supervisor holds by *leases*; it looks at those of others every *apart* seconds."""

    def __init__(self, leases: Leases, apart: float) -> None:
        self.held: frozenset[int] = frozenset()
        """The slots that are held here."""
        self.others: frozenset[str] = frozenset()
        """Addresses of the living supervisors that hold the others."""
        self.first: frozenset[int] | None = None
        """All slots: in any may be what was left by whoever ran at this address before."""
        self.died: Callable[[frozenset[str]], None] = _ignore
        """Called with the addresses of supervisors that hold no slot any more: their leases have ended."""
        self._leases = leases
        self._apart = apart
        self._round = 0
        self._wakeup = trio.Event()
        self._news = trio.Event()
        self._running = trio.CancelScope()

    @in_brackets
    def __repr__(self) -> str:
        return f"{len(self.held)} of {SLOTS}, {len(self.others)} others"

    async def run(self) -> None:
        """Claim free slots, and notice which supervisors have died or left, until `settle`."""

        def log_failure(error: BaseException) -> None:
            tell(log, error, "the slots of the journal were not looked at, and are looked at again")

        with self._running:
            while True:
                self._news = trio.Event()
                with Contained(log_failure):  # a journal may be code of users
                    await patiently(self.look)
                with trio.move_on_after(self._apart):
                    await self._news.wait()

    def look_now(self) -> None:
        """Look at the slots at once: somebody has let go of some."""
        self._news.set()

    def settle(self) -> None:
        """Claim no more slots: the supervisor takes no more sessions."""
        self._running.cancel()

    def end(self) -> None:
        """Let go of all slots."""
        self.settle()
        for slot in range(SLOTS):
            self._leases.release(slot_claim(slot))
        self.held = frozenset()

    async def after(self, round_: int) -> int:
        """Wait until more is to be looked after than in a round; return the number of the present one.

        The first round begins when it is known for the first time which slots are held here.
        """
        while self._round <= round_:
            await self._wakeup.wait()
        return self._round

    async def look(self) -> None:
        """Claim what is free, and a share of the rest; begin a round if a slot has come, or another supervisor died."""
        holders = {slot: holder for slot in range(SLOTS) if (holder := await self._holder(slot)) is not None}
        await self._take_share(holders)
        own_slots, others = frozenset(range(SLOTS)).difference(holders), frozenset(holders.values())
        dead = self.others - others
        has_more = not self._round or own_slots - self.held or dead
        self.held, self.others = own_slots, others
        if dead:
            self.died(dead)
        if has_more:
            self._round += 1
            wakeup, self._wakeup = self._wakeup, trio.Event()
            wakeup.set()

    async def _holder(self, slot: int) -> str | None:
        """Claim a slot if it is free; return the address of its holder, `None` if it is held here."""
        name = slot_claim(slot)
        if not self._leases.has(name):
            try:
                await self._leases.claim(name)
            except SessionHeld as held:
                return held.holder
        return None

    async def _take_share(self, holders: dict[int, str]) -> None:
        """Take slots from those who have the most of them until the share of this supervisor is held here."""
        share = SLOTS // (len(set(holders.values())) + 1)
        while SLOTS - len(holders) < share:
            richest, most = Counter(holders.values()).most_common(1)[0]
            if most <= share:
                return
            slot = next(slot for slot, holder in holders.items() if holder == richest)
            try:
                await self._leases.claim(slot_claim(slot), take_over=richest)
            except SessionHeld as held:  # another supervisor has come, and was faster
                holders[slot] = held.holder
            else:
                del holders[slot]
