"""One call that runs at an MCP server: it outlives the tool's task while a person answers what the server asks."""

from __future__ import annotations

from itertools import count

import trio
from mcp.types import CallToolResult, ElicitResult

from agentrail.adapters.mcp.asked_back import MAX_REQUESTS, AskedBack, Elicitation


class PendingElicitation:
    """A question of a server that waits for its answer while the server's call runs."""

    __slots__ = ("answered", "params", "result")

    def __init__(self, params: Elicitation) -> None:
        self.params = params
        self.result = ElicitResult(action="cancel")
        self.answered = trio.Event()


class LiveCall:
    """A call in a task of the connection; the tool's task waits for its outcome or for a question to a person."""

    __slots__ = ("_keys", "_news", "_open", "outcome", "scope", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        """Number of the session's turn that made the call."""
        self.scope = trio.CancelScope()
        """Cancel it to have the server told that nobody waits any more."""
        self.outcome: CallToolResult | AskedBack | Exception | None = None
        """How the call has ended; `None` while it runs."""
        self._open: dict[str, PendingElicitation] = {}
        self._keys = count(1)
        self._news = trio.Event()

    @property
    def is_asking(self) -> bool:
        """Whether the server waits for a person's answer."""
        return bool(self._open)

    def end(self, outcome: CallToolResult | AskedBack | Exception) -> None:
        """Set how the call has ended."""
        self.outcome = outcome
        self._news.set()

    async def elicit(self, params: Elicitation) -> ElicitResult:
        """Have a person asked, and return the answer; the server's request waits here."""
        if len(self._open) >= MAX_REQUESTS:
            return ElicitResult(action="cancel")
        key, pending = str(next(self._keys)), PendingElicitation(params)
        self._open[key] = pending
        self._news.set()
        try:
            await pending.answered.wait()
        finally:
            self._open.pop(key, None)
        return pending.result

    def answer(self, questions: AskedBack) -> None:
        """Give the server the answers in *questions*."""
        for key, result in questions.responses.items():
            pending = self._open.pop(key, None)
            if pending is not None:
                pending.result = result
                pending.answered.set()

    async def next(self) -> CallToolResult | AskedBack:
        """Wait until the call ends, or the server asks a person; raise the exception with which it ended."""
        while self.outcome is None and not self._open:
            self._news = trio.Event()
            await self._news.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if self.outcome is not None:
            return self.outcome
        return AskedBack(requests={key: pending.params for key, pending in self._open.items()}, how="runs")
