"""`why`: everything that decided about a call, a turn or an end, in order, from the records of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from agentrail.core.machine.flow import OF_ONE_CALL
from agentrail.hooks.hook_types import BeforeTool
from agentrail.hooks.ruling import Verdict
from agentrail.insight.event_sentences import fact_in
from agentrail.insight.explanations import Explanation, explain
from agentrail.insight.hook_questions import AskedStep, HookQuestion, questions
from agentrail.ports.journal import Record
from agentrail.values.events import (
    AgentAbort,
    AgentEnd,
    Event,
    ResponseComplete,
    SessionEnded,
    ToolExecutionStart,
)
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import JsonObject, is_same
from agentrail.values.value import Value

END: Final = "end"
"""What `why` is asked about the last end of a turn or of the session."""

Subject: TypeAlias = str | int
"""Id of a call, number of a turn, or `end`."""


def number_or_id(text: str) -> str | int:
    """Return the number that *text* is, as of a turn or a round, or *text* itself, as the id of a call or a request."""
    return int(text) if text.isascii() and text.isdecimal() else text


class AccountEntry(Value):
    """One thing that decided, or that came of it."""

    record: int
    """Number of the record in which it is stored."""
    at_ms: int
    """When it was, in milliseconds since 1970."""
    sentence: str
    """What it was, in one sentence."""
    explanation: Explanation | None = None
    """How plugins were asked and what each answered; `None` if the sentence is about an event."""
    event: Event | None = None
    """The event; `None` if the sentence is about plugins."""


class Account(Value):
    """Why something came about."""

    subject: Subject
    """What it is about."""
    entries: tuple[AccountEntry, ...]
    """What decided and what came of it, in order."""
    sentence: str
    """How it came out, in one sentence."""


def why(records: Iterable[Record], subject: Subject) -> Account:
    """Tell why a call, a turn or an end came about: *subject* is the id of a call, the number of a turn, or `end`.

    *records* are all records of the session, from the first one on. Plugins are not asked again. Texts that a redaction
    took away are not there. An account without entries says that nothing in the records is about *subject*.
    """
    steps = list(questions(records))
    if isinstance(subject, int):
        entries = _of_turn(steps, subject)
        nothing = f"there is no turn {subject} in these records"
    else:
        entries = _of_call(steps, subject)
        nothing = f"there is no call `{subject}` in these records"
        if not entries and subject == END:
            entries, nothing = _of_end(steps), "nothing has ended in these records"
    return Account(subject, entries, entries[-1].sentence if entries else nothing)


def _entries(
    steps: Iterable[AskedStep],
    is_asked: Callable[[AskedStep, HookQuestion], bool],
    is_about: Callable[[Envelope], bool],
) -> Iterator[AccountEntry]:
    """Yield the wanted runs of hooks and events, those of each record in the order in which they happened."""
    for step in steps:
        number, at_ms = step.record.number, step.record.arrival.at
        for question in step.questions:
            if is_asked(step, question):
                explanation = explain(question)
                what = "the check of its arguments" if explanation.hook == "check" else f"`{explanation.hook}`"
                yield AccountEntry(number, at_ms, f"{what}: {explanation.sentence}", explanation)
        for envelope in step.record.events:
            sentence = fact_in(envelope.event) if is_about(envelope) else None
            if sentence is not None:
                yield AccountEntry(number, at_ms, sentence, event=envelope.event)


def _of_call(steps: Sequence[AskedStep], call_id: str) -> tuple[AccountEntry, ...]:
    """Return what decided about a call."""
    arguments = list(_arguments(steps, call_id))

    def is_about(envelope: Envelope) -> bool:
        return getattr(envelope.event, "call_id", None) == call_id

    def is_asked(step: AskedStep, question: HookQuestion) -> bool:
        if question.tool is not None:
            return question.ruling.verdict is not Verdict.PASS and any(
                question.tool == tool and is_same(question.args, args) for tool, args in arguments
            )
        if question.hook is None:
            return question.ruling.hook in OF_ONE_CALL and any(map(is_about, step.record.events))
        return getattr(question.hook, "call_id", None) == call_id

    return tuple(_entries(steps, is_asked, is_about))


def _arguments(steps: Sequence[AskedStep], call_id: str) -> Iterator[tuple[str, JsonObject]]:
    """Yield the tool and each arguments that the call had: as the model gave them, as replaced, as approved."""
    for step in steps:
        for question in step.questions:
            hook = question.hook
            if isinstance(hook, BeforeTool) and hook.call_id == call_id:
                yield hook.name, hook.args
                if question.ruling.decisions.args is not None:
                    yield hook.name, question.ruling.decisions.args
        for envelope in step.record.events:
            match envelope.event:
                case ToolExecutionStart(call_id=id_, name=name, args=args) if id_ == call_id:
                    yield name, args
                case ResponseComplete(message=message):
                    yield from ((call.name, call.args) for call in message.calls if call.call_id == call_id)
                case _:
                    pass


def _of_turn(steps: Sequence[AskedStep], turn: int) -> tuple[AccountEntry, ...]:
    """Return what decided about a turn as a whole; what decided about its calls is told of each call."""
    positions = [
        index for index, step in enumerate(steps) if any(envelope.turn == turn for envelope in step.record.events)
    ]
    if turn < 1 or not positions:
        return ()
    mine = steps[positions[0] : positions[-1] + 1]

    def is_asked(_: AskedStep, question: HookQuestion) -> bool:
        return question.ruling.hook not in OF_ONE_CALL and question.tool is None and not _is_silent(question)

    return tuple(_entries(mine, is_asked, lambda envelope: envelope.turn == turn))


def _is_silent(question: HookQuestion) -> bool:
    """Whether no plugin had anything to say."""
    return not question.ruling.answers and not question.ruling.errors


def _of_end(steps: Sequence[AskedStep]) -> tuple[AccountEntry, ...]:
    """Return what decided about the last end: of a turn, or of the session."""
    for step in reversed(steps):
        if any(_is_end(envelope.event) for envelope in step.record.events):
            return tuple(
                _entries([step], lambda _, question: not _is_silent(question), lambda envelope: _is_end(envelope.event))
            )
    return ()


def _is_end(event: Event) -> bool:
    """Whether *event* ends a turn or the session; an abort without a turn ends nothing."""
    return isinstance(event, AgentEnd | SessionEnded) or (isinstance(event, AgentAbort) and event.ref is not None)
