"""Sub-agents from the parent's side: record their start, events, usage and end."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import stop_subagents
from agentrail.core.machine.resting import start_clock, stop_clock
from agentrail.core.machine.tool_results import call_timer, find, has_its_tool, put
from agentrail.core.machine.tool_runs import closed_late, take_answer
from agentrail.core.vocabulary.effects import ResumeSubagents
from agentrail.core.vocabulary.inputs import ElsewhereUsed, SubagentEnded, SubagentReported, SubagentStarted
from agentrail.core.vocabulary.state import Phase
from agentrail.core.vocabulary.tool_calls import MAX_ENDED_TASKS, CallStatus, EndedTask, Subagent
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import PromptReceived
from agentrail.values.events.people import ApprovalRequired, ApprovalResolved, AskUser, ResultRequired, UserResponded
from agentrail.values.events.tools import SubagentEnd, SubAgentEvent, SubagentStart
from agentrail.values.tools import Err, result_text

FOR_PEOPLE: Final = (ApprovalRequired, ApprovalResolved, AskUser, ResultRequired, UserResponded)
"""Events of sub-agents that the parent emits too, because people decide about them through the parent."""


def on_started(draft: StepDraft, started: SubagentStarted) -> None:
    """Record and report a sub-agent that has started; stop it at once if the session is stopping."""
    state = draft.state
    child, call_id, agent, description = started.child, started.call_id, started.agent, started.description
    new = Subagent(
        child,
        call_id,
        agent,
        started.background,
        peers=started.peers,
        description=description,
        prompt=started.prompt,
        asked_by=started.asked_by,
        began_ms=state.worked(draft.at) + state.shared_worked_ms,
    )
    state.subagents = (*state.subagents, new)
    draft.emit(SubagentStart(call_id, child, description, agent, started.background, started.peers))
    if state.stop_reason is not None:
        stop_subagents(draft)


def on_reported(draft: StepDraft, reported: SubagentReported) -> None:
    """Report events of a sub-agent, count its usage since the last report, and note whether it waits for a person."""
    agent = _find(draft, reported.child)
    if agent is None or reported.heard < agent.heard:
        return
    draft.emit(*(_as_parent_event(agent, event) for event in reported.events))
    _ask_too(draft, reported.asked_by)
    if reported.used != agent.used:
        draft.add_usage(reported.used.minus(agent.used))
    reported_agent = agent.but(heard=reported.heard, used=reported.used, works=reported.works)
    if reported_agent.prompt and any(isinstance(event, PromptReceived) for event in reported.events):
        reported_agent = reported_agent.but(prompt="", asked_by=())
    if reported_agent != agent:
        _put(draft, reported_agent)
    if reported.waits and not agent.waits:
        _let_wait(draft, reported_agent)
    elif agent.waits and not reported.waits:
        _let_go_on(draft, reported_agent)


def _ask_too(draft: StepDraft, who: tuple[str, ...]) -> None:
    """Add those who steered a sub-agent to those who asked for the open turn, as its answer goes into this turn."""
    turn = draft.state.turn
    if turn is not None and not {*who} <= {*turn.asked_by.by}:
        draft.state.turn = turn.but(asked_by=turn.asked_by.but(by=tuple(dict.fromkeys((*turn.asked_by.by, *who)))))


def on_ended(draft: StepDraft, ended: SubagentEnded) -> None:
    """Record a sub-agent's end; give its answer to the waiting call, or to the next request if none waits.

    Both happen in one step, so after a crash no call waits for a sub-agent that has ended.
    """
    state = draft.state
    agent = _find(draft, ended.child)
    if agent is None:
        return
    state.subagents = tuple(other for other in state.subagents if other is not agent)
    answer = ended.answer
    draft.emit(SubagentEnd(agent.call_id, ended.child, result_text(answer), isinstance(answer, Err)))
    if agent.background:
        _remember(draft, agent, failed=isinstance(answer, Err))
    if agent.waits:
        _start_clock(draft)
    call = find(draft, agent.call_id)
    if agent.background and state.stop_reason is None:
        how = "has failed" if isinstance(answer, Err) else "has ended"
        state.notices = (*state.notices, f"The background task {ended.child} {how}; `task_result` has its answer")
    elif call is not None and call.status is CallStatus.RUNNING:
        draft.clear_timer(call_timer(call.call_id))
        take_answer(draft, call, answer)
    elif any(detached.call_id == agent.call_id for detached in state.lingering_calls):
        closed_late(draft, agent.call_id, answer, answered=True)
    _go_on_stopping(draft)


def _remember(draft: StepDraft, agent: Subagent, *, failed: bool) -> None:
    """Put *agent* last in the list of ended background sub-agents, and remove its older entry."""
    state = draft.state
    others = (task for task in state.ended_tasks if task.child != agent.child)
    new = EndedTask(agent.child, agent.call_id, agent.agent, agent.description, agent.peers, failed)
    state.ended_tasks = (*others, new)[-MAX_ENDED_TASKS:]


def bring_back(draft: StepDraft, why: str, *, pause: bool) -> None:
    """After a recovery, resume the sub-agents that a call or the session needs; report the others as ended.

    The sub-agent of a paused turn is resumed only with the turn, because a caller may end the turn instead.
    """
    state = draft.state
    back_agents = (
        () if state.stop_reason is not None else tuple(agent for agent in state.subagents if _is_wanted(draft, agent))
    )
    lost = tuple(agent for agent in state.subagents if agent not in back_agents)
    state.subagents = back_agents
    back = tuple(agent.child for agent in back_agents if agent.background or not (pause or agent.rests))
    if back:
        draft.add_effect(ResumeSubagents(back))
    for agent in lost:
        call = find(draft, agent.call_id) if agent.rests else None
        if call is not None:
            # Its call was interrupted in the same state, and is settled like other calls.
            put(draft, call.but(status=CallStatus.RUNNING))
        draft.emit(SubagentEnd(agent.call_id, agent.child, why, is_error=True))
    if lost:
        _go_on_stopping(draft)


def _is_wanted(draft: StepDraft, agent: Subagent) -> bool:
    """Whether the parent still needs a sub-agent after a recovery: for the background, or for a call of its tool."""
    call = find(draft, agent.call_id)
    if agent.background or call is None or not (agent.rests or call.status is CallStatus.RUNNING):
        return agent.background
    return has_its_tool(draft, call)


def _go_on_stopping(draft: StepDraft) -> None:
    """End the session if it is stopping and its last sub-agent has ended."""
    state = draft.state
    if state.stop_reason is not None and not state.subagents and state.turn is None:
        draft.settles = True


def on_elsewhere(draft: StepDraft, elsewhere: ElsewhereUsed) -> None:
    """Record, in a sub-agent, how much of the shared limits other sessions have used."""
    draft.state.shared_usage = elsewhere.used
    draft.state.shared_worked_ms = elsewhere.worked_ms


def _find(draft: StepDraft, child: str) -> Subagent | None:
    """Return the running sub-agent with session id *child*; `None` if there is none."""
    return next((agent for agent in draft.state.subagents if agent.child == child), None)


def _put(draft: StepDraft, changed: Subagent) -> None:
    """Replace the entry of the sub-agent that *changed* is of."""
    draft.state.subagents = tuple(changed if agent.child == changed.child else agent for agent in draft.state.subagents)


def _as_parent_event(agent: Subagent, event: Event) -> Event:
    """Return a sub-agent's *event* as the parent emits it: wrapped, unless it is for people."""
    return event if isinstance(event, FOR_PEOPLE) else SubAgentEvent(agent.call_id, agent.child, event)


# Waiting for a person counts towards no limit


def _let_wait(draft: StepDraft, agent: Subagent) -> None:
    """Stop the time limit of the sub-agent's call, and that of the turn if all its other work waits too."""
    timer = call_timer(agent.call_id)
    due = None if agent.background else dict(draft.state.timers).get(timer)
    time_left = None
    if due is not None:
        time_left = max(0, due - draft.at)
        draft.clear_timer(timer)
    _put(draft, agent.but(waits=True, left_ms=time_left))
    if draft.state.waits:
        stop_clock(draft)


def _let_go_on(draft: StepDraft, agent: Subagent) -> None:
    """Let the time limits of the call and the turn run again, if the call still runs."""
    state = draft.state
    call = find(draft, agent.call_id)
    runs = call is not None and call.status is CallStatus.RUNNING
    if agent.left_ms is not None and (
        runs or any(detached.call_id == agent.call_id for detached in state.lingering_calls)
    ):
        draft.set_timer(call_timer(agent.call_id), draft.at + agent.left_ms)
    _put(draft, agent.but(waits=False, left_ms=None))
    _start_clock(draft)


def _start_clock(draft: StepDraft) -> None:
    """Let the turn's time limit run, unless all its work waits for a person."""
    if draft.state.phase is Phase.EXECUTING_TOOLS and not draft.state.waits:
        start_clock(draft)
