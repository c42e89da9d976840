"""Turns at rest: only a person can continue them. Entering and leaving that state."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.tool_results import call_timer, find, put
from agentrail.core.machine.turn_clock import start_clock, stop_clock
from agentrail.core.vocabulary.effects import ResumeSubagents, StartCall
from agentrail.core.vocabulary.state import Phase
from agentrail.core.vocabulary.tool_calls import Call, CallStatus


def rest(w: StepDraft) -> None:
    """Put the turn to rest: all its calls wait for a person, and its clock stops."""
    w.s.phase = Phase.IDLE
    stop_clock(w)


def wake(w: StepDraft) -> None:
    """Continue the turn after a person has decided something."""
    s = w.s
    s.phase = Phase.RUNNING if s.batch is None else Phase.EXECUTING_TOOLS
    s.due, s.paused = (*s.paused, *s.due), ()
    start_clock(w)
    _reattach(w)


def let_rest(w: StepDraft, call: Call) -> None:
    """Mark a sub-agent that recovery does not resume yet, and keep the time left for its call."""
    s = w.s
    timer = call_timer(call.call_id)
    due = dict(s.timers).get(timer)
    w.clear_timer(timer)
    put(w, call.but(status=CallStatus.SETTLING))
    s.subagents = tuple(
        agent.but(rests=True, left=agent.left if due is None else max(0, due - w.at))
        if agent.call_id == call.call_id
        else agent
        for agent in s.subagents
    )


def _reattach(w: StepDraft) -> None:
    """Resume the sub-agents that were waiting for the paused turn, and let their calls wait for them."""
    s = w.s
    resting = tuple(agent for agent in s.subagents if agent.rests)
    if not resting:
        return
    s.subagents = tuple(
        agent.but(rests=False, left=agent.left if agent.waits else None) if agent.rests else agent
        for agent in s.subagents
    )
    w.ask(ResumeSubagents(tuple(agent.child for agent in resting)))
    for agent in resting:
        call = find(w, agent.call_id)
        if call is not None:
            if agent.left is not None and not agent.waits:
                w.set_timer(call_timer(agent.call_id), w.at + agent.left)
            again(w, call)


def again(w: StepDraft, call: Call) -> None:
    """Let a call wait for its resumed sub-agent, with the time that was left."""
    put(w, call.but(status=CallStatus.RUNNING, attempt=call.attempt + 1))
    w.ask(StartCall(call.call_id, call.attempt + 1, call.name, call.revision, call.args, key_of(w, call)))


def key_of(w: StepDraft, call: Call) -> str:
    """Return the idempotency key of *call*, the same for every attempt."""
    return f"{w.s.session_id}/{call.call_id}"
