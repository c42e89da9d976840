"""`BudgetGuard`: limits of tokens, money, seconds, rounds and calls of a session, and of each of its turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar, cast

import attrs
from attrs import evolve, frozen

from agentrail.errors import BadOptions, PluginRefused
from agentrail.errors.agentrail_error import listed
from agentrail.hooks.actions import Abort, AddContext, BlockTool, Continue, SetSection, Skip
from agentrail.hooks.context import Context
from agentrail.hooks.declarations import UsageLimits
from agentrail.hooks.hook_types import (
    AfterTurn,
    BeforeCompaction,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
)
from agentrail.hooks.plugin import AnyPlugin, Plugin, Priority
from agentrail.plugins.options import as_object, check_choice, check_flag, check_object
from agentrail.values.json import EMPTY, Json, freeze
from agentrail.values.messages import Message, total_size
from agentrail.values.stream import CHARS_PER_TOKEN
from agentrail.values.untrusted_values import number

NO_FRACTION: Final = 2.0
"""From which value on `warn_at` is taken for a percentage that was meant; above 1 it never warns."""


@frozen
class Spent:
    """The state of `BudgetGuard`: counts of what has a limit. Usage is not in it; it is read from `Context`."""

    rounds: int = 0
    """Number of requests to the model in the session so far."""
    turn_rounds: int = 0
    """Number of requests to the model in the open turn; 0 between turns."""
    calls: int = 0
    """Number of tool calls of the session that this plugin did not block; a call counts once."""
    turn_calls: frozenset[str] = frozenset()
    """The ids of the calls since the last request that this plugin did not block."""
    warned: frozenset[str] = frozenset()
    """Names of the limits whose warning was emitted; those of a turn are removed after it, all if options change."""
    turn_calls_before: int = 0
    """Number of calls of the open turn before the last request; 0 between turns."""
    tool_calls: tuple[tuple[str, int], ...] = ()
    """By the names of the tools that `calls` limits: the number of their calls in the session, sorted by name."""
    requests_over: int = 0
    """With `at_limit="answer"`: 1 after a call over a limit of `calls` in the open turn, and 1 more for each request
    since; 0 otherwise."""

    earlier_ms: int = 0
    """Milliseconds of requests and calls that version 1 of this state has counted."""

    @property
    def calls_of_turn(self) -> int:
        """Number of calls in the open turn that this plugin did not block."""
        return self.turn_calls_before + len(self.turn_calls)

    def calls_of(self, tool: str) -> int:
        """Return the number of calls of *tool*, which has a limit, that this plugin did not block."""
        return dict(self.tool_calls).get(tool, 0)

    def with_call_of(self, tool: str) -> Spent:
        """Return the state with one more call of *tool*."""
        counts = dict(self.tool_calls)
        counts[tool] = self.calls_of(tool) + 1
        return evolve(self, tool_calls=tuple(sorted(counts.items())))


_LIMITS: Final = (
    "max_tokens",
    "max_turn_tokens",
    "max_usd",
    "max_rounds",
    "max_turn_rounds",
    "max_calls",
    "max_turn_calls",
    "max_seconds",
    "max_turn_seconds",
)


MAX_REQUESTS_OVER: Final = 3
"""The most requests that a turn has after a call over a limit of `calls` with `at_limit="answer"`."""


def _as_limits(value: Mapping[str, int]) -> Mapping[str, int]:
    """Return *value*, the option `calls`, frozen; validators refuse what is no mapping of texts to numbers."""
    return cast("Mapping[str, int]", as_object(cast("Mapping[str, Json]", value)))


NO_CALLS: Final = _as_limits({})

ANSWER: Final = "no more tools may be called in this turn; answer with what you have"

SECTION: Final = "tool limits"
"""The section of the system prompt that tells the model the limits of `calls`."""

FROM_SOURCE: Final = "__"
"""In names of tools of a source, such as an MCP server, which come when the session has begun."""


@frozen
class BudgetGuard(Plugin[Spent]):
    """Limit the tokens, money, seconds, rounds and calls of a session or of each turn.

    At a limit, the open turn is aborted before its next request; at a limit of calls or seconds, the call is blocked.
    Before each request its input tokens are estimated and added, so a limit of tokens is exceeded by at most one
    response. At a limit of tokens, money or seconds no compaction begins, because its summary is a request too.
    Seconds are those in which the session or a sub-agent works; the time in which all wait for a person does not count.
    `max_usd` needs a model whose price is known: without one the session does not start.
    A limit that is `None` does not hold.
    """

    max_tokens: int | None = None
    """The most tokens of the session."""
    max_turn_tokens: int | None = None
    """The most tokens of one turn."""
    max_usd: float | None = None
    """The highest cost of the session in US dollars."""
    max_rounds: int | None = None
    """The most requests to the model in the session."""
    max_turn_rounds: int | None = None
    """The most requests to the model in one turn."""
    max_calls: int | None = None
    """The most tool calls of the session."""
    max_turn_calls: int | None = None
    """The most tool calls of one turn."""
    calls: Mapping[str, int] = attrs.field(default=NO_CALLS, converter=_as_limits, validator=check_object)
    """The most calls of single tools in the session, by name. The model is told them in its system prompt."""
    at_limit: str = attrs.field(default="block", validator=check_choice("block", "answer"))
    """What a call over a limit of `calls` does: `block` that call alone, or also all later calls of the turn, so that
    the model has to `answer` with what it has."""
    max_seconds: float | None = None
    """The most seconds in which the session, or a sub-agent of it, may work."""
    max_turn_seconds: float | None = None
    """The most seconds of work in one turn."""
    warn_at: float = 0.8
    """The fraction of a limit from which `budget_warning` is emitted, once for each limit (of a turn: once a turn).

    With 1.1 there is no warning.
    """
    shared: bool = attrs.field(default=False, validator=check_flag)
    """Whether tokens, money and seconds that others use under the same limits count too; set for sub-agents."""
    unknown_price: str = attrs.field(default="refuse", validator=check_choice("refuse", "allow"))
    """With `max_usd` and a model of unknown price: `refuse` the request, or `allow` it and count no cost."""

    priority = Priority.CORE + 20
    critical = True
    version = 2

    def __attrs_post_init__(self) -> None:
        """Raise `BadOptions` for a limit that is not a number from 0 on."""
        for name in (*_LIMITS, "warn_at"):
            value: object = getattr(self, name)
            if value is None and name in _LIMITS:
                continue
            plain = number(value)
            if plain is None or plain < 0:
                raise BadOptions("BudgetGuard", f"{name}={value!r} is no number from 0 on")
        for tool, limit in self.calls.items():
            if not tool.strip() or type(limit) is not int or limit < 0:
                raise BadOptions(
                    "BudgetGuard", f"calls={{{tool!r}: {limit!r}}} gives no tool its most calls, from 0 on"
                )
        if self.warn_at >= NO_FRACTION:
            advice = "0.8 warns at 80 % of it, and anything from 1.1 on would never warn"
            raise BadOptions("BudgetGuard", f"warn_at={self.warn_at!r} is no fraction of a limit; {advice}")

    def init(self, ctx: Context) -> Spent:
        """Return the first state, with all counts 0; raise `PluginRefused` if `max_usd` cannot be enforced."""
        problem = self._unpriced(ctx)
        if problem is not None:
            raise PluginRefused(problem)
        unknown = [name for name in self.calls if name not in ctx.tools and FROM_SOURCE not in name]
        if unknown and not self.shared:  # a sub-agent need not have all tools of its parent
            raise PluginRefused(f"`calls` limits {listed(unknown)}, and the tools are {listed(ctx.tools) or 'none'}")
        return Spent()

    @property
    def declarations(self) -> tuple[UsageLimits]:
        """The limits of tokens, money and seconds, which also hold for what sub-agents and open requests use."""
        return (self._limits,)

    @property
    def _limits(self) -> UsageLimits:
        return UsageLimits(
            self.max_tokens,
            self.max_turn_tokens,
            self.max_usd,
            self.max_seconds,
            self.max_turn_seconds,
            self.shared,
        )

    def upgrade(self, old: Json) -> Spent:
        """Return the state that *old*, stored by version 1, becomes; version 1 counted seconds itself."""
        counts = old if isinstance(old, Mapping) else EMPTY
        return Spent(
            rounds=_count(counts.get("rounds")),
            turn_rounds=_count(counts.get("turn_rounds")),
            calls=_count(counts.get("calls")),
            turn_calls_before=_count(counts.get("turn_calls_before")),
            turn_calls=_texts(counts.get("turn_calls")),
            warned=_texts(counts.get("warned")),
            earlier_ms=_count(counts.get("worked_ms")),
        )

    def on_options(self, new: object, state: Spent) -> Spent:
        """Keep the counts when options change, but allow all warnings to be emitted again."""
        return evolve(state, warned=frozenset())

    def inherited(self, state: Spent, ctx: Context) -> AnyPlugin:
        """Return a plugin for a sub-agent with the rest of each limit; `max_usd` stays if the cost is unknown."""
        limits = self._limits
        used, turn = limits.counted(ctx)
        (_, _, worked), (_, _, turn_worked) = limits.times(ctx, state.earlier_ms)
        money = None if limits.money_limit is None else limits.money_limit.dollars_left(ctx.usage, ctx.elsewhere)
        return evolve(
            self,
            max_tokens=_rest(self.max_tokens, used.total_tokens),
            max_turn_tokens=_rest(self.max_turn_tokens, turn.total_tokens),
            max_usd=self.max_usd if money is None else money,
            max_rounds=_rest(self.max_rounds, state.rounds),
            max_turn_rounds=_rest(self.max_turn_rounds, state.turn_rounds),
            max_calls=_rest(self.max_calls, state.calls),
            max_turn_calls=_rest(self.max_turn_calls, state.calls_of_turn),
            calls={name: max(0, limit - state.calls_of(name)) for name, limit in self.calls.items()},
            max_seconds=_rest(self.max_seconds, worked),
            max_turn_seconds=_rest(self.max_turn_seconds, turn_worked),
            shared=True,
        )

    def _unpriced(self, ctx: Context) -> str | None:
        if self.max_usd is None or self.unknown_price == "allow":
            return None
        advice = f'so max_usd={self.max_usd} cannot be kept; limit tokens instead, or say unknown_price="allow"'
        if not ctx.price_known:
            return f"the price of `{ctx.model}`, or of a model that it may fall back to, is not known, {advice}"
        used, _ = self._limits.counted(ctx)
        if used.spent_usd is None:
            return f"what the session has cost so far is not known, {advice}"
        return None

    def before_prompt(self, hook: BeforePrompt, state: Spent, ctx: Context) -> Continue[Spent] | SetSection[Spent]:
        """Tell the model the limits of `calls`, before it makes the first one."""
        text = self._limits_in_words
        return Continue() if dict(ctx.sections).get(SECTION) == text else SetSection(SECTION, text)

    @property
    def _limits_in_words(self) -> str | None:
        """The limits of `calls` for the model; `None` if there are none."""
        if not self.calls:
            return None
        limits = ", ".join(f"`{name}`: {limit}" for name, limit in self.calls.items())
        over = "then answer with what you have" if self.at_limit == "answer" else "further calls are refused"
        return f"The most calls of these tools in this session ({over}): {limits}."

    def before_request(
        self, hook: BeforeRequest, state: Spent, ctx: Context
    ) -> Continue[Spent] | Abort[Spent] | AddContext[Spent]:
        """Count the request, with an estimate of its input tokens; abort the turn if it would exceed a limit."""
        problem = self._unpriced(ctx)
        if problem is not None:
            return Abort(problem)
        limits = self._limits
        used, _ = limits.counted(ctx)
        new = self._requested(state)
        times = limits.times(ctx, state.earlier_ms)
        uses = [
            *self._tokens_with(hook.messages, ctx),
            ("max_rounds", self.max_rounds, new.rounds),
            ("max_turn_rounds", self.max_turn_rounds, new.turn_rounds),
        ]
        for name, limit, would in uses:
            if limit is not None and would > limit:
                return Abort(f"{name}={limit} is used up: this request would make it {would:g}", state)
        for name, limit, spent in times:
            if limit is not None and spent >= limit:
                return Abort(f"{name}={limit} is used up: {spent:g} s have been worked", state)
        cost = used.cost_usd or 0.0
        if limits.is_spent(used):
            return Abort(f"max_usd={self.max_usd} is used up: ${cost:.4f} were spent", state)
        if state.requests_over > MAX_REQUESTS_OVER:
            return Abort("a limit of `calls` is used up, and the model calls tools instead of answering", state)
        action = self._warned(new, [*uses, *times, ("max_usd", self.max_usd, cost)])
        return AddContext(ANSWER, action.state, emits=action.emits) if new.requests_over else action

    def _requested(self, state: Spent) -> Spent:
        """Return *state* with one more request; only what a limit needs is counted, as each change is stored."""
        if self.max_rounds is not None or self.max_turn_rounds is not None:
            state = evolve(state, rounds=state.rounds + 1, turn_rounds=state.turn_rounds + 1)
        if state.turn_calls:
            state = evolve(state, turn_calls=frozenset(), turn_calls_before=state.calls_of_turn)
        return evolve(state, requests_over=state.requests_over + 1) if state.requests_over else state

    def before_compact(self, hook: BeforeCompaction, state: Spent, ctx: Context) -> Continue[Spent] | Skip[Spent]:
        """Skip the compaction if its request for a summary would exceed a limit. That request counts as no round."""
        limits = self._limits
        is_over = any(limit is not None and would > limit for _, limit, would in self._tokens_with(hook.messages, ctx))
        is_over = is_over or limits.is_spent(limits.counted(ctx)[0])
        is_over = is_over or limits.time_reached(ctx, state.earlier_ms) is not None
        return Skip() if is_over or self._unpriced(ctx) is not None else Continue(state)

    def _tokens_with(self, messages: Sequence[Message], ctx: Context) -> list[tuple[str, float | None, float]]:
        """Return name and value of each limit of tokens, and the tokens used after a request that reads *messages*."""
        if self.max_tokens is None and self.max_turn_tokens is None:
            return []
        reserved = max(1, total_size(messages) // CHARS_PER_TOKEN)
        used, turn = self._limits.counted(ctx)
        return [
            ("max_tokens", self.max_tokens, used.total_tokens + reserved),
            ("max_turn_tokens", self.max_turn_tokens, turn.total_tokens + reserved),
        ]

    def before_tool(self, hook: BeforeTool, state: Spent, ctx: Context) -> Continue[Spent] | BlockTool[Spent]:
        """Count the call, once even if this hook runs again for it; block the call if a limit is exceeded."""
        over = self._limits.time_reached(ctx, state.earlier_ms)
        if over is not None:
            return BlockTool(f"{over} is used up")
        if hook.call_id in state.turn_calls:
            return Continue(state)
        if state.requests_over:
            return BlockTool(ANSWER)
        has_most = self.max_calls is not None or self.max_turn_calls is not None
        limit = self.calls.get(hook.name)
        if not has_most and limit is None:
            return Continue(state)
        new = evolve(state, calls=state.calls + has_most, turn_calls=state.turn_calls | {hook.call_id})
        uses: list[tuple[str, float | None, float]] = [
            ("max_calls", self.max_calls, new.calls),
            ("max_turn_calls", self.max_turn_calls, new.calls_of_turn),
        ]
        if limit is not None:
            new = new.with_call_of(hook.name)
            uses.append((f"calls.{hook.name}", limit, new.calls_of(hook.name)))
        for name, most, used in uses:
            if most is not None and used > most:
                return self._over(name, most, state)
        return self._warned(new, uses)

    def _over(self, name: str, limit: float, state: Spent) -> BlockTool[Spent]:
        """Block a call over the limit *name*; if it is one of `calls`, the turn may have to end with an answer."""
        reason = f"{name}={limit:g} is used up"
        if self.at_limit != "answer" or not name.startswith("calls."):
            return BlockTool(reason)
        return BlockTool(f"{reason}; {ANSWER}", evolve(state, requests_over=1))

    def after_turn(self, hook: AfterTurn, state: Spent, ctx: Context) -> Continue[Spent]:
        """Reset the counts of the turn, and allow the warnings of its limits again."""
        if not (state.turn_rounds or state.calls_of_turn or state.warned or state.requests_over):
            return Continue()
        warned = frozenset(name for name in state.warned if "turn" not in name)
        none = evolve(state, turn_rounds=0, turn_calls=frozenset(), turn_calls_before=0, requests_over=0)
        return Continue(evolve(none, warned=warned))

    def _warned(self, state: Spent, uses: list[tuple[str, float | None, float]]) -> Continue[Spent]:
        """Return `Continue`, with a warning for each limit that is used to `warn_at` and has no warning yet."""
        near = [
            (name, limit, used)
            for name, limit, used in uses
            if limit is not None and used >= limit * self.warn_at and name not in state.warned
        ]
        if not near:
            return Continue(state)
        action = Continue(evolve(state, warned=state.warned | {name for name, _, _ in near}))
        for name, limit, used in near:
            action = action.emitting("budget_warning", freeze({"limit": name, "max": limit, "used": used}))
        return action


Number = TypeVar("Number", int, float)


def _rest(limit: Number | None, used: Number) -> Number | None:
    """Return what is left of *limit*, at least 0."""
    return None if limit is None else max(0, limit - used)


def _count(value: Json) -> int:
    return value if type(value) is int and value > 0 else 0


def _texts(value: Json) -> frozenset[str]:
    items = cast("Sequence[Json]", value) if isinstance(value, (list, tuple)) else ()
    return frozenset(item for item in items if isinstance(item, str))
