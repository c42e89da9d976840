"""Bugs in the shell: what is told, shown or done too early, twice, or never; and in supervision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from agentrail import HeldCall, Subscription
from agentrail.core import supervision_rules
from agentrail.core.machine import recovery
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.step import Step
from agentrail.core.supervision_rules import ChildFacts, Policy
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.effects import AnyEffect, CancelCalls, SetTimer, StartRequest
from agentrail.core.vocabulary.inputs import SessionReturned
from agentrail.errors import JournalFull
from agentrail.events import AgentAbort, Cursor, Envelope
from agentrail.hooks import live_runner
from agentrail.journals import Record
from agentrail.ports.journal import changed
from agentrail.runtime.actor import effect_runner as performing
from agentrail.runtime.actor.effect_runner import EffectRunner
from agentrail.runtime.actor.journal_log import JournalLog
from agentrail.runtime.actor.session import Session
from agentrail.runtime.actor.slow_hooks import report_slow_hooks
from agentrail.runtime.events.log import EventLog, Stretch
from agentrail.runtime.inbox.command_results import CommandResults
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.inbox.replies import Waiters
from agentrail.runtime.shared.timers import Key, Timers
from agentrail.runtime.supervision import children
from agentrail.runtime.supervision.children import Child, SessionRunner
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.runtime.work.model_stream import Stream
from agentrail.tools import EffectClass
from property_tests.planted import Bed, Planting
from tests.kit import AbortSent, PromptSent

BED = Bed()
bug = BED.bug

# ruff: noqa: SLF001 - private parts are what is broken here

# Too early


WRITE = "await self.records.write(self.state, arrival, outcome, letter.command)"
"""How a session writes a record, in `Session._handle`."""


@bug("a caller is answered before the record is written")
def acknowledged_before_commit(p: Planting) -> None:
    p.rewrite(Session._handle, WRITE, f"outcome.answer and letter.settle(outcome.answer); {WRITE}")


@bug("events are published before the record is written")
def published_before_commit(p: Planting) -> None:
    carry_out = Session._carry_out
    p.rewrite(Session._handle, WRITE, f"self.events.publish(outcome.events); {WRITE}")
    p.put(
        Session,
        "_carry_out",
        lambda self, by, outcome, letter, _=True: carry_out(self, by, outcome, letter, publish=False),
    )


@bug("requests go out before the record is written")
def performed_before_commit(p: Planting) -> None:
    stop_early = EffectRunner.stop_early

    def wrong(self: EffectRunner, effects: Sequence[AnyEffect]) -> None:
        stop_early(self, effects)
        for effect in effects:
            if isinstance(effect, StartRequest):
                self.perform(effect)

    p.put(EffectRunner, "stop_early", wrong)


@bug("a handle shows the next state before it is written")
def visible_before_commit(p: Planting) -> None:
    shows = "before, self.state = self.state, outcome.state"
    p.rewrite(Session._handle, WRITE, f"{shows}; {WRITE}; self.state = before")


# The journal


@bug("a record for which there is no space is left out")
def full_journal_taken_for_written(p: Planting) -> None:
    append = JournalLog._append

    async def wrong(self: JournalLog) -> Sequence[Record]:
        try:
            return await append(self)
        except JournalFull:
            return changed(self.unwritten)

    p.put(JournalLog, "_append", wrong)


@bug("what was written before a crash is done again")
def written_step_forgotten(p: Planting) -> None:
    recover = Session._recover

    async def wrong(self: Session, told: object) -> None:
        self._unconfirmed_step = None
        await recover(self, told)  # type: ignore[arg-type]  # handed on

    p.put(Session, "_recover", wrong)


@bug("the message in hand is lost when the actor crashes", "liveness")
def message_in_hand_lost(p: Planting) -> None:
    p.put(Mailbox, "put_back", lambda _mailbox, _letter: None)


@bug("what an actor had not done when it crashed is never done", "liveness")
def effects_left_undone(p: Planting) -> None:
    recover = Session._recover

    async def wrong(self: Session, told: object) -> None:
        if self._unfinished_step is not None:
            step, letter, publish = self._unfinished_step
            self._unfinished_step = (step.but(effects=()), letter, publish)
        await recover(self, told)  # type: ignore[arg-type]  # handed on

    p.put(Session, "_recover", wrong)


@bug("an actor that crashed while it carried out effects publishes their events again")
def events_published_again(p: Planting) -> None:
    recover = Session._recover

    async def wrong(self: Session, told: object) -> None:
        if self._unfinished_step is not None:
            step, letter, _ = self._unfinished_step
            self._unfinished_step = (step, letter, True)
        await recover(self, told)  # type: ignore[arg-type]  # handed on

    p.put(Session, "_recover", wrong)


@bug("an outage of the journal counts as a crash of the session that meets it")
def outage_counted_as_crash(p: Planting) -> None:
    async def once(_: JournalLog, call: Callable[[], Awaitable[object]], __: int | None = None) -> object:
        return await call()

    def not_started(child: Child, _: BaseException | None) -> bool:
        return isinstance(child.runner, SessionRunner) and child.runner.session.state.is_starting

    p.put(JournalLog, "retry", once)
    p.everywhere(children.failed_to_start, not_started)


# Commands


@bug("a command is carried out each time that it is sent")
def command_carried_out_twice(p: Planting) -> None:
    async def forgets(_answers: CommandResults, _command: str, _digest: bytes) -> Answer | None:
        return None

    p.put(CommandResults, "find", forgets)


@bug("another command under a known id gets the answer to the first")
def command_conflict_ignored(p: Planting) -> None:
    known = CommandResults.find

    async def wrong(self: CommandResults, command: str, digest: bytes) -> Answer | None:
        found = (self._kept or {}).get(command)
        return await known(self, command, digest if found is None else found[0])

    p.put(CommandResults, "find", wrong)


@bug("a prompt that an abort clears from the mailbox is answered, and its id is not remembered")
def cleared_prompt_forgotten(p: Planting) -> None:
    handle = Session._handle

    async def wrong(self: Session, letter: Letter) -> None:
        if isinstance(letter.input, PromptSent) and letter.input.cleared:
            letter.command = None
        await handle(self, letter)

    p.put(Session, "_handle", wrong)


# Callers and what they wait for


@bug("whoever waits for room in a mailbox waits for ever", "liveness")
def waiting_for_room_for_ever(p: Planting) -> None:
    p.put(Mailbox, "_make_room", lambda *_: None)


@bug("whoever asks is not told that the turn was aborted", "liveness")
def abort_not_told_to_who_asks(p: Planting) -> None:
    notice = Waiters.notice

    def wrong(waiters: Waiters, outcome: Step, below: Callable[[], tuple[HeldCall, ...]]) -> None:
        heard = tuple(e for e in outcome.events if not isinstance(e.event, AgentAbort))
        notice(waiters, outcome.but(events=heard), below)

    p.put(Waiters, "notice", wrong)


@bug("equal messages of different callers are handled once, and one of them is never answered", "liveness")
def second_abort_not_answered(p: Planting) -> None:
    def post(mailbox: Mailbox, letter: Letter) -> Letter:
        for waiting in () if mailbox.closed is not None else mailbox._control:
            if type(waiting.input) is type(letter.input):
                return waiting
        mailbox._post(mailbox._control, letter)
        return letter

    p.put(Mailbox, "post_control", post)


@bug("a mailbox that is not held up any more does not wake its reader", "liveness")
def resumed_mailbox_sleeps_on(p: Planting) -> None:
    def resume(mailbox: Mailbox) -> None:
        mailbox.suspended = len(mailbox._user) % 2 == 1

    p.put(Mailbox, "resume", resume)


# What is going on in the world


@bug("nobody looks whether a stream has stalled", "liveness")
def stall_not_noticed(p: Planting) -> None:
    p.put(EffectRunner, "_look", lambda _effect_runner, _stream, _timeout: None)


@bug("timers of retries are forgotten by the shell", "liveness")
def timer_dropped(p: Planting) -> None:
    perform = EffectRunner.perform

    def wrong(effect_runner: EffectRunner, effect: AnyEffect) -> None:
        if not (isinstance(effect, SetTimer) and effect.timer == "retry"):
            perform(effect_runner, effect)

    p.put(EffectRunner, "perform", wrong)


@bug("a timer that is set earlier than the others does not wake their task", "liveness")
def earlier_timer_too_late(p: Planting) -> None:
    set_timer = Timers.set

    def wrong(timers: Timers, key: Key, at: float, fire: object) -> None:
        parked, timers._parked = timers._parked, False
        set_timer(timers, key, at, fire)  # type: ignore[arg-type]  # handed on
        timers._parked = parked

    p.put(Timers, "set", wrong)


@bug("calls that a step cancels run on", "liveness")
def calls_not_cancelled(p: Planting) -> None:
    p.everywhere(EffectRunner.cancel_calls, lambda _effect_runner, _effect: None)
    stop_now = EffectRunner.stop_now
    p.put(EffectRunner, "stop_now", lambda effect_runner, state, _: stop_now(effect_runner, state, "none"))
    assert CancelCalls in performing._PERFORM


@bug("a request whose adapter breaks never ends for the session", "liveness")
def stream_without_an_end(p: Planting) -> None:
    run = Stream.run

    async def wrong(stream: Stream, *args: object) -> None:
        post = stream._post

        def quiet(given: object) -> None:
            if type(given).__name__ != "StreamCut":
                post(given)  # type: ignore[arg-type]  # handed on

        stream._post = quiet
        await run(stream, *args)  # type: ignore[arg-type]  # handed on

    p.put(Stream, "run", wrong)


# Subscribers


@bug("a subscriber who has fallen behind is not shown what was left out")
def subscriber_misses_events(p: Planting) -> None:
    def catch_up(subscription: Subscription) -> None:
        subscription._is_behind = False
        subscription._start = subscription._log.cursor

    p.put(Subscription, "_catch_up", catch_up)


@bug("a subscriber who comes back is shown the last event again")
def subscriber_hears_twice(p: Planting) -> None:
    go_back = Subscription._go_back

    def wrong(subscription: Subscription, since: Cursor) -> None:
        go_back(subscription, Cursor(max(0, since.seq - 1), since.n))

    p.put(Subscription, "_go_back", wrong)


@bug("a delta carries the number of the durable event that comes next")
def delta_overtakes(p: Planting) -> None:
    envelopes = Stretch.envelopes

    def wrong(stretch: Stretch, first: int, stop: int) -> list[Envelope]:
        return [right.but(seq=right.seq + 1) if right.n == 1 else right for right in envelopes(stretch, first, stop)]

    p.put(Stretch, "envelopes", wrong)


@bug("events reach subscribers with another time than the one that is written")
def published_is_not_what_is_written(p: Planting) -> None:
    publish = EventLog.publish

    def wrong(log: EventLog, envelopes: Sequence[Envelope]) -> None:
        publish(log, tuple(e.but(at=e.at + 1) if e.seq % 20 == 0 else e for e in envelopes))

    p.put(EventLog, "publish", wrong)


# Sessions that come back


@bug("the timers of a session that comes back are not set again")
def timers_not_set_at_return(p: Planting) -> None:
    original = recovery.on_returned

    def wrong(draft: StepDraft, returned: SessionReturned) -> None:
        original(draft, returned)
        draft.effects = [effect for effect in draft.effects if not isinstance(effect, SetTimer)]

    p.everywhere(original, wrong)


@bug("a call that must not run twice is run again when the process has ended under it")
def unsafe_call_run_again_at_return(p: Planting) -> None:
    p.put(recovery, "CAN_RUN_AGAIN", frozenset(EffectClass))


@bug("an abort that waits serves for a stronger one, and stays as weak as it is", "mailbox")
def weak_abort_serves(p: Planting) -> None:
    p.put(AbortSent, "joined", lambda first, _second: first)


# Rest


@bug("a report of slow listeners is shown to them, and reported again if they are slow over it")
def slow_listeners_fed(p: Planting) -> None:
    p.put(live_runner, "UNHEARD", frozenset())
    p.rewrite(report_slow_hooks, "isinstance(input_, HooksWereSlow) or ", "")


# Supervision


@bug("a session is set aside one crash too early")
def intensity_off_by_one(p: Planting) -> None:
    alone = supervision_rules._decide_alone

    def wrong(policy: Policy, facts: ChildFacts, restarts: tuple[float, ...], at: float, chance: float) -> object:
        return alone(policy.but(max_restarts=max(0, policy.max_restarts - 1)), facts, restarts, at, chance)

    p.put(supervision_rules, "_decide_alone", wrong)


@bug("restarts of long ago still count")
def restarts_never_forgotten(p: Planting) -> None:
    p.put(supervision_rules, "_recent", lambda times, _policy, _at: tuple(times))


@bug("a session that crashes on one message for ever is started again for ever")
def poison_never_set_aside(p: Planting) -> None:
    p.put(supervision_rules, "SAME_INPUT", 1000)


@bug("a supervisor ends its sessions from the oldest to the youngest")
def wrong_stop_order(p: Planting) -> None:
    wind_down = SupervisorNode.wind_down

    async def wrong(node: SupervisorNode) -> None:
        node._children = dict(reversed(node._children.items()))
        await wind_down(node)

    p.put(SupervisorNode, "wind_down", wrong)


@bug("somebody else's session is started again")
def fenced_session_goes_on(p: Planting) -> None:
    ending = supervision_rules.Ending

    def careless(crashed: bool, input_: str, _lost: bool, fatal: bool) -> supervision_rules.Ending:
        return ending(crashed, input_, lost=False, fatal=fatal)

    p.everywhere(ending, careless)
