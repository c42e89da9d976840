"""`BudgetGuard`: aborts turns and blocks calls of a session that has used up its tokens, money, rounds or calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from attrs import evolve, frozen

from agentrail.errors import BadOptions, PluginRefused
from agentrail.hooks.actions import Abort, BlockTool, Continue, Skip
from agentrail.hooks.context import Context, MoneyLimit
from agentrail.hooks.moments import AfterTurn, BeforeCompaction, BeforeRequest, BeforeTool
from agentrail.hooks.plugin import AnyPlugin, Plugin, Priority
from agentrail.plugins.options import is_flag
from agentrail.values.foreign import number
from agentrail.values.json import freeze
from agentrail.values.messages import Message, total_size
from agentrail.values.stream import CHARS_PER_TOKEN
from agentrail.values.usage import Usage

UNKNOWN_PRICE: Final = ("refuse", "allow")


@frozen
class Spent:
    """The state of `BudgetGuard`: its counts so far. Usage is not counted here; `Context` has it."""

    rounds: int = 0
    """Number of requests to the model in the session so far."""
    turn_rounds: int = 0
    """Number of requests to the model in the open turn; 0 between turns."""
    calls: int = 0
    """Number of tool calls of the session that this plugin did not block; a call counts once."""
    turn_calls: frozenset[str] = frozenset()
    """The ids of the calls in the open turn that this plugin did not block; empty between turns."""
    warned: frozenset[str] = frozenset()
    """Names of the limits whose warning was emitted; those of a turn are removed after it, all if options change."""


def _is_choice(_: BudgetGuard, __: attrs.Attribute[str], found: object) -> None:
    if not isinstance(found, str) or found not in UNKNOWN_PRICE:
        problem = f"unknown_price={found!r} is neither `refuse` nor `allow`"
        raise BadOptions("BudgetGuard", problem)


_LIMITS: Final = (
    "max_tokens",
    "max_turn_tokens",
    "max_usd",
    "max_rounds",
    "max_turn_rounds",
    "max_calls",
    "max_turn_calls",
)


@frozen
class BudgetGuard(Plugin[Spent]):
    """Limit the tokens, money, rounds and calls of a session or of each turn.

    At a limit, the open turn is aborted before its next request; at a limit of calls, the call is blocked. Before each
    request its input tokens are estimated and added, so a limit of tokens is exceeded by at most one response. At a
    limit of tokens or money no compaction begins, because its summary is a request too.
    `max_usd` needs a model whose price is known: without one the session does not start.
    """

    max_tokens: int | None = None
    """The most tokens of the session; `None` if there is no limit."""
    max_turn_tokens: int | None = None
    """The most tokens of one turn; `None` if there is no limit."""
    max_usd: float | None = None
    """The highest cost of the session in US dollars; `None` if there is no limit."""
    max_rounds: int | None = None
    """The most requests to the model in the session; `None` if there is no limit."""
    max_turn_rounds: int | None = None
    """The most requests to the model in one turn; `None` if there is no limit."""
    max_calls: int | None = None
    """The most tool calls of the session; `None` if there is no limit."""
    max_turn_calls: int | None = None
    """The most tool calls of one turn; `None` if there is no limit."""
    warn_at: float = 0.8
    """The fraction of a limit from which `budget_warning` is emitted, once for each limit (of a turn: once a turn)."""
    shared: bool = attrs.field(default=False, validator=is_flag)
    """Whether tokens and costs of other sessions under the same parent's limits count too; set for sub-agents."""
    unknown_price: str = attrs.field(default="refuse", validator=_is_choice)
    """With `max_usd` and a model of unknown price: `refuse` the request, or `allow` it and count no cost."""

    priority = Priority.CORE + 20
    critical = True

    def __attrs_post_init__(self) -> None:
        """Raise `BadOptions` for a limit that is not a number from 0 on."""
        for name in (*_LIMITS, "warn_at"):
            found: object = getattr(self, name)
            if found is None and name in _LIMITS:
                continue
            plain = number(found)
            if plain is None or plain < 0:
                raise BadOptions("BudgetGuard", f"{name}={found!r} is no number from 0 on")

    def init(self, ctx: Context) -> Spent:
        """Return the first state, with all counts 0; raise `PluginRefused` if `max_usd` cannot be enforced."""
        problem = self._unpriced(ctx)
        if problem is not None:
            raise PluginRefused(problem)
        return Spent()

    @property
    def money_limit(self) -> MoneyLimit | None:
        """The limit of the session's cost, which other plugins can read; `None` if there is none."""
        return None if self.max_usd is None else MoneyLimit(self.max_usd, self.shared)

    def on_options(self, new: object, state: Spent) -> Spent:
        """Keep the counts after a change of options, but forget which warnings were emitted, so they may come again."""
        return evolve(state, warned=frozenset())

    def inherited(self, state: Spent, ctx: Context) -> AnyPlugin:
        """Return the plugin for a sub-agent, with the rest of each limit; `max_usd` stays if the cost is unknown."""
        used, turn = self._used(ctx)
        money = None if self.money_limit is None else self.money_limit.left(ctx.usage, ctx.elsewhere)
        return evolve(
            self,
            max_tokens=_left(self.max_tokens, used.total_tokens),
            max_turn_tokens=_left(self.max_turn_tokens, turn.total_tokens),
            max_usd=self.max_usd if money is None else money,
            max_rounds=_left(self.max_rounds, state.rounds),
            max_turn_rounds=_left(self.max_turn_rounds, state.turn_rounds),
            max_calls=_left(self.max_calls, state.calls),
            max_turn_calls=_left(self.max_turn_calls, len(state.turn_calls)),
            shared=True,
        )

    def _used(self, ctx: Context) -> tuple[Usage, Usage]:
        """Return the usage that counts for the session and for the turn; with `shared`, that of other agents too."""
        if not self.shared:
            return ctx.usage, ctx.turn_usage
        return ctx.usage.plus(ctx.elsewhere), ctx.turn_usage.plus(ctx.elsewhere)

    def _unpriced(self, ctx: Context) -> str | None:
        if self.max_usd is None or self.unknown_price == "allow":
            return None
        advice = f'so max_usd={self.max_usd} cannot be kept; limit tokens instead, or say unknown_price="allow"'
        if not ctx.price_known:
            return f"the price of `{ctx.model}`, or of a model that it may fall back to, is not known, {advice}"
        used, _ = self._used(ctx)
        if used.cost_usd is None and not used.is_nothing:
            return f"what the session has cost so far is not known, {advice}"
        return None

    def before_request(self, hook: BeforeRequest, state: Spent, ctx: Context) -> Continue[Spent] | Abort[Spent]:
        """Count the request, with an estimate of its input tokens; abort the turn if it would exceed a limit."""
        problem = self._unpriced(ctx)
        if problem is not None:
            return Abort(problem)
        used, _ = self._used(ctx)
        new = evolve(state, rounds=state.rounds + 1, turn_rounds=state.turn_rounds + 1)
        uses = [
            *self._tokens_with(hook.messages, ctx),
            ("max_rounds", self.max_rounds, new.rounds),
            ("max_turn_rounds", self.max_turn_rounds, new.turn_rounds),
        ]
        for name, limit, would in uses:
            if limit is not None and would > limit:
                return Abort(f"{name}={limit} is used up: this request would make it {would:g}", state)
        cost = used.cost_usd or 0.0
        if self._is_spent(ctx):
            return Abort(f"max_usd={self.max_usd} is used up: ${cost:.4f} were spent", state)
        return self._warned(new, [*uses, ("max_usd", self.max_usd, cost)])

    def before_compact(self, hook: BeforeCompaction, state: Spent, ctx: Context) -> Continue[Spent] | Skip[Spent]:
        """Skip a compaction if the request for its summary would exceed a limit; it is no round."""
        is_over = any(limit is not None and would > limit for _, limit, would in self._tokens_with(hook.messages, ctx))
        return Skip() if is_over or self._is_spent(ctx) or self._unpriced(ctx) is not None else Continue(state)

    def _is_spent(self, ctx: Context) -> bool:
        used, _ = self._used(ctx)
        return self.max_usd is not None and used.cost_usd is not None and used.cost_usd >= self.max_usd

    def _tokens_with(self, messages: Sequence[Message], ctx: Context) -> list[tuple[str, float | None, float]]:
        """Return the limits of tokens, and the tokens that will be used after a request that reads *messages*."""
        reserved = total_size(messages) // CHARS_PER_TOKEN
        used, turn = self._used(ctx)
        return [
            ("max_tokens", self.max_tokens, used.total_tokens + reserved),
            ("max_turn_tokens", self.max_turn_tokens, turn.total_tokens + reserved),
        ]

    def before_tool(self, hook: BeforeTool, state: Spent, ctx: Context) -> Continue[Spent] | BlockTool[Spent]:
        """Count the call, only once if this hook runs again for it; block it if it exceeds a limit."""
        if hook.call_id in state.turn_calls:
            return Continue(state)
        calls = state.turn_calls | {hook.call_id}
        new = evolve(state, calls=state.calls + 1, turn_calls=calls)
        uses: list[tuple[str, float | None, float]] = [
            ("max_calls", self.max_calls, new.calls),
            ("max_turn_calls", self.max_turn_calls, len(calls)),
        ]
        for name, limit, used in uses:
            if limit is not None and used > limit:
                return BlockTool(f"{name}={limit} is used up")
        return self._warned(new, uses)

    def after_turn(self, hook: AfterTurn, state: Spent, ctx: Context) -> Continue[Spent]:
        """Reset the counts of the turn, and allow the warnings of its limits again."""
        if not state.turn_rounds and not state.turn_calls:
            return Continue(state)
        warned = frozenset(name for name in state.warned if "turn" not in name)
        return Continue(evolve(state, turn_rounds=0, turn_calls=frozenset(), warned=warned))

    def _warned(self, state: Spent, uses: list[tuple[str, float | None, float]]) -> Continue[Spent]:
        """Return `Continue`, with a warning for each limit that is used to `warn_at` and was not warned of before."""
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


def _left(limit: int | None, used: int) -> int | None:
    """Return the rest of a limit, at least 0; `None` if there is no limit."""
    return None if limit is None else max(0, limit - used)
