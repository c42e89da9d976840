"""Ends of turns and sessions. Each turn has exactly one `AgentEnd` or `AgentAbort`, then exactly one `after_turn`."""

from __future__ import annotations

from agentrail.core.machine.configuration import drop_changes
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.tool_results import (
    call_timer,
    drop_suspension,
    hold_timer,
    kill,
    kill_lingering,
    results_of,
)
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.effects import CancelCompaction, CancelRequest, CloseSession, ReportStart, StopSubagents
from agentrail.core.vocabulary.state import RUNNING, Phase, Turn
from agentrail.core.vocabulary.tool_calls import Batch
from agentrail.errors import AgentrailError, SessionRefused
from agentrail.hooks.hook_types import AfterTurn, Hook, SessionEnd
from agentrail.hooks.ruling import Ruling
from agentrail.values.content import Text
from agentrail.values.events.context import CompactEnd
from agentrail.values.events.life import (
    AgentAbort,
    AgentEnd,
    PromptDropped,
    PromptRejected,
    SessionEnded,
    SteeringReceived,
)
from agentrail.values.events.tools import SubagentEnd
from agentrail.values.messages import AssistantMessage
from agentrail.values.stream import NOTHING_YET, Partial
from agentrail.values.value import quick

_after_turn = quick(AfterTurn)
_end_event = quick(AgentEnd)

TURN_TIMER = "turn"
RETRY_TIMER = "retry"

NOT_BROUGHT_BACK = "the process ended while it ran, and its turn has ended before it came back"


def cut_request(w: StepDraft, partial: Partial) -> None:
    """Cancel the running request, and keep the text received so far."""
    s = w.s
    if s.request is None:
        return
    w.ask(CancelRequest(s.request.request_id))
    s.request = None
    w.partial = NOTHING_YET  # the partial text is of the cut request, and not of one that this step may still make
    keep_partial(w, partial)


def keep_partial(w: StepDraft, partial: Partial) -> None:
    """Append the text of a response that was cut to the history, marked as interrupted, and count its usage."""
    w.count(partial.usage)
    if partial.text and w.s.turn is not None:
        w.say(AssistantMessage((Text(partial.text),), model=w.s.turn.model, usage=partial.usage, interrupted=True))


def cancel_compaction(w: StepDraft) -> None:
    """Cancel the compaction, if there is one; the history stays as it is."""
    compaction, w.s.compaction = w.s.compaction, None
    if compaction is not None and compaction.running:
        w.ask(CancelCompaction(compaction.compaction_id))
        w.emit(CompactEnd(0, "cancelled"))


def close_batch(w: StepDraft) -> None:
    """Put the results of the batch into the history, in the order of the calls."""
    batch, w.s.batch = w.s.batch, None
    if batch is not None:
        if w.s.timers:
            _clear_timers(w, batch)
        w.say(*results_of(batch))


def _clear_timers(w: StepDraft, batch: Batch) -> None:
    """Clear the timers of the calls of *batch*, but for calls that go on."""
    lingering = {stray.call_id for stray in w.s.lingering}
    timers = dict(w.s.timers)
    for call in batch.calls:
        timer = call_timer(call.call_id)
        if timer in timers and call.call_id not in lingering:
            w.clear_timer(timer)
        if call.hold is not None:
            w.clear_timer(hold_timer(call.hold.approval_id))


def end_turn(w: StepDraft, stop: str) -> None:
    """Finish the open turn normally: report `AgentEnd` with *stop* as the reason, then run `after_turn`."""
    s = w.s
    turn = s.turn
    if turn is None:
        return
    close_batch(w)
    _close_timers(w)
    w.emit(_end_event(turn.ref, stop, s.history[turn.mark :], s.usage.minus(turn.used), turn.fits))
    _closing(w, turn.but(ended="finished", stop=stop))


def abort_turn(
    w: StepDraft,
    kind: str,
    reason: str | None = None,
    *,
    kill_tools: str = "killable",
    partial: Partial = NOTHING_YET,
) -> None:
    """Abort the open turn and run `after_turn`; without one, abort what runs between turns (a prompt being taken)."""
    s = w.s
    turn = s.turn
    s.due = ()
    over = turn is not None and turn.ended is not None
    waiting, s.suspended = s.suspended, ()
    for suspension in waiting:
        drop_suspension(w, suspension)
    if turn is None or over:
        cancel_compaction(w)
        _drop_steering(w)
        w.emit(AgentAbort(None, kind, reason))
        _refuse_what_was_taken(w, reason or kind)
        if over:
            w.next("turn_over")
        else:
            w.next("after_aborted_nothing", reason or kind)
        return
    cut_request(w, partial)
    cancel_compaction(w)
    let_go_of_resting(w)
    kill(w, kill_tools, reason or kind)
    close_batch(w)
    _close_timers(w)
    _drop_steering(w)
    w.emit(AgentAbort(turn.ref, kind, reason))
    _closing(w, turn.but(ended="aborted", abort_kind=kind, abort_reason=reason))


def _closing(w: StepDraft, turn: Turn) -> None:
    w.s.turn = turn
    w.s.phase = RUNNING
    w.s.due = w.s.paused = ()
    w.next("after_turn")


def _close_timers(w: StepDraft) -> None:
    w.clear_timer(TURN_TIMER)
    w.clear_timer(RETRY_TIMER)


def _drop_steering(w: StepDraft) -> None:
    waiting, w.s.steering = w.s.steering, ()
    w.emit(*(SteeringReceived(text.ref, text.text, "dropped") for text in waiting))


def _refuse_what_was_taken(w: StepDraft, reason: str) -> None:
    prompt, w.s.taking = w.s.taking, None
    if prompt is not None:
        w.emit(PromptRejected(prompt.ref, reason))


def begin_after_turn(w: StepDraft, _: str) -> Hook | None:
    """Build the `after_turn` hook of the turn that has just ended."""
    s = w.s
    turn = s.turn
    if turn is None or turn.ended is None:
        return None
    diff = s.history[min(turn.mark, len(s.history)) :]
    used = s.usage.minus(turn.used)
    return _after_turn(turn.ended, turn.abort_kind, turn.abort_reason, diff, used, turn.started_at, w.at)


def finish_after_turn(w: StepDraft, _ref: str, _hook: Hook, _ruling: Ruling) -> None:
    """Close the turn after its `after_turn` hook has run."""
    turn_over(w, "")


def turn_over(w: StepDraft, _: str) -> None:
    """Close the turn: its `after_turn` has run or was aborted. Then decide what comes next (`settle`)."""
    w.drop_turn()
    w.next("settle")


# abort and stop


def on_abort(w: StepDraft, command: commands.AbortSent) -> None:
    """Handle `abort`: drop the queue and cancel calls as asked, then abort the open turn."""
    s = w.s
    w.answer = commands.DONE
    for text in command.dropped:
        w.emit(PromptDropped(w.make_id("p"), text))
    if command.clear_queue:
        drop_queue(w)
    if command.kill_tools == "all":
        kill_lingering(w, command.reason or "user")
        stop_subagents(w)
    if s.phase is Phase.IDLE and s.turn is None:
        w.emit(AgentAbort(None, "user", command.reason))
        return
    abort_turn(w, "user", command.reason, kill_tools=command.kill_tools, partial=command.partial)


def stop_subagents(w: StepDraft) -> None:
    """Stop all running sub-agents, those in the background included."""
    there = tuple(agent.child for agent in w.s.subagents if not agent.rests)
    if there:
        w.ask(StopSubagents(there))


def let_go_of_resting(w: StepDraft) -> None:
    """Report the end of sub-agents that were never resumed after a recovery, because their turn ends."""
    s = w.s
    for agent in s.subagents:
        if agent.rests:
            w.emit(SubagentEnd(agent.call_id, agent.child, NOT_BROUGHT_BACK, is_error=True))
    s.subagents = tuple(agent for agent in s.subagents if not agent.rests)


def drop_queue(w: StepDraft) -> None:
    """Drop all queued prompts, and report each."""
    waiting, w.s.queue = w.s.queue, ()
    w.emit(*(PromptDropped(prompt.ref, prompt.text) for prompt in waiting))


def after_aborted_nothing(w: StepDraft, reason: str) -> None:
    """Continue after an abort without an open turn: a session that was still starting ends, others settle."""
    if w.s.opening:
        fail_start(w, SessionRefused(w.s.session_id, "an abort", reason))
    else:
        w.next("settle")


def on_stop(w: StepDraft, command: commands.StopSent) -> None:
    """Handle `stop`: abort the open turn with all its calls; `settle` then runs `session_end`."""
    s = w.s
    w.answer = commands.DONE
    s.stopping = command.reason
    kill_lingering(w, command.reason)
    if s.phase is Phase.IDLE and s.turn is None:
        w.next("settle")
        return
    abort_turn(w, "stopped", command.reason, kill_tools="all", partial=command.partial)


def begin_session_end(w: StepDraft, _: str) -> Hook:
    """Build the `session_end` hook of a session that was stopped."""
    return SessionEnd(w.s.stopping or "stopped")


def finish_session_end(w: StepDraft, _ref: str, _hook: Hook, _ruling: Ruling) -> None:
    """End the session after its `session_end` hook has run."""
    end_session(w, w.s.stopping or "stopped")


def end_session(w: StepDraft, reason: str) -> None:
    """End the session: drop everything queued and emit `SessionEnded`, always the session's last event."""
    s = w.s
    _drop_steering(w)
    drop_queue(w)
    drop_changes(w)
    for timer, _ in s.timers:
        w.clear_timer(timer)
    s.phase = Phase.ENDED
    s.stopping = reason
    w.emit(SessionEnded(reason))
    w.ask(CloseSession(reason))


def fail_start(w: StepDraft, error: AgentrailError) -> None:
    """End a session that could not start, and report *error* to the caller of `spawn`."""
    w.s.opening = False
    w.ask(ReportStart(commands.Refused.of(error)))
    end_session(w, str(error))
