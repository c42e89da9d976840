"""Decisions of people about held calls and stopped ones, and answers to questions."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.machine.in_doubt_calls import clear_about
from agentrail.core.machine.resting import wake
from agentrail.core.machine.tool_checks import unfit
from agentrail.core.machine.tool_results import give_error, hold_timer, put
from agentrail.core.machine.tool_runs import take_answer
from agentrail.core.vocabulary import commands
from agentrail.core.vocabulary.tool_calls import Call, CallStatus, Hold
from agentrail.errors import (
    BadArguments,
    FourEyesWanted,
    NoFamily,
    OwnDecision,
    ToolChanged,
    UnknownApproval,
    WrongDecision,
)
from agentrail.hooks.ruling import NOTHING_GATHERED, START
from agentrail.values.events.people import ApprovalResolved, ToolApprovedAlways, UserResponded
from agentrail.values.json import JsonObject, is_same
from agentrail.values.tools import StandingApproval, ok

STOPPED_CALL: Final = "a stopped call that may have taken effect, and does not run again"
"""What a decision that does not fit was made about, if its id names a doubt."""

END_DOUBT: Final = "`session.approve` with the id alone, which ends the doubt about it"
"""The call for an id that names a doubt."""


def held_calls(w: StepDraft) -> dict[str, tuple[Call, Hold]]:
    """Return the held calls, keyed by approval id."""
    return {c.hold.approval_id: (c, c.hold) for c in w.s.waiting_calls if c.hold is not None}


def open_questions(w: StepDraft) -> dict[str, Call]:
    """Return the calls that wait for an answer, keyed by the ref of their question."""
    return {c.question.ref: c for c in w.s.waiting_calls if c.question is not None}


def _not_held(w: StepDraft, approval_id: str, call: str) -> UnknownApproval:
    """Return the error for an approval id that no held call has."""
    if approval_id in open_questions(w):
        return WrongDecision(approval_id, call, "a question", "`session.respond`")
    if _stopped_call(w, approval_id) is not None:
        return WrongDecision(approval_id, call, STOPPED_CALL, END_DOUBT)
    return UnknownApproval.among(approval_id, held_calls(w))


def _stopped_call(w: StepDraft, approval_id: str) -> str | None:
    """Return the id of the stopped call whose doubt *approval_id* names: `SESSION:CALL`. `None` if it names none."""
    session_id, _, call_id = approval_id.rpartition(":")
    there = session_id == w.s.session_id and any(doubt.call_id == call_id for doubt in w.s.in_doubt)
    return call_id if there else None


def _clear_doubt(w: StepDraft, call_id: str, command: commands.ApproveSent) -> None:
    """End the doubt about a stopped call: a person has found out what it did, so an equal call is not held."""
    if command.four_eyes:  # the caller could ask for the same call now, and nobody else would see it
        w.refuse(FourEyesWanted("the end of a doubt", "have the same call made, and approve it when it is held"))
        return
    if command.args is not None or command.always:
        w.refuse(WrongDecision(command.approval_id, "edit or always approve", STOPPED_CALL, END_DOUBT))
        return
    doubt = clear_about(w, call_id)
    if doubt is not None:
        w.answer = commands.DONE
        w.emit(ApprovalResolved(command.approval_id, call_id, doubt.name, "cleared", by=w.by))


def _has_asked(w: StepDraft) -> bool:
    """Whether the caller of this step has asked for the open turn."""
    return w.by in w.s.asked_by


def _take_part(w: StepDraft) -> None:
    """Note that the caller of this step has asked for the open turn too: words of theirs go into it."""
    turn = w.s.turn
    if turn is not None and w.by and w.by not in turn.asked.by:
        w.s.turn = turn.but(asked=turn.asked.but(by=(*turn.asked.by, w.by)))


def on_approve(w: StepDraft, command: commands.ApproveSent) -> None:
    """Handle `approve`: let a held call run, with exactly the arguments approved, or end a doubt."""
    s = w.s
    held_call = held_calls(w).get(command.approval_id)
    stopped = _stopped_call(w, command.approval_id) if held_call is None else None
    if stopped is not None:
        _clear_doubt(w, stopped, command)
        return
    if held_call is None:
        w.refuse(_not_held(w, command.approval_id, "approve"))
        return
    call, hold = held_call
    edited = command.args if command.args is not None and not is_same(command.args, hold.args) else None
    if command.four_eyes and (_has_asked(w) or edited is not None):  # nobody else would have seen edited arguments
        w.refuse(OwnDecision(command.approval_id))
        return
    if command.four_eyes and command.always:  # the caller could ask for the later calls, or be the only one to see them
        w.refuse(FourEyesWanted("`always`", "approve each call by itself"))
        return
    attached = s.tools.get(call.name)
    if attached is None or attached.revision != call.revision:
        w.refuse(ToolChanged(command.approval_id, call.name))
        return
    if edited is not None:
        problem = unfit(w, call, edited)
        if problem is not None:
            w.refuse(BadArguments(call.name, problem))
            return
    elif command.always:
        if hold.family is None:
            w.refuse(NoFamily(command.approval_id))
            return
        pair = call.name, hold.family
        s.approved_always |= {pair}
        others = (other for other in s.standing_approvals if (other.tool, other.command_family) != pair)
        s.standing_approvals = (*others, StandingApproval(*pair, w.by, w.at))
        w.emit(ToolApprovedAlways(call.name, hold.family, w.by))
    w.answer = commands.DONE
    resolve(w, call, hold, "approved", "tool_approved", goes_on=command.auto_resume, edited=edited)
    put(w, _approved(call, hold, edited))
    w.later("before_tool", call.call_id)


def _approved(call: Call, hold: Hold, edited: JsonObject | None) -> Call:
    """Return *call* as approved: plugins after the holder are asked next, or all of them if arguments were edited."""
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
    w: StepDraft,
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
    s = w.s
    w.clear_timer(hold_timer(hold.approval_id))
    w.emit(ApprovalResolved(hold.approval_id, call.call_id, call.name, status, reason, edited is not None, w.by))
    if s.batch is not None:
        s.batch = s.batch.but(decisions=(*s.batch.decisions, (trigger, goes_on)))
    wake(w)


def on_reject(w: StepDraft, command: commands.RejectSent) -> None:
    """Handle `reject`: give a held call an error result with the reason."""
    held_call = held_calls(w).get(command.approval_id)
    if held_call is None:
        w.refuse(_not_held(w, command.approval_id, "reject"))
        return
    call, hold = held_call
    if command.four_eyes and _has_asked(w):
        w.refuse(OwnDecision(command.approval_id))
        return
    w.answer = commands.DONE
    if command.reason:
        _take_part(w)
    resolve(w, call, hold, "rejected", "tool_rejected", goes_on=command.auto_resume, reason=command.reason)
    _refused(w, call, "rejected by the user" + (f": {command.reason}" if command.reason else ""))


def on_hold_timer(w: StepDraft, approval_id: str) -> None:
    """Give a held call an error result because no person decided in time."""
    held_call = held_calls(w).get(approval_id)
    if held_call is None:
        return
    call, hold = held_call
    resolve(w, call, hold, "timeout", "tool_approval_timeout", goes_on=True, reason="nobody decided in time")
    _refused(w, call, "not approved: nobody decided in time")


def _refused(w: StepDraft, call: Call, text: str) -> None:
    give_error(w, call, text)
    w.next("advance_batch")


def on_respond(w: StepDraft, command: commands.RespondSent) -> None:
    """Handle `respond`: give the person's answer to the call that asked."""
    s = w.s
    asking = open_questions(w)
    call = asking.get(command.ref)
    if call is None or s.batch is None:
        if command.ref in held_calls(w):
            w.refuse(WrongDecision(command.ref, "respond to", "a held call", "`session.approve` or `session.reject`"))
        elif _stopped_call(w, command.ref) is not None:
            w.refuse(WrongDecision(command.ref, "respond to", STOPPED_CALL, END_DOUBT))
        else:
            w.refuse(UnknownApproval.among(command.ref, asking))
        return
    w.answer = commands.DONE
    _take_part(w)
    w.emit(UserResponded(command.ref, command.answer))
    s.batch = s.batch.but(decisions=(*s.batch.decisions, ("user_respond", True)))
    wake(w)
    take_answer(w, call.but(question=None), ok(command.answer))
