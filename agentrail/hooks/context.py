"""`Context`: the view of the session that plugins get; `Log`: what `on_event` may return."""

from __future__ import annotations

from typing import Generic

from typing_extensions import TypeVar

from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.tools import Todo
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Authored

S = TypeVar("S", default=None)


class Log(Authored, Generic[S], gc=True):
    """Return value of `on_event`: a line for the program's log, and the new state."""

    level: str
    """`debug`, `info`, `warning` or `error`."""
    message: str
    """Text of the line."""
    fields: JsonObject
    """Data to log in addition to the text."""
    state: S
    """The plugin's new state."""


class Context(Authored):
    """Read-only view of the session at one hook."""

    session_id: str = "session"
    """Id of the session."""
    working_dir: str = "."
    """Directory in which the session's tools work."""
    model: str = "demo"
    """Name of the model for the next request."""
    model_options: JsonObject = EMPTY
    """Options for that model's provider."""
    prompt_mode: str = "full"
    """Which layers of the system prompt are sent: `full`, `task`, `minimal` or `none`."""
    turn: int = 0
    """Number of the open turn; 0 before the first turn."""
    round: int = 0
    """Number of the round (request) in this turn; 0 before the first request."""
    usage: Usage = NOTHING_USED
    """Usage of the session so far."""
    turn_usage: Usage = NOTHING_USED
    """Usage of the open turn so far."""
    elsewhere: Usage = NOTHING_USED
    """Usage of other sessions since this one began, if this is a sub-agent that shares a limit with them."""
    worked_ms: int = 0
    """Milliseconds in which the session, or a sub-agent, has worked so far; 0 if no plugin declares `WorkTime`."""
    turn_worked_ms: int = 0
    """Milliseconds of them since the open turn began."""
    worked_elsewhere_ms: int = 0
    """Milliseconds in which other sessions worked, and this one did not, if it shares a limit with them."""
    price_known: bool = False
    """Whether the prices of the model and its fallback models are known, so that costs can be counted."""
    budget_left: float | None = None
    """US dollars left under the lowest limit of a plugin; `None` if there is no limit, or the cost is unknown."""
    todos: tuple[Todo, ...] = ()
    """The session's list of things to do."""
    sections: tuple[tuple[str, str], ...] = ()
    """Named sections of the system prompt, of all layers."""
    tools: tuple[str, ...] = ()
    """The names of the session's tools."""
    subagents: tuple[str, ...] = ()
    """The names of the sub-agents that the session may start."""
    user_data: JsonObject = EMPTY
    """The `user_data` of the session's specification."""
    memory_contents: JsonObject = EMPTY
    """The sections of the layer `memory`: contents of memory files, by path."""
    last_assistant_reply: str | None = None
    """The text of the last response."""
    approved_always: frozenset[tuple[str, str]] = frozenset()
    """Pairs of tool and command family that a person approved for always."""
    now_ms: int = 0
    """Time of the input that is being handled, in milliseconds since 1970."""
    path: tuple[str, ...] = ()
    """Ids of the sessions above this sub-agent, the outermost first; empty if it is no sub-agent."""
    parent: str | None = None
    """Id of the parent session; `None` if this is no sub-agent."""
    returns: JsonObject = EMPTY
    """The JSON Schema that the answer of the turn must fit, or in `before_prompt` that of the turn which the prompt
    would start; empty if the answer is text, or no turn is open."""

    @property
    def total_tokens(self) -> int:
        """Number of tokens that the session has used, input and output together."""
        return self.usage.total_tokens

    @property
    def cost_usd(self) -> float | None:
        """Cost of the session so far in US dollars; `None` if not known."""
        return self.usage.cost_usd
