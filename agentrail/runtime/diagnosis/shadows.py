"""`Shadow`: plugins that are asked beside those of a session that runs, from its records and in a thread.

A session never waits for its shadow, and nothing of it is stored: what it would have done follows from the records, so
it is found again when the session comes back.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import trio

from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError
from agentrail.hooks.attachments import AttachedPlugin
from agentrail.hooks.live_runner import LiveRunner, any_model
from agentrail.hooks.plugin import AnyPlugin
from agentrail.insight.candidate_row import CandidateRow
from agentrail.insight.session_backtest import Parting, SessionBackTest, SessionWalk
from agentrail.insight.shadow_report import ShadowReport
from agentrail.ports.instrumentation import RecordListener
from agentrail.ports.journal import Record
from agentrail.runtime.shared.clock import Clock
from agentrail.values.events.envelope import Ephemeral
from agentrail.values.events.plugins import ShadowDiffers, ShadowEnded
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.session")

PAGE: Final = 200
"""How many records are looked at in one go of the thread."""

MOST_WAITING: Final = 2_000
"""How many records may wait for a shadow that is slow, before it is let go of."""

MOST_KEPT: Final = 100
"""How many of the last differences a report has."""

SLOW: Final = 0.05
"""Seconds of CPU that a shadow may take for one record, on average of a page."""

STRIKES: Final = 3
"""How often it may take longer, or fail, before it is let go of."""

ReadRecords = Callable[[int, int], Awaitable[Sequence[Record]]]
Publish = Callable[[Ephemeral, int], None]


class Shadow:
    """The plugins in the shadow of one session, and what they would have done."""

    __slots__ = (
        "_candidate",
        "_clock",
        "_failures",
        "_head",
        "_limiter",
        "_news",
        "_plugins",
        "_publish",
        "_read",
        "_report",
        "_runner",
        "_session_id",
        "_strikes",
        "_waiting",
        "_walk",
        "scope",
    )

    def __init__(
        self, session_id: str, plugins: Mapping[str, AnyPlugin], runner: LiveRunner, head: int, clock: Clock
    ) -> None:
        self._session_id = session_id
        self._plugins = plugins
        self._runner = runner
        """The runner of the session, whose own plugins are asked again: a ruling is that of all together."""
        self._head = head
        """Number of the last record when the shadow began: those up to it are read from the journal, and not told."""
        self._clock = clock
        self._walk = SessionWalk(session_id, beyond=True)
        self._waiting: deque[Record] = deque()
        self._news = trio.Event()
        self._report = ShadowReport()
        self._strikes = 0
        self._candidate: CandidateRow | None = None
        """The plugins with their states, once a record was looked at."""
        self._failures: list[str] = []
        """What plugins of the shadow raised, in words."""
        self._limiter = trio.CapacityLimiter(1)
        """Of its own: the thread of one that hangs keeps no other from running."""
        self.scope = trio.CancelScope()
        """Ends it."""

    @property
    def report(self) -> ShadowReport:
        """What the plugins would have done so far."""
        return self._report

    def note(self, record: Record) -> None:
        """Take a record that was written; called for each."""
        if self._report.ended:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.clear()
            self._report = self._report.but(ended=f"{MOST_WAITING:,} records waited for it: it hangs, or is too slow")
        else:
            self._waiting.append(record)
        self._news.set()

    async def run(self, read_records: ReadRecords, publish: Publish) -> None:
        """Look at all records, those of before first, until the shadow is let go of, or `scope` is cancelled."""
        with self.scope:
            await self._follow(read_records, publish)

    async def _follow(self, read_records: ReadRecords, publish: Publish) -> None:
        try:
            while self._report.record < self._head and not self._report.ended:
                page = await read_records(self._report.record, PAGE)
                if not page:
                    break
                await self._look_at(page, publish)
        except AgentrailError as error:
            self._end(f"its past cannot be read: {error}")
        while not self._report.ended:
            if not self._waiting:
                self._news = trio.Event()
                await self._news.wait()
                continue
            page = [self._waiting.popleft() for _ in range(min(PAGE, len(self._waiting)))]
            await self._look_at([record for record in page if record.number > self._report.record], publish)
        log.warning("session %s: its shadow is let go of: %s", self._session_id, self._report.ended)
        publish(ShadowEnded(self._report.ended), self._clock.now_ms())

    async def _look_at(self, records: Sequence[Record], publish: Publish) -> None:
        """Show *records* to the plugins, in a thread: their code may take any time, or never return."""
        if not records:
            return
        outcome, seconds = await trio.to_thread.run_sync(
            self._compare, records, abandon_on_cancel=True, limiter=self._limiter
        )
        report = self._report
        self._report = report.but(
            record=records[-1].number,
            rulings=outcome.rulings,
            differing=report.differing + len(outcome.parts),
            parts=(*report.parts, *outcome.parts)[-MOST_KEPT:],
        )
        for part in outcome.parts:
            if part.record > self._head:
                publish(_event_of(part), self._clock.now_ms())
        if outcome.skipped:
            self._end(outcome.skipped)
        if self._candidate is not None:
            for key, why in self._candidate.refused.items():
                self._end(f"`{key}` made no first state: {why}")
        if len(self._failures) >= STRIKES:
            self._end(f"{self._failures[-1]} ({len(self._failures)} failures)")
        if seconds > SLOW * len(records):
            self._strikes += 1
            if self._strikes == STRIKES:
                self._end(f"it was slow {STRIKES} times: {seconds / len(records) * 1000:.0f} ms for a record")

    def _compare(self, records: Sequence[Record]) -> tuple[SessionBackTest, float]:
        began = time.thread_time()
        try:
            for record in records:
                if not self._walk.take(record, self._row):
                    break
        # No interrupt of a person, which comes in the main thread: whatever a plugin raises, the session goes on.
        except BaseException as error:  # noqa: BLE001, ASYNC103 - a thread's: the report says it
            broken = self._walk.hand_out().but(skipped=f"it broke: {described(error)}")
            return broken, time.thread_time() - began  # noqa: ASYNC104 - nothing is awaited
        return self._walk.hand_out(), time.thread_time() - began

    def _row(self, opening: State) -> CandidateRow:
        recorded = {attached.key for attached in opening.plugins}
        added = {key: plugin for key, plugin in self._plugins.items() if key not in recorded}
        runner = self._runner.copy(any_model)
        runner.complain = self._note_failure
        self._candidate = CandidateRow(runner, self._plugin, added)
        return self._candidate

    def _note_failure(self, attached: AttachedPlugin, hook: str, problem: str, _: BaseException | None) -> None:
        """Count a failure of a plugin of the shadow; those of the session report their own."""
        if attached.key in self._plugins:
            self._failures.append(f"`{attached.key}` failed in `{hook}`: {problem}")

    def _plugin(self, attached: AttachedPlugin) -> AnyPlugin | None:
        """Return the plugin in the place of *attached*: one of the shadow, or the session's own."""
        plugin = self._plugins.get(attached.key)
        if plugin is not None:
            return plugin
        try:
            return self._runner.plugin(attached)
        except KeyError:  # its options were others then, or it has left
            return None

    def _end(self, why: str) -> None:
        self._waiting.clear()
        self._report = self._report.but(ended=self._report.ended or why)


class Shadows:
    """The shadows of the sessions of a supervisor; made with the first one, and told of each record from then on."""

    __slots__ = ("_listener", "_of_sessions")

    def __init__(self, listener: RecordListener | None) -> None:
        self._listener = listener
        """Who was told before."""
        self._of_sessions: dict[str, Shadow] = {}

    def listen(self, old: State, record: Record) -> None:
        """Tell whoever listens, and the shadow of the session, of a record."""
        if self._listener is not None:
            self._listener(old, record)
        shadow = self._of_sessions.get(record.session_id)
        if shadow is not None:
            shadow.note(record)

    def begin(self, session_id: str, shadow: Shadow) -> None:
        """Tell *shadow* of the records of the session from now on."""
        self._of_sessions[session_id] = shadow

    def end(self, session_id: str) -> None:
        """Let go of the shadow of a session that ends or sleeps."""
        shadow = self._of_sessions.pop(session_id, None)
        if shadow is not None:
            shadow.scope.cancel()


def _event_of(part: Parting) -> ShadowDiffers:
    by = part.now.ruling.by or part.then.ruling.by or ""
    return ShadowDiffers(by, part.hook, part.call_id, part.then.sentence, part.now.sentence)
