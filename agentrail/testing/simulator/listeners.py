"""Subscribers of a simulation: each checks that its events are in the journal, complete, and in order."""

from __future__ import annotations

from typing import Final

import trio

from agentrail.app.supervisor import Supervisor
from agentrail.core.vocabulary.state import Phase
from agentrail.errors import SubscriberTooSlow
from agentrail.runtime.handle import SessionHandle
from agentrail.testing.simulator.canary import CanaryEar
from agentrail.testing.simulator.environment import Environment
from agentrail.values.events.envelope import Cursor, Envelope
from agentrail.values.events.plugins import Gap
from agentrail.values.events.policies import POLICIES

BEGINNING: Final = Cursor(0)


class CheckingListener:
    """One subscriber of a session; when it leaves or is dropped, it subscribes again from its last cursor."""

    def __init__(self, environment: Environment, supervisor: Supervisor, handle: SessionHandle, name: str) -> None:
        self._environment = environment
        self._supervisor = supervisor
        self._handle = handle
        self._choose = environment.choice("listener", handle.id, name)
        self._book = environment.auditor.book(handle.id)
        self._at = BEGINNING
        self._lost: int | None = None
        self._policy = POLICIES[0]
        self._name = name
        self._ear = CanaryEar()

    async def run(self) -> None:
        """Read events until the session's stream ends; then check that none is missing."""
        over = False
        while not over:
            self._lost = None
            policy = self._policy = self._choose.pick(POLICIES)
            capacity = self._choose.pick((None, 64, 3))
            try:
                async with self._handle.subscribe(self._at, policy=policy, capacity=capacity) as events:
                    over = True
                    async for envelope in events:
                        self._hears(envelope)
                        if self._environment.fires("subscriber_slow"):
                            await trio.sleep(self._choose.below(700) / 1000)
                        if self._environment.fires("subscriber_leaves"):
                            over = False
                            break
            except SubscriberTooSlow as slow:
                cursor = Cursor(*slow.args)
                self._demand(
                    cursor == self._at or cursor.seq == self._at.seq, "complete", "is told to go on at {}", cursor
                )
                over = False
            await trio.sleep(0.01)
        self._ends()

    def _demand(self, holds: bool, rule: str, text: str, *about: object) -> None:
        if not holds:
            whose = f"{self._name} of `{self._handle.id}`, after {tuple(self._at)}"
            self._environment.demand(False, rule, "{}: {}", whose, text.format(*about) if about else text)

    def _hears(self, envelope: Envelope) -> None:
        event = envelope.event
        self._environment.verdict.note(
            "hears", self._name, self._handle.id, envelope.seq, envelope.n, type(event).__name__
        )
        if self._environment.temper.canary:
            has_canary = self._ear.hears(envelope)
            self._demand(
                not has_canary, "screened", "the canary is heard with {}, {}: {}", envelope.seq, envelope.n, event
            )
        if isinstance(event, Gap):
            # Only the policy `drop` loses durable events; with others, a gap replaces deltas alone.
            self._lost = event.to_seq if self._policy == "drop" else self._lost
            return
        cursor, after = envelope.cursor, (self._at.seq, self._lost)
        self._demand(cursor > self._at, "complete", "{} comes out of order", tuple(cursor))
        if envelope.n == 0:
            self._demand(envelope.seq - 1 in after, "complete", "{} comes, and some are missing", envelope.seq)
            stored = self._book.events[envelope.seq - 1] if envelope.seq <= self._book.seq else None
            self._demand(stored == envelope, "published", "{} is shown, {} is written", envelope, stored)
        else:
            self._demand(envelope.seq in after, "complete", "{} overtakes a durable event", tuple(cursor))
        self._at = cursor

    def _ends(self) -> None:
        """Check that the session's last event was received, if it has ended without a crash."""
        state = self._book.state
        # The book learns of the crashes of this life when it ends.
        crashed = self._book.crashed or any(it.path[-1] == self._handle.id for it in self._supervisor.crashes())
        if state is not None and state.phase is Phase.ENDED and not crashed:
            self._demand(
                self._book.seq in (self._at.seq, self._lost), "complete", "it ends, and {} were written", self._book.seq
            )
