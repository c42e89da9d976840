"""Prompts: taking and queueing them, starting turns, and choosing what to do between two turns."""

from __future__ import annotations

from agentrail import errors
from agentrail.core.machine.configuration import change_plugins
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
from agentrail.core.machine.requests import next_round
from agentrail.core.machine.tool_results import drop_suspension, kill, release, tell_dropped
from agentrail.core.system_prompt import dated
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import ReportStart
from agentrail.core.vocabulary.inputs import SessionOpened
from agentrail.core.vocabulary.state import IDLE, NOBODY_ASKED, RUNNING, AskedBy, Prompt, Turn
from agentrail.errors import PluginRefused, QueueFull, SessionRefused, StateNotStorable, UnknownPrompt
from agentrail.hooks.attachments import STATE_LIMIT
from agentrail.hooks.hook_types import BeforePrompt, Hook, SessionStart
from agentrail.hooks.ruling import ABORT, Decisions, Ruling, Verdict
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


def on_opened(draft: StepDraft, opened: SessionOpened) -> None:
    """Start a new session: create the plugins' first states, then ask the `session_start` hooks."""
    state = draft.state
    state.incarnation = opened.incarnation
    draft.answer = commands.DONE
    state.phase = RUNNING
    states: list[object] = []
    for attached in state.plugins:
        ruling = draft.hook_runner.init(attached, draft.context)
        draft.rulings.append(ruling)
        if ruling.verdict is not Verdict.PASS:
            broken = ruling.critical and ruling.reason.startswith("its state")
            fail_start(
                draft,
                StateNotStorable(attached.key, ruling.reason, STATE_LIMIT)
                if broken
                else PluginRefused(ruling.reason, attached.key),
            )
            return
        states.append(ruling.states[0][1])
    state.plugin_states = tuple(states)
    draft.due.appendleft(("session_start", ""))


def begin_session_start(_w: StepDraft, _: str) -> Hook:
    """Build the `session_start` hook."""
    return SessionStart()


def finish_session_start(draft: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Report to the caller of `spawn` that the session runs, or end it if a plugin refuses."""
    if ruling.verdict is ABORT:
        fail_start(draft, SessionRefused(draft.state.session_id, f"plugin `{ruling.by}`", ruling.reason))
        return
    draft.apply(ruling)
    draft.state.is_starting = False
    draft.emit(SessionStarted(draft.state.model))
    draft.add_effect(ReportStart())
    draft.settles = True


# Taking prompts


def on_prompt(draft: StepDraft, command: commands.PromptSent) -> None:
    """Handle `prompt`: start a turn, queue the prompt, or end a resting turn for it; drop it if an abort cleared it."""
    if command.cleared:
        prompt = Prompt(draft.make_id("p"), command.parts)
        draft.emit(PromptDropped(prompt.ref, prompt.text))
        draft.refuse(errors.PromptWasDropped(prompt.ref, "the queue was cleared by an abort"))
        return
    accept(draft, command.parts, command.returns, AskedBy(command.asked_by) if command.asked_by else draft.asked_by)


def accept(
    draft: StepDraft, parts: tuple[Part, ...], returns: JsonObject = EMPTY, asked_by: AskedBy = NOBODY_ASKED
) -> None:
    """Accept a text of the user in any phase: start a turn with it if the session is idle, else queue it."""
    state = draft.state
    limit = state.setup.options.max_prompt_queue
    free = state.phase is IDLE and state.turn is None
    if not free and len(state.queue) >= limit:
        draft.refuse(QueueFull(limit))
        return
    prompt = Prompt(draft.make_id("p"), parts, returns, asked_by)
    state.queue = (*state.queue, prompt)
    if free:
        draft.answer = commands.Accepted(prompt.ref, "started")
        settle(draft)
        return
    draft.answer = commands.Accepted(prompt.ref, "queued", len(state.queue))
    draft.emit(PromptQueued(prompt.ref, prompt.text, len(state.queue)))
    if state.resting and (state.is_paused or state.setup.options.on_prompt_while_held == "supersede"):
        _supersede(draft)


def _supersede(draft: StepDraft) -> None:
    """End a turn that waits for a person, or rests since a restart, because the user sent a new prompt."""
    why = "superseded by a new message of the user"
    tell_dropped(draft, draft.state.waiting_calls)
    for call in draft.state.waiting_calls:
        release(draft, call, "superseded", why)
    if draft.state.is_paused:
        waiting, draft.state.suspended_runs = draft.state.suspended_runs, ()
        for suspension in waiting:
            drop_suspension(draft, suspension)
        cancel_compaction(draft)
        let_go_of_resting(draft)
        kill(draft, "killable", why)
    end_turn(draft, "superseded")


def on_withdraw(draft: StepDraft, command: commands.WithdrawSent) -> None:
    """Handle `withdraw`: remove a prompt from the queue."""
    state = draft.state
    for prompt in state.queue:
        if prompt.ref == command.ref:
            state.queue = tuple(other for other in state.queue if other is not prompt)
            draft.emit(PromptWithdrawn(prompt.ref, prompt.text))
            draft.answer = commands.DONE
            return
    draft.refuse(UnknownPrompt(command.ref))


def settle(draft: StepDraft) -> None:
    """Choose what comes next while no turn is open: stop, change plugins, take the next prompt, or become idle."""
    state = draft.state
    if state.steering:
        _steering_to_queue(draft)
    if state.stop_reason is not None:
        state.phase = RUNNING
        if state.subagents:  # sub-agents are stopped first; `settle` is called again when the last one has ended
            stop_subagents(draft)
        else:
            draft.due.appendleft(("session_end", ""))
    elif state.plugin_changes:
        state.phase = RUNNING
        change_plugins(draft)
    elif state.queue:
        state.phase = RUNNING
        state.next_prompt, state.queue = state.queue[0], state.queue[1:]
        draft.due.appendleft(("before_prompt", ""))
    else:
        state.phase = IDLE


def _steering_to_queue(draft: StepDraft) -> None:
    """Move steering texts that came too late for a request to the front of the prompt queue."""
    state = draft.state
    prompts = [Prompt(text.ref, (Text(text.text),), asked_by=text.asked_by) for text in state.steering]
    state.queue = (*prompts, *state.queue)
    state.steering = ()


def begin_before_prompt(draft: StepDraft, _: str) -> Hook | None:
    """Build the `before_prompt` hook of the prompt that is being taken."""
    prompt = draft.state.next_prompt
    return None if prompt is None else _before_prompt(prompt.text, prompt.ref)


def finish_before_prompt(draft: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Start the turn, or reject the prompt if a plugin says so."""
    state = draft.state
    prompt, state.next_prompt = state.next_prompt, None
    if prompt is None:
        return
    if ruling.verdict is ABORT:
        draft.emit(PromptRejected(prompt.ref, ruling.reason, ruling.by))
        draft.settles = True
        return
    state.turn_count += 1
    grow_old(draft)
    state.listener_failures = ()
    state.turn = Turn(
        prompt.ref,
        draft.at,
        len(state.history),
        state.usage,
        state.model,
        state.model_options,
        spares=state.fallbacks,
        asked_by=prompt.asked_by,
        worked_ms=state.worked(draft.at),
    )
    if prompt.returns:
        state.turn = state.turn.but(returns=prompt.returns)
    if state.sections:
        draft.put_sections(dated(state.sections, draft.at))
    draft.apply(ruling)
    _say_prompt(draft, prompt, ruling.decisions)
    limit = state.setup.options.max_turn_seconds
    if limit is not None:
        draft.set_timer(TURN_TIMER, draft.at + int(limit * 1000))
    next_round(draft)


def _say_prompt(draft: StepDraft, prompt: Prompt, decisions: Decisions) -> None:
    """Append the prompt and the texts that plugins add to the history, and emit their events."""
    if decisions.text is not None:
        prompt = prompt.but(parts=with_text(prompt.parts, decisions.text))
    by = prompt.asked_by.by[0] if prompt.asked_by.by else ""
    draft.emit(_received_event(prompt.ref, prompt.text, decisions.replaced_by), by=by)
    draft.emit(_start_event(prompt.ref))
    draft.append_messages(_user_message(prompt.parts))
    if decisions.texts:
        text = "\n\n".join(decisions.texts)
        draft.append_messages(_user_message((Text(text),), Origin.INTERVENTION))
        draft.emit(Intervention(text, "before_prompt"))
