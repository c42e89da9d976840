"""Doubts: interrupted calls that may have taken effect. A person decides whether an equal call may run."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.tool_calls import Call, Doubt
from agentrail.values.json import JsonObject
from agentrail.values.tools import EffectClass

REPEAT_TIMEOUT = 120.0
"""Seconds that a person has to decide about a repeated call, before it is refused; the default of a plugin's hold."""

FIND_OUT: Final = "may have taken effect; find out before you let it run"
"""The end of the hint for the person who decides about a repeated call."""

MOST: Final = 32
"""The most doubts per session; above it, the oldest are dropped: a doubt is about one call, never about a tool."""

TURNS_KEPT: Final = 50
"""How many turns after its call a doubt is dropped: who asks for an equal call then wants it anew."""

HOLDER = "on_repeat_unknown"
"""Shown as the holder of a repeated call: the name of the option, because no plugin holds it."""


def doubt_about(draft: StepDraft, call: Call) -> Doubt | None:
    """Return the doubt that arises if *call* is stopped now.

    `None` if its tool is not of the class `unsafe`, or if the option `on_repeat_unknown` does not hold repeated calls.
    """
    unsafe = call.spec is None or call.spec.effect is EffectClass.UNSAFE
    holds = draft.state.setup.options.on_repeat_unknown == "hold"
    if not (unsafe and holds):
        return None
    return Doubt(call.call_id, call.name, call.args, draft.state.turn_count, draft.state.incarnation)


def remember(draft: StepDraft, doubt: Doubt | None) -> None:
    """Store *doubt*, about a stopped call whose outcome is unknown. No-op if it is `None`."""
    if doubt is not None and doubt.args is not None:
        _forget_equal(draft, doubt.name, doubt.args)
        doubt = doubt.but(turn=draft.state.turn_count)  # a call that was left running may have begun many turns ago
        draft.state.in_doubt_calls = bounded((*draft.state.in_doubt_calls, doubt))


def bounded(doubts: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    """Return the latest `MOST` of *doubts*."""
    return doubts[-MOST:]


def grow_old(draft: StepDraft) -> None:
    """Drop the doubts that are more than `TURNS_KEPT` turns old, as a turn begins."""
    now, doubts = draft.state.turn_count, draft.state.in_doubt_calls
    if doubts:
        draft.state.in_doubt_calls = tuple(doubt for doubt in doubts if now - doubt.turn <= TURNS_KEPT)


def find_doubt(draft: StepDraft, name: str, args: JsonObject) -> Doubt | None:
    """Return the doubt that holds this call: it may repeat one that was stopped. `None` if it may run.

    A doubt about just this call is found before one that covers it among others. A redacted doubt covers its tool with
    any arguments. So it counts only for tools of the class `unsafe`, or harmless calls would be held too.
    """
    doubts = draft.state.in_doubt_calls
    if not doubts:
        return None
    attached = draft.state.tools.get(name)
    unsafe = attached is None or attached.spec.effect is EffectClass.UNSAFE
    matching = [doubt for doubt in doubts if (unsafe or doubt.args is not None) and doubt.covers(name, args)]
    return next((doubt for doubt in matching if doubt.args is not None), matching[0] if matching else None)


def hint_about(doubt: Doubt) -> str:
    """Return the hint for the person who decides about a call that *doubt* holds; it names the stopped call.

    A redacted doubt has no arguments, so the hint may not say that the same call was stopped.
    """
    if doubt.args is not None:
        return f"the same call (`{doubt.name_of_call}`) was stopped before, and {FIND_OUT} again"
    called = f"`{doubt.name}` were stopped before (`{doubt.name_of_call}`, maybe others)"
    return f"calls of {called}, maybe this one too; they {FIND_OUT}"


def clear_up(draft: StepDraft, name: str, args: JsonObject) -> None:
    """Remove the doubts that cover this call: a person approved it, so it runs again."""
    _forget(draft, tuple(doubt for doubt in draft.state.in_doubt_calls if doubt.covers(name, args)))


def clear_about(draft: StepDraft, call_id: str) -> Doubt | None:
    """Remove and return the doubt about call *call_id*, which a person has looked into; `None` if there is none."""
    doubt = next((other for other in draft.state.in_doubt_calls if other.call_id == call_id), None)
    if doubt is not None:
        draft.state.in_doubt_calls = tuple(other for other in draft.state.in_doubt_calls if other.call_id != call_id)
    return doubt


def _forget_equal(draft: StepDraft, name: str, args: JsonObject) -> None:
    """Remove the doubt about an equal call, because a new doubt replaces it."""
    _forget(
        draft,
        tuple(doubt for doubt in draft.state.in_doubt_calls if doubt.args is not None and doubt.covers(name, args)),
    )


def _forget(draft: StepDraft, doubts: tuple[Doubt, ...]) -> None:
    """Remove *doubts* from the state, and note them so that `recall` can put them back."""
    if doubts:
        draft.state.in_doubt_calls = tuple(doubt for doubt in draft.state.in_doubt_calls if doubt not in doubts)
        draft.forgotten = (*draft.forgotten, *doubts)


def recall(draft: StepDraft) -> None:
    """Put back the doubts that this step has removed, because the calls it would start do not start."""
    forgotten, draft.forgotten = draft.forgotten, ()
    for doubt in reversed(forgotten):
        if doubt.args is None or not any(other.covers(doubt.name, doubt.args) for other in draft.state.in_doubt_calls):
            draft.state.in_doubt_calls = bounded((doubt, *draft.state.in_doubt_calls))
