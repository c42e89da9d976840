"""Rules for single steps about tool calls, requests and usage; see `promises`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import dropwhile
from typing import Final

from agentrail.core.machine.repeat_doubts import MOST, TURNS_KEPT
from agentrail.core.machine.tool_runs import CAN_RUN_AGAIN
from agentrail.core.vocabulary.commands import (
    AbortSent,
    Done,
    SteerSent,
    StopSent,
    SwitchModelSent,
)
from agentrail.core.vocabulary.effects import CarryOut, StartCall, StartRequest
from agentrail.core.vocabulary.inputs import (
    AskSettled,
    CompactionEnded,
    CompactionFailed,
    SessionReturned,
    StreamCut,
    StreamEnded,
    StreamStalled,
    SubagentReported,
    TimerFired,
    ToolRaised,
)
from agentrail.core.vocabulary.state import Phase
from agentrail.core.vocabulary.tool_calls import Call, CallStatus
from agentrail.hooks.actions import RunTool
from agentrail.hooks.ruling import Verdict
from agentrail.testing.world.choose import Seen
from agentrail.testing.world.outstanding import demand
from agentrail.values.events.people import ApprovalRequired, ApprovalResolved
from agentrail.values.events.plugins import AskStarted
from agentrail.values.events.response import ModelOptionsChanged, ModelSwitched, Retry, StreamError
from agentrail.values.events.tools import (
    ToolBlocked,
    ToolCallUnknown,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
    ToolSkippedForSteering,
    ToolUnknown,
)
from agentrail.values.json import is_same
from agentrail.values.messages import Added, ToolMessage
from agentrail.values.stream import Failure, FailureKind
from agentrail.values.tools import EffectClass
from agentrail.values.usage import NOTHING_USED, Usage

RULED: Final = (ToolBlocked, ToolCallUnknown, ApprovalRequired)
"""Events of rulings on a new call."""


def _batches(seen: Seen) -> None:
    """Check a batch: a tool that is not `parallel` runs alone, and no call starts before plugins ruled on all.

    The results are in the history in the order of the calls.
    """
    before, after = seen.before, seen.after
    starts = [effect for effect in seen.step.effects if isinstance(effect, StartCall)]
    asked = any(isinstance(event, AskStarted) and event.request == RunTool.__name__ for event in seen.events)
    aborts = [one for one in seen.step.rulings if one.hook == "before_tool" and one.verdict is Verdict.ABORT]
    if isinstance(seen.given, StreamEnded) and aborts and not asked:  # a tool that a plugin asks for is ruled on too
        demand(not starts, "{} run though a plugin has aborted the turn at a call", starts)
    if isinstance(seen.given, StreamEnded) and not asked:
        behind = dropwhile(lambda event: not isinstance(event, ToolExecutionStart), seen.events)
        ruled = [event for event in behind if isinstance(event, RULED)]
        demand(not ruled, "{} come after the first of {}, so not all calls were ruled on before", ruled, starts)
    if after.batch is not None:
        busy = [call for call in after.batch.calls if call.status in (CallStatus.RUNNING, CallStatus.SETTLING)]
        alone = any(call.spec is not None and not call.spec.parallel for call in busy)
        demand(not alone or len(busy) == 1, "{} run beside one that runs alone", busy)
        new = any(call.status is CallStatus.NEW for call in after.batch.calls)
        demand(not (new and starts), "{} run before all calls are ruled on", starts)
    if before.batch is not None and after.batch is not before.batch and not isinstance(seen.given, CompactionEnded):
        wanted = [call.call_id for call in before.batch.calls]
        put = [m.call_id for m in after.history[len(before.history) :] if isinstance(m, ToolMessage)]
        demand(put in ([], wanted), "the results of {} stand as {}", wanted, put)


def _tries_again(seen: Seen) -> None:
    """Check that plugins are asked about a retry of a call whose tool raised exactly if it may be tried again."""
    given = seen.given
    if not isinstance(given, ToolRaised):
        return
    for call in seen.running:
        if (call.call_id, call.attempt) == (given.call_id, given.attempt) and call.spec is not None:
            may = call.attempt <= seen.before.setup.options.tool_max_retries and call.spec.effect in CAN_RUN_AGAIN
            left = [] if seen.after.batch is None else [one for one in seen.after.batch.calls if not one.done]
            waits = any(one.call_id == call.call_id and one.status is CallStatus.FAILED for one in left)
            asked = waits or any(ruling.hook == "on_tool_error" for ruling in seen.step.rulings)
            demand(asked == may, "{} broke, and is tried again: {}", call, asked)


def _doubts(seen: Seen) -> None:
    """Check that a stopped call of an unsafe tool is remembered as a doubt, until it runs again or a person ends it."""
    after = seen.after
    if after.setup.options.on_repeat_unknown != "hold" or after.phase is Phase.ENDED:
        return
    stopped = {e.call_id for e in seen.events if isinstance(e, ToolSkippedForSteering | ToolKilled | ToolUnknown)}
    wanted = [(c.call_id, c.name, c.args) for c in seen.running if c.call_id in stopped and _unsafe(c)]
    again = [(e.name, e.args) for e in seen.step.effects if isinstance(e, StartCall)]
    if len(after.in_doubt) == MOST:  # the oldest were dropped
        return
    young = (doubt for doubt in seen.before.in_doubt if doubt.turn is None or after.turns - doubt.turn <= TURNS_KEPT)
    wanted += [(doubt.call_id, doubt.name, doubt.args) for doubt in young if doubt.args is not None]
    cleared = {e.call_id for e in seen.events if isinstance(e, ApprovalResolved) and e.status == "cleared"}
    for call_id, name, args in wanted:
        if call_id in cleared:
            continue
        known = any(doubt.covers(name, args) for doubt in after.in_doubt)
        runs = any(other == name and is_same(args, given) for other, given in again)
        demand(known or runs, "{} {} may have taken effect, and no doubt is kept", name, args)


def _unsafe(call: Call) -> bool:
    return call.spec is None or call.spec.effect is EffectClass.UNSAFE


def _lingers(seen: Seen) -> None:
    """Check that after a restart an event reports the end of each call that an abort had left running."""
    if isinstance(seen.given, SessionReturned) and isinstance(seen.step.answer, Done):
        told = {event.call_id for event in seen.events if isinstance(event, ToolExecutionEnd) and event.late}
        lost = {stray.call_id for stray in seen.before.lingering} - told
        demand(not lost, "{} went on in the background, and their end is not reported", lost)


# Requests and usage


def _fails(seen: Seen) -> None:
    """Check that a failed request is retried as often as allowed, with the right pause, or the next model is used."""
    given, turn, request = seen.given, seen.before.turn, seen.before.request
    if seen.after.request is not None:
        demand(seen.after.request.stalls < seen.after.setup.options.stall_limit, "a request stalls once too often")
    if not isinstance(given, StreamCut) or turn is None or request is None or given.request_id != request.request_id:
        return
    now = seen.after.turn if seen.same_turn else None
    fell_back = any(isinstance(event, Retry) for event in seen.events) and now is not None and now.spares != turn.spares
    if fell_back or any(isinstance(event, ModelOptionsChanged | ModelSwitched) for event in seen.events):
        demand(now is None or len(now.spares) < len(turn.spares), "a model of the chain is not used up")
    elif given.failure.kind is FailureKind.TRANSIENT:
        _pauses(seen, given.failure, turn.attempt - turn.failed_over)


def _pauses(seen: Seen, failure: Failure, tried: int) -> None:
    options, wait = seen.before.setup.options, failure.retry_after or 0.0
    gave_up = any(isinstance(event, StreamError) for event in seen.events)
    demand(gave_up == (tried > options.max_retries), "attempt {} failed, and is the last: {}", tried, gave_up)
    for event in seen.events:
        if isinstance(event, Retry):
            demand(event.delay_ms >= int(wait * 1000), "{}, where the provider wants {} s", event, wait)
            demand(event.delay_ms <= max(wait, options.retry_cap) * 1000, "{} is longer than any pause may be", event)


def _counts(seen: Seen) -> None:
    """Check that the usage grows by what the input used, counted once."""
    more = _used(seen)
    used = seen.before.usage if more is NOTHING_USED else seen.before.usage.plus(more)
    demand(seen.after.usage == used, "{} leads from {} to {}", seen.given, seen.before.usage, seen.after.usage)


def _used(seen: Seen) -> Usage:
    given, before, request = seen.given, seen.before, seen.before.request
    now = seen.after.request
    cut = request is not None and (now is None or now.request_id != request.request_id)
    match given:
        case StreamEnded(request_id=ref, response=response):
            return response.usage if request is not None and request.request_id == ref else NOTHING_USED
        case StreamCut(request_id=ref, partial=partial):
            return partial.usage if request is not None and request.request_id == ref else NOTHING_USED
        case StreamStalled(partial=partial) | AbortSent(partial=partial) | StopSent(partial=partial):
            return partial.usage if cut else NOTHING_USED
        case SteerSent(partial=partial, when="now") | TimerFired(partial=partial):
            return partial.usage if cut else NOTHING_USED
        case AskSettled(usage=usage) | CompactionEnded(usage=usage) | CompactionFailed(usage=usage):
            return usage
        case SubagentReported(child=child, used=used, heard=heard):
            found = next((agent for agent in before.subagents if agent.child == child), None)
            return NOTHING_USED if found is None or heard < found.heard else used.minus(found.used)
        case _:
            return NOTHING_USED


def _compacts(seen: Seen) -> None:
    """Check that only the compaction that the session waits for replaces the history.

    The start of the turn must be within the history, and its rounds within the limit.
    """
    given, before, after = seen.given, seen.before, seen.after
    if isinstance(given, CompactionEnded):
        mine = before.compaction is not None and before.compaction.compaction_id == given.compaction_id
        demand(mine or after.history is before.history, "a compaction that was given up replaces the history")
    if after.turn is not None and after.turn.ended is None:
        demand(after.turn.mark <= len(after.history), "the turn began after its own end")
        demand(after.round <= after.setup.options.max_turns, "round {} is one too many", after.round)


def adds(seen: Seen) -> None:
    """Check that context which plugins add is in its request alone: first or last, in order, with its origin."""
    rulings = [ruling for ruling in seen.step.rulings if ruling.hook == "before_request"]
    request = seen.after.request
    for effect in seen.step.effects:
        if not isinstance(effect, StartRequest) or request is None or not rulings:
            continue
        if effect.request.request_id != request.request_id:
            continue  # it was aborted within its step, as by a critical listener, and the next turn has begun
        gathered = rulings[-1].gathered
        added = (*gathered.front, *gathered.added)
        pieces = () if request.messages is None else request.messages.pieces
        kept = tuple(piece for piece in pieces if isinstance(piece, Added))
        demand(kept == added, "plugins added {}, and the record of the request has {}", added, kept)
        sent = tuple(effect.request.messages)
        front = tuple(one.message for one in gathered.front)
        demand(sent[: len(front)] == front, "plugins added {}, and the request begins with {}", front, sent[:3])
        end = tuple(one.message for one in gathered.added)
        demand(sent[len(sent) - len(end) :] == end, "plugins added {}, and the request ends with {}", end, sent[-3:])
        demand({one.by for one in added} <= {seat.key for seat in seen.after.seats}, "{} is of no plugin", added)
        stays = [one for one in (*front, *end) if any(one is other for other in seen.after.history)]
        demand(not stays, "{} was added for one request, and is in the history", stays)


def _switches(seen: Seen) -> None:
    """Check that a model that a caller switches to is not used in the turn that is open."""
    old, new = seen.before.turn, seen.after.turn
    if isinstance(seen.given, SwitchModelSent) and old is not None and new is not None:
        demand(old.model == new.model or old.ref != new.ref, "a caller's model is used in the turn that is open")


def _runs_for_plugins(seen: Seen) -> None:
    """Check that a tool that a plugin asks for runs only if the others have let it, each with its own answer."""
    runs = [one for one in seen.step.effects if isinstance(one, CarryOut) and isinstance(one.request, RunTool)]
    let = [
        one for one in seen.step.rulings if one.hook == "before_tool" and one.verdict in (Verdict.PASS, Verdict.SKIP)
    ]
    demand(len(runs) <= len(let), "{} run for plugins, and {} were let", runs, let)


WORK: Final[tuple[Callable[[Seen], None], ...]] = (
    _batches,
    _tries_again,
    _doubts,
    _lingers,
    _fails,
    _counts,
    _compacts,
    adds,
    _switches,
    _runs_for_plugins,
)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""
