"""Folds the records of a session to spans. It is pure, and does not know the SDK of OpenTelemetry.

A span ends with the record that says so, at the time of that record's event. If a session comes back from its journal,
the spans that were open end with the last record before, marked as interrupted. What goes on begins a span of its own,
with a link to the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, cast

from msgspec import UNSET

from agentrail.adapters.otel.spans import (
    Ancestors,
    CallSpan,
    RequestSpan,
    Span,
    SpanNote,
    SpanRef,
    TurnSpan,
    span_id_of,
    trace_id_of,
)
from agentrail.core.vocabulary.changes import Appended
from agentrail.core.vocabulary.history_prefix import Results, note_results
from agentrail.core.vocabulary.inputs import ActorRestarted, SessionReturned, StreamCut, StreamEnded
from agentrail.core.vocabulary.state import RunningRequest, Setup
from agentrail.core.vocabulary.tool_calls import DetachedCall
from agentrail.ports.journal import Record
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.events.life import AgentAbort, AgentEnd, AgentStart, PromptReceived, SessionEnded
from agentrail.values.events.people import ApprovalRequired, ApprovalResolved, AskUser, ResultRequired
from agentrail.values.events.response import RequestStart, ResponseComplete, Retry, StreamError, StreamStalled
from agentrail.values.events.tools import (
    SubagentEnd,
    SubagentStart,
    ToolBlocked,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolKilled,
    ToolSkippedForSteering,
    ToolUnknown,
)
from agentrail.values.messages import AssistantMessage, Message, ToolMessage
from agentrail.values.value import Value

ABORTED: Final = "aborted"
APPROVED: Final = "approved"

AS_WANTED: Final = frozenset({"user", "plugin", "stopped", "answer"})
"""Kinds of aborts that are no error: somebody wanted the turn to end, or its answer was complete."""

NO_CALLS: Final[Mapping[str, CallSpan]] = MappingProxyType({})
NO_SUBAGENTS: Final[Mapping[str, Ancestors]] = MappingProxyType({})


class OpenSpans(Value):
    """The open spans of a session after one of its records."""

    number: int = 0
    """Number of the record."""
    at: int = 0
    """Time of the record, in milliseconds since 1970."""
    turn: TurnSpan | None = None
    """The open turn."""
    request: RequestSpan | None = None
    """The running request."""
    calls: Mapping[str, CallSpan] = NO_CALLS
    """Calls that are held or run, by their ids: those of the turn, and those that it has left behind."""
    subagents: Mapping[str, Ancestors] = NO_SUBAGENTS
    """For each sub-agent that has not ended, by its session id, the spans from which it was started."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is open."""
        return self.turn is None and self.request is None and not self.calls and not self.subagents


NOTHING_OPEN: Final = OpenSpans()


def fold(
    spans: OpenSpans, setup: Setup, record: Record, ancestors: Ancestors | None = None
) -> tuple[OpenSpans, tuple[Span, ...]]:
    """Return the open spans after *record*, and the spans that ended with it, in order.

    *spans* are those that were open before it, and *setup* is that of the session. *ancestors* are the spans from which
    the session was started, if it is a sub-agent.
    """
    folding = _SpanFold(spans, setup, record, ancestors)
    folding.run()
    return folding.after(), tuple(folding.ended)


class _SpanFold:
    """One record that is being folded: the open spans, which it changes, and those that it has ended."""

    def __init__(self, spans: OpenSpans, setup: Setup, record: Record, ancestors: Ancestors | None) -> None:
        self.setup = setup
        self.record = record
        self.ancestors = ancestors
        self.agent = setup.spec if ancestors is None else setup.spec or ancestors.agent
        self.at = record.arrival.at
        self.before_at = spans.at
        self.turn = spans.turn
        self.request = spans.request
        self.calls: dict[str, CallSpan] = dict(spans.calls)
        self.subagents: dict[str, Ancestors] = dict(spans.subagents)
        self.prompt = ""
        self.ended: list[Span] = []

    def run(self) -> None:
        """Take in what the record says."""
        input_ = self.record.arrival.input
        if isinstance(input_, SessionReturned):
            self.interrupt()
        elif isinstance(input_, ActorRestarted):
            self.note("actor_restarted")
        for envelope in self.record.events:
            take = _EVENTS.get(type(envelope.event))
            if take is not None:
                take(self, envelope)
        self.end_request_without_event()
        if self.calls:
            self.end_calls_without_event()

    def after(self) -> OpenSpans:
        """Return the spans that are open now."""
        return OpenSpans(self.record.number, self.at, self.turn, self.request, self.calls, self.subagents)

    def id_of(self, kind: str, ref: str, start: int) -> int:
        """Return the id of a span that begins with the record."""
        return span_id_of(kind, self.record.session_id, ref, self.record.number, start)

    # Turns

    def on_turn(self, envelope: Envelope) -> None:
        """Take in an event of a turn, or of the end of the session."""
        match envelope.event:
            case PromptReceived(text=text):
                self.prompt = text
            case AgentStart(ref=ref):
                self.begin_turn(ref, envelope)
            case AgentEnd(reason=outcome, messages=messages, usage=usage):
                self.end_turn(envelope.at, outcome=outcome, usage=usage, answer=_last_text(messages))
            case AgentAbort(ref=str(), kind=kind):
                error = "" if kind in AS_WANTED else kind
                self.end_turn(envelope.at, outcome=ABORTED, abort_kind=kind, error=error)
            case SessionEnded():
                self.end_turn(envelope.at, outcome=ABORTED, abort_kind="stopped")
                for call_id in tuple(self.calls):
                    self.end_call(call_id, envelope.at, error="stopped")
                self.subagents.clear()
            case _:
                pass

    def begin_turn(self, ref: str, envelope: Envelope) -> None:
        """Begin the turn of the prompt *ref*."""
        session_id, above = self.record.session_id, self.ancestors
        trace_id = trace_id_of(session_id, ref, envelope.at) if above is None else above.call.trace_id
        self.turn = TurnSpan(
            ref=SpanRef(trace_id, self.id_of("turn", ref, envelope.at)),
            parent=None if above is None else above.call,
            links=() if above is None else (above.turn,),
            session_id=session_id,
            agent=self.agent,
            tenant=self.setup.tenant,
            start=envelope.at,
            turn=envelope.turn,
            prompt=self.prompt,
        )

    def end_turn(self, time_ms: int, **facts: object) -> None:
        """End the turn, and the request that it no longer waits for. No-op if no turn is open."""
        if self.turn is None:
            return
        self.end_request(time_ms, is_cut=True)
        self.ended.append(self.turn.but(end=max(time_ms, self.turn.start), **facts))
        self.turn = None

    def note(self, name: str) -> None:
        """Note something that happened to the turn. No-op if none is open."""
        if self.turn is not None:
            self.turn = self.turn.but(notes=(*self.turn.notes, SpanNote(name, self.at)))

    def interrupt(self) -> None:
        """End all that is open, as the process had ended. Begin the turn and its calls anew, with links."""
        self.end_request(self.before_at, is_interrupted=True)
        old = self.turn
        if old is not None:
            self.turn = old.but(
                ref=SpanRef(old.ref.trace_id, self.id_of("turn", str(old.turn), self.at)),
                start=self.at,
                links=(*old.links[: old.parent is not None], old.ref),  # the first one is that to the turn above
                notes=(),
            )
        for call in tuple(self.calls.values()):
            in_turn = old is not None and call.turn == old.ref
            self.calls[call.call_id] = self.again(call, self.turn.ref if in_turn and self.turn else call.turn)
            self.ended.append(self.closed(call, self.before_at, is_interrupted=True))
        if old is not None:
            self.ended.append(old.but(end=max(self.before_at, old.start), is_interrupted=True))

    def again(self, call: CallSpan, turn: SpanRef) -> CallSpan:
        """Return the span with which an interrupted call goes on in *turn*."""
        return call.but(
            ref=SpanRef(turn.trace_id, self.id_of("call", call.call_id, self.at)),
            parent=turn,
            turn=turn,
            start=self.at,
            links=(call.ref,),
            notes=(),
            attempts=0,
            held_since=None if call.held_since is None else self.at,
            was_held=call.held_since is not None,
            held_ms=0,
        )

    # Requests

    def on_request(self, envelope: Envelope) -> None:
        """Take in an event of a request."""
        match envelope.event:
            case RequestStart() as event:
                self.begin_request(envelope, event)
            case ResponseComplete(message=message):
                input_ = self.record.arrival.input
                first_chunk_ms = input_.first_chunk_ms if isinstance(input_, StreamEnded) else None
                self.end_request(envelope.at, message=message, first_chunk_ms=first_chunk_ms)
            case Retry() | StreamError():
                self.end_request(envelope.at, error=self.failure)
            case StreamStalled() if self.request is not None:
                self.request = self.request.but(notes=(*self.request.notes, SpanNote("stalled", envelope.at)))
            case _:
                pass

    def begin_request(self, envelope: Envelope, event: RequestStart) -> None:
        """Begin a request. No-op if no turn is open: records were lost, and its spans would have no trace."""
        self.end_request(envelope.at, is_cut=True)
        session_id, turn = self.record.session_id, self.turn
        if turn is None:
            return
        self.turn = turn.but(model=event.model)
        self.request = RequestSpan(
            ref=SpanRef(turn.ref.trace_id, self.id_of("request", event.request_id, envelope.at)),
            parent=turn.ref,
            session_id=session_id,
            agent=self.agent,
            tenant=self.setup.tenant,
            start=envelope.at,
            request_id=event.request_id,
            model=event.model,
            round=envelope.round,
            attempt=event.attempt,
        )

    @property
    def failure(self) -> str:
        """Kind of the failure of the request that the record is about."""
        input_ = self.record.arrival.input
        return input_.failure.kind.value if isinstance(input_, StreamCut) else "failed"

    def end_request(self, time_ms: int, **facts: object) -> None:
        """End the running request. No-op if none runs."""
        if self.request is not None:
            self.ended.append(self.request.but(end=max(time_ms, self.request.start), **facts))
            self.request = None

    def end_request_without_event(self) -> None:
        """End a request that the record ends without an event: it was cut, or another model of the chain is asked."""
        request: object = self.record.change.request
        if self.request is None or request is UNSET:
            return
        if isinstance(request, RunningRequest) and request.request_id == self.request.request_id:
            return
        if isinstance(self.record.arrival.input, StreamCut):
            self.end_request(self.at, error=self.failure)
        else:
            self.end_request(self.at, is_cut=True)

    # Calls

    def end_calls_without_event(self) -> None:
        """End calls that the record gives a result without an event, such as those whose tool a new process lacks.

        A call that goes on in the background has a result for the model too, and its span goes on with it.
        """
        change, results = self.record.change, Results()
        note_results(change.batch, results)
        if isinstance(change.history, Appended):
            results |= {item.call_id: item for item in change.history.messages if isinstance(item, ToolMessage)}
        lingering: object = change.lingering_calls
        background = (
            {detached.call_id for detached in cast("tuple[DetachedCall, ...]", lingering)}
            if isinstance(lingering, tuple)
            else ()
        )
        for call_id, result in results.items():
            if call_id in self.calls and call_id not in background:
                self.end_call(call_id, self.at, error="given_up" if result.is_error else "")

    def on_call(self, envelope: Envelope) -> None:
        """Take in an event of a call, or of the sub-agent that it started."""
        time_ms = envelope.at
        match envelope.event:
            case ApprovalRequired(path=path) as event if path == self.setup.path:  # else it is a sub-agent's
                if (call := self.call(event.call_id, event.tool, time_ms)) is not None:
                    call = call.but(held_since=time_ms, was_held=True, approval_id=event.approval_id, args=event.args)
                    self.calls[event.call_id] = call
            case AskUser(call_id=call_id, ref=ref, path=path) | ResultRequired(call_id=call_id, ref=ref, path=path) if (
                path == self.setup.path and call_id in self.calls
            ):
                self.calls[call_id] = self.calls[call_id].but(held_since=time_ms, was_held=True, approval_id=ref)
            case ApprovalResolved() as event:
                self.decide(event, time_ms)
            case ToolExecutionStart(call_id=call_id, name=tool, args=args):
                if (call := self.call(call_id, tool, time_ms)) is not None:
                    notes = (*call.notes, SpanNote("retry", time_ms)) if call.attempts else call.notes
                    self.calls[call_id] = call.but(attempts=call.attempts + 1, args=args, notes=notes)
            case ToolExecutionEnd(call_id=call_id, content=content, is_error=is_error, late=late):
                error = "tool_error" if is_error else ""
                self.end_call(call_id, time_ms, error=error, result=content, is_late=late)
            case SubagentStart(call_id=call_id, child=child, agent=agent) if call_id in self.calls:
                call = self.calls[call_id]
                self.calls[call_id] = call.but(subagent=child)
                self.subagents[child] = Ancestors(call.ref, call.turn, agent)
            case SubagentEnd(child=child):
                self.subagents.pop(child, None)
            case _:
                pass

    def on_refusal(self, envelope: Envelope) -> None:
        """Take in that a call gets its result without an answer of its tool."""
        event = envelope.event
        if isinstance(event, ToolBlocked | ToolKilled | ToolSkippedForSteering | ToolUnknown):
            call = self.call(event.call_id, event.name, envelope.at)
            if call is not None:
                self.calls[event.call_id] = call
                self.end_call(event.call_id, envelope.at, error=REFUSALS[type(event)])

    def decide(self, event: ApprovalResolved, time_ms: int) -> None:
        """Take in a decision about a held call, or that nobody answers its question. No-op for one of a sub-agent."""
        call, status = self.calls.get(event.call_id), event.status
        if call is None or call.held_since is None or call.approval_id != event.approval_id:
            return
        held_ms = call.held_ms + max(0, time_ms - call.held_since)
        notes = (*call.notes, SpanNote(status, time_ms))
        self.calls[event.call_id] = call.but(held_since=None, held_ms=held_ms, approval=status, notes=notes)
        if status != APPROVED:
            self.end_call(event.call_id, time_ms, error=status)

    def call(self, call_id: str, tool: str, time_ms: int) -> CallSpan | None:
        """Return the span of a call, which begins now if it has none; `None` if no turn is open either."""
        return self.calls.get(call_id) or self.opened(call_id, tool, time_ms)

    def opened(self, call_id: str, tool: str, time_ms: int) -> CallSpan | None:
        """Return the span of a call that begins; `None` if no turn is open."""
        turn, session_id = self.turn, self.record.session_id
        if turn is None:
            return None
        return CallSpan(
            ref=SpanRef(turn.ref.trace_id, self.id_of("call", call_id, time_ms)),
            parent=turn.ref,
            turn=turn.ref,
            session_id=session_id,
            agent=self.agent,
            tenant=self.setup.tenant,
            start=time_ms,
            call_id=call_id,
            tool=tool,
        )

    def end_call(self, call_id: str, time_ms: int, **facts: object) -> None:
        """End the span of a call. No-op if it has none, as its turn has closed it before."""
        call = self.calls.pop(call_id, None)
        if call is not None:
            self.ended.append(self.closed(call, time_ms, **facts))

    def closed(self, call: CallSpan, time_ms: int, **facts: object) -> CallSpan:
        """Return *call* as it ends."""
        end = max(time_ms, call.start)
        if call.held_since is not None:
            facts["held_ms"] = call.held_ms + max(0, end - call.held_since)
            facts["held_since"] = None
        return call.but(end=end, **facts)


def _last_text(messages: tuple[Message, ...]) -> str:
    """Return the text of the last response among *messages*; empty if there is none."""
    return next((message.text for message in reversed(messages) if isinstance(message, AssistantMessage)), "")


REFUSALS: Final[Mapping[type[Event], str]] = MappingProxyType(
    {
        ToolBlocked: "blocked",
        ToolKilled: "killed",
        ToolSkippedForSteering: "skipped",
        ToolUnknown: "outcome_unknown",
    }
)
"""The kind of error of a call that gets its result without an answer of its tool, by the event that says so."""

_EVENTS: Final[Mapping[type[Event], Callable[[_SpanFold, Envelope], None]]] = MappingProxyType(
    {
        **dict.fromkeys((PromptReceived, AgentStart, AgentEnd, AgentAbort, SessionEnded), _SpanFold.on_turn),
        **dict.fromkeys((RequestStart, ResponseComplete, Retry, StreamError, StreamStalled), _SpanFold.on_request),
        **dict.fromkeys(
            (ApprovalRequired, ApprovalResolved, AskUser, ResultRequired, SubagentStart, SubagentEnd), _SpanFold.on_call
        ),
        **dict.fromkeys((ToolExecutionStart, ToolExecutionEnd), _SpanFold.on_call),
        **dict.fromkeys(REFUSALS, _SpanFold.on_refusal),
    }
)
"""What takes in each event; the others do nothing to spans."""
