"""Steering: texts that a user sends while a turn is open, delivered before the next request."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import RETRY_TIMER, cut_request
from agentrail.core.machine.prompts import accept
from agentrail.core.machine.requests import next_round
from agentrail.core.machine.tool_results import skip_for_steering
from agentrail.core.machine.tool_runs import advance_batch
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.state import AskedBy, Phase, Steering
from agentrail.errors import PluginRefused, SteeringQueueFull, UsageError
from agentrail.hooks.hook_types import BeforeSteering, Hook
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.values.content import Text
from agentrail.values.events.context import Intervention
from agentrail.values.events.life import AgentResumed, SteeringReceived


def on_steer(draft: StepDraft, command: commands.SteerSent) -> None:
    """Handle `steer`: ask the plugins about the text. If no turn is open, it is taken as a prompt.

    A text sent by another agent never becomes a prompt: it waits with a resting turn, and is refused once its
    receiver's task is done.
    """
    state = draft.state
    if command.message and not _is_at_work(draft):
        draft.refuse(UsageError("task-done", state.session_id))
        return
    if state.phase is Phase.IDLE and not command.message:
        accept(draft, (Text(command.text),), asked_by=draft.asked_by)
        return
    draft.partial = command.partial  # before the plugins rule: the partial text is kept if this step aborts the turn
    ref = draft.make_id("s")
    limit = state.setup.options.max_steering_queue
    if len(state.steering) >= limit:
        draft.emit(SteeringReceived(ref, command.text, "rejected_full"))
        draft.refuse(SteeringQueueFull(limit))
        return
    draft.steer_text = Steering(
        ref, command.text, AskedBy(command.asked_by, draft.request) if command.message else draft.asked_by
    )
    draft.steer_command = command
    draft.answer = commands.Accepted(ref, "queued", len(state.steering) + 1)
    draft.due.appendleft(("before_steering", ref))


def _is_at_work(draft: StepDraft) -> bool:
    """Whether a turn is open, or its prompt is being taken."""
    turn = draft.state.turn
    return draft.state.next_prompt is not None if turn is None else turn.ended is None


def begin_before_steering(draft: StepDraft, _: str) -> Hook | None:
    """Build the `before_steering` hook for the text that was just sent."""
    text = draft.steer_text
    return None if text is None else BeforeSteering(text.text, text.ref)


def finish_before_steering(draft: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Queue the text unless a plugin refused it; then skip calls that are not immune, or cut the request for `now`.

    A message stops nothing.
    """
    state = draft.state
    text, draft.steer_text = draft.steer_text, None
    command, draft.steer_command = draft.steer_command, None
    if text is None or command is None:
        return
    if ruling.verdict is Verdict.ABORT:
        draft.emit(SteeringReceived(text.ref, text.text, "rejected_plugin", ruling.reason))
        draft.refuse(PluginRefused(ruling.reason, ruling.by or ""))
        return
    decisions = ruling.decisions
    if decisions.text is not None:
        text = text.but(text=decisions.text)
    added = decisions.texts
    if added:
        more = "\n\n".join(added)
        text = text.but(text=f"{text.text}\n\n{more}")
        draft.emit(Intervention(more, "before_steering"))
    state.steering = (*state.steering, text)
    draft.emit(SteeringReceived(text.ref, text.text, "queued", None, decisions.replaced_by))
    if command.message:
        return
    if state.phase is Phase.EXECUTING_TOOLS:
        skip_for_steering(draft)
        advance_batch(draft)
    elif command.when == "now":
        _cut_for_steering(draft)


def _cut_for_steering(draft: StepDraft) -> None:
    """Cancel the running request, or the wait for a retry, and start the next round; no-op if no round is left."""
    state = draft.state
    if state.turn is None or state.turn.ended is not None or state.round >= state.setup.options.max_rounds:
        return
    if state.request is not None:
        cut_request(draft, draft.partial)
    elif any(timer == RETRY_TIMER for timer, _ in state.timers):
        draft.clear_timer(RETRY_TIMER)
    else:
        return
    state.phase = Phase.RUNNING
    draft.emit(AgentResumed("steering"))
    next_round(draft)
