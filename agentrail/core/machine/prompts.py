"""From a prompt to a turn, and from one turn to the next."""

from __future__ import annotations

from agentrail import errors
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import (
    TURN_TIMER,
    cancel_compaction,
    end_turn,
    fail_start,
    let_go_of_resting,
    stop_subagents,
)
from agentrail.core.machine.tool_results import drop_suspension, kill, release
from agentrail.core.vocabulary.commands import DONE, Accepted, PromptSent, WithdrawSent
from agentrail.core.vocabulary.effects import ReportStart
from agentrail.core.vocabulary.inputs import SessionOpened
from agentrail.core.vocabulary.state import Phase, Prompt, Turn
from agentrail.errors import PluginRefused, QueueFull, SessionRefused, StateNotStorable, UnknownPrompt
from agentrail.hooks.moments import BeforePrompt, Hook, SessionStart
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.values.content import Part, Text
from agentrail.values.events.context import Intervention
from agentrail.values.events.life import (
    AgentStart,
    PromptDropped,
    PromptQueued,
    PromptReceived,
    PromptRejected,
    PromptWithdrawn,
    SessionStarted,
)
from agentrail.values.messages import Origin, UserMessage

STATE_LIMIT = 64 * 1024
"""Bytes that the state of a plugin may take."""


def on_opened(w: StepDraft, _: SessionOpened) -> None:
    """Give each plugin its first state, then ask them whether the session may start."""
    s = w.s
    w.answer = DONE
    s.phase = Phase.RUNNING
    states: list[object] = []
    for seat in s.seats:
        ruling = w.judge.init(seat, w.context)
        w.rulings.append(ruling)
        if ruling.verdict is not Verdict.PASS:
            broken = ruling.critical and ruling.reason.startswith("its state")
            fail_start(
                w,
                StateNotStorable(seat.key, ruling.reason, STATE_LIMIT)
                if broken
                else PluginRefused(ruling.reason, seat.key),
            )
            return
        states.append(ruling.states[0][1])
    s.plugin_states = tuple(states)
    w.next("session_start")


def begin_session_start(_w: StepDraft, _: str) -> Hook:
    """Build the hook of a session that begins."""
    return SessionStart()


def finish_session_start(w: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Start the session, or not."""
    if ruling.verdict is Verdict.ABORT:
        fail_start(w, SessionRefused(w.s.session_id, f"plugin `{ruling.by}`", ruling.reason))
        return
    w.apply(ruling)
    w.s.opening = False
    w.emit(SessionStarted(w.s.model))
    w.ask(ReportStart())
    w.next("settle")


# Taking prompts


def on_prompt(w: StepDraft, sent: PromptSent) -> None:
    """Take a prompt, or queue it, or let it supersede what waits for a person; drop one that an abort has cleared."""
    if sent.cleared:
        prompt = Prompt(w.make_id("p"), sent.parts)
        w.emit(PromptDropped(prompt.ref, prompt.text))
        w.refuse(errors.PromptWasDropped(prompt.ref, "the queue was cleared by an abort"))
        return
    accept(w, sent.parts)


def accept(w: StepDraft, parts: tuple[Part, ...]) -> None:
    """Accept something that the user says, in whatever state."""
    s = w.s
    limit = s.setup.options.max_prompt_queue
    free = s.phase is Phase.IDLE and s.turn is None
    if not free and len(s.queue) >= limit:
        w.refuse(QueueFull(limit))
        return
    prompt = Prompt(w.make_id("p"), parts)
    s.queue = (*s.queue, prompt)
    if free:
        w.answer = Accepted(prompt.ref, "started")
        settle(w, "")
        return
    w.answer = Accepted(prompt.ref, "queued", len(s.queue))
    w.emit(PromptQueued(prompt.ref, prompt.text, len(s.queue)))
    if s.resting and (s.paused or s.setup.options.on_prompt_while_held == "supersede"):
        _supersede(w)


def _supersede(w: StepDraft) -> None:
    """End a turn that rests, because the user has said something new."""
    why = "superseded by a new message of the user"
    for call in w.s.waiting_calls:
        release(w, call, "superseded", why)
    if w.s.paused:
        waiting, w.s.suspended = w.s.suspended, ()
        for suspension in waiting:
            drop_suspension(w, suspension)
        cancel_compaction(w)
        let_go_of_resting(w)
        kill(w, "killable", why)
    end_turn(w, "superseded")


def on_withdraw(w: StepDraft, sent: WithdrawSent) -> None:
    """Take a queued prompt back."""
    s = w.s
    for prompt in s.queue:
        if prompt.ref == sent.ref:
            s.queue = tuple(other for other in s.queue if other is not prompt)
            w.emit(PromptWithdrawn(prompt.ref, prompt.text))
            w.answer = DONE
            return
    w.refuse(UnknownPrompt(sent.ref))


def settle(w: StepDraft, _: str) -> None:
    """No turn is open: stop if asked to, change plugins if asked to, take the next prompt, or be idle."""
    s = w.s
    _steering_to_queue(w)
    if s.stopping is not None:
        s.phase = Phase.RUNNING
        if s.subagents:  # they end first: the last of them brings it here again
            stop_subagents(w)
        else:
            w.next("session_end")
    elif s.changes:
        s.phase = Phase.RUNNING
        w.next("change_plugins")
    elif s.queue:
        s.phase = Phase.RUNNING
        s.taking, s.queue = s.queue[0], s.queue[1:]
        w.next("before_prompt")
    else:
        s.phase = Phase.IDLE


def _steering_to_queue(w: StepDraft) -> None:
    """Put steering that no request will carry in front of the prompts that wait."""
    s = w.s
    if s.steering:
        s.queue = (*(Prompt(text.ref, (Text(text.text),)) for text in s.steering), *s.queue)
        s.steering = ()


def begin_before_prompt(w: StepDraft, _: str) -> Hook | None:
    """Build the hook of the prompt that is being taken."""
    taken = w.s.taking
    return None if taken is None else BeforePrompt(taken.text, taken.ref)


def finish_before_prompt(w: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Start the turn, or reject the prompt."""
    s = w.s
    taken, s.taking = s.taking, None
    if taken is None:
        return
    if ruling.verdict is Verdict.ABORT:
        w.emit(PromptRejected(taken.ref, ruling.reason, ruling.by))
        w.next("settle")
        return
    s.turns += 1
    s.deafness = ()
    s.turn = Turn(taken.ref, w.at, len(s.history), s.usage, s.model, s.model_options, spares=s.spares)
    w.apply(ruling)
    w.emit(PromptReceived(taken.ref, taken.text), AgentStart(taken.ref))
    w.say(UserMessage(taken.parts))
    texts = ruling.gathered.texts
    if texts:
        text = "\n\n".join(texts)
        w.say(UserMessage((Text(text),), Origin.INTERVENTION))
        w.emit(Intervention(text, "before_prompt"))
    limit = s.setup.options.max_turn_seconds
    if limit is not None:
        w.set_timer(TURN_TIMER, w.at + int(limit * 1000))
    w.next("next_round")
