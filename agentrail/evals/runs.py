"""`Run`: one repetition of a case, as scorers get it; all of it is read from the records of its session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from agentrail.evals.cases import Case
from agentrail.events import (
    AgentEnd,
    ApprovalRequired,
    Envelope,
    PromptReceived,
    RequestStart,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from agentrail.journals import Record
from agentrail.models import AssistantMessage, Message, Usage


class MadeCall(msgspec.Struct, frozen=True):
    """A call that the model made in a run, and that ran."""

    name: str
    """Name of the tool."""
    args: Mapping[str, object]
    """Arguments of the call, as it ran."""
    result: str = ""
    """Text of its result."""
    is_error: bool = False
    """Whether the result is an error."""


class Run(msgspec.Struct, frozen=True):
    """One repetition of a case, with all that its session did: what a scorer gets."""

    case: Case
    """The case that was run."""
    session: str
    """Id of the session."""
    reply: str
    """Text of the last answer."""
    records: tuple[Record, ...]
    """All records of the session, for `why`, `seen` and what else reads records."""
    messages: tuple[Message, ...]
    """The messages that the turns added to the history."""
    calls: tuple[MadeCall, ...]
    """The calls that ran, in the order of their starts."""
    held_tools: tuple[str, ...]
    """Names of the tools whose calls were held for a person, in order."""
    cost: float | None
    """Cost in US dollars; `None` if a price is unknown."""
    seconds: float
    """Time from the first prompt to the last answer."""
    rounds: int
    """Number of requests to the model."""
    turns: int
    """Number of turns that came to an end."""


def run_of(case: Case, records: Sequence[Record]) -> Run:
    """Return the run of *case* that is recorded in *records*, which begin with the first one of its session."""
    envelopes = [envelope for record in records for envelope in record.events]
    ends = [envelope.event for envelope in envelopes if isinstance(envelope.event, AgentEnd)]
    messages = [message for end in ends for message in end.messages]
    texts = [message.text for message in ends[-1].messages if isinstance(message, AssistantMessage)] if ends else []
    usage = Usage()
    for end in ends:
        usage = usage.plus(end.usage)
    return Run(
        case,
        records[0].session_id if records else "",
        texts[-1] if texts else "",
        tuple(records),
        tuple(messages),
        tuple(_calls(envelopes)),
        tuple(envelope.event.tool for envelope in envelopes if isinstance(envelope.event, ApprovalRequired)),
        usage.spent_usd,
        _seconds(envelopes),
        sum(isinstance(envelope.event, RequestStart) for envelope in envelopes),
        len(ends),
    )


def _calls(envelopes: Iterable[Envelope]) -> Iterator[MadeCall]:
    """Yield the calls that ran, in the order of their starts; one that was repeated after a crash is one call."""
    starts = dict[str, ToolExecutionStart]()
    ends = dict[str, ToolExecutionEnd]()
    for envelope in envelopes:
        match envelope.event:
            case ToolExecutionStart() as start:
                starts.setdefault(start.call_id, start)
            case ToolExecutionEnd() as end:
                ends.setdefault(end.call_id, end)
            case _:
                pass
    for call_id, start in starts.items():
        result = ends.get(call_id)
        if result is None:
            yield MadeCall(start.name, start.args)
        else:
            yield MadeCall(start.name, start.args, result.text, result.is_error)


def _seconds(envelopes: Iterable[Envelope]) -> float:
    """Return the seconds from the first prompt to the last end of a turn; 0 if there is none."""
    times = [envelope.at for envelope in envelopes if isinstance(envelope.event, PromptReceived | AgentEnd)]
    return (times[-1] - times[0]) / 1000 if times else 0.0
