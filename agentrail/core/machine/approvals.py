"""Decisions of people about held calls and stopped ones, answers to questions, and results from elsewhere."""

from __future__ import annotations

from typing import Final, TypeAlias

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.in_doubt_calls import clear_about
from agentrail.core.machine.resting import wake
from agentrail.core.machine.tool_checks import unfit
from agentrail.core.machine.tool_results import give_error, hold_timer, put
from agentrail.core.machine.tool_runs import advance_batch, take_answer, take_result
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.tool_calls import Call, CallStatus, Doubt, Hold, digest_of
from agentrail.errors import (
    AgentrailError,
    NotAsShown,
    RefusedError,
    ResultNotWanted,
    UnknownApproval,
    UsageError,
    WrongDecision,
)
from agentrail.hooks.ruling import NO_DECISIONS, START
from agentrail.values.events.people import ApprovalResolved, ToolApprovedAlways, UserResponded
from agentrail.values.json import JsonObject, is_same
from agentrail.values.tools import PersonAnswer, StandingApproval, ok

STOPPED_CALL: Final = "a stopped call that may have taken effect, and does not run again"
"""What a decision that does not fit was made about, if its id names a doubt."""

END_DOUBT: Final = "`session.approve` with the id alone, which ends the doubt about it"
"""The call for an id that names a doubt."""

AWAITED: Final = ("a call whose result comes from elsewhere", "`session.result`")
"""What a decision that does not fit was made about, if a result is wanted; and the call for it."""

EDITED_CALL: Final = "a call that would run with other arguments than its family was named for"
"""What cannot be approved for always."""

WITHOUT_ALWAYS: Final = "`session.approve` with these arguments, without `always`"
"""The call for it."""


def held_calls(draft: StepDraft) -> dict[str, tuple[Call, Hold]]:
    """Return the held calls, keyed by approval id."""
    return {c.hold.approval_id: (c, c.hold) for c in draft.state.waiting_calls if c.hold is not None}


def open_questions(draft: StepDraft) -> dict[str, Call]:
    """Return the calls that asked a person a question, keyed by the ref of the question."""
    calls = draft.state.waiting_calls
    return {c.question.ref: c for c in calls if c.question is not None and not c.question.is_for_result}


def awaited_results(draft: StepDraft) -> dict[str, Call]:
    """Return the calls that wait for a result from elsewhere, keyed by the ref with which it is given."""
    calls = draft.state.waiting_calls
    return {c.question.ref: c for c in calls if c.question is not None and c.question.is_for_result}


def _not_held(draft: StepDraft, approval_id: str, call: str) -> UnknownApproval:
    """Return the error for an approval id that belongs to no held call; name the whole id if it lacks its end."""
    if approval_id in open_questions(draft):
        return WrongDecision(approval_id, call, "a question", "`session.respond`")
    if approval_id in awaited_results(draft):
        return WrongDecision(approval_id, call, *AWAITED)
    if _stopped_call(draft, approval_id) is not None:
        return WrongDecision(approval_id, call, STOPPED_CALL, END_DOUBT)
    ids = {f"{draft.state.session_id}:{doubt.call_id}": doubt_id(draft, doubt) for doubt in draft.state.in_doubt_calls}
    whole_ids = [ids[approval_id]] if approval_id in ids else []
    return UnknownApproval.among(approval_id, (*held_calls(draft), *whole_ids))


def doubt_id(draft: StepDraft, doubt: Doubt) -> str:
    """Return the id by which a person ends *doubt*."""
    return f"{draft.state.session_id}:{doubt.name_of_call}"


def _stopped_call(draft: StepDraft, approval_id: str) -> str | None:
    """Return the id of the stopped call whose doubt has the id *approval_id*; `None` if there is no such doubt."""
    doubts = draft.state.in_doubt_calls
    return next((doubt.call_id for doubt in doubts if doubt_id(draft, doubt) == approval_id), None)


def _clear_problem(command: commands.ApproveSent) -> AgentrailError | None:
    """Return why a doubt does not end by *command*; `None` if it does."""
    if command.four_eyes:  # the caller could have the same call made now, without a second person's approval
        advice = "have the same call made, and approve it when it is held"
        return RefusedError("four-eyes-wanted", "the end of a doubt", advice)
    if command.args is not None or command.always:
        return WrongDecision(command.approval_id, "edit or always approve", STOPPED_CALL, END_DOUBT)
    return None


def _clear_doubt(draft: StepDraft, approval_id: str) -> None:
    """End the doubt about a stopped call: a person has found out what it did, so an equal call is not held."""
    call_id = _stopped_call(draft, approval_id)
    doubt = None if call_id is None else clear_about(draft, call_id)
    if doubt is not None:
        draft.emit(ApprovalResolved(approval_id, doubt.call_id, doubt.name, "cleared", by=draft.by))


def _has_asked(draft: StepDraft) -> bool:
    """Whether the caller of this command has also prompted or steered the open turn."""
    return draft.by in draft.state.asked_by


def _take_part(draft: StepDraft) -> None:
    """Add the caller of this command to those who asked for the open turn, because the turn now has words of theirs."""
    turn = draft.state.turn
    if turn is not None and draft.by and draft.by not in turn.asked_by.by:
        draft.state.turn = turn.but(asked_by=turn.asked_by.but(by=(*turn.asked_by.by, draft.by)))


Decision: TypeAlias = commands.ApproveSent | commands.RejectSent | commands.RespondSent | commands.ResultSent
"""What a person decides or answers, or somebody elsewhere gives."""


def decision_problem(draft: StepDraft, decision: Decision) -> AgentrailError | None:
    """Return why *decision* is refused, `None` if it would be carried out; only rulings of *draft* are changed."""
    match decision:
        case commands.ApproveSent():
            return _approve_problem(draft, decision)
        case commands.RejectSent():
            return _reject_problem(draft, decision)
        case commands.RespondSent():
            return _respond_problem(draft, decision)
        case commands.ResultSent():
            return _result_problem(draft, decision.ref)


def _approve_problem(draft: StepDraft, command: commands.ApproveSent) -> AgentrailError | None:
    approval_id = command.approval_id
    held_call = held_calls(draft).get(approval_id)
    if held_call is None:
        if _stopped_call(draft, approval_id) is None:
            return _not_held(draft, approval_id, "approve")
        return _clear_problem(command)
    call, hold = held_call
    if not _is_shown(command, call, hold):
        return NotAsShown(approval_id, "approve", call.name)
    edited = _edited(command, hold)
    # A second person would not have seen the edited arguments.
    if command.four_eyes and (_has_asked(draft) or edited is not None):
        return RefusedError("own-decision", approval_id)
    # A caller who approves for always could ask for later calls that no second person sees.
    if command.four_eyes and command.always:
        return RefusedError("four-eyes-wanted", "`always`", "approve each call by itself")
    if edited is not None and command.always:
        return WrongDecision(approval_id, "always approve", EDITED_CALL, WITHOUT_ALWAYS)
    attached = draft.state.tools.get(call.name)
    if attached is None or attached.revision != call.revision:
        return RefusedError("tool-changed", approval_id, call.name)
    problem = None if edited is None else unfit(draft, call, edited)
    if problem is not None:
        return UsageError("bad-arguments", call.name, problem)
    return UsageError("no-family", approval_id) if command.always and hold.family is None else None


def _is_shown(command: commands.ApproveSent | commands.RejectSent, call: Call, hold: Hold) -> bool:
    """Whether the person was shown what is held, as far as the decision says what that was."""
    return not command.digest or command.digest == digest_of(hold, call.name)


def _edited(command: commands.ApproveSent, hold: Hold) -> JsonObject | None:
    """Return the arguments that the person has changed; `None` if they are those that were held."""
    return None if command.args is None or is_same(command.args, hold.args) else command.args


def on_approve(draft: StepDraft, command: commands.ApproveSent) -> None:
    """Handle `approve`: let a held call run, with exactly the arguments approved, or end a doubt."""
    problem = _approve_problem(draft, command)
    if problem is not None:
        draft.refuse(problem)
        return
    draft.answer = commands.DONE
    held_call = held_calls(draft).get(command.approval_id)
    if held_call is None:
        _clear_doubt(draft, command.approval_id)
        return
    call, hold = held_call
    edited = _edited(command, hold)
    if command.always and hold.family is not None:
        _stand(draft, call.name, hold.family)
    resolve(draft, call, hold, "approved", "tool_approved", goes_on=command.auto_resume, edited=edited)
    put(draft, _approved(call, hold, edited))
    draft.due.append(("before_tool", call.call_id))


def _stand(draft: StepDraft, name: str, family: str) -> None:
    """Approve the *family* of the tool *name* for always."""
    pair = name, family
    draft.state.approved_always |= {pair}
    others = (other for other in draft.state.standing_approvals if (other.tool, other.command_family) != pair)
    draft.state.standing_approvals = (*others, StandingApproval(*pair, draft.by, draft.at))
    draft.emit(ToolApprovedAlways(name, family, draft.by))


def on_disallow(draft: StepDraft, command: commands.DisallowSent) -> None:
    """Handle `disallow`: calls of the family are held again. No-op if it is not approved for always."""
    state, pair = draft.state, (command.tool, command.command_family)
    draft.answer = commands.DONE
    if pair in state.approved_always:
        state.approved_always -= {pair}
        state.standing_approvals = tuple(
            [other for other in state.standing_approvals if (other.tool, other.command_family) != pair]
        )


def _approved(call: Call, hold: Hold, edited: JsonObject | None) -> Call:
    """Return *call* as approved; hooks go on after the plugin that held it, or begin again if arguments were edited."""
    holders = call.holders | {hold.plugin}
    if edited is None:
        return call.but(
            status=CallStatus.RULING,
            hold=None,
            approved=hold.args,
            holders=holders,
            position=hold.position,
            decisions=hold.decisions,
        )
    return call.but(
        status=CallStatus.RULING,
        hold=None,
        args=edited,
        approved=edited,
        holders=holders,
        position=START,
        decisions=NO_DECISIONS,
    )


def resolve(
    draft: StepDraft,
    call: Call,
    hold: Hold,
    status: str,
    trigger: str,
    *,
    goes_on: bool,
    reason: str | None = None,
    edited: JsonObject | None = None,
) -> None:
    """Report a decision about a held call, clear the timer of the hold, and wake the turn.

    *goes_on* says whether the person wants the model to be asked again; *trigger* names the decision in `AgentResumed`.
    """
    state = draft.state
    draft.clear_timer(hold_timer(hold.approval_id))
    draft.emit(
        ApprovalResolved(hold.approval_id, call.call_id, call.name, status, reason, edited is not None, draft.by)
    )
    if state.batch is not None:
        state.batch = state.batch.but(decisions=(*state.batch.decisions, (trigger, goes_on)))
    wake(draft)


def _reject_problem(draft: StepDraft, command: commands.RejectSent) -> AgentrailError | None:
    held_call = held_calls(draft).get(command.approval_id)
    if held_call is None:
        return _not_held(draft, command.approval_id, "reject")
    call, hold = held_call
    if not _is_shown(command, call, hold):
        return NotAsShown(command.approval_id, "reject", call.name)
    return RefusedError("own-decision", command.approval_id) if command.four_eyes and _has_asked(draft) else None


def on_reject(draft: StepDraft, command: commands.RejectSent) -> None:
    """Handle `reject`: give a held call an error result with the reason."""
    problem = _reject_problem(draft, command)
    if problem is not None:
        draft.refuse(problem)
        return
    call, hold = held_calls(draft)[command.approval_id]
    draft.answer = commands.DONE
    if command.reason:
        _take_part(draft)
    resolve(draft, call, hold, "rejected", "tool_rejected", goes_on=command.auto_resume, reason=command.reason)
    _refused(draft, call, "rejected by the user" + (f": {command.reason}" if command.reason else ""))


def on_hold_timer(draft: StepDraft, approval_id: str) -> None:
    """Give a held call an error result because no person decided in time."""
    held_call = held_calls(draft).get(approval_id)
    if held_call is None:
        return
    call, hold = held_call
    resolve(draft, call, hold, "timeout", "tool_approval_timeout", goes_on=True, reason="nobody decided in time")
    _refused(draft, call, "not approved: nobody decided in time")


def _refused(draft: StepDraft, call: Call, text: str) -> None:
    """Give *call* an error result with *text*, and continue its batch."""
    give_error(draft, call, text)
    advance_batch(draft)


def _respond_problem(draft: StepDraft, command: commands.RespondSent) -> AgentrailError | None:
    asking = open_questions(draft)
    if command.ref in asking:
        return None
    if command.ref in held_calls(draft):
        return WrongDecision(command.ref, "respond to", "a held call", "`session.approve` or `session.reject`")
    if command.ref in awaited_results(draft):
        return WrongDecision(command.ref, "respond to", *AWAITED)
    if _stopped_call(draft, command.ref) is not None:
        return WrongDecision(command.ref, "respond to", STOPPED_CALL, END_DOUBT)
    return UnknownApproval.among(command.ref, asking)


def on_respond(draft: StepDraft, command: commands.RespondSent) -> None:
    """Handle `respond`: the person's answer is the result of the call that asked, or its tool runs again with it."""
    problem = _respond_problem(draft, command)
    if problem is not None:
        draft.refuse(problem)
        return
    state = draft.state
    call = open_questions(draft)[command.ref]
    draft.answer = commands.DONE
    _take_part(draft)
    draft.emit(UserResponded(command.ref, command.answer))
    if state.batch is not None:
        state.batch = state.batch.but(decisions=(*state.batch.decisions, ("user_respond", True)))
    wake(draft)
    answered = call.but(question=None)
    if call.question is None or call.question.resume is None:
        take_answer(draft, answered, ok(command.answer))
        return
    put(draft, answered.but(status=CallStatus.READY, person_answer=PersonAnswer(call.question.resume, command.answer)))
    advance_batch(draft)


def _result_problem(draft: StepDraft, ref: str) -> AgentrailError | None:
    call = awaited_results(draft).get(ref)
    if call is not None and call.question is not None and draft.at < (call.question.expires_at or 0):
        return None  # after that the timer, which fires late if no process ran the session, has the word
    if ref in open_questions(draft):
        return WrongDecision(ref, "give a result to", "a question", "`session.respond`")
    if ref in held_calls(draft):
        return WrongDecision(ref, "give a result to", "a held call", "`session.approve` or `session.reject`")
    return ResultNotWanted.among(ref, awaited_results(draft))


def on_result(draft: StepDraft, command: commands.ResultSent) -> None:
    """Handle `result`: give a call that waits for it what was made elsewhere."""
    problem = _result_problem(draft, command.ref)
    if problem is not None:
        draft.refuse(problem)
        return
    draft.answer = commands.DONE
    _take_part(draft)
    take_result(draft, awaited_results(draft)[command.ref], command.result)
