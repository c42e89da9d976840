"""Prompts: taking and queueing them, starting turns, and choosing what to do between two turns."""

from __future__ import annotations

from agentrail import errors
from agentrail.core.cache_prefix import altered_form
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import (
    TURN_TIMER,
    cancel_compaction,
    end_turn,
    fail_start,
    let_go_of_resting,
    stop_subagents,
)
from agentrail.core.machine.in_doubt_calls import grow_old
from agentrail.core.machine.tool_results import drop_suspension, kill, release
from agentrail.core.system_prompt import dated
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import ReportStart
from agentrail.core.vocabulary.inputs import SessionOpened
from agentrail.core.vocabulary.state import IDLE, NOBODY_ASKED, RUNNING, AskedBy, Prompt, Turn
from agentrail.errors import PluginRefused, QueueFull, SessionRefused, StateNotStorable, UnknownPrompt
from agentrail.hooks.attachments import STATE_LIMIT
from agentrail.hooks.hook_types import BeforePrompt, Hook, SessionStart
from agentrail.hooks.ruling import ABORT, Gathered, Ruling, Verdict
from agentrail.values.content import Part, Text, with_text
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
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.messages import Origin, UserMessage
from agentrail.values.value import quick

_before_prompt = quick(BeforePrompt)
_received_event = quick(PromptReceived)
_start_event = quick(AgentStart)
_user_message = quick(UserMessage)


def on_opened(w: StepDraft, _: SessionOpened) -> None:
    """Start a new session: create the plugins' first states, then ask the `session_start` hooks."""
    s = w.s
    w.answer = commands.DONE
    s.phase = RUNNING
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
    """Build the `session_start` hook."""
    return SessionStart()


def finish_session_start(w: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Report to the caller of `spawn` that the session runs, or end it if a plugin refuses."""
    if ruling.verdict is ABORT:
        fail_start(w, SessionRefused(w.s.session_id, f"plugin `{ruling.by}`", ruling.reason))
        return
    w.apply(ruling)
    w.s.opening = False
    w.emit(SessionStarted(w.s.model))
    w.ask(ReportStart())
    w.next("settle")


# Taking prompts


def on_prompt(w: StepDraft, command: commands.PromptSent) -> None:
    """Handle `prompt`: start a turn, queue it, or end a resting turn for it; drop it if an abort cleared the queue."""
    if command.cleared:
        prompt = Prompt(w.make_id("p"), command.parts)
        w.emit(PromptDropped(prompt.ref, prompt.text))
        w.refuse(errors.PromptWasDropped(prompt.ref, "the queue was cleared by an abort"))
        return
    accept(w, command.parts, command.returns, AskedBy(command.asked_by) if command.asked_by else w.asked)


def accept(
    w: StepDraft, parts: tuple[Part, ...], returns: JsonObject = EMPTY, asked_by: AskedBy = NOBODY_ASKED
) -> None:
    """Accept a text of the user in any phase: start a turn with it if the session is idle, else queue it."""
    s = w.s
    limit = s.setup.options.max_prompt_queue
    free = s.phase is IDLE and s.turn is None
    if not free and len(s.queue) >= limit:
        w.refuse(QueueFull(limit))
        return
    prompt = Prompt(w.make_id("p"), parts, returns, asked_by)
    s.queue = (*s.queue, prompt)
    if free:
        w.answer = commands.Accepted(prompt.ref, "started")
        settle(w, "")
        return
    w.answer = commands.Accepted(prompt.ref, "queued", len(s.queue))
    w.emit(PromptQueued(prompt.ref, prompt.text, len(s.queue)))
    if s.resting and (s.paused or s.setup.options.on_prompt_while_held == "supersede"):
        _supersede(w)


def _supersede(w: StepDraft) -> None:
    """End a turn that rests, for a person or since a restart, because the user sent a new prompt instead."""
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


def on_withdraw(w: StepDraft, command: commands.WithdrawSent) -> None:
    """Handle `withdraw`: remove a prompt from the queue."""
    s = w.s
    for prompt in s.queue:
        if prompt.ref == command.ref:
            s.queue = tuple(other for other in s.queue if other is not prompt)
            w.emit(PromptWithdrawn(prompt.ref, prompt.text))
            w.answer = commands.DONE
            return
    w.refuse(UnknownPrompt(command.ref))


def settle(w: StepDraft, _: str) -> None:
    """Choose what comes next while no turn is open: stop, change plugins, take the next prompt, or become idle."""
    s = w.s
    if s.steering:
        _steering_to_queue(w)
    if s.stopping is not None:
        s.phase = RUNNING
        if s.subagents:  # they are stopped first; when the last one has ended, `settle` is called again
            stop_subagents(w)
        else:
            w.next("session_end")
    elif s.changes:
        s.phase = RUNNING
        w.next("change_plugins")
    elif s.queue:
        s.phase = RUNNING
        s.taking, s.queue = s.queue[0], s.queue[1:]
        w.next("before_prompt")
    else:
        s.phase = IDLE


def _steering_to_queue(w: StepDraft) -> None:
    """Put steering texts that no request will carry any more at the front of the prompt queue."""
    s = w.s
    s.queue = (*(Prompt(text.ref, (Text(text.text),), asked=text.asked) for text in s.steering), *s.queue)
    s.steering = ()


def begin_before_prompt(w: StepDraft, _: str) -> Hook | None:
    """Build the `before_prompt` hook of the prompt that is being taken."""
    prompt = w.s.taking
    return None if prompt is None else _before_prompt(prompt.text, prompt.ref)


def finish_before_prompt(w: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Start the turn, or reject the prompt if a plugin says so."""
    s = w.s
    prompt, s.taking = s.taking, None
    if prompt is None:
        return
    if ruling.verdict is ABORT:
        w.emit(PromptRejected(prompt.ref, ruling.reason, ruling.by))
        w.next("settle")
        return
    s.turns += 1
    grow_old(w)
    s.deafness = ()
    s.turn = Turn(
        prompt.ref,
        w.at,
        len(s.history),
        s.usage,
        s.model,
        s.model_options,
        spares=s.spares,
        asked=prompt.asked,
        worked_ms=s.worked(w.at),
    )
    if prompt.returns:
        w.note(altered_form(s.returns))
        s.turn = s.turn.but(returns=prompt.returns)
    if s.sections:
        w.put_sections(dated(s.sections, w.at))
    w.apply(ruling)
    _say_prompt(w, prompt, ruling.gathered)
    limit = s.setup.options.max_turn_seconds
    if limit is not None:
        w.set_timer(TURN_TIMER, w.at + int(limit * 1000))
    w.next("next_round")


def _say_prompt(w: StepDraft, prompt: Prompt, gathered: Gathered) -> None:
    """Put the prompt into the history, followed by the texts that plugins add to it, and tell of both."""
    if gathered.said is not None:
        prompt = prompt.but(parts=with_text(prompt.parts, gathered.said))
    by = prompt.asked.by[0] if prompt.asked.by else ""
    w.emit(_received_event(prompt.ref, prompt.text, gathered.replaced_by), by=by)
    w.emit(_start_event(prompt.ref))
    w.say(_user_message(prompt.parts))
    if gathered.texts:
        text = "\n\n".join(gathered.texts)
        w.say(_user_message((Text(text),), Origin.INTERVENTION))
        w.emit(Intervention(text, "before_prompt"))
