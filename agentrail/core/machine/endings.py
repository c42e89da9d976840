"""Ends of turns and sessions. Each turn has exactly one `AgentEnd` or `AgentAbort`, then exactly one `after_turn`."""

from __future__ import annotations

from agentrail.core.machine.configuration import drop_changes
from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.handoffs import carry_out_handoff
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


def cut_request(draft: StepDraft, partial: Partial) -> None:
    """Cancel the running request, and keep the text received so far."""
    state = draft.state
    if state.request is None:
        return
    draft.add_effect(CancelRequest(state.request.request_id))
    state.request = None
    draft.partial = NOTHING_YET  # so that no later request of this step is given the partial text of this one
    keep_partial(draft, partial)


def keep_partial(draft: StepDraft, partial: Partial) -> None:
    """Append the text of a response that was cut to the history, marked as interrupted, and count its usage."""
    draft.add_usage(partial.usage)
    if partial.text and draft.state.turn is not None:
        draft.append_messages(
            AssistantMessage((Text(partial.text),), model=draft.state.turn.model, usage=partial.usage, interrupted=True)
        )


def cancel_compaction(draft: StepDraft) -> None:
    """Cancel the compaction, if there is one; the history stays as it is."""
    compaction, draft.state.compaction = draft.state.compaction, None
    if compaction is not None and compaction.running:
        draft.add_effect(CancelCompaction(compaction.compaction_id))
        draft.emit(CompactEnd(0, "cancelled"))


def close_batch(draft: StepDraft) -> None:
    """End the batch: append its results to the history, in the order of the calls; then hand over if one asked."""
    batch, draft.state.batch = draft.state.batch, None
    if batch is not None:
        if draft.state.timers:
            _clear_timers(draft, batch)
        draft.append_messages(*results_of(batch))
        carry_out_handoff(draft, batch)


def _clear_timers(draft: StepDraft, batch: Batch) -> None:
    """Clear the timers of the calls of *batch*, but for calls that go on."""
    lingering = {detached.call_id for detached in draft.state.lingering_calls}
    timers = dict(draft.state.timers)
    for call in batch.calls:
        timer = call_timer(call.call_id)
        if timer in timers and call.call_id not in lingering:
            draft.clear_timer(timer)
        if call.hold is not None:
            draft.clear_timer(hold_timer(call.hold.approval_id))


def end_turn(draft: StepDraft, stop: str) -> None:
    """Finish the open turn normally: report `AgentEnd` with *stop* as the reason, then run `after_turn`."""
    state = draft.state
    close_batch(draft)
    turn = state.turn
    if turn is None:
        return
    _close_timers(draft)
    draft.emit(_end_event(turn.ref, stop, state.history[turn.mark :], state.usage.minus(turn.used), turn.fits))
    _closing(draft, turn.but(ended="finished", stop=stop))


def abort_turn(
    draft: StepDraft,
    kind: str,
    reason: str | None = None,
    *,
    kill_tools: str = "killable",
    partial: Partial = NOTHING_YET,
) -> None:
    """Abort the open turn, then run `after_turn`; if none is open, abort the prompt that is about to start one."""
    state = draft.state
    turn = state.turn
    draft.due.clear()
    over = turn is not None and turn.ended is not None
    waiting, state.suspended_runs = state.suspended_runs, ()
    for suspension in waiting:
        drop_suspension(draft, suspension)
    if turn is None or over:
        cancel_compaction(draft)
        _drop_steering(draft)
        draft.emit(AgentAbort(None, kind, reason))
        _refuse_what_was_taken(draft, reason or kind)
        if over:
            turn_over(draft)
        else:
            _after_aborted_nothing(draft, reason or kind)
        return
    cut_request(draft, partial)
    cancel_compaction(draft)
    let_go_of_resting(draft)
    kill(draft, kill_tools, reason or kind)
    close_batch(draft)
    _close_timers(draft)
    _drop_steering(draft)
    draft.emit(AgentAbort(turn.ref, kind, reason))
    mark = turn.mark if state.turn is None else state.turn.mark  # a handoff may have shortened the history
    _closing(draft, turn.but(ended="aborted", abort_kind=kind, abort_reason=reason, mark=mark))


def _closing(draft: StepDraft, turn: Turn) -> None:
    """Make `after_turn` the only thing that is due."""
    draft.state.turn = turn
    draft.state.phase = RUNNING
    draft.state.is_paused = draft.wakes = False
    draft.due.clear()
    draft.due.appendleft(("after_turn", ""))


def _close_timers(draft: StepDraft) -> None:
    """Clear the timers of the turn's time limit and of a retry."""
    draft.clear_timer(TURN_TIMER)
    draft.clear_timer(RETRY_TIMER)


def _drop_steering(draft: StepDraft) -> None:
    """Drop the waiting steering texts, and report each."""
    waiting, draft.state.steering = draft.state.steering, ()
    draft.emit(*(SteeringReceived(text.ref, text.text, "dropped") for text in waiting))


def _refuse_what_was_taken(draft: StepDraft, reason: str) -> None:
    """Reject the prompt that was taken from the queue and has not begun its turn."""
    prompt, draft.state.next_prompt = draft.state.next_prompt, None
    if prompt is not None:
        draft.emit(PromptRejected(prompt.ref, reason))


def begin_after_turn(draft: StepDraft, _: str) -> Hook | None:
    """Build the `after_turn` hook of the turn that has just ended."""
    state = draft.state
    turn = state.turn
    if turn is None or turn.ended is None:
        return None
    diff = state.history[min(turn.mark, len(state.history)) :]
    used = state.usage.minus(turn.used)
    return _after_turn(turn.ended, turn.abort_kind, turn.abort_reason, diff, used, turn.started_at, draft.at)


def finish_after_turn(draft: StepDraft, _ref: str, _hook: Hook, _ruling: Ruling) -> None:
    """Close the turn after its `after_turn` hook has run."""
    turn_over(draft)


def turn_over(draft: StepDraft) -> None:
    """Close the turn: its `after_turn` has run or was aborted. Then decide what comes next (`settle`)."""
    draft.drop_turn()
    draft.settles = True


# abort and stop


def on_abort(draft: StepDraft, command: commands.AbortSent) -> None:
    """Handle `abort`: drop the queue and cancel calls as asked, then abort the open turn.

    No-op if another turn is meant than the open one: its caller did not know that it was over.
    """
    state = draft.state
    draft.answer = commands.DONE
    if command.turn and not state.works_on(command.turn):
        return
    if command.clear_queue:
        drop_queue(draft)
    if command.kill_tools == "all":
        kill_lingering(draft, command.reason or "user")
        stop_subagents(draft)
    if state.phase is Phase.IDLE and state.turn is None:
        draft.emit(AgentAbort(None, "user", command.reason))
        return
    abort_turn(draft, "user", command.reason, kill_tools=command.kill_tools, partial=command.partial)


def stop_subagents(draft: StepDraft) -> None:
    """Stop all running sub-agents, those in the background included."""
    children = tuple(agent.child for agent in draft.state.subagents if not agent.rests)
    if children:
        draft.add_effect(StopSubagents(children))


def let_go_of_resting(draft: StepDraft) -> None:
    """Report as ended the sub-agents that still rest since a recovery, because the turn that needs them ends."""
    state = draft.state
    for agent in state.subagents:
        if agent.rests:
            draft.emit(SubagentEnd(agent.call_id, agent.child, NOT_BROUGHT_BACK, is_error=True))
    state.subagents = tuple(agent for agent in state.subagents if not agent.rests)


def drop_queue(draft: StepDraft) -> None:
    """Drop all queued prompts, and report each."""
    waiting, draft.state.queue = draft.state.queue, ()
    draft.emit(*(PromptDropped(prompt.ref, prompt.text) for prompt in waiting))


def _after_aborted_nothing(draft: StepDraft, reason: str) -> None:
    """Continue after an abort without an open turn: end a session that still starts; else choose what is next."""
    if draft.state.is_starting:
        fail_start(draft, SessionRefused(draft.state.session_id, "an abort", reason))
    else:
        draft.settles = True


def on_stop(draft: StepDraft, command: commands.StopSent) -> None:
    """Handle `stop`: abort the open turn with all its calls; `settle` then runs `session_end`."""
    state = draft.state
    draft.answer = commands.DONE
    state.stop_reason = command.reason
    kill_lingering(draft, command.reason)
    if state.phase is Phase.IDLE and state.turn is None:
        draft.settles = True
        return
    abort_turn(draft, "stopped", command.reason, kill_tools="all", partial=command.partial)


def begin_session_end(draft: StepDraft, _: str) -> Hook:
    """Build the `session_end` hook of a session that was stopped."""
    return SessionEnd(draft.state.stop_reason or "stopped")


def finish_session_end(draft: StepDraft, _ref: str, _hook: Hook, _ruling: Ruling) -> None:
    """End the session after its `session_end` hook has run."""
    end_session(draft, draft.state.stop_reason or "stopped")


def end_session(draft: StepDraft, reason: str) -> None:
    """End the session: drop everything queued and emit `SessionEnded`, always the session's last event."""
    state = draft.state
    _drop_steering(draft)
    drop_queue(draft)
    drop_changes(draft)
    for timer, _ in state.timers:
        draft.clear_timer(timer)
    state.phase = Phase.ENDED
    state.stop_reason = reason
    draft.emit(SessionEnded(reason))
    draft.add_effect(CloseSession(reason))


def fail_start(draft: StepDraft, error: AgentrailError) -> None:
    """End a session that could not start, and report *error* to the caller of `spawn`."""
    draft.state.is_starting = False
    draft.add_effect(ReportStart(commands.Refused.of(error)))
    end_session(draft, str(error))
