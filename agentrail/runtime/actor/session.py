"""The session's actor, which takes messages, runs steps and journals them. Only it changes the state.

It has a task while it waits: to start, for a journal that fails, to come back after a crash. With a journal that it
submits records to, it rests without one: it makes a step in the pass of whoever posts a letter, and carries it out as
soon as that is written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from agentrail.api.session_values import Until
from agentrail.core.machine.actor_events import can_sleep
from agentrail.core.machine.recovery import risky_calls
from agentrail.core.machine.responses import begun
from agentrail.core.machine.step import Step, step
from agentrail.core.vocabulary import inputs
from agentrail.core.vocabulary.commands import (
    AbortSent,
    Accepted,
    Answer,
    ChangeToolsSent,
    Refused,
)
from agentrail.core.vocabulary.effects import AnyEffect
from agentrail.core.vocabulary.state import ENDED, Phase, State
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import CommandSetAside, IllegalInput, JournalUnavailable, SessionAsleep
from agentrail.hooks.live_runner import LiveRunner
from agentrail.insight.cache_prefix import CachePrefix
from agentrail.ports.failpoints import reach
from agentrail.ports.journal import Claim, Record
from agentrail.ports.tool import ToolSource
from agentrail.reprs import in_brackets, listed
from agentrail.runtime.actor.amend import amend
from agentrail.runtime.actor.effect_runner import EffectRunner
from agentrail.runtime.actor.journal_log import JournalLog, rebuild_state, with_plugins_of
from agentrail.runtime.actor.parent_link import FamilyLinks
from agentrail.runtime.actor.pending_step import PendingStep
from agentrail.runtime.actor.screened_inputs import screened_digest
from agentrail.runtime.actor.session_shadow import begin_shadow
from agentrail.runtime.actor.sleep import sleeping_state, with_plugin_classes, without_code
from agentrail.runtime.actor.slow_hooks import SLOW_HOOKS, report_slow_hooks
from agentrail.runtime.actor.tool_sources import RunningSource, Sources
from agentrail.runtime.diagnosis.plugin_complaints import write_events
from agentrail.runtime.events.log import EventLog
from agentrail.runtime.events.tracing import Traces
from agentrail.runtime.inbox.command_results import CommandResults, digest_of
from agentrail.runtime.inbox.end_reason import Gone, why_gone
from agentrail.runtime.inbox.letter import Letter, ReplyOutcome, ReplySlot
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.inbox.replies import Waiters, is_open, outcome_of, relieve
from agentrail.runtime.resources import FindCode, SessionCode, SharedServices
from agentrail.runtime.shared.caller import NOBODY, Caller
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.work.own_sandbox import close_sandbox, pause_sandbox
from agentrail.values.events.life import AbortPending

if TYPE_CHECKING:
    from agentrail.runtime.diagnosis.shadows import Shadow

log = logging.getLogger("agentrail.session")

LATE_COMMIT = 0.05
"""Seconds after which an abort that is not journaled yet is announced by an event."""

OWN_REPORTS = (inputs.ActorRestarted, inputs.CrashedTooOften, inputs.SessionWoke)
"""Inputs that report the actor's own crash or wake-up. After another crash they are made anew, not put back."""

STOPS_ALL: Final = AbortSent(kill_tools="all")
"""The abort that stops what a stop does."""

NO_CONTEXT: Final = Context()
"""The context of an actor that has not run yet."""


class Session:
    """A running session: mailbox, state, journal and the work under way."""

    __slots__ = (
        "__weakref__",
        "_aborting",
        "_answers",
        "_begun_request",
        "_code",
        "_context",
        "_crash",
        "_dropped_input",
        "_drops_input",
        "_effect_runner",
        "_found_revision",
        "_in_hand",
        "_last_active_ms",
        "_pending",
        "_prefix",
        "_unconfirmed_step",
        "_unfinished_step",
        "crash_text",
        "end_waiters",
        "events",
        "find_code",
        "gone",
        "links",
        "mailbox",
        "parked",
        "records",
        "rests",
        "session_id",
        "shadow",
        "shared",
        "sources",
        "state",
        "traces",
        "waiters",
        "when_stuck",
    )

    def __init__(
        self,
        state: State,
        claim: Claim,
        shared: SharedServices,
        code: SessionCode,
        find_code: FindCode,
        *,
        returned: bool = False,
    ) -> None:
        self.session_id = state.session_id
        self.shared = shared
        self.state = state  # state after the last journaled step; reduced while the session sleeps
        self.find_code = find_code
        self._found_revision = code.revision  # if the code's differs, plugins, tools or models were added at run time
        self._code: SessionCode | None = code  # `None` while the session sleeps, unless code was added at run time
        self._context = NO_CONTEXT  # of the actor's task, for the steps that are made in other tasks
        self._crash: BaseException | None = None  # of such a step; the actor's task raises it
        self._pending: PendingStep | None = None  # such a step, while its record is written
        self._begun_request: str | None = None  # request whose response has begun, to be noted after the step under way
        self._in_hand: Letter | None = None  # letter that the actor handles, or handled when it crashed
        self.mailbox = Mailbox(state.session_id, shared.gate)
        self.records = JournalLog(claim, shared, None if returned else state, self)
        size, mid_turn = state.setup.options.event_buffer_size, state.phase is not Phase.IDLE
        self.events = EventLog(state.session_id, size, self.records, shared.hearing, state.last_seq, mid_turn=mid_turn)
        self.links = FamilyLinks()
        self.sources = Sources()
        self.waiters = Waiters()
        self.traces = Traces()
        self._answers = CommandResults(state.session_id, shared.journal, new=not returned)
        self.when_stuck: tuple[Callable[[JournalUnavailable], None], ...] = ()  # called at each failed attempt to write
        code.hook_runner.askers = self.waiters
        # `None` while the session sleeps.
        self._effect_runner: EffectRunner | None = EffectRunner(
            state, shared, code, self.events, self.mailbox, self.links, self._note_begin
        )
        self.shadow: Shadow | None = None  # what plugins of `SessionSpec.shadow` would do; `None` if there are none
        self.end_waiters: tuple[Slot[Gone], ...] = ()
        self.gone: Gone | None = None  # why this process no longer runs the session; `None` while it does
        self._aborting: Letter | None = None  # the last abort or stop that stopped work before it was journaled
        self._drops_input = False  # whether the next actor puts the letter in hand aside
        self._dropped_input = ""  # kind of a letter that was put aside, until that is journaled
        self.crash_text: str | None = None  # how the last actor crashed; the next actor reports it
        self.rests = False  # whether the actor has no task, and needs none for the next letter
        self.parked = False  # whether the session was stopped without being ended, to continue from its journal
        self._last_active_ms = 0  # when the last letter was taken, in milliseconds since 1970
        self._prefix: CachePrefix | None = None  # made when somebody subscribes to `PrefixChanged` for the first time
        # If its write raises, the record may be there or not. `_recover` compares heads, so the step is neither lost
        # nor repeated: property_tests/test_crash_anywhere.py
        self._unconfirmed_step: Step | None = None
        # What is left of a journaled step, with its letter, and whether its events are to be published: all its effects
        # must run, so the next actor performs those that a crashed one has not reached.
        self._unfinished_step: tuple[Step, Letter, bool] | None = None

    @in_brackets
    def __repr__(self) -> str:
        return self.summary

    @property
    def summary(self) -> str:
        """Id of the session, its phase, and how many prompts wait."""
        state = self.state
        phase = "asleep" if self.is_asleep else state.phase.value
        return listed(f"{self.session_id!r} {phase}", f"{len(state.queue)} queued" if state.queue else "")

    @property
    def is_asleep(self) -> bool:
        """Whether the session sleeps: only what is needed to wake it is in memory."""
        return self._effect_runner is None

    @property
    def has_whole_state(self) -> bool:
        """Whether the state can be shown; one that was set aside in its sleep is read for that."""
        return not self.is_asleep or self.state.quarantine_cause is not None

    @property
    def code(self) -> SessionCode:
        """Code of the session; raises `SessionAsleep` while the session sleeps."""
        if self._code is None:
            raise SessionAsleep(self.session_id)
        return self._code

    @property
    def effect_runner(self) -> EffectRunner:
        """Work under way (requests, calls, timers); raises `SessionAsleep` while the session sleeps."""
        if self._effect_runner is None:
            raise SessionAsleep(self.session_id)
        return self._effect_runner

    # The loop

    async def run(self) -> None:
        """Run the actor until the session ends, falls asleep or rests; after a crash, recover first."""
        self._raise_crash()
        if self._pending is not None:
            await self._end_pending(self._pending)
        if self.is_asleep:
            await self._wake()
        elif self.crash_text is not None:
            await self._recover(inputs.ActorRestarted(self.crash_text))
        self.crash_text = None
        if self.code.shadow and self.shadow is None:
            parts = (self.shared, self.code, self.records, self.events)
            self.shadow = begin_shadow(self.session_id, *parts)
        if not self.rests:
            self._last_active_ms = self.shared.clock.now_ms()
            self._schedule_sleep()
        self.rests = False
        if self.shared.journal.submits:
            self._context = trio.lowlevel.current_task().context
            self.mailbox.actor = self
        while self.state.phase is not ENDED:
            if self.state.asleep:
                if self.mailbox.is_empty and await self._fall_asleep():
                    return
                await self._take(Letter(inputs.SessionWoke()))
            if self.shared.parkable is not None and self._has_nothing_to_lose():
                # A response that is cut now is requested again by the next process.
                self.effect_runner.stop_now(self.state, "none")
                self.shared.parkable[self.session_id].set()
                await trio.sleep_forever()  # the supervisor cancels this task
            letter = await (self.mailbox.receive() if self.mailbox.actor is None else self.mailbox.poll())
            if letter is None:
                self.rests = True
                return
            await self._take(letter)

    def _end_shadow(self) -> None:
        """Let go of the shadow of a session that ends or falls asleep; another one begins when it wakes."""
        if self.shadow is not None and self.shared.shadows is not None:
            self.shared.shadows.end(self.session_id)
            self.shadow = None

    def _has_nothing_to_lose(self) -> bool:
        """Whether parking now loses nothing: all work can be repeated, and no abort, stop or rewind waits."""
        must_wait = self.state.is_starting or self.mailbox.control or self.effect_runner.rewinding
        return not (must_wait or risky_calls(self.state))

    async def _take(self, letter: Letter) -> None:
        """Handle one letter; it is kept as the letter in hand until that is done, for recovery after a crash."""
        self._in_hand = letter
        await self._handle(letter)
        self._in_hand = None

    @property
    def in_hand(self) -> str:
        """Kind and number of the letter that is being handled, as text; empty if none is."""
        letter = self._in_hand
        return "" if letter is None else f"{type(letter.input).__name__} {letter.number}"

    @property
    def can_drop_input(self) -> bool:
        """Whether the session can go on without the letter in hand: a caller's command whose step is not journaled."""
        letter = self._in_hand
        return letter is not None and letter.is_command and self._unfinished_step is None

    def drop_input(self) -> None:
        """Have the next actor put the letter in hand aside, because it crashed this one again."""
        self._drops_input = True

    async def quarantine(self, cause: str, input_: str) -> None:
        """Journal that the session is quarantined, if the journal can write."""
        crash = inputs.CrashedTooOften(cause, input_)
        if not self.is_asleep:
            await self._recover(crash)
            return
        state = await self._stored()
        arrival = inputs.Arrival(crash, self.shared.clock.now_ms(), self.shared.random.random())
        outcome = step(state, arrival, without_code())
        await self.records.write(state, arrival, outcome, None)
        if self.shared.figures is not None:
            self.shared.figures.stepped(self.state, crash, outcome)
        self.state = outcome.state
        self.events.publish(outcome.events)

    async def _stored(self) -> State:
        """Return the state rebuilt from the journal; raise if another process has continued the session."""
        rebuilding = partial(rebuild_state, self.shared.journal, self.session_id)
        state, head, self.records.stem, _ = await self.records.retry(rebuilding)
        if head != self.records.head:
            raise self.records.fenced
        return state

    async def _recover(self, crash: inputs.ActorRestarted | inputs.CrashedTooOften) -> None:
        """After a crash: rebuild the state; answer, put back or drop the letter in hand; report the crash."""
        rebuilding = partial(rebuild_state, self.shared.journal, self.session_id)
        state, head, stem, _ = await self.records.retry(rebuilding)
        letter, unconfirmed, records = self._in_hand, self._unconfirmed_step, self.records
        if unconfirmed is not None and letter is not None and head == records.head + len(records.unwritten):
            self.state, self._unfinished_step = unconfirmed.state, (unconfirmed, letter, True)
        elif head != records.head:
            raise records.fenced
        self.state = records.come_back(with_plugins_of(state, self.state, head), head, stem)
        self._unconfirmed_step = None
        if self._unfinished_step is not None:
            self._carry_out(self.effect_runner, *self._unfinished_step)
        elif letter is not None and self._drops_input:
            self._dropped_input = type(letter.input).__name__
            letter.settle(Refused.of(CommandSetAside(self.session_id, self._dropped_input, crash.cause)))
        elif letter is not None and type(letter.input) not in OWN_REPORTS:
            self.mailbox.put_back(letter)
        self._drops_input = False
        if self.state.phase is not Phase.ENDED:  # an ended session may still be restarted, together with other children
            await self._take(Letter(crash.but(input=self._dropped_input) if self._dropped_input else crash))
        self._dropped_input = ""

    @property
    def takes_now(self) -> bool:
        """Whether a letter that comes is handled at once; ends of calls that run side by side are gathered instead."""
        batch = self.state.batch
        return batch is None or batch.calls.count(CallStatus.RUNNING) < 2  # noqa: PLR2004 - one alone

    def handle_now(self, letter: Letter) -> bool:
        """Handle a letter in the pass of whoever posts it; return whether the actor needs a task to go on.

        Between two awaits the event loop is the lock, and a journal that is submitted to needs none. The step is made
        with the context variables of the actor, and a crash is the actor's, never that of the caller.
        """
        if letter.command is not None:  # its answer may have to be read from the journal
            self.mailbox.put_back(letter)
            return True
        self._in_hand = letter
        return self._needs_task_after(partial(self._step_now, letter))

    def _needs_task_after(self, work: Callable[[], None]) -> bool:
        """Do *work* with the context variables of the actor; return whether the actor needs a task to go on."""
        try:
            self._context.run(work)
        except BaseException as crash:  # noqa: BLE001, ASYNC103 - the actor raises it
            self._crash = crash
            return True  # noqa: ASYNC104 - nothing is awaited
        if self._pending is not None:
            return False
        self._in_hand = None
        if self.state.phase is ENDED:
            self.rests = False
            return True
        return self.state.asleep or self.shared.parkable is not None

    @property
    def has_ended_at_rest(self) -> bool:
        """Whether the session has ended without a task: there is nothing left for one to do."""
        return not self.rests and self.state.phase is ENDED and self._crash is None

    @property
    def is_writing(self) -> bool:
        """Whether a step that was made without a task is being written, or could not be."""
        return self._pending is not None

    def _on_written(self, result: Sequence[Record] | Exception) -> None:
        """Called when the record of a step that was made without a task is written, or could not be."""
        pending = self._pending
        # One that was left behind still waits in its task:
        # tests/runtime/test_submitted.py::test_one_that_was_left_behind_while_it_was_written_ends_after_that
        if pending is None or pending.settle(result):
            return
        if self.gone is not None:
            self._pending = None
            return
        if isinstance(result, Exception):
            needs_task = True
        else:
            self._pending = None
            needs_task = self._needs_task_after(partial(self._finish_pending, pending, result))
        self.mailbox.go_on(needs_task=needs_task)

    def _finish_pending(self, pending: PendingStep, records: Sequence[Record]) -> None:
        """Carry out a step whose record is written."""
        reach("APPENDED")
        self.records.note_written(self.state, records)
        self._finish_step(pending.letter, pending.arrival, pending.outcome)

    async def _end_pending(self, pending: PendingStep) -> None:
        """Wait until the record of a step that was made without a task is written, and carry out the step."""
        try:
            result = await pending.wait()
        finally:
            self._pending = None
        if isinstance(result, JournalUnavailable):
            await self.records.write_after(result, self.state)
            self._finish_step(pending.letter, pending.arrival, pending.outcome)
        elif isinstance(result, Exception):
            raise result
        else:
            self._finish_pending(pending, result)
        self._in_hand = None

    def _raise_crash(self) -> None:
        """Raise the exception of a step that was made in another task; no-op if there is none."""
        crash, self._crash = self._crash, None
        try:
            if crash is not None:
                raise crash
        finally:
            del crash  # its traceback holds this frame

    # A step without a task (`_step_now`) and one in a task, which can wait (`_handle`), differ only in how the record
    # is written: both begin with `_make_step` and end with `_finish_step`.

    def _step_now(self, letter: Letter) -> None:
        """Make the step for *letter*, submit its record, and carry it out; while that is written, it is pending."""
        arrival, outcome, is_record = self._make_step(letter)
        if is_record:
            withdraw = self.records.submit(self.state, arrival, outcome, letter.command, self._on_written)
            if withdraw is not None:
                self._pending = PendingStep(letter, arrival, outcome, withdraw)
                return
        self._finish_step(letter, arrival, outcome)

    async def _handle(self, letter: Letter) -> None:
        """Make the step for *letter*, write its record, and carry it out, unless its command was answered before."""
        if letter.command is not None and await self._was_answered(letter.command, letter):
            return
        arrival, outcome, is_record = self._make_step(letter)
        if is_record:  # durable before it is published or answered
            await self.records.write(self.state, arrival, outcome, letter.command)
        self._finish_step(letter, arrival, outcome)

    def _make_step(self, letter: Letter) -> tuple[inputs.Arrival, Step, bool]:
        """Amend the input of *letter* and call the machine; return what it made, and whether that is a record.

        A record is unconfirmed from here until `_finish_step`.
        """
        shared = self.shared
        self._last_active_ms = shared.clock.now_ms()
        began = time.perf_counter()
        crumb = shared.watchdog.begin(self.session_id, type(letter.input).__name__, began)
        try:
            arrival = amend(letter, self, self._last_active_ms, shared.random)
            outcome = self._call_machine(letter, arrival)
        finally:
            shared.watchdog.step = None
        ended = time.perf_counter()
        if ended - began > SLOW_HOOKS:
            self.mailbox.let_others_run()  # a slow hook held up all other tasks, so they run before the next letter
            report_slow_hooks(
                self.mailbox, shared.watchdog.worked_seconds(crumb, ended), self.state, arrival.input, outcome
            )
        self.effect_runner.stop_early(outcome.effects)
        # Refusals too: an id keeps its first answer.
        must_store_result = letter.command is not None and outcome.answer is not None
        is_record = must_store_result or bool(outcome.events) or outcome.changes(self.state)
        is_record = is_record and not self._failed_to_start(outcome)
        if is_record:
            self._unconfirmed_step = outcome
        return arrival, outcome, is_record

    def _call_machine(self, letter: Letter, arrival: inputs.Arrival) -> Step:
        """Return the step for *arrival*; a command that the machine cannot take is refused, and crashes nothing."""
        try:
            return step(self.state, arrival, self.code.hook_runner)
        except IllegalInput as error:
            if not letter.is_command:
                raise
            return Step(self.state, answer=Refused.of(error))

    def _finish_step(self, letter: Letter, arrival: inputs.Arrival, outcome: Step) -> None:
        """Carry out a step that is journaled."""
        self._unconfirmed_step = None
        if self.traces:
            self.traces.show(self.state, arrival, outcome)
        self.state = outcome.state
        self._carry_out(self.effect_runner, outcome, letter)
        if letter.code is not None:
            self.code.keep(self.state)
        if self._begun_request is not None:
            self._note_begin(self._begun_request)

    def _note_begin(self, request_id: str) -> None:
        """Note in the state that the response to a request has begun; called by its task.

        It is no step, as nothing is decided, and has no record of its own. While a step is written or carried out, it
        is noted after that.
        """
        self._begun_request = None
        if self._unconfirmed_step is not None or self._unfinished_step is not None:
            self._begun_request = request_id
            return
        old = self.state
        new = begun(old, request_id)
        if new is not old:
            self.records.begin(request_id, old, new)
            self.state = self.effect_runner.state = new
            if self.shared.figures is not None:
                self.shared.figures.began(old, new)

    async def _was_answered(self, command: str, letter: Letter) -> bool:
        """If the letter's command id has a stored answer, give it to the caller; return whether it had."""
        stored = await self._answers.find(command, screened_digest(letter, self.state, self.code.hook_runner))
        if stored is None:
            return False
        letter.is_repeat = True
        if letter.reply is not None and isinstance(stored, Accepted) and is_open(self.state, stored.ref):
            self.waiters.add(stored.ref, letter.reply)
        letter.settle(stored)
        return True

    async def past(self, ref: str, until: Until) -> ReplyOutcome | None:
        """Return how a prompt's turn ended, or that it waits for a person; `None` if it is queued or still runs.

        With *until* `end`, a turn that waits for a person still runs.
        """
        records = self.records
        return await outcome_of(self.state, ref, records.read, records.head, self.links.held_calls, until)

    async def outcome(self, ref: str) -> ReplyOutcome:
        """Return how the turn of the prompt *ref* ends, or has ended."""
        self.waiters.add(ref, reply := ReplySlot())
        return await patiently(partial(self.past, ref, reply.until)) or await reply.wait()

    def _carry_out(self, effect_runner: EffectRunner, outcome: Step, letter: Letter, publish: bool = True) -> None:
        """Publish the events of a journaled step, perform its effects, answer; recovery does the rest after a crash."""
        input_ = letter.input
        # Else the step was counted before a crash.
        if self.shared.figures is not None and effect_runner.state is not outcome.state:
            self.shared.figures.stepped(effect_runner.state, input_, outcome)
        old = effect_runner.state
        effect_runner.state = outcome.state
        if type(input_) is inputs.StreamEnded or type(input_) is inputs.StreamCut:
            effect_runner.release(input_.request_id)
        if effect_runner.spending is not None:
            effect_runner.spending.stepped(outcome.state, input_)
        effects = iter(outcome.effects)
        remaining: tuple[AnyEffect, ...] = ()
        try:
            if publish:
                self._publish(old, input_, outcome)
            for effect in effects:
                remaining = (effect,)
                effect_runner.perform(effect)
            remaining = ()
            if outcome.answer is not None:
                self._answer(letter, outcome.answer)
            if self.waiters:
                self.waiters.notice(outcome, self.links.held_calls)
            self.links.tell(outcome)
        except BaseException:
            unseen = publish and bool(outcome.events) and self.events.cursor.seq < outcome.events[-1].seq
            self._unfinished_step = (outcome.but(effects=(*remaining, *effects)), letter, unseen)
            raise
        self._unfinished_step = None

    def _answer(self, letter: Letter, answer: Answer) -> None:
        """Answer the caller of a step that is carried out, and keep the answer under the command id."""
        if letter.command is not None:
            self._answers.remember(letter.command, letter.digest, answer)
        if isinstance(answer, Accepted):
            if letter.reply is not None:
                self.waiters.add(answer.ref, letter.reply)
            if answer.dropped:
                self._warn_of_dropped(answer)
        letter.settle(answer)

    def _warn_of_dropped(self, accepted: Accepted) -> None:
        """Write to the log which calls that waited for a person a text has dropped."""
        log.warning(
            "session %s: the text %s dropped what waited for a person (%s), which does not run; to keep it, decide "
            'first (`approve`, `reject`), or spawn with `on_prompt_while_held="queue"`',
            self.session_id,
            accepted.ref,
            ", ".join(f"`{call.name}` {call.call_id}" for call in accepted.dropped),
        )

    def _publish(self, old: State, input_: inputs.AnyInput, outcome: Step) -> None:
        """Publish the events of a journaled step from the state *old*, and write the lines of plugins about them."""
        # Other steps tell nothing about the cache; and a step that was followed before a crash is not followed again.
        if self.events.hears_prefix and (outcome.events or outcome.rulings) and old is not outcome.state:
            self._publish_with_prefix(old, input_, outcome)
        else:
            self.events.publish(outcome.events)
        if outcome.state.plugins:
            self._write_lines(outcome, self.code.hook_runner)

    def _publish_with_prefix(self, old: State, input_: inputs.AnyInput, outcome: Step) -> None:
        """Publish the events of a step, and why the provider's prompt cache does not fit, if it does not.

        What a response tells of the cache comes before the events of its step: these may end the turn, and after that
        many subscribers read no more. What a request tells comes after `RequestStart`. Nothing of it is stored.
        """
        prefix = self._prefix
        if prefix is None:
            prefix = self._prefix = CachePrefix()
        if type(input_) is inputs.StreamEnded:
            answered = prefix.answered(old, input_)
            if answered is not None:
                self.events.publish_ephemeral(answered, self.shared.clock.now_ms())
        self.events.publish(outcome.events)
        changed = prefix.stepped(old, outcome.rulings, outcome.events, outcome.state)
        if changed is not None:
            self.events.publish_ephemeral(changed, self.shared.clock.now_ms())

    async def open_sources(self) -> None:
        """Start the sources of tools; return when each has offered tools or failed."""
        parts = (self.shared, self.code, self.mailbox, lambda: self.state)
        await self.sources.open([RunningSource(source, *parts) for source in self.code.sources], self.shared.nursery)
        for late in self.effect_runner.late.release():
            self.effect_runner.start_call(late)

    async def join_source(self, source: ToolSource, command: str | None, caller: Caller = NOBODY) -> None:
        """Start one more source of tools; return when it has offered tools, or raise why it could not."""
        if command is not None and await self._answers.find(command, digest_of(ChangeToolsSent(source=source.name))):
            return
        parts = (self.shared, self.code, self.mailbox, lambda: self.state)
        await self.sources.join(
            RunningSource(source, *parts, joins=True, command=command, caller=caller), self.shared.nursery
        )

    def _failed_to_start(self, outcome: Step) -> bool:
        """Whether the session failed to start: then nothing is journaled, and its id stays free."""
        return self.records.head == 0 and outcome.state.phase is Phase.ENDED

    def _write_lines(self, outcome: Step, hook_runner: LiveRunner) -> None:
        """Write the lines that plugins want in the log for the events of a step."""
        if outcome.events and (lines := hook_runner.audience(outcome.state.plugins).lines):
            write_events(self.session_id, outcome.events, lines)

    # Sleep

    def _schedule_sleep(self) -> None:
        """Post `SleepDue` if the session was idle for `hibernate_after` seconds and may sleep; set the next check."""
        after = self.state.setup.options.hibernate_after
        if after is not None:
            due = self.shared.clock.trio_time(self._last_active_ms) + after
            if (now := self.shared.clock.now()) >= due:
                due = now + after
                if self.may_sleep:
                    self.mailbox.post(inputs.SleepDue())
            self.shared.timers.set((self.session_id, "sleep"), due, self._schedule_sleep)

    @property
    def may_sleep(self) -> bool:
        """Whether the session may fall asleep: no work, letters, tool sources or traces, and not suspended."""
        if (
            self._effect_runner is None
            or self._in_hand is not None
            or not self.mailbox.is_empty
            or self.mailbox.suspended
        ):
            return False
        return can_sleep(self.state) and not (self.sources or self.traces or self._effect_runner.is_busy)

    async def _fall_asleep(self) -> bool:
        """Store a snapshot, then free state and code; if a letter came meanwhile, keep them and return `False`."""
        await self.records.keep(self.state, self.records.head, self.records.stem)
        if not self.mailbox.is_empty:
            return False
        self.shared.timers.clear((self.session_id, "sleep"))
        self._end_shadow()
        self._effect_runner = self._aborting = self._prefix = self.mailbox.actor = None
        self._last_active_ms = 0
        self._answers.forget()
        self.events.release()
        sandbox = self.code.surroundings.own_sandbox
        if sandbox is not None:  # kept with the code: its container is the one that the session goes on with
            pause_sandbox(sandbox, self.session_id, self.shared.nursery)
        elif self.code.revision == self._found_revision:
            self._code = None  # the code is found again when the session wakes
        self.state = sleeping_state(self.state)
        reach("ASLEEP")
        return True

    async def _wake(self) -> None:
        """Rebuild state and code of a hibernating session, because a letter came, and report that it woke."""
        state, code = await self._stored(), self._code
        if code is None:
            state, code, _ = await self.find_code(state, self.records.head)
            self._found_revision = code.revision
        else:
            state = with_plugin_classes(code, state)
        reach("AWAKE")
        self.state, self._code = state, code
        code.hook_runner.askers = self.waiters
        self._effect_runner = EffectRunner(
            state, self.shared, code, self.events, self.mailbox, self.links, self._note_begin
        )
        await self._take(Letter(inputs.SessionWoke()))

    # From the handle

    def relieve(self) -> None:
        """Answer callers of abort and stop early, and tell `when_stuck`, if the journal cannot write."""
        stuck = self.records.outage
        if stuck is not None:
            in_hand = () if self._in_hand is None else (self._in_hand,)
            relieve(self.session_id, (*in_hand, *self.mailbox.control), stuck)
            for tell in self.when_stuck:
                tell(stuck)

    def abort_now(self, letter: Letter) -> None:
        """Stop the work that an abort or stop stops, at once and before it is journaled.

        No-op if the abort is for one turn, and another one is open.
        """
        if self.gone is not None or self.is_asleep:
            return
        if letter.command is not None and self._answers.has(letter.command):
            return
        abort = letter.input if isinstance(letter.input, AbortSent) else STOPS_ALL
        if abort.turn and not self.effect_runner.state.works_on(abort.turn):
            return
        if self.shared.figures is not None:
            self.shared.figures.abort_began(self.session_id)
        # Not through the mailbox: a commit may take a second, and running work would go on until the abort is handled.
        # tests/runtime/test_abort.py::test_it_is_cut_at_once_also_while_another_commit_is_late
        self.effect_runner.stop_now(self.state, abort.kill_tools)
        if self._aborting is None or self._aborting.answer.settled:
            self._aborting = letter

    def tell_if_late(self, letter: Letter) -> None:
        """Set a timer for `AbortPending`, if the abort or stop in *letter* has stopped work and was posted.

        No-op if it is journaled already: most are, and a timer would wake the task of all timers.
        """
        if letter is self._aborting and (not letter.answer.settled or self.records.outage is not None):
            announce = partial(self._announce, letter)
            self.shared.timers.set((self.session_id, "abort"), self.shared.clock.after(LATE_COMMIT), announce)

    def _announce(self, letter: Letter) -> None:
        """Emit `AbortPending` if the abort or stop in *letter* is still not journaled."""
        if not letter.answer.settled or self.records.outage is not None:
            self.events.publish_ephemeral(AbortPending(), self.shared.clock.now_ms())

    # The end

    async def wait_down(self) -> Gone:
        """Wait until this process no longer runs the session, and return why."""
        if self.gone is not None:
            return self.gone
        slot: Slot[Gone] = Slot()
        self.end_waiters = (*self.end_waiters, slot)
        try:
            return await slot.wait()
        finally:
            self.end_waiters = tuple(other for other in self.end_waiters if other is not slot)

    def finish(self, error: BaseException | None) -> None:
        """Clean up after the loop, however it ended, and answer all callers that still wait."""
        if self.shared.figures is not None:
            self.shared.figures.forget(self.state if self._effect_runner is None else self._effect_runner.state)
        end = self.gone = why_gone(self.state, error, parked=self.parked)
        if self._effect_runner is not None:
            self._effect_runner.close()
            self._effect_runner.started.settle(end.error)
        self._end_shadow()
        self.sources.close(end.error)
        sandbox = None if self._code is None else self._code.surroundings.own_sandbox
        if sandbox is not None:
            close_sandbox(sandbox, self.session_id, self.shared.nursery)
        self.shared.timers.clear_all(self.session_id)
        if self._in_hand is not None:
            self._in_hand.settle(Refused.of(end.error))
        self.mailbox.close(end.error)
        self.waiters.close(end.error)
        self.events.close()
        self.traces.end()
        # Breaks reference cycles, so that the session is freed without the garbage collector.
        self.records.callers = None
        waiting, self.end_waiters = self.end_waiters, ()
        for slot in waiting:
            slot.settle(end)
