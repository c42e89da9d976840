"""Steering: texts that a user sends while a turn is open, delivered before the next request."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import RETRY_TIMER, cut_request
from agentrail.core.machine.prompts import accept
from agentrail.core.machine.tool_results import skip_for_steering
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.state import AskedBy, Phase, Steering
from agentrail.errors import PluginRefused, SteeringQueueFull, TaskDone
from agentrail.hooks.hook_types import BeforeSteering, Hook
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.values.content import Text
from agentrail.values.events.context import Intervention
from agentrail.values.events.life import AgentResumed, SteeringApplied, SteeringReceived
from agentrail.values.messages import Origin, UserMessage


def on_steer(w: StepDraft, command: commands.SteerSent) -> None:
    """Take a steering text and ask the plugins about it; with no turn open it is a prompt.

    A message never is: it waits with a turn that rests, and is refused once the task of its receiver is done.
    """
    s = w.s
    if command.message and not _is_at_work(w):
        w.refuse(TaskDone(s.session_id))
        return
    if s.phase is Phase.IDLE and not command.message:
        accept(w, (Text(command.text),), asked_by=w.asked)
        return
    w.partial = command.partial  # kept if this step aborts the turn, also for a text that is refused
    ref = w.make_id("s")
    limit = s.setup.options.max_steering_queue
    if len(s.steering) >= limit:
        w.emit(SteeringReceived(ref, command.text, "rejected_full"))
        w.refuse(SteeringQueueFull(limit))
        return
    w.steered = Steering(ref, command.text, AskedBy(command.asked_by, w.request) if command.message else w.asked)
    w.steer = command
    w.answer = commands.Accepted(ref, "queued", len(s.steering) + 1)
    w.next("before_steering", ref)


def _is_at_work(w: StepDraft) -> bool:
    """Whether a turn is open, or its prompt is being taken."""
    turn = w.s.turn
    return w.s.taking is not None if turn is None else turn.ended is None


def begin_before_steering(w: StepDraft, _: str) -> Hook | None:
    """Build the `before_steering` hook for the text that was just sent."""
    text = w.steered
    return None if text is None else BeforeSteering(text.text, text.ref)


def finish_before_steering(w: StepDraft, _ref: str, _hook: Hook, ruling: Ruling) -> None:
    """Queue the text unless a plugin refused it; then skip calls that are not immune, or cut the request for `now`.

    A message stops nothing.
    """
    s = w.s
    text, w.steered = w.steered, None
    command, w.steer = w.steer, None
    if text is None or command is None:
        return
    if ruling.verdict is Verdict.ABORT:
        w.emit(SteeringReceived(text.ref, text.text, "rejected_plugin", ruling.reason))
        w.refuse(PluginRefused(ruling.reason, ruling.by or ""))
        return
    gathered = ruling.gathered
    if gathered.said is not None:
        text = text.but(text=gathered.said)
    added = gathered.texts
    if added:
        more = "\n\n".join(added)
        text = text.but(text=f"{text.text}\n\n{more}")
        w.emit(Intervention(more, "before_steering"))
    s.steering = (*s.steering, text)
    w.emit(SteeringReceived(text.ref, text.text, "queued", None, gathered.replaced_by))
    if command.message:
        return
    if s.phase is Phase.EXECUTING_TOOLS:
        skip_for_steering(w)
        w.next("advance_batch")
    elif command.when == "now":
        _cut_for_steering(w)


def _cut_for_steering(w: StepDraft) -> None:
    """Cancel the running request, or the wait for a retry, and start the next round; no-op if no round is left."""
    s = w.s
    if s.turn is None or s.turn.ended is not None or s.round >= s.setup.options.max_turns:
        return
    if s.request is not None:
        cut_request(w, w.partial)
    elif any(timer == RETRY_TIMER for timer, _ in s.timers):
        w.clear_timer(RETRY_TIMER)
    else:
        return
    s.phase = Phase.RUNNING
    w.emit(AgentResumed("steering"))
    w.next("next_round")


def merge_steering(w: StepDraft) -> None:
    """Append all queued steering texts to the history as one user message."""
    s = w.s
    waiting, s.steering = s.steering, ()
    if waiting:
        turn = s.turn
        others = tuple(dict.fromkeys(who for text in waiting for who in text.asked.by))
        if turn is not None and not {*others} <= {*turn.asked.by}:
            s.turn = turn.but(asked=turn.asked.but(by=tuple(dict.fromkeys((*turn.asked.by, *others)))))
        w.say(UserMessage((Text("\n\n".join(text.text for text in waiting)),), Origin.STEERING))
        w.emit(SteeringApplied(tuple(text.ref for text in waiting), len(waiting)))
