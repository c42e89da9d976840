"""How a turn ended, in the words of the protocol."""

from __future__ import annotations

from typing import Final, NamedTuple

from agentrail.cli.acp.rpc_messages import INTERNAL_ERROR, RpcError
from agentrail.values.events import AgentAbort, AgentEnd

STOP_REASONS: Final = {"length": "max_tokens", "max_rounds": "max_turn_requests", "refused": "refusal"}
"""Stop reasons of turns, if they are not `end_turn`."""

STOPPED: Final = "cancelled"

STOPPED_BY_PEOPLE: Final = ("user", "stopped")
"""Kinds of aborts that are no failure."""


class TurnOutcome(NamedTuple):
    """How the turn of a prompt ended."""

    stop_reason: str
    """A stop reason of the protocol; `error` if it failed."""
    problem: RpcError | None = None
    """Why it failed."""


def outcome_of(event: AgentEnd | AgentAbort, *, is_cancelled: bool) -> TurnOutcome:
    """Return the outcome of the turn that *event* ended; *is_cancelled*: the editor had cancelled the turn."""
    if is_cancelled:
        return TurnOutcome(STOPPED)
    if isinstance(event, AgentEnd):
        return TurnOutcome(STOP_REASONS.get(event.reason, "end_turn"))
    if event.kind in STOPPED_BY_PEOPLE:
        return TurnOutcome(STOPPED)
    problem = f"the turn was stopped ({event.kind.replace('_', ' ')}): {event.reason or 'no reason was given'}"
    return TurnOutcome("error", RpcError(INTERNAL_ERROR, problem, {"kind": event.kind}))
