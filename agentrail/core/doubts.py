"""Calls that may or may not have taken effect: the same call again is for a person to decide."""

from __future__ import annotations

from agentrail.core.calls import Call, Doubt
from agentrail.core.work import Work
from agentrail.values.json import JsonObject, is_same
from agentrail.values.tools import EffectClass

REPEAT_TIMEOUT = 120.0
"""Seconds that a person has to decide, as many as a plugin's hold gives them."""

REPEAT_HINT = "the same call was stopped before and may have taken effect; find out before you let it run again"
"""What the person should know."""

HOLDER = "on_repeat_unknown"
"""Who holds such a call: no plugin, but the option of that name."""


def doubt_about(w: Work, call: Call) -> Doubt | None:
    """Return what would be in doubt if *call*, which has started, were stopped: nothing if it may run again."""
    unsafe = call.spec is None or call.spec.effect is EffectClass.UNSAFE
    holds = w.s.setup.options.on_repeat_unknown == "hold"
    return Doubt(call.call_id, call.name, call.args) if unsafe and holds else None


def remember(w: Work, doubt: Doubt | None) -> None:
    """Note that a call was stopped, and nobody knows what it has done."""
    if doubt is not None:
        clear_up(w, doubt.name, doubt.args)
        w.s.in_doubt = (*w.s.in_doubt, doubt)


def is_in_doubt(w: Work, name: str, args: JsonObject) -> bool:
    """Whether an equal call may have taken effect."""
    return any(doubt.name == name and is_same(doubt.args, args) for doubt in w.s.in_doubt)


def clear_up(w: Work, name: str, args: JsonObject) -> None:
    """Forget the doubt about a call: it runs again, because a person wants it."""
    doubts = w.s.in_doubt
    if doubts:
        w.s.in_doubt = tuple(one for one in doubts if one.name != name or not is_same(one.args, args))
