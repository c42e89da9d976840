"""Doubts: interrupted calls that may have taken effect. A person decides whether an equal call may run."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.tool_calls import Call, Doubt
from agentrail.values.json import JsonObject
from agentrail.values.tools import EffectClass

REPEAT_TIMEOUT = 120.0
"""Seconds that a person has to decide about a repeated call, before it is refused; the default of a plugin's hold."""

REPEAT_HINT = "the same call was stopped before and may have taken effect; find out before you let it run again"
"""The hint for the person who decides about a repeated call."""

MOST: Final = 32
"""The most doubts per session; above it, the oldest are dropped: a doubt is about one call, never about a tool."""

TURNS_KEPT: Final = 50
"""How many turns after its call a doubt is dropped: who asks for an equal call then wants it anew."""

HOLDER = "on_repeat_unknown"
"""Shown as the holder of a repeated call: the name of the option, because no plugin holds it."""


def doubt_about(w: StepDraft, call: Call) -> Doubt | None:
    """Return the doubt that arises if *call* is stopped now.

    `None` if its tool is not of the class `unsafe`, or if the option `on_repeat_unknown` does not hold repeated calls.
    """
    unsafe = call.spec is None or call.spec.effect is EffectClass.UNSAFE
    holds = w.s.setup.options.on_repeat_unknown == "hold"
    return Doubt(call.call_id, call.name, call.args, w.s.turns) if unsafe and holds else None


def remember(w: StepDraft, doubt: Doubt | None) -> None:
    """Store a doubt about a stopped call, whose outcome is unknown. No-op if *doubt* is `None`."""
    if doubt is not None and doubt.args is not None:
        _forget_equal(w, doubt.name, doubt.args)
        doubt = doubt.but(turn=w.s.turns)  # a call that was left running may have begun many turns ago
        w.s.in_doubt = bounded((*w.s.in_doubt, doubt))


def bounded(doubts: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    """Return the latest `MOST` of *doubts*."""
    return doubts[-MOST:]


def grow_old(w: StepDraft) -> None:
    """Drop the doubts that are more than `TURNS_KEPT` turns old, as a turn begins.

    A doubt that an older version stored has no turn. It is of this turn from now on.
    """
    if not w.s.in_doubt:
        return
    now = w.s.turns
    dated = (one if one.turn is not None else one.but(turn=now) for one in w.s.in_doubt)
    w.s.in_doubt = tuple(one for one in dated if one.turn is None or now - one.turn <= TURNS_KEPT)


def is_in_doubt(w: StepDraft, name: str, args: JsonObject) -> bool:
    """Whether this call may repeat one that was stopped and may have taken effect.

    A merged doubt, which older versions stored, covers a tool with any arguments, or even all tools. So it counts only
    for tools of the class `unsafe`, or harmless calls would be held too.
    """
    doubts = w.s.in_doubt
    if not doubts:
        return False
    attached = w.s.tools.get(name)
    unsafe = attached is None or attached.spec.effect is EffectClass.UNSAFE
    return any(doubt.covers(name, args) for doubt in doubts if unsafe or doubt.args is not None)


def clear_up(w: StepDraft, name: str, args: JsonObject) -> None:
    """Forget all doubts that cover this call, as it runs again: a person has looked, and has approved it."""
    _forget(w, tuple(one for one in w.s.in_doubt if one.covers(name, args)))


def _forget_equal(w: StepDraft, name: str, args: JsonObject) -> None:
    """Forget the doubt about exactly this call, as it gets a new one."""
    _forget(w, tuple(one for one in w.s.in_doubt if one.args is not None and one.covers(name, args)))


def _forget(w: StepDraft, doubts: tuple[Doubt, ...]) -> None:
    if doubts:
        w.s.in_doubt = tuple(one for one in w.s.in_doubt if one not in doubts)
        w.forgotten = (*w.forgotten, *doubts)


def recall(w: StepDraft) -> None:
    """Remember again what this step has forgotten, as the calls that it would start do not start."""
    forgotten, w.forgotten = w.forgotten, ()
    for doubt in reversed(forgotten):
        if doubt.args is None or not any(one.covers(doubt.name, doubt.args) for one in w.s.in_doubt):
            w.s.in_doubt = bounded((doubt, *w.s.in_doubt))
