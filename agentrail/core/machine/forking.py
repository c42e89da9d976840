"""Forks: a session that starts with another one's past; none of the original's running work continues in it."""

from __future__ import annotations

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.endings import close_batch, fail_start
from agentrail.core.machine.in_doubt_calls import doubt_about, remember
from agentrail.core.machine.recovery import change_tools, reattach
from agentrail.core.machine.tool_results import call_timer, doubt, give_error, hold_timer, put
from agentrail.core.machine.tool_runs import await_result
from agentrail.core.vocabulary.commands import DONE
from agentrail.core.vocabulary.effects import ReportStart
from agentrail.core.vocabulary.inputs import SessionBranched
from agentrail.core.vocabulary.state import Phase, State
from agentrail.core.vocabulary.tool_calls import WAITS_FOR_PERSON, Call, CallStatus, digest_of
from agentrail.values.events.life import AgentStart, SessionForked
from agentrail.values.events.people import ApprovalRequired, AskUser
from agentrail.values.usage import NOTHING_USED


def branch(origin: State, session_id: str) -> State:
    """Return the initial state of a fork of *origin*: its history, plugins and held calls; no queues, no running work.

    The fork is a session of its own, even if *origin* is a sub-agent.
    """
    return origin.but(
        session_id=session_id,
        setup=origin.setup.but(path=(), shares=False),
        phase=Phase.NEW,
        is_starting=True,
        last_seq=0,
        plugin_changes=(),
        queue=(),
        steering=(),
        next_prompt=None,
        request=None,
        compaction=None,
        compaction_reason=None,
        compaction_cause="",
        suspended_runs=(),
        quarantined_calls=(),
        lingering_calls=(),
        subagents=(),
        ended_tasks=(),
        timers=(),
        is_paused=False,
        background_jobs=(),
        asleep=False,
        stop_reason=None,
        quarantine_cause=None,
        working_since_ms=None,
        shared_usage=NOTHING_USED,  # the usage of other sessions, with which the fork shares no limits
        shared_worked_ms=0,
    )


def on_branched(draft: StepDraft, branched: SessionBranched) -> None:
    """Start a fork with the code of now: held calls are held again, calls that ran are declared unknown."""
    state = draft.state
    draft.answer = DONE
    state.phase = Phase.IDLE
    state.incarnation = branched.incarnation
    if state.in_doubt_calls:
        state.in_doubt_calls = tuple(doubt.but(incarnation=state.incarnation) for doubt in state.in_doubt_calls)
    problem = reattach(draft, branched.attached_plugins, branched.options)
    if problem is not None:
        fail_start(draft, problem)
        return
    state.is_starting = False
    draft.emit(SessionForked(branched.origin, branched.at, branched.left_behind))
    change_tools(draft, branched)
    draft.add_effect(ReportStart())
    batch, turn = state.batch, state.turn
    if batch is None or turn is None:
        _drop_turn(draft)
        return
    waiting = [call for call in batch.calls if call.status in WAITS_FOR_PERSON]
    for call in batch.calls:
        if call.status not in WAITS_FOR_PERSON:
            _settle(draft, call)
    if not waiting:
        _drop_turn(draft)
        return
    draft.emit(AgentStart(turn.ref))
    for call in waiting:
        _wait_again(draft, call)


def _drop_turn(draft: StepDraft) -> None:
    """Close the original's open turn without an event: no caller of the fork waits for its end."""
    close_batch(draft)
    draft.drop_turn()


def _settle(draft: StepDraft, call: Call) -> None:
    """Give a call that the original had not finished an error result, because the fork does not run it."""
    if call.done:
        return
    if call.started_at:
        remember(draft, doubt_about(draft, call))
        give_error(draft, call, f"this branch began while the call ran; {doubt(call.spec)}")
    else:
        give_error(draft, call, "this branch began before the call ran: it did not run here")


def _wait_again(draft: StepDraft, call: Call) -> None:
    """Ask for the decision or answer about a call again; its id and its idempotency key are those of the fork."""
    call = call.but(incarnation=draft.state.incarnation)
    if call.hold is not None:
        old = call.hold
        hold = old.but(approval_id=draft.make_decision_id("a"))
        put(draft, call.but(status=CallStatus.HELD, hold=hold))
        if hold.expires_at is not None:
            draft.set_timer(hold_timer(hold.approval_id), hold.expires_at)
        draft.emit(
            ApprovalRequired(
                hold.approval_id,
                call.call_id,
                call.name,
                args=hold.args,
                hint=hold.hint,
                plugin=hold.plugin,
                requested_at=hold.requested_at,
                expires_at=hold.expires_at,
                family=hold.family,
                path=draft.state.setup.path,
                digest=digest_of(hold, call.name),
            )
        )
    elif call.question is not None:
        if call.question.expires_at is not None:
            draft.set_timer(call_timer(call.call_id), call.question.expires_at)
            await_result(draft, call, call.question.expires_at)
            return
        question = call.question.but(ref=draft.make_decision_id("q"))
        put(draft, call.but(question=question))
        draft.emit(AskUser(question.ref, call.call_id, question.question, question.options, draft.state.setup.path))
