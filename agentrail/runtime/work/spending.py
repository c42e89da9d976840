"""Keeps a session and its sub-agents within limits that they share: near one, requests wait for others to end.

What a response costs is known when it ends. So a request is sent only while the limit is not passed if each request
under way costs the most that it can. Then the last one that was sent may pass the limit, and none beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from attrs import frozen

from agentrail.core.vocabulary.state import State
from agentrail.core.windows import window_of
from agentrail.ports.model import Prices
from agentrail.runtime.work.limit_queue import LimitQueue, Limits
from agentrail.values.content import Data, Text, Thinking
from agentrail.values.stream import CHARS_PER_TOKEN, ModelRequest, read_tokens
from agentrail.values.usage import NOTHING_USED, Usage

MOST_TOKENS: Final = 10**12
"""Tokens that a request may cost whose model has no known window: more than any limit, so no other runs beside it."""

TOKENS_PER_CHAR: Final = 2
"""The most tokens that a character of a request is taken to have."""

ADDED: Final = 4_000
"""The most tokens that a provider is taken to add to a request, for tools and the like."""

COUNTED_BY_SIZE: Final = frozenset({Text, Thinking, Data})
"""Parts of messages whose tokens follow from their characters; those of images and files do not."""


def most_of(request: ModelRequest, window: int | None, prices: Prices) -> Usage:
    """Return the most that *request* can cost: its input and `max_tokens`, or the whole *window* of its model.

    Whoever has the context compacted early gives a window that is too small: that of the model counts, if it is known.
    A price that is not known is 0: then a limit of money does not hold anyway.
    """
    known = window_of(request.model)
    window = known if window is None else max(window, known or 0)
    read = written = most = MOST_TOKENS if window is None else max(window, read_tokens(request))
    limit = request.options.get("max_tokens")
    if type(limit) is int:
        written = min(most, limit)
        if all(type(part) in COUNTED_BY_SIZE for message in request.messages for part in message.parts):
            read = min(most, read_tokens(request) * CHARS_PER_TOKEN * TOKENS_PER_CHAR + ADDED)
    kinds = (Usage(read, written), Usage(read, written, cache_write_tokens=read))
    costs = (prices.priced(request.model, request.options, kind).cost_usd for kind in kinds)
    return Usage(min(most, read + written), cost_usd=max(cost or 0.0 for cost in costs))


class Pending:
    """A request whose usage its session has not counted yet."""

    __slots__ = ("_cost", "_find", "ended", "is_round", "line", "name")

    def __init__(self, name: str, line: tuple[str, ...], most: Callable[[], Usage], *, is_round: bool = False) -> None:
        self.name = name
        self.is_round = is_round  # else it is a question of a plugin, or for a summary
        self.line = line  # the ids of its session and of those above
        self.ended = False
        self._find = most
        self._cost: Usage | None = None

    @property
    def cost(self) -> Usage:
        """What the request has cost, or the most that it can cost if it is under way; found when it is first needed."""
        if self._cost is None:
            self._cost = self._find()
        return self._cost

    def end(self, used: Callable[[], Usage]) -> None:
        """Note that the request is not under way any more; *used* returns what it has cost."""
        self.ended, self._find, self._cost = True, used, None


class Purse:
    """The requests of a session and its sub-agents: those that are not counted yet, and those that wait for them."""

    __slots__ = ("pending", "queue")

    def __init__(self) -> None:
        self.pending: list[Pending] = []
        self.queue = LimitQueue()

    def sums(self, above: str, below: str, *, at_most: bool) -> tuple[Usage, Usage]:
        """Return what the requests under session *below* cost, and the others under *above*.

        Those under way count as the most that they can cost (*at_most*), or not at all.
        """
        own = others = NOTHING_USED
        for one in self.pending:
            cost = one.cost if at_most or one.ended else NOTHING_USED
            if below in one.line:
                own = own.plus(cost)
            elif above in one.line:
                others = others.plus(cost)
        return own, others

    def hold(self, line: tuple[str, ...]) -> Pending:
        """Let all others of a limit wait for what the session at the end of *line* has used; return what to drop."""
        one = Pending("", line, lambda: Usage(MOST_TOKENS, cost_usd=float(MOST_TOKENS)))
        self.pending.append(one)
        return one

    def drop(self, one: Pending) -> None:
        """Forget a request."""
        self.pending.remove(one)
        self.queue.look_again()


@frozen
class Reached:
    """A limit that is reached."""

    limits: Limits
    """The limits that it is one of."""
    name: str
    """The name of its plugin, its own name, and its value."""


class FamilyUsage(Protocol):
    """Interface: what the sub-agents of a session use, and what is used beside them (implemented by `Family`)."""

    @property
    def purse(self) -> Purse:
        """The purse of the session, of its sub-agents, and of all sessions above."""
        ...

    def untold(self) -> Usage:
        """Return what the sub-agents have used that their parent has not counted yet."""
        ...

    def used_beside(self, child: str) -> tuple[str, Usage]:
        """Return what others have used of the limits that they share with *child*.

        With it, return the id of the session whose limits those are, at whatever depth.
        """
        ...

    def is_back(self, child: State) -> None:
        """Note that a sub-agent has come back, so that it is known what it has used, and what it knows of others."""
        ...

    def worked_since(self, child: str, at: int) -> int:
        """Return for how many milliseconds the family has worked, up to *at*, since *child* began; 0 if all end."""
        ...

    def time_used_up(self, at: int, *, of_turn: bool) -> str | None:
        """Return a limit of seconds of the session, or of one above whose limits it shares, that is used up at *at*.

        With *of_turn*, that of its turn too: a sub-agent that is not in the background is of the turn that is open.
        """
        ...

    def reached_above(self, at: int, *, at_most: bool) -> Reached | None:
        """Return a limit of the session, or of one above whose limits it shares, that is reached; see `reached`."""
        ...
