"""Puts turns to rest, and wakes them: a turn at rest goes on only when a person decides, or after `resume`."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import TURN_TIMER
from agentrail.core.machine.tool_results import call_timer, find, has_its_tool, put
from agentrail.core.vocabulary.effects import ResumeSubagents, StartCall
from agentrail.core.vocabulary.state import Phase
from agentrail.core.vocabulary.tool_calls import Call, CallStatus
from agentrail.values.events.tools import SubagentEnd

CHANGED: Final = "its tool was detached or redefined while the turn was paused"
"""Reason given for a sub-agent that does not continue with its turn."""


def rest(draft: StepDraft) -> None:
    """Put the open turn to rest: the phase becomes idle, and the time limit of the turn stops.

    Called when all unfinished calls wait for a person, or when a restart pauses the turn.
    """
    draft.state.phase = Phase.IDLE
    stop_clock(draft)


def wake(draft: StepDraft) -> None:
    """Continue a turn that rests: its time limit runs again, and what a restart set aside goes on.

    Called after a decision of a person, after `resume`, and after a restart. Resting sub-agents are resumed.
    """
    state = draft.state
    state.phase = Phase.RUNNING  # `advance_batch`, which is due if calls are open, says that tools are executed
    draft.wakes, state.is_paused = state.is_paused, False
    start_clock(draft)
    _reattach(draft)


def let_rest(draft: StepDraft, call: Call) -> None:
    """Mark the sub-agent of *call* as resting, because its turn is paused; keep the time left for the call."""
    state = draft.state
    timer = call_timer(call.call_id)
    due = dict(state.timers).get(timer)
    draft.clear_timer(timer)
    put(draft, call.but(status=CallStatus.SETTLING))
    state.subagents = tuple(
        agent.but(rests=True, left_ms=agent.left_ms if due is None else max(0, due - draft.at))
        if agent.call_id == call.call_id
        else agent
        for agent in state.subagents
    )


def _reattach(draft: StepDraft) -> None:
    """Resume the sub-agents that rested with the paused turn; their calls run again, with the time that was left.

    A sub-agent whose tool was detached or redefined meanwhile has ended, and `probe` answers its call.
    """
    state = draft.state
    resting = tuple((agent, find(draft, agent.call_id)) for agent in state.subagents if agent.rests)
    if not resting:
        return
    lost = tuple(agent for agent, call in resting if call is not None and not has_its_tool(draft, call))
    state.subagents = tuple(
        agent.but(rests=False, left_ms=agent.left_ms if agent.waits else None) if agent.rests else agent
        for agent in state.subagents
        if agent not in lost
    )
    back = tuple((agent, call) for agent, call in resting if agent not in lost)
    if back:
        draft.add_effect(ResumeSubagents(tuple(agent.child for agent, _ in back)))
    for agent in lost:
        draft.emit(SubagentEnd(agent.call_id, agent.child, CHANGED, is_error=True))
    for agent, call in back:
        if call is not None:
            if agent.left_ms is not None and not agent.waits:
                draft.set_timer(call_timer(agent.call_id), draft.at + agent.left_ms)
            again(draft, call)


def again(draft: StepDraft, call: Call) -> None:
    """Run *call* again as its next attempt, which waits for its resumed sub-agent."""
    put(draft, call.but(status=CallStatus.RUNNING, attempt=call.attempt + 1))
    draft.add_effect(StartCall(call.call_id, call.attempt + 1, call.name, call.revision, call.args, draft.key_of(call)))


# The time limit of a turn, `max_turn_seconds`, which is stopped while the turn waits for a person


def stop_clock(draft: StepDraft) -> None:
    """Stop the turn's clock and keep the time left. No-op if the turn has no limit or its clock is stopped."""
    state = draft.state
    due = dict(state.timers).get(TURN_TIMER)
    if due is not None and state.turn is not None:
        state.turn = state.turn.but(deadline_left=max(0, due - draft.at))
        draft.clear_timer(TURN_TIMER)


def start_clock(draft: StepDraft) -> None:
    """Start the turn's clock again with the time left. No-op if it was not stopped."""
    state = draft.state
    if state.turn is not None and state.turn.deadline_left is not None:
        draft.set_timer(TURN_TIMER, draft.at + state.turn.deadline_left)
        state.turn = state.turn.but(deadline_left=None)
