"""Doubts: interrupted calls that may have taken effect. A person decides whether an equal call may run."""

from __future__ import annotations

from typing import Final

from agentrail.core.machine.draft import StepDraft
from agentrail.core.vocabulary.tool_calls import ANY_TOOL, Call, Doubt
from agentrail.values.json import JsonObject
from agentrail.values.tools import EffectClass

REPEAT_TIMEOUT = 120.0
"""Seconds that a person has to decide about a repeated call, before it is refused; the default of a plugin's hold."""

REPEAT_HINT = "the same call was stopped before and may have taken effect; find out before you let it run again"
"""The hint for the person who decides about a repeated call."""

MOST: Final = 32
"""The most doubts per session; above it, doubts about the oldest one's tool are merged into one about all its calls."""

HOLDER = "on_repeat_unknown"
"""Shown as the holder of a repeated call: the name of the option, because no plugin holds it."""


def doubt_about(w: StepDraft, call: Call) -> Doubt | None:
    """Return the doubt that arises if *call* is stopped now.

    `None` if its tool is not of the class `unsafe`, or if the option `on_repeat_unknown` does not hold repeated calls.
    """
    unsafe = call.spec is None or call.spec.effect is EffectClass.UNSAFE
    holds = w.s.setup.options.on_repeat_unknown == "hold"
    return Doubt(call.call_id, call.name, call.args) if unsafe and holds else None


def remember(w: StepDraft, doubt: Doubt | None) -> None:
    """Store a doubt about a stopped call, whose outcome is unknown. No-op if *doubt* is `None`."""
    if doubt is not None and doubt.args is not None:
        clear_up(w, doubt.name, doubt.args)
        w.s.in_doubt = bounded((*w.s.in_doubt, doubt))


def bounded(doubts: tuple[Doubt, ...]) -> tuple[Doubt, ...]:
    """Return at most `MOST` doubts that cover all that *doubts* cover, so that no unsafe call is repeated unseen.

    Too many doubts are merged into one per tool; if those are too many, into one about all tools.
    """
    if len(doubts) <= MOST:
        return doubts
    exact = next((doubt for doubt in doubts if doubt.args is not None), None)
    if exact is None:
        return (doubts[0].but(name=ANY_TOOL),)
    others = tuple(doubt for doubt in doubts if doubt.name != exact.name)
    return bounded((exact.but(args=None), *others))


def is_in_doubt(w: StepDraft, name: str, args: JsonObject) -> bool:
    """Whether this call may repeat one that was stopped and may have taken effect.

    A merged doubt covers a tool with any arguments, or even all tools. So it counts only for tools of the class
    `unsafe`, or harmless calls would be held too.
    """
    doubts = w.s.in_doubt
    if not doubts:
        return False
    attached = w.s.tools.get(name)
    unsafe = attached is None or attached.spec.effect is EffectClass.UNSAFE
    return any(doubt.covers(name, args) for doubt in doubts if unsafe or doubt.args is not None)


def clear_up(w: StepDraft, name: str, args: JsonObject) -> None:
    """Forget the doubt about exactly this call, as it runs again or gets a new doubt; a merged doubt stays."""
    doubts = w.s.in_doubt
    w.s.in_doubt = tuple(one for one in doubts if one.args is None or not one.covers(name, args))
    if len(w.s.in_doubt) < len(doubts):
        w.forgotten = (*w.forgotten, *(one for one in doubts if one not in w.s.in_doubt))


def recall(w: StepDraft) -> None:
    """Remember again what this step has forgotten, as the calls that it would start do not start."""
    forgotten, w.forgotten = w.forgotten, ()
    for doubt in reversed(forgotten):
        if doubt.args is not None and not any(one.covers(doubt.name, doubt.args) for one in w.s.in_doubt):
            w.s.in_doubt = bounded((doubt, *w.s.in_doubt))
