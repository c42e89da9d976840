"""The actor: one task, two awaits (receive, commit), and the only one who changes the session's state."""

from __future__ import annotations

import time
from functools import partial

import trio

from agentrail.core.machine.actor_notes import can_sleep
from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary import inputs
from agentrail.core.vocabulary.commands import Accepted, Answer, ChangeToolsSent, Refused
from agentrail.core.vocabulary.effects import AnyEffect
from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import IllegalInput, SessionAsleep
from agentrail.ports.journal import Claim
from agentrail.ports.tool import ToolSource
from agentrail.reprs import in_brackets
from agentrail.runtime.actor.completed_inputs import COMPLETED, SAYS_PARTIAL, completed, with_partial
from agentrail.runtime.actor.early_release import relieve
from agentrail.runtime.actor.end_reason import Gone, why_gone
from agentrail.runtime.actor.hibernation import Sleep, without_code
from agentrail.runtime.actor.journal_log import Records, begun, rebuilt, with_plugins_of
from agentrail.runtime.actor.parent_link import Ties
from agentrail.runtime.actor.perform import Performer
from agentrail.runtime.actor.slow_hooks import SLOW_HOOKS, SlowHooks
from agentrail.runtime.actor.tool_sources import RunningSource, Sources
from agentrail.runtime.events.bus import Bus
from agentrail.runtime.events.tracing import Traces
from agentrail.runtime.inbox.known_commands import Answers, digest_of
from agentrail.runtime.inbox.mailbox import Letter, Mailbox
from agentrail.runtime.inbox.replies import Waiters
from agentrail.runtime.resources import FindCode, SessionCode, SharedServices
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.values.events.life import AbortPending

LATE_COMMIT = 0.05
"""Seconds after which an abort that is not durable yet is announced."""

TOLD = (inputs.ActorRestarted, inputs.CrashedTooOften, inputs.SessionWoke)
"""What a session is told of its own actor, anew each time."""


class Session:
    """The live side of one session."""

    __slots__ = (
        "_aborting",
        "_answers",
        "_in_doubt",
        "_in_hand",
        "_left",
        "_outfit",
        "_performer",
        "_slow",
        "_touched",
        "broke",
        "bus",
        "down",
        "gone",
        "home",
        "house",
        "mailbox",
        "parked",
        "records",
        "session_id",
        "sleep",
        "sources",
        "state",
        "ties",
        "traces",
        "waiters",
    )

    def __init__(
        self,
        state: State,
        claim: Claim,
        house: SharedServices,
        outfit: SessionCode,
        equip: FindCode,
        *,
        returned: bool = False,
    ) -> None:
        self.session_id = state.session_id
        self.state = state
        self.home = trio.lowlevel.current_trio_token()
        self.house = house
        self._outfit: SessionCode | None = outfit
        self.sleep = Sleep(equip, outfit)
        self.mailbox = Mailbox(state.session_id, house.gate)
        self.records = Records(claim, house, None if returned else state)
        buffered = state.setup.options.event_buffer_size
        self.bus = Bus(self.session_id, buffered, self.records, state.seq)
        self.ties = Ties()
        self._performer: Performer | None = Performer(self.session_id, house, outfit, self.bus, self.post, self.ties)
        self.sources = Sources()
        self.waiters = Waiters()
        self.down: tuple[Slot[Gone], ...] = ()
        self.gone: Gone | None = None
        self.records.relieve = self.relieve
        self.traces = Traces()
        self._aborting: Slot[Answer] | None = None
        self.broke: str | None = None
        self.parked = False
        self._touched = 0
        self._slow = SlowHooks(state.session_id, self.mailbox)
        self._in_hand: Letter | None = None
        self._in_doubt: Step | None = None
        self._left: tuple[Step, Letter, bool] | None = None
        self._answers = Answers(state.session_id, house.journal, new=not returned)

    @in_brackets
    def __repr__(self) -> str:
        return self.sleep.summary(self.state)

    @property
    def outfit(self) -> SessionCode:
        """Its code, while it is awake."""
        if self._outfit is None:
            raise SessionAsleep(self.session_id)
        return self._outfit

    @property
    def performer(self) -> Performer:
        """What it has going on in the world, while it is awake."""
        if self._performer is None:
            raise SessionAsleep(self.session_id)
        return self._performer

    # The loop

    def post(self, given: inputs.AnyInput) -> None:
        """Post a result of the session's own work."""
        self.mailbox.post_result(Letter(given))

    async def run(self) -> None:
        """Own the session until it ends; whoever *broke* the actor before is told in the journal."""
        if self.sleep.is_deep:
            await self._wake()
        elif self.broke is not None:
            await self._come_back(inputs.ActorRestarted(self.broke))
        self._touched = self.house.clock.now_ms()
        self._look_after()
        while self.state.phase is not Phase.ENDED:
            await self._take(await self.mailbox.receive())
            if self.state.asleep:
                if self.mailbox.is_empty and await self._fall_asleep():
                    return
                await self._take(Letter(inputs.SessionWoke()))

    async def _take(self, letter: Letter) -> None:
        """Handle a letter; until that is done, it is known which one it is."""
        self._in_hand = letter
        await self._handle(letter)
        self._in_hand = None

    @property
    def in_hand(self) -> str:
        """The message that is being handled: its kind and its number."""
        letter = self._in_hand
        return "" if letter is None else f"{type(letter.given).__name__} {letter.number}"

    async def set_aside(self, cause: str, input_: str) -> None:
        """Write down, if that is possible, that the actor is given up."""
        told = inputs.CrashedTooOften(cause, input_)
        if not self.sleep.is_deep:
            await self._come_back(told)
            return
        state = await self._stored()
        arrival = inputs.Arrival(told, self.house.clock.now_ms(), self.house.random.random())
        outcome = step(state, arrival, without_code())
        await self.records.write(arrival, outcome, None)
        self.state = outcome.state
        self.sleep.is_thin = False
        self.bus.publish(outcome.events)

    async def _stored(self) -> State:
        """Return the state that its records tell, which nobody else may have gone on with."""
        state, head = await self.records.through(partial(rebuilt, self.house.journal, self.session_id))
        if head != self.records.head:
            raise self.records.fenced
        return state

    async def _come_back(self, told: inputs.ActorRestarted | inputs.CrashedTooOften) -> None:
        """Take the state from the records, finish or put back what was in hand, and tell the session."""
        state, head = await self.records.through(partial(rebuilt, self.house.journal, self.session_id))
        letter, doubtful, records = self._in_hand, self._in_doubt, self.records
        if doubtful is not None and letter is not None and head == records.head + len(records.unwritten):
            self.state, self._left = doubtful.state, (doubtful, letter, True)
        elif head != records.head:
            raise records.fenced
        self._in_doubt = None
        began = records.come_back(head)
        state = state if began is None else begun(state, began)
        self.state = with_plugins_of(state, self.state, head)
        if self._left is not None:
            self._show(*self._left)
        elif letter is not None and type(letter.given) not in TOLD:
            self.mailbox.put_back(letter)
        await self._take(Letter(told))

    async def _handle(self, letter: Letter) -> None:
        house, performer = self.house, self.performer
        self._touched = house.clock.now_ms()
        if letter.command is not None and await self._was_answered(letter.command, letter):
            return
        given = letter.given
        if type(given) in COMPLETED:
            given = completed(letter, performer, self.mailbox, self.ties, self._slow)
        if letter.prepare is not None:
            letter.prepare()
        arrival = inputs.Arrival(given, self._touched, house.random.random())
        if self.state.request is not None and type(given) not in SAYS_PARTIAL:
            arrival = with_partial(arrival, self.state, performer)
        began = time.perf_counter()
        crumb = house.watchdog.begin(self.session_id, type(given).__name__, began)
        try:
            outcome = step(self.state, arrival, self.outfit.judge)
        except IllegalInput as error:
            letter.settle(Refused(error))
            return
        finally:
            house.watchdog.step = None
        ended = time.perf_counter()
        if ended - began > SLOW_HOOKS:
            self.mailbox.let_others_run()
            self._slow.took(ended - began - house.watchdog.collecting(crumb, ended), self.state, given, outcome)
        performer.stop_early(outcome.effects)
        told = letter.command is not None and outcome.answer is not None  # also a refusal: it is answered so for good
        if told or outcome.changes(self.state):
            if isinstance(given, inputs.StreamBegan):
                self.records.began = given.request_id
            elif not self._never_was(outcome):
                self._in_doubt = outcome
                await self.records.write(arrival, outcome, letter.command)  # before anybody hears of it
                self._in_doubt = None
        if self.traces:
            self.traces.show(self.state, arrival, outcome)
        self.state = outcome.state
        self._show(outcome, letter)
        if letter.prepare is not None:
            self.outfit.keep(self.state)

    async def _was_answered(self, command: str, letter: Letter) -> bool:
        """Answer a command as it was answered before, if it was."""
        known = await self._answers.known(command, letter.digest)
        if known is None:
            return False
        if letter.watch is not None and isinstance(known, Accepted):
            letter.watch(known.ref)
        letter.settle(known)
        return True

    def _never_was(self, outcome: Step) -> bool:
        """Whether the session ended before it had started: nothing is written, and its id stays free."""
        return self.records.head == 0 and outcome.state.phase is Phase.ENDED

    def _show(self, outcome: Step, letter: Letter, publish: bool = True) -> None:
        """Publish, perform, answer: everything is durable now. What a crash leaves undone is left to the next actor."""
        performer = self.performer
        performer.state = outcome.state
        if isinstance(letter.given, inputs.StreamEnded | inputs.StreamCut):
            performer.release(letter.given.request_id)
        effects = iter(outcome.effects)
        left: tuple[AnyEffect, ...] = ()
        try:
            if publish:
                self.bus.publish(outcome.events)
            for effect in effects:
                left = (effect,)
                performer.perform(effect)
        except BaseException:
            self._left = (outcome.but(effects=(*left, *effects)), letter, False)
            raise
        self._left = None
        answer = outcome.answer
        if answer is not None:
            if letter.command is not None:
                self._answers.remember(letter.command, letter.digest, answer)
            if letter.watch is not None and isinstance(answer, Accepted):
                letter.watch(answer.ref)
            letter.settle(answer)
        if self.waiters:
            self.waiters.notice(outcome, self.ties.held)
        self.ties.tell(outcome)

    async def open_sources(self) -> None:
        """Start what supplies tools; return when each source has offered some, or could not."""
        parts = (self.house, self.outfit, self.mailbox, lambda: self.state)
        await self.sources.open([RunningSource(source, *parts) for source in self.outfit.sources], self.house.nursery)
        for late in self.performer.late.release():
            self.performer.start_call(late)

    async def join_source(self, source: ToolSource, command: str | None) -> None:
        """Start one more source of tools, and return when it has offered some; raise why it could not."""
        if command is not None and await self._answers.known(command, digest_of(ChangeToolsSent(source=source.name))):
            return
        parts = (self.house, self.outfit, self.mailbox, lambda: self.state)
        await self.sources.join(RunningSource(source, *parts, joins=True, command=command), self.house.nursery)

    # Sleep

    def _look_after(self) -> None:
        """Look, when the session may have had nothing to do for long enough, whether that is so."""
        after = self.state.setup.options.hibernate_after
        if after is not None:
            at = self.house.clock.moment(self._touched) + after
            if (now := self.house.clock.now()) >= at:
                at = now + after
                if self._is_quiet():
                    self.post(inputs.SleepDue())
            self.house.timers.set((self.session_id, "sleep"), at, self._look_after)

    def _is_quiet(self) -> bool:
        """Whether nothing is under way that only lives here."""
        idle = self._in_hand is None and self.mailbox.is_empty and not self.mailbox.suspended
        return idle and can_sleep(self.state) and not (self.sources or self.traces or self.performer.is_busy)

    async def _fall_asleep(self) -> bool:
        """Keep what waking up needs in the journal, and let go of the rest; not if something came meanwhile."""
        await self.records.keep(self.state, self.records.head)
        if not self.mailbox.is_empty:
            return False
        self.house.timers.clear((self.session_id, "sleep"))
        self._performer = None
        self._answers.forget()
        self.bus.rest()
        self.state, self._outfit = self.sleep.begin(self.state, self.outfit)
        return True

    async def _wake(self) -> None:
        """Take up again what the journal tells; the letter that is there is handled then."""
        self.state, self._outfit = self.sleep.end(await self._stored(), self.records.head)
        self._performer = Performer(self.session_id, self.house, self._outfit, self.bus, self.post, self.ties)
        await self._take(Letter(inputs.SessionWoke()))

    # From the handle

    def abort_now(self, kill_tools: str, command: str | None, answer: Slot[Answer]) -> None:
        """Stop what an abort stops, at once; the step, the record and the event follow, and *answer* with them."""
        if self.gone is not None or self.sleep.is_deep or self._answers.has(command):
            return
        # Not by way of the mailbox: a commit may take a second, and what runs would go on until the abort is handled.
        # tests/runtime/test_abort.py::test_it_is_cut_at_once_also_while_another_commit_is_late
        self.performer.stop_now(self.state, kill_tools)
        if self._aborting is None or self._aborting.settled:
            self._aborting = answer
            self.house.timers.set((self.state.session_id, "abort"), self.house.clock.after(LATE_COMMIT), self._announce)

    def relieve(self) -> None:
        """Answer those who wait for an abort or a stop, if the journal cannot write."""
        stuck = self.records.stuck
        if stuck is not None:
            in_hand = () if self._in_hand is None else (self._in_hand,)
            relieve(self.session_id, (*in_hand, *self.mailbox.control), stuck)

    def _announce(self) -> None:
        """Say that an abort is still being written, if it is."""
        if self._aborting is not None and (not self._aborting.settled or self.records.stuck is not None):
            self.bus.whisper(AbortPending(), self.house.clock.now_ms())

    # The end

    async def wait_down(self) -> Gone:
        """Return, when the session is gone for good, why."""
        if self.gone is not None:
            return self.gone
        slot: Slot[Gone] = Slot()
        self.down = (*self.down, slot)
        try:
            return await slot.wait()
        finally:
            self.down = tuple(other for other in self.down if other is not slot)

    def finish(self, error: BaseException | None) -> None:
        """Clean up behind the loop, however it ended, and tell everybody who waits."""
        gone = self.gone = why_gone(self.state, error, parked=self.parked)
        if self._performer is not None:
            self._performer.close()
            self._performer.started.settle(gone.error)
        self.sources.close(gone.error)
        self.house.timers.clear_all(self.session_id)
        if self._in_hand is not None:
            self._in_hand.settle(Refused(gone.error))
        self.mailbox.close(Refused(gone.error))
        self.waiters.close(gone.error)
        self.bus.close()
        self.traces.end()
        self.ties.gone(gone.error)
        waiting, self.down = self.down, ()
        for slot in waiting:
            slot.settle(gone)
