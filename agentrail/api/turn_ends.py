"""`turn_end`: how a turn ended, as `ask` tells it, from the event that ended it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agentrail.api.session_values import Reply
from agentrail.core.answers import UNFIT
from agentrail.errors import AgentrailError, AnswerUnfit, PromptWasDropped, PromptWasRejected, TurnAborted
from agentrail.values.events.envelope import Event
from agentrail.values.events.life import AgentAbort, AgentEnd, PromptDropped, PromptRejected, PromptWithdrawn


def turn_end(event: Event) -> tuple[str, Reply | AgentrailError] | None:
    """Return prompt id and outcome of the turn that *event* ends; `None` if it ends none."""
    end = ENDS.get(type(event))
    return None if end is None else end(event)


def _replied(end: AgentEnd) -> tuple[str, Reply | AgentrailError]:
    """Return prompt id and reply of a turn that ended normally."""
    return end.ref, Reply(end.ref, end.reason, end.messages, end.usage, fits=end.fits)


def _aborted(abort: AgentAbort) -> tuple[str, Reply | AgentrailError] | None:
    """Return prompt id and error of an aborted turn; `None` if the abort ended no turn."""
    if abort.ref is None:
        return None
    reason = abort.reason or "no reason given"
    return abort.ref, AnswerUnfit(abort.ref, reason) if abort.kind == UNFIT else TurnAborted(
        abort.ref, abort.kind, reason
    )


def _rejected(event: PromptRejected) -> tuple[str, Reply | AgentrailError]:
    """Return prompt id and error of a prompt that a plugin rejected."""
    return event.ref, PromptWasRejected(event.ref, event.reason)


def _dropped(event: PromptDropped) -> tuple[str, Reply | AgentrailError]:
    """Return prompt id and error of a prompt whose queue was cleared."""
    return event.ref, PromptWasDropped(event.ref, "the queue was cleared")


def _withdrawn(event: PromptWithdrawn) -> tuple[str, Reply | AgentrailError]:
    """Return prompt id and error of a prompt that was withdrawn."""
    return event.ref, PromptWasDropped(event.ref, "it was withdrawn")


ENDS: Final[Mapping[type[Event], Callable[..., tuple[str, Reply | AgentrailError] | None]]] = {
    AgentEnd: _replied,
    AgentAbort: _aborted,
    PromptRejected: _rejected,
    PromptDropped: _dropped,
    PromptWithdrawn: _withdrawn,
}
"""Function that makes the reply, by type of the event that ends a turn."""
