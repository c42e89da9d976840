"""What a plugin may know beside the hook: a read-only picture of the session.

The money that a session may spend, as the plugins that limit it say: so any plugin can know what is left.
"""

from __future__ import annotations

from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.tools import Todo
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Value, value


@value
class MoneyLimit(Value):
    """A limit on what a session costs."""

    max_usd: float
    """How much it may cost."""
    shared: bool = False
    """Whether what others use counts too: of a sub-agent, whose limit is what remained of its parent's."""

    def left(self, usage: Usage, elsewhere: Usage) -> float | None:
        """Return what may still be spent; `None`: what was spent is not known."""
        used = usage.plus(elsewhere) if self.shared else usage
        spent = 0.0 if used.is_nothing else used.cost_usd
        return None if spent is None else max(0.0, self.max_usd - spent)


@value
class Context(Value):
    """The session as its plugins see it at one hook."""

    session_id: str = "session"
    """Whose hook it is."""
    working_dir: str = "."
    """Where its tools work."""
    model: str = "demo"
    """The model the next request goes to."""
    prompt_mode: str = "full"
    """How much of a system prompt it has: `full`, `task`, `minimal` or `none`."""
    turn: int = 0
    """Which turn is open, 0 before the first."""
    round: int = 0
    """Which round of the turn, 0 before the first request."""
    usage: Usage = NOTHING_USED
    """What the session has used."""
    turn_usage: Usage = NOTHING_USED
    """What the open turn has used."""
    elsewhere: Usage = NOTHING_USED
    """Of a sub-agent that shares limits with others: what those have used since it began."""
    price_known: bool = False
    """Whether the prices of the model and of all that it may fall back to are known, so that costs can be counted."""
    budget_left: float | None = None
    """Money that may still be spent, by the tightest limit of a plugin; `None`: no limit, or the cost is not known."""
    todos: tuple[Todo, ...] = ()
    """Its list of things to do."""
    sections: tuple[tuple[str, str], ...] = ()
    """Its sections of the system prompt."""
    tools: tuple[str, ...] = ()
    """The names of its tools."""
    subagents: tuple[str, ...] = ()
    """The names of the sub-agents it may start."""
    user_data: JsonObject = EMPTY
    """What the spawner gave it."""
    memory_contents: JsonObject = EMPTY
    """Memory files by path."""
    last_assistant_reply: str | None = None
    """The text of the last response."""
    approved_always: frozenset[tuple[str, str]] = frozenset()
    """Pairs of tool and command family that pass without asking."""
    now_ms: int = 0
    """The time of the input, in milliseconds since 1970."""
    parent: str | None = None
    """The parent session, if it is a sub-agent."""

    @property
    def total_tokens(self) -> int:
        """All tokens of the session."""
        return self.usage.total_tokens

    @property
    def cost_usd(self) -> float | None:
        """What the session has cost; `None`: not known."""
        return self.usage.cost_usd
