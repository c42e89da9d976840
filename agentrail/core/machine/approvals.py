"""Decisions of people about held calls and stopped ones, and answers to questions."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.in_doubt_calls import clear_about
from agentrail.core.machine.resting import wake
from agentrail.core.machine.tool_checks import unfit
from agentrail.core.machine.tool_results import give_error, hold_timer, put
from agentrail.core.machine.tool_runs import advance_batch, take_answer
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.tool_calls import Call, CallStatus, Doubt, Hold
from agentrail.errors import RefusedError, UnknownApproval, UsageError, WrongDecision
from agentrail.hooks.ruling import NOTHING_GATHERED, START
from agentrail.values.events.people import ApprovalResolved, ToolApprovedAlways, UserResponded
from agentrail.values.json import JsonObject, is_same
from agentrail.values.tools import StandingApproval, ok

STOPPED_CALL: Final = "a stopped call that may have taken effect, and does not run again"
"""What a decision that does not fit was made about, if its id names a doubt."""

END_DOUBT: Final = "`session.approve` with the id alone, which ends the doubt about it"
"""The call for an id that names a doubt."""

EDITED_CALL: Final = "a call that would run with other arguments than its family was named for"
"""What cannot be approved for always."""

WITHOUT_ALWAYS: Final = "`session.approve` with these arguments, without `always`"
"""The call for it."""


def held_calls(draft: StepDraft) -> dict[str, tuple[Call, Hold]]:
    """Return the held calls, keyed by approval id."""
    return {c.hold.approval_id: (c, c.hold) for c in draft.state.waiting_calls if c.hold is not None}


def open_questions(draft: StepDraft) -> dict[str, Call]:
    """Return the calls that asked a person a question, keyed by the ref of the question."""
    return {c.question.ref: c for c in draft.state.waiting_calls if c.question is not None}


def _not_held(draft: StepDraft, approval_id: str, call: str) -> UnknownApproval:
    """Return the error for an approval id that belongs to no held call; name the whole id if it lacks its end."""
    if approval_id in open_questions(draft):
        return WrongDecision(approval_id, call, "a question", "`session.respond`")
    if _stopped_call(draft, approval_id) is not None:
        return WrongDecision(approval_id, call, STOPPED_CALL, END_DOUBT)
    ids = {f"{draft.state.session_id}:{doubt.call_id}": doubt_id(draft, doubt) for doubt in draft.state.in_doubt_calls}
    whole = [ids[approval_id]] if approval_id in ids else []
    return UnknownApproval.among(approval_id, (*held_calls(draft), *whole))


def doubt_id(draft: StepDraft, doubt: Doubt) -> str:
    """Return the id by which a person ends *doubt*."""
    return f"{draft.state.session_id}:{doubt.name_of_call}"


def _stopped_call(draft: StepDraft, approval_id: str) -> str | None:
    """Return the id of the stopped call whose doubt has the id *approval_id*; `None` if there is no such doubt."""
    doubts = draft.state.in_doubt_calls
    return next((doubt.call_id for doubt in doubts if doubt_id(draft, doubt) == approval_id), None)


def _clear_doubt(draft: StepDraft, call_id: str, command: commands.ApproveSent) -> None:
    """End the doubt about a stopped call: a person has found out what it did, so an equal call is not held."""
    if command.four_eyes:  # the caller could have the same call made now, without a second person's approval
        draft.refuse(
            RefusedError(
                "four-eyes-wanted", "the end of a doubt", "have the same call made, and approve it when it is held"
            )
        )
        return
    if command.args is not None or command.always:
        draft.refuse(WrongDecision(command.approval_id, "edit or always approve", STOPPED_CALL, END_DOUBT))
        return
    doubt = clear_about(draft, call_id)
    if doubt is not None:
        draft.answer = commands.DONE
        draft.emit(ApprovalResolved(command.approval_id, call_id, doubt.name, "cleared", by=draft.by))


def _has_asked(draft: StepDraft) -> bool:
    """Whether the caller of this command has also prompted or steered the open turn."""
    return draft.by in draft.state.asked_by


def _take_part(draft: StepDraft) -> None:
    """Add the caller of this command to those who asked for the open turn, because the turn now has words of theirs."""
    turn = draft.state.turn
    if turn is not None and draft.by and draft.by not in turn.asked.by:
        draft.state.turn = turn.but(asked=turn.asked.but(by=(*turn.asked.by, draft.by)))


def on_approve(draft: StepDraft, command: commands.ApproveSent) -> None:
    """Handle `approve`: let a held call run, with exactly the arguments approved, or end a doubt."""
    state = draft.state
    held_call = held_calls(draft).get(command.approval_id)
    stopped = _stopped_call(draft, command.approval_id) if held_call is None else None
    if stopped is not None:
        _clear_doubt(draft, stopped, command)
        return
    if held_call is None:
        draft.refuse(_not_held(draft, command.approval_id, "approve"))
        return
    call, hold = held_call
    edited = command.args if command.args is not None and not is_same(command.args, hold.args) else None
    # A second person would not have seen the edited arguments.
    if command.four_eyes and (_has_asked(draft) or edited is not None):
        draft.refuse(RefusedError("own-decision", command.approval_id))
        return
    # A caller who approves for always could ask for later calls that no second person sees.
    if command.four_eyes and command.always:
        draft.refuse(RefusedError("four-eyes-wanted", "`always`", "approve each call by itself"))
        return
    if edited is not None and command.always:
        draft.refuse(WrongDecision(command.approval_id, "always approve", EDITED_CALL, WITHOUT_ALWAYS))
        return
    attached = state.tools.get(call.name)
    if attached is None or attached.revision != call.revision:
        draft.refuse(RefusedError("tool-changed", command.approval_id, call.name))
        return
    if edited is not None:
        problem = unfit(draft, call, edited)
        if problem is not None:
            draft.refuse(UsageError("bad-arguments", call.name, problem))
            return
    if command.always and not _stand(draft, command.approval_id, call.name, hold.family):
        return
    draft.answer = commands.DONE
    resolve(draft, call, hold, "approved", "tool_approved", goes_on=command.auto_resume, edited=edited)
    put(draft, _approved(call, hold, edited))
    draft.due.append(("before_tool", call.call_id))


def _stand(draft: StepDraft, approval_id: str, name: str, family: str | None) -> bool:
    """Approve the *family* of the tool *name* for always; return whether there is one."""
    if family is None:
        draft.refuse(UsageError("no-family", approval_id))
        return False
    pair = name, family
    draft.state.approved_always |= {pair}
    others = (other for other in draft.state.standing_approvals if (other.tool, other.command_family) != pair)
    draft.state.standing_approvals = (*others, StandingApproval(*pair, draft.by, draft.at))
    draft.emit(ToolApprovedAlways(name, family, draft.by))
    return True


def _approved(call: Call, hold: Hold, edited: JsonObject | None) -> Call:
    """Return *call* as approved; hooks go on after the plugin that held it, or begin again if arguments were edited."""
    holders = call.holders | {hold.plugin}
    if edited is None:
        return call.but(
            status=CallStatus.RULING,
            hold=None,
            approved=hold.args,
            holders=holders,
            place=hold.place,
            gathered=hold.gathered,
        )
    return call.but(
        status=CallStatus.RULING,
        hold=None,
        args=edited,
        approved=edited,
        holders=holders,
        place=START,
        gathered=NOTHING_GATHERED,
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


def on_reject(draft: StepDraft, command: commands.RejectSent) -> None:
    """Handle `reject`: give a held call an error result with the reason."""
    held_call = held_calls(draft).get(command.approval_id)
    if held_call is None:
        draft.refuse(_not_held(draft, command.approval_id, "reject"))
        return
    call, hold = held_call
    if command.four_eyes and _has_asked(draft):
        draft.refuse(RefusedError("own-decision", command.approval_id))
        return
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


def on_respond(draft: StepDraft, command: commands.RespondSent) -> None:
    """Handle `respond`: give the person's answer to the call that asked."""
    state = draft.state
    asking = open_questions(draft)
    call = asking.get(command.ref)
    if call is None or state.batch is None:
        if command.ref in held_calls(draft):
            draft.refuse(
                WrongDecision(command.ref, "respond to", "a held call", "`session.approve` or `session.reject`")
            )
        elif _stopped_call(draft, command.ref) is not None:
            draft.refuse(WrongDecision(command.ref, "respond to", STOPPED_CALL, END_DOUBT))
        else:
            draft.refuse(UnknownApproval.among(command.ref, asking))
        return
    draft.answer = commands.DONE
    _take_part(draft)
    draft.emit(UserResponded(command.ref, command.answer))
    state.batch = state.batch.but(decisions=(*state.batch.decisions, ("user_respond", True)))
    wake(draft)
    take_answer(draft, call.but(question=None), ok(command.answer))
