"""`timeline`: what ran when in a session, in lanes, and a row for each of its records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple, get_args

from agentrail.core.vocabulary.commands import ActorCommand, Command
from agentrail.core.vocabulary.inputs import CompactionEnded, CompactionFailed, StreamCut, StreamEnded, TimerFired
from agentrail.core.vocabulary.state import Phase, State
from agentrail.core.vocabulary.tool_calls import Call, CallStatus
from agentrail.hooks.hook_types import HOOK_NAMES
from agentrail.hooks.ruling import Ruling, Verdict
from agentrail.insight.explanations import explain
from agentrail.insight.field_changes import Moment, moments
from agentrail.insight.hook_questions import HookQuestion
from agentrail.ports.journal import Record
from agentrail.values import events as e
from agentrail.values.value import Value


class TimelineLane(Enum):
    """A lane of a timeline: whose work its spans are."""

    MODEL = "model"
    TOOLS = "tools"
    PEOPLE = "people"
    TIMERS = "timers"
    SUBAGENTS = "subagents"
    PLUGINS = "plugins"


class SpanKind(Enum):
    """What ran, or waited."""

    REQUEST = "request"
    COMPACTION = "compaction"
    CALL = "call"
    PROMPT = "prompt"
    STEERING = "steering"
    APPROVAL = "approval"
    QUESTION = "question"
    COMMAND = "command"
    TIMER = "timer"
    SUBAGENT = "subagent"
    HOOK = "hook"
    ASK = "ask"

    __hash__ = object.__hash__

    @property
    def lane(self) -> TimelineLane:
        """The lane that it is in."""
        return _LANES[self]


_LANES: Final[Mapping[SpanKind, TimelineLane]] = {
    SpanKind.REQUEST: TimelineLane.MODEL,
    SpanKind.COMPACTION: TimelineLane.MODEL,
    SpanKind.CALL: TimelineLane.TOOLS,
    SpanKind.PROMPT: TimelineLane.PEOPLE,
    SpanKind.STEERING: TimelineLane.PEOPLE,
    SpanKind.APPROVAL: TimelineLane.PEOPLE,
    SpanKind.QUESTION: TimelineLane.PEOPLE,
    SpanKind.COMMAND: TimelineLane.PEOPLE,
    SpanKind.TIMER: TimelineLane.TIMERS,
    SpanKind.SUBAGENT: TimelineLane.SUBAGENTS,
    SpanKind.HOOK: TimelineLane.PLUGINS,
    SpanKind.ASK: TimelineLane.PLUGINS,
}


class TimelineSpan(Value):
    """Something that ran or waited from one record to another; a point if it begins and ends with the same record."""

    kind: SpanKind
    """What it is."""
    id: str
    """Its id: of the request, call, prompt, approval, …; the name of a timer, command or hook."""
    label: str
    """What people call it: the model, the tool, the plugin, …"""
    start_ms: int
    """When it began, in milliseconds since 1970."""
    end_ms: int | None
    """When it ended, in milliseconds since 1970, not before `start_ms`; `None` if it still runs after the last record.
    """
    first: int
    """Number of the record with which it began."""
    last: int | None
    """Number of the record with which it ended; `None` if it still runs after the last record."""
    outcome: str = ""
    """How it ended, in one or two words; empty if it still runs."""
    ran_ms: int | None = None
    """Of a call: when its first attempt started, in milliseconds since 1970; `None` if none has."""

    @property
    def lane(self) -> TimelineLane:
        """The lane that it is in."""
        return self.kind.lane


class HookRun(Value):
    """A run of a hook that plugins of the session have, as a row of a timeline tells it."""

    hook: str
    """Name of the hook; `check` of arguments that do not fit, `answer` of an answer that does not."""
    verdict: Verdict
    """How the run ended, or why it was paused."""
    by: str | None
    """Key of the plugin that ended or paused the run; `None` if none did."""
    answered: tuple[str, ...]
    """Keys of the plugins that did more than let it pass, in order."""
    sentence: str
    """What came of it, in one sentence."""


class TimelineRow(Value):
    """One record: what came in, and what came of it."""

    record: int
    """Number of the record."""
    at_ms: int
    """When its input came, in milliseconds since 1970."""
    turn: int
    """Number of the open turn after the record; 0 if none is open."""
    round: int
    """Number of the round of that turn."""
    input: str
    """Kind of the input that came in: the name of its class."""
    by: str
    """Who gave a command, in the words of the caller; empty if nobody said so."""
    before: Phase
    """The phase before the record. If a response began since the record before, it is `STREAMING`."""
    after: Phase
    """The phase after the record."""
    hooks: tuple[HookRun, ...]
    """The runs of hooks, in order; those that no plugin of the session has are left out."""
    effects: tuple[str, ...]
    """Names of the effects that the record asked for, in order."""
    events: tuple[e.Event, ...]
    """The durable events of the record, in order."""
    is_redacted: bool
    """Whether the texts of the record were replaced by a mark."""


class Timeline(Value):
    """What ran when in a session."""

    spans: tuple[TimelineSpan, ...]
    """What ran or waited, in the order in which it began."""
    rows: tuple[TimelineRow, ...]
    """One row for each record, in order."""


def timeline(records: Iterable[Record]) -> Timeline:
    """Return the timeline of all *records* of a session, from the first one on."""
    spans, rows = _Spans(), list[TimelineRow]()
    for moment in moments(records):
        spans.take(moment)
        rows.append(_row(moment))
    return Timeline(spans.in_order(), tuple(rows))


# Rows


def _row(moment: Moment) -> TimelineRow:
    record, old, state = moment.record, moment.before, moment.state
    return TimelineRow(
        record.number,
        record.arrival.at,
        turn=state.turn_count if state.turn is not None else 0,
        round=state.round,
        input=type(record.arrival.input).__name__,
        by=record.arrival.by,
        before=old.phase if record.began is None else Phase.STREAMING,
        after=state.phase,
        hooks=tuple([_hook_run(ruling) for ruling in record.rulings if _is_told(ruling, old, state)]),
        effects=record.effects,
        events=tuple([envelope.event for envelope in record.events]),
        is_redacted=record.redacted is not None,
    )


def _is_told(ruling: Ruling, old: State, new: State) -> bool:
    """Whether a plugin was asked, or the ruling is more than that all is well."""
    if ruling.answers or ruling.errors or ruling.verdict is not Verdict.PASS:
        return True
    return ruling.hook in HOOK_NAMES and any(ruling.hook in attached.hooks for attached in (*old.plugins, *new.plugins))


def _hook_run(ruling: Ruling) -> HookRun:
    answered = dict.fromkeys(answer.plugin for answer in ruling.answers if answer.kind != "continue")
    return HookRun(ruling.hook, ruling.verdict, ruling.by, tuple(answered), explain(HookQuestion(ruling)).sentence)


# Spans


class _Key(NamedTuple):
    """What tells a span from all others of its session."""

    kind: SpanKind
    id: str
    due: int = 0  # of a timer: when it fires, because a name is used again


APPROVED: Final = "approved"
"""The status of an approval after which the call runs."""

_COMMANDS: Final = frozenset((*get_args(Command), *get_args(ActorCommand)))


class _Spans:
    """Finds the spans: what a state says is under way, and the state before did not say, has begun in between."""

    def __init__(self) -> None:
        self._spans: list[TimelineSpan] = []
        self._open: dict[_Key, None] = {}
        self._indices: dict[_Key, int] = {}  # in `_spans`
        self._calls: dict[_Key, str] = {}  # what calls of the open batch are under way, and wait for people
        self._outcomes: dict[str, str] = {}  # by id: what the last event said of it
        self._is_new = True

    def in_order(self) -> tuple[TimelineSpan, ...]:
        """Return all spans, in the order in which they began."""
        return tuple(self._spans)

    def take(self, moment: Moment) -> None:
        """Open and close what has begun and ended with the record of *moment*."""
        record, state = moment.record, moment.state
        if self._is_new:
            self._is_new = False
            self._calls = dict(_under_way_of_calls(moment.before))
            for key, label in (*self._calls.items(), *_under_way(moment.before)):
                self._begin(key, label, record)
        self._outcomes |= _outcomes(record)
        self._follow_calls(moment)
        running = {**self._calls, **dict(_under_way(state))}
        opened = [key for key in running if key not in self._open]
        closed = [key for key in self._open if key not in running]
        for key in closed:
            self._end(key, record)
        points = list(self._points(moment, running))
        for key, label, outcome in points:
            self._begin(key, label, record)
            self._outcomes[key.id] = outcome or self._outcomes.get(key.id, "")
            self._end(key, record)
        for key in opened:
            self._begin(key, running[key], record)
        self._run(record)
        kind = type(record.arrival.input)
        if kind in _COMMANDS and not any(
            key.kind.lane is TimelineLane.PEOPLE for key in (*opened, *closed, *_keys(points))
        ):
            command = _Key(SpanKind.COMMAND, kind.__name__)
            self._begin(command, record.arrival.by, record)
            self._end(command, record)

    def _follow_calls(self, moment: Moment) -> None:
        """Bring `_calls` up to date: a batch may have thousands of calls, and a record changes a few."""
        old_batch, batch = moment.before.batch, moment.state.batch
        pairs = None if old_batch is None or batch is None else batch.calls.changed_since(old_batch.calls)
        if pairs is None:
            self._calls = dict(_under_way_of_calls(moment.state))
            return
        for was, call in pairs:
            for key, _ in _under_way_of_call(was):
                del self._calls[key]
            self._calls.update(_under_way_of_call(call))

    def _run(self, record: Record) -> None:
        """Note when the calls that *record* starts began to run, if they had not run before."""
        for envelope in record.events:
            event = envelope.event
            key = _Key(SpanKind.CALL, event.call_id) if isinstance(event, e.ToolExecutionStart) else None
            index = None if key is None else self._indices.get(key)
            if index is not None and self._spans[index].ran_ms is None:
                self._spans[index] = self._spans[index].but(ran_ms=max(self._spans[index].start_ms, envelope.at))

    def _begin(self, key: _Key, label: str, record: Record) -> None:
        self._open[key] = None
        self._indices[key] = len(self._spans)
        self._spans.append(TimelineSpan(key.kind, key.id, label, record.arrival.at, None, record.number, None))

    def _end(self, key: _Key, record: Record) -> None:
        del self._open[key]
        index = self._indices[key]
        span = self._spans[index]
        end_ms = max(span.start_ms, record.arrival.at)  # a clock may have been set back
        is_refused = key.kind is SpanKind.CALL and span.ran_ms is None
        outcome = self._outcomes.pop(key.id, "") or ("refused" if is_refused else _ENDED_SILENTLY[key.kind])
        self._spans[index] = span.but(end_ms=end_ms, last=record.number, outcome=outcome)

    def _points(self, moment: Moment, running: Mapping[_Key, str]) -> Iterator[tuple[_Key, str, str]]:
        """Yield what began and ended with the record of *moment*, so that no state says it: key, label and outcome."""
        record = moment.record
        for envelope in record.events:
            for key, label in _points_in(envelope.event):
                if key not in self._indices and key not in running:
                    yield key, label, ""
        for ruling in record.rulings:
            if ruling.hook in HOOK_NAMES and _is_told(ruling, moment.before, moment.state):
                yield _Key(SpanKind.HOOK, ruling.hook), ruling.by or "", ruling.verdict.value


def _keys(points: Iterable[tuple[_Key, str, str]]) -> Iterator[_Key]:
    return (key for key, _, _ in points)


_ENDED_SILENTLY: Final[Mapping[SpanKind, str]] = {
    SpanKind.REQUEST: "cancelled",
    SpanKind.COMPACTION: "cancelled",
    SpanKind.CALL: "stopped",
    SpanKind.PROMPT: "begun",
    SpanKind.STEERING: "dropped",
    SpanKind.APPROVAL: "withdrawn",
    SpanKind.QUESTION: "withdrawn",
    SpanKind.COMMAND: "taken",
    SpanKind.TIMER: "cleared",
    SpanKind.SUBAGENT: "stopped",
    SpanKind.HOOK: "pass",
    SpanKind.ASK: "cancelled",
}
"""The outcome of a span whose end no input and no event tells."""


def _under_way(state: State) -> Iterator[tuple[_Key, str]]:
    """Yield all that runs or waits in *state*, beside calls of the open batch: key and label."""
    if state.request is not None:
        yield _Key(SpanKind.REQUEST, state.request.request_id), state.using[0]
    if state.compaction is not None and state.compaction.running:
        yield _Key(SpanKind.COMPACTION, state.compaction.compaction_id), state.compaction.by
    for detached in (*state.quarantined_calls, *state.lingering_calls):
        yield _Key(SpanKind.CALL, detached.call_id), detached.name
    for prompt in (*state.queue, *(() if state.next_prompt is None else (state.next_prompt,))):
        yield _Key(SpanKind.PROMPT, prompt.ref), ", ".join(prompt.asked_by.by)
    for text in state.steering:
        yield _Key(SpanKind.STEERING, text.ref), ", ".join(text.asked_by.by)
    for name, due in state.timers:
        yield _Key(SpanKind.TIMER, name, due), name
    for agent in state.subagents:
        yield _Key(SpanKind.SUBAGENT, agent.child), agent.agent
    for run in state.suspended_runs:
        yield _Key(SpanKind.ASK, run.ask_id), f"{run.plugin}: {run.hook.hook_name}"


def _under_way_of_calls(state: State) -> Iterator[tuple[_Key, str]]:
    for call in () if state.batch is None else state.batch.calls:
        yield from _under_way_of_call(call)


def _under_way_of_call(call: Call) -> Iterator[tuple[_Key, str]]:
    if call.status is CallStatus.HELD and call.hold is not None:
        yield _Key(SpanKind.APPROVAL, call.hold.approval_id), f"{call.name}: {call.hold.plugin}"
    elif call.status is CallStatus.ASKING and call.question is not None:
        yield _Key(SpanKind.QUESTION, call.question.ref), call.name
    if not call.done:
        yield _Key(SpanKind.CALL, call.call_id), call.name


def _points_in(event: e.Event) -> Iterator[tuple[_Key, str]]:
    """Yield key and label of what *event* says was there, in case it began and ended with one record."""
    match event:
        case e.RequestStart():
            yield _Key(SpanKind.REQUEST, event.request_id), event.model
        case e.ResponseComplete():
            yield from ((_Key(SpanKind.CALL, call.call_id), call.name) for call in event.message.calls)
        case e.PromptReceived():
            yield _Key(SpanKind.PROMPT, event.ref), ""
        case e.SteeringReceived():
            yield _Key(SpanKind.STEERING, event.ref), ""
        case _:
            pass


def _outcomes(record: Record) -> Iterator[tuple[str, str]]:
    """Yield what *record* tells of the ends of what ran: pairs of id and outcome."""
    match record.arrival.input:
        case StreamEnded(request_id=id_, response=response):
            yield id_, response.stop.value
        case StreamCut(request_id=id_, failure=failure):
            yield id_, f"failed: {failure.kind.value}"
        case CompactionEnded(compaction_id=id_):
            yield id_, "compacted"
        case CompactionFailed(compaction_id=id_):
            yield id_, "failed"
        case TimerFired(timer=name):
            yield name, "fired"
        case _:
            pass
    for envelope in record.events:
        yield from _outcomes_in(envelope.event)


def _outcomes_in(event: e.Event) -> Iterator[tuple[str, str]]:
    """Yield the ids of what *event* says has ended, each with how it ended."""
    match event:
        case e.ApprovalResolved():
            yield event.approval_id, event.status
            if event.status != APPROVED:
                yield event.call_id, event.status
        case e.UserResponded():
            yield event.ref, "answered"
        case e.SubagentEnd():
            yield event.child, "failed" if event.is_error else "ok"
        case e.AskAnswered():
            yield event.ask_id, event.status
        case e.SteeringReceived():
            yield event.ref, event.status
        case e.SteeringApplied():
            yield from ((ref, "applied") for ref in event.refs)
        case e.PromptRejected() | e.PromptDropped() | e.PromptWithdrawn():
            yield event.ref, type(event).__name__.removeprefix("Prompt").lower()
        case e.AgentStart():
            yield event.ref, "begun"
        case e.ToolExecutionEnd():
            yield event.call_id, "error" if event.is_error else "ok"
        case _:
            stopped = _STOPPED.get(type(event))
            if stopped is not None:
                yield getattr(event, "call_id", ""), stopped


_STOPPED: Final[Mapping[type[e.Event], str]] = {
    e.ToolBlocked: "blocked",
    e.ToolKilled: "killed",
    e.ToolAbandoned: "abandoned",
    e.ToolUnknown: "unknown",
    e.ToolSkippedForSteering: "skipped",
    e.ToolCallUnknown: "no such tool",
}
"""The outcome of the call that one of these events is about."""
