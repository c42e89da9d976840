"""Rules for single steps about prompts, steering, aborts and decisions of people; see `promises`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agentrail.core.machine.tool_results import hold_timer
from agentrail.core.vocabulary.commands import (
    AbortSent,
    Accepted,
    ApproveSent,
    Done,
    PromptSent,
    RejectSent,
    RespondSent,
    SteerSent,
)
from agentrail.core.vocabulary.inputs import (
    TimerFired,
)
from agentrail.hooks.ruling import Verdict
from agentrail.testing.world.choose import Seen
from agentrail.testing.world.outstanding import demand
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import (
    AgentEnd,
    PromptDropped,
    PromptReceived,
    PromptRejected,
    SteeringApplied,
    SteeringReceived,
)
from agentrail.values.events.response import ResponseComplete
from agentrail.values.events.tools import ToolSkippedForSteering
from agentrail.values.json import is_same
from agentrail.values.messages import AssistantMessage, Origin, UserMessage


def _aborts(seen: Seen) -> None:
    """Check an abort: it keeps queued prompts unless told to drop them, drops steering, and keeps the partial text.

    Which running calls go on is what `kill_tools` says.
    """
    given, before, after = seen.given, seen.before, seen.after
    if not isinstance(given, AbortSent) or before.opening:
        return
    if not given.clear_queue and before.stopping is None:
        queued = {prompt.ref for prompt in before.queue}
        dropped = {event.ref for event in seen.events if isinstance(event, PromptDropped)}
        demand(not queued & dropped, "{} are dropped by an abort that is to leave the queue", queued & dropped)
    told = {event.ref for event in seen.events if isinstance(event, SteeringReceived) and event.status == "dropped"}
    kept = {text.ref for text in before.steering} - told
    demand(not kept, "steering {} outlives an abort", kept)
    if not seen.in_turn:
        return
    lingers = {stray.call_id for stray in after.lingering}
    for call in seen.running:
        immune = call.spec is not None and call.spec.immune
        wanted = given.kill_tools == "none" or (given.kill_tools == "killable" and immune)
        demand(wanted == (call.call_id in lingers), "{} goes on: {}, after {}", call, not wanted, given)
    if before.request is not None and given.partial.text:
        texts = [message.text for message in after.history if isinstance(message, AssistantMessage)]
        demand(given.partial.text in texts, "{!r} had come and is not kept", given.partial.text)


def _steers(seen: Seen) -> None:
    """Check steering: its queue has a limit, immune calls are not skipped, texts are applied in order.

    Steering texts that become prompts come before the prompts that wait.
    """
    before, after = seen.before, seen.after
    demand(len(after.steering) <= after.setup.options.max_steering_queue, "{} steering texts wait", len(after.steering))
    if isinstance(seen.given, SteerSent):
        skipped = {event.call_id for event in seen.events if isinstance(event, ToolSkippedForSteering)}
        for call in seen.running:
            immune = call.spec is not None and call.spec.immune
            demand(not (immune and call.call_id in skipped), "{} is immune and skipped for steering", call)
    if not before.steering:
        return
    refs = tuple(text.ref for text in before.steering)
    text = "\n\n".join(text.text for text in before.steering)
    for event in seen.events:
        if isinstance(event, SteeringApplied) and set(event.refs) == set(refs):
            said = [m.text for m in after.history if isinstance(m, UserMessage) and m.origin is Origin.STEERING]
            demand(event.refs == refs and text in said, "{} were applied as {}: {}", refs, event.refs, said[-1:])
    taken = [event.ref for event in seen.events if isinstance(event, PromptReceived | PromptRejected)]
    taken += [after.taking.ref] if after.taking is not None else []
    order = [*taken, *(prompt.ref for prompt in after.queue)]
    behind = {prompt.ref for prompt in before.queue}
    first = next((place for place, ref in enumerate(order) if ref in behind), len(order))
    demand(not set(order[first:]) & set(refs), "steering {} comes after the prompts that wait: {}", refs, order)


def _says_first(seen: Seen) -> None:
    """Check that `before_finish` does not run while a steering text waits, except in the last round that is allowed."""
    before = seen.before
    asked = any(ruling.hook == "before_finish" for ruling in seen.step.rulings)
    waited = any(waiting.hook.moment == "before_finish" for waiting in before.suspended)
    if asked and not waited and before.steering and seen.in_turn:
        last = before.round >= before.setup.options.max_turns
        demand(last, "before_finish runs, and {} waits", before.steering)


def _supersedes(seen: Seen) -> None:
    """Check that a prompt ends a turn that rests for a person, if the option says `supersede`."""
    given, before = seen.given, seen.before
    if not isinstance(given, PromptSent) or not isinstance(seen.step.answer, Accepted) or not before.resting:
        return
    if before.setup.options.on_prompt_while_held == "supersede":
        ends = any(isinstance(event, AgentEnd) and event.stop_reason == "superseded" for event in seen.events)
        demand(ends, "a prompt does not supersede what waits for a person")


def _rewrites(seen: Seen) -> None:
    """Check that a text that plugins replaced is in the event that reports it, and in the history or the queue.

    Steering that an abort in the same step drops is in neither, and is reported a second time, as dropped.
    """
    dropped = [one.text for one in seen.events if isinstance(one, SteeringReceived) and one.status == "dropped"]
    for ruling in seen.step.rulings:
        gathered = ruling.gathered
        if ruling.verdict is Verdict.ASK or gathered.said is None:
            continue
        told = [_told(event) for event in seen.events if getattr(event, "replaced_by", ()) == gathered.replaced_by]
        wanted = "\n\n".join((gathered.said, *gathered.texts)) if ruling.hook == "before_steering" else gathered.said
        demand(wanted in told, "{} has replaced a text by {!r}, and {} are told", ruling.hook, wanted, told)
        kind = AssistantMessage if ruling.hook == "after_response" else UserMessage
        kept = [message.text for message in seen.after.history if isinstance(message, kind)]
        steering = "\n".join((*kept, *(one.text for one in seen.after.steering), *dropped))
        found = wanted in steering if ruling.hook == "before_steering" else wanted in kept
        demand(found or not seen.in_turn, "{!r} replaces a text, and is not in the history", wanted)


def _told(event: Event) -> str:
    match event:
        case PromptReceived(text=text) | SteeringReceived(text=text):
            return text
        case ResponseComplete(message=message):
            return message.text
        case _:
            return ""


# Decisions of people


def _approves(seen: Seen) -> None:
    """Check an approval: the tool is there and unchanged, edited arguments were checked.

    Calls are approved for always only if the caller said so and did not edit the arguments.
    """
    given, before, after = seen.given, seen.before, seen.after
    if not isinstance(given, ApproveSent) or not isinstance(seen.step.answer, Done):
        return
    for call in seen.calls:
        if call.hold is None or call.hold.approval_id != given.approval_id:
            continue
        tool = before.tools.get(call.name)
        demand(tool is not None and tool.revision == call.revision, "{} is approved, and its tool has changed", call)
        edited = given.args is not None and not is_same(given.args, call.hold.args)
        first = seen.step.rulings[0] if seen.step.rulings else None
        checked = first is not None and first.hook == "check" and first.verdict is Verdict.PASS
        demand(not edited or checked, "{} is carried out, and does not fit the tool", given)
        more = after.approved_always - before.approved_always
        demand(not more or (given.always and not edited), "{} is approved for ever by {}", more, given)


def _leaves(seen: Seen) -> None:
    """Check that a turn ends as `left` only if no decision about its calls asks for a further request."""
    if not any(isinstance(event, AgentEnd) and event.stop_reason == "left" for event in seen.events):
        return
    given = seen.given
    wanted = seen.before.batch is not None and any(goes_on for _, goes_on in seen.before.batch.decisions)
    wanted = wanted or isinstance(given, RespondSent)
    wanted = wanted or (isinstance(given, ApproveSent | RejectSent) and given.auto_resume)
    wanted = wanted or (isinstance(given, TimerFired) and given.timer.startswith(hold_timer("")))
    demand(not wanted, "the turn is left, and a decision wants it to go on")


PEOPLE: Final[tuple[Callable[[Seen], None], ...]] = (
    _aborts,
    _steers,
    _says_first,
    _supersedes,
    _rewrites,
    _approves,
    _leaves,
)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""
