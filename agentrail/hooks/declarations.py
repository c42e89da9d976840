"""What a plugin declares beside its hooks: frozen values, each of which one part of the session looks for.

A plugin lists them in its property `declarations`; most plugins have none. `hooks.plugin_checks` checks them when the
plugin is attached, and `hooks.plugin.find_declaration` finds the one of a class.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from functools import cache
from typing import Final

from agentrail.hooks.context import Context, Log
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import FrozenObject, Json
from agentrail.values.messages import Compactor
from agentrail.values.tools import HasSpec
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Authored


class Declaration(Authored):
    """Base class of what a plugin may declare; a plugin has at most one declaration of each class."""


class IdleHooks(Declaration):
    """Names hooks that do nothing with the plugin's options: the plugin is not called there."""

    hooks: tuple[str, ...]
    """The names of the hooks."""


class LongestScreened(Declaration):
    """Declares the most characters that `screen` replaces as one text; the default is `MAX_SCREENED`."""

    chars: int
    """The most characters; so many are held back while a response is streamed."""


class BroughtTools(Declaration, gc=True):
    """Offers tools, which the plugin may attach by `Ask(ChangeTools(…))`."""

    tools: Sequence[HasSpec]
    """The tools, as `@tool` makes them; each has another name."""


class BroughtCompactor(Declaration, gc=True):
    """Offers a function that writes what replaces messages which leave the context.

    It is used if the specification has none; that of the first plugin counts.
    """

    compactor: Compactor
    """The function, an `async def`."""


class BlockedPaths(Declaration):
    """Names the paths that the plugin blocks: a sandbox that the session makes itself hides them, after links too."""

    patterns: tuple[str, ...]
    """The patterns, written as in `LocalSandbox(hidden=…)`; one after a `!` is an exception."""


class WorkTime(Declaration):
    """Wants the time counted in which the session or a sub-agent works: `ctx.worked_ms`, which is 0 otherwise."""


# Limits


class MoneyLimit(Authored):
    """A limit of a plugin on the cost of a session, as sessions store it: it gives other plugins `ctx.budget_left`."""

    max_usd: float
    """Largest cost of the session, or of all that share the limit, in US dollars."""
    shared: bool = False
    """Whether costs of other sessions count too: those that share the limit of a sub-agent's parent."""

    def dollars_left(self, usage: Usage, elsewhere: Usage) -> float | None:
        """Return the US dollars left under this limit; `None` if the cost so far is not known."""
        used = usage.plus(elsewhere) if self.shared else usage
        return None if used.spent_usd is None else max(0.0, self.max_usd - used.spent_usd)


class Used(Authored):
    """What a session has used so far, for comparison with `UsageLimits`; the fields are named as those of `Context`."""

    usage: Usage = NOTHING_USED
    """Usage of the session and its sub-agents."""
    turn_usage: Usage = NOTHING_USED
    """Usage since the open turn began; nothing if none is open, or if limits of turns do not count."""
    elsewhere: Usage = NOTHING_USED
    """Usage of other sessions since this one began, if this is a sub-agent that shares a limit with them."""
    worked_ms: int = 0
    """Milliseconds in which the session, or a sub-agent, has worked."""
    turn_worked_ms: int = 0
    """Milliseconds of them since the open turn began."""
    worked_elsewhere_ms: int = 0
    """Milliseconds in which other sessions worked, and this one did not, if it shares a limit with them."""


class UsageLimits(Declaration):
    """Limits what a session and its sub-agents use together, requests under way included; `None`: no limit.

    The runtime sends no request to a model that may exceed a limit, be it of a turn, an ask of a plugin or a summary.
    """

    max_tokens: int | None = None
    """The most tokens of the session."""
    max_turn_tokens: int | None = None
    """The most tokens of one turn."""
    max_usd: float | None = None
    """The highest cost of the session in US dollars, which `ctx.budget_left` is the rest of."""
    max_seconds: float | None = None
    """The most seconds in which the session, or a sub-agent of it, may work."""
    max_turn_seconds: float | None = None
    """The most seconds of work in one turn."""
    shared: bool = False
    """Whether others under the same limits count too; so it is for the plugin that a sub-agent inherits."""

    @property
    def money_limit(self) -> MoneyLimit | None:
        """The limit of money; `None` if there is none."""
        return None if self.max_usd is None else MoneyLimit(self.max_usd, self.shared)

    @property
    def counts_work(self) -> bool:
        """Whether there is a limit of seconds, so that the time has to be counted."""
        return self.max_seconds is not None or self.max_turn_seconds is not None

    def reached(self, used: Used) -> str | None:
        """Return the name and value of a limit that *used* has reached; `None` if there is none."""
        session, turn = self.counted(used)
        if self.max_tokens is not None and session.total_tokens >= self.max_tokens:
            return f"max_tokens={self.max_tokens}"
        if self.max_turn_tokens is not None and turn.total_tokens >= self.max_turn_tokens:
            return f"max_turn_tokens={self.max_turn_tokens}"
        return f"max_usd={self.max_usd}" if self.is_spent(session) else self.time_reached(used)

    def counted(self, used: Context | Used) -> tuple[Usage, Usage]:
        """Return the usage of the session and of the turn that counts; with `shared`, that of other agents included."""
        usage, turn = used.usage, used.turn_usage
        return (usage.plus(used.elsewhere), turn.plus(used.elsewhere)) if self.shared else (usage, turn)

    def is_spent(self, usage: Usage) -> bool:
        """Whether *usage* has reached the limit of money; false if its cost is unknown."""
        return self.max_usd is not None and usage.cost_usd is not None and usage.cost_usd >= self.max_usd

    def times(self, used: Context | Used, earlier_ms: int = 0) -> list[tuple[str, float | None, float]]:
        """Return the limits of seconds with the seconds used; *earlier_ms* were used by the session before."""
        elsewhere = used.worked_elsewhere_ms if self.shared else 0
        return [
            ("max_seconds", self.max_seconds, (earlier_ms + used.worked_ms + elsewhere) / 1000),
            ("max_turn_seconds", self.max_turn_seconds, (used.turn_worked_ms + elsewhere) / 1000),
        ]

    def time_reached(self, used: Context | Used, earlier_ms: int = 0) -> str | None:
        """Return the name and value of a limit of seconds that is used up; `None` if none is."""
        times = self.times(used, earlier_ms) if self.counts_work else ()
        return next((f"{name}={limit}" for name, limit, spent in times if limit is not None and spent >= limit), None)


# Lines in the log

HOW_GRAVE: Final = {
    "agent_abort": "warning",
    "stream_error": "error",
    "plugin_error": "error",
    "tool_abandoned": "warning",
    "tool_blocked": "warning",
    "loop_detected": "warning",
}
"""The log level of some events, by the event's name; `EventLines.level` does not change it."""


@cache
def snake_case(name: str) -> str:
    """Return the class name *name* in snake case, as events are named in logs and stored data."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


class EventLines(Declaration):
    """Wants a line in the program's log for each durable event, once the journal has it; no record keeps the lines."""

    level: str
    """The log level of events that are not in `HOW_GRAVE`."""
    only: frozenset[str]
    """The names of the events to write; if empty, all are written."""
    texts: int
    """The most characters of a text that are written; the rest is cut. With 0, no text is written."""

    def line(self, event: Envelope, levels: Container[str]) -> Log[None] | None:
        """Return the line for *event*; `None` if `only` names other events, or if its level is not among *levels*."""
        name = snake_case(type(event.event).__name__)
        level = HOW_GRAVE.get(name, self.level)
        if level not in levels or (self.only and name not in self.only):
            return None
        fields: dict[str, Json] = {
            "event": name,
            "seq": event.seq,
            "turn": event.turn,
            "round": event.round,
            "at": event.at,
        }
        for field in event.event.__struct_fields__:
            value = getattr(event.event, field)
            if isinstance(value, bool | int | float):
                fields[field] = value
            elif isinstance(value, str) and self.texts:
                fields[field] = value if len(value) <= self.texts else f"{value[: self.texts]}…"
        return Log(level, name, FrozenObject(fields), None)
