"""Streams of drawn sessions, as those get them who listen from the first event; and the items that are seen of one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import define, field

from agentrail.api.transcript import (
    CallChanged,
    CallEnded,
    Change,
    CutOff,
    OfSubagent,
    ResponseEnded,
    SteeringRead,
    Transcript,
    Voided,
    thoughts_in,
)
from agentrail.testing import Choose
from agentrail.testing.world.random_setups import draw_scene
from agentrail.values import events as e
from agentrail.values.content import text_of
from tests.machinery.worlds.checked_world import CheckedWorld

ENDS: Final = (e.ResponseComplete, e.Retry, e.AgentEnd, e.AgentAbort, e.AgentResumed, e.RequestStart)
"""Events before which the last piece of a response has come."""

FOR_PEOPLE: Final = (e.ApprovalRequired, e.ApprovalResolved, e.AskUser, e.ResultRequired, e.UserResponded)
"""Events of sub-agents that their parents tell as their own."""


def drawn_stream(seed: int, steps: int) -> list[e.Envelope]:
    """Return the events of a random session, whose calls have sub-agents, and whose responses are streamed."""
    draw = random.Random(seed)
    stored = _stored(seed, steps)
    inner = [envelope.event for envelope in _stored(seed + 1, steps // 4)]
    return [*_streamed([*_with_subagents(stored, inner, draw)], draw)]


def _stored(seed: int, steps: int) -> list[e.Envelope]:
    choose = Choose(random.Random(seed).randrange)
    world = CheckedWorld(draw_scene(choose))
    world.open()
    for _ in range(steps):
        if world.go(choose) is None:
            break
    return [envelope for record in world.records for envelope in record.events]


def _with_subagents(
    stored: Sequence[e.Envelope], inner: Sequence[e.Event], draw: random.Random
) -> Iterator[e.Envelope]:
    seq = 0
    for envelope in stored:
        events = [envelope.event]
        if isinstance(envelope.event, e.ToolExecutionStart) and draw.random() < 0.5:
            call_id, child = envelope.event.call_id, f"s.{envelope.event.call_id}"
            length = draw.randint(0, len(inner))
            events.append(e.SubagentStart(call_id, child, "helps"))
            events += [_of_subagent(event, call_id, child) for event in inner[:length] if event.durable]
            if draw.random() < 0.7:
                events.append(e.SubagentEnd(call_id, child, "helped", is_error=False))
        for event in events:
            seq += event.durable
            yield envelope.but(seq=seq, event=event)


def _of_subagent(event: e.Event, call_id: str, child: str) -> e.Event:
    if isinstance(event, e.ApprovalRequired | e.AskUser | e.ResultRequired):
        return event.but(path=("s", call_id, *event.path))
    return event if isinstance(event, FOR_PEOPLE) else e.SubAgentEvent(call_id, child, event)


def _streamed(stored: Sequence[e.Envelope], draw: random.Random) -> Iterator[e.Envelope]:
    deltas, previous = list[e.Event](), stored[0]
    for index, envelope in enumerate(stored):
        count = len(deltas) if isinstance(envelope.event, e.ResponseComplete) else draw.randint(0, len(deltas))
        for n, delta in enumerate(deltas[:count], previous.n + 1):
            yield previous.but(n=n, event=delta)
        del deltas[:count]
        previous = envelope
        yield envelope
        if isinstance(envelope.event, ENDS):
            deltas.clear()
        if isinstance(envelope.event, e.RequestStart):
            end = next((later.event for later in stored[index + 1 :] if isinstance(later.event, ENDS)), None)
            deltas += _deltas_of(end, draw)


def _deltas_of(end: e.Event | None, draw: random.Random) -> Iterator[e.Event]:
    text, thoughts = "never said", draw.choice(("", "never thought"))
    if isinstance(end, e.ResponseComplete):
        text, thoughts = end.message.text, thoughts_in(end.message)
        text = draw.choice((text, text, text, text[: draw.randint(0, len(text))], f"other {text}", f" {text}"))
    for kind, content in ((e.ThinkingDelta, thoughts), (e.MessageDelta, text)):
        offset = 0
        while offset < len(content):
            size = draw.randint(0, 4)
            yield kind(content[offset : offset + size])
            offset += size


# What is seen


@define
class Item:
    """Something that a person sees in a conversation."""

    kind: str
    """`prompt`, `steering`, `read`, `response`, `question`, `answer`, `call` or `note`."""
    seq: int
    """Number of the event that it began with."""
    key: str = ""
    """Id of the prompt, the text, the question or the call; of a note, the class of its event."""
    text: str = ""
    """What was said, or returned."""
    name: str = ""
    """The name of the tool that is called."""
    thoughts: str = ""
    """What the model thought before."""
    state: str = ""
    """Of a call or a text of steering what has become of it; of an answer whether it is `whole`."""
    args: object = None
    """The arguments of a call."""
    inner: list[Item] = field(factory=list)
    """What is seen of the sub-agent that a call has started."""


SAID: Final = {e.PromptReceived: "prompt", e.UserResponded: "response", e.AskUser: "question"}


class Seen:
    """The items that a person sees of a stream, from the changes that are told of it."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        self._seq = 0
        self._answer: Item | None = None
        self._by_key: dict[tuple[str, str], Item] = {}
        self._inner: dict[str, Seen] = {}
        self._announced: set[str] = set()

    def add(self, seq: int, change: Change) -> None:
        self._seq = seq
        match change:
            case e.RequestStart():
                self._answer = self._new("answer", "")
            case e.MessageDelta(delta=delta):
                self._open_answer().text += delta
            case e.ThinkingDelta(delta=delta):
                self._open_answer().thoughts += delta
            case ResponseEnded(message=message):
                answer = self._open_answer()
                assert change.is_other or (change.streamed + change.rest).strip() == message.text.strip()
                assert answer.text == change.streamed
                assert change.thoughts in {"", thoughts_in(message)}
                answer.text, answer.thoughts, answer.state = message.text, thoughts_in(message), "whole"
                self._answer = None
            case Voided(text) | CutOff(text):
                answer, self._answer = self._open_answer(), None
                assert answer.text == text
                if isinstance(change, Voided):
                    self.items.remove(answer)
            case e.Event():
                self._add_note(change)
            case _:
                self._add_call(seq, change)

    def _add_note(self, event: e.Event) -> None:
        match event:
            case e.PromptReceived(ref=ref, text=text) | e.UserResponded(ref=ref, response=text):
                self._new(SAID[type(event)], ref, text)
            case e.SteeringReceived(ref=ref, text=text, status=status):
                self._new("steering", ref, text).state = status
            case e.ToolAbandoned(call_id=call_id):
                self._of_call(call_id).state = "abandoned"
            case e.SubagentStart(call_id=call_id):
                self._inner[call_id] = Seen()
                self._of_call(call_id).inner = self._inner[call_id].items
            case e.AskUser(ref=ref, question=text):
                self._new("question", ref, text)
            case _ if event.durable:
                self._new("note", type(event).__name__)
            case _:
                pass

    def _add_call(self, seq: int, change: Change) -> None:
        match change:
            case SteeringRead(refs):
                for ref in refs:
                    self._new("read", ref)
            case CallChanged(call, is_new):
                assert is_new is (call.call_id not in self._announced)
                self._announced.add(call.call_id)
                item = self._of_call(call.call_id)
                item.state, item.args, item.name = call.state, call.args, call.name
            case CallEnded(call, content, cause):
                item = self._of_call(call.call_id)
                if item.state != "abandoned" or isinstance(cause, e.ToolExecutionEnd):
                    item.state = call.state
                    item.text += "" if content is None else text_of(content)
            case OfSubagent(call_id, _, inner_change):
                inner = self._inner.setdefault(call_id, Seen())
                inner.add(seq, inner_change)
                self._of_call(call_id).inner = inner.items
            case _:
                raise AssertionError(change)

    def settled(self) -> list[Item]:
        """Return the items that no longer change, and those calls that still do."""
        return [item for item in self.items if item.kind != "answer" or item.state]

    def _new(self, kind: str, key: str, text: str = "") -> Item:
        item = Item(kind, self._seq, key, text)
        self.items.append(item)
        self._by_key[kind, key] = item
        return item

    def _open_answer(self) -> Item:
        self._answer = self._answer or self._new("answer", "")
        return self._answer

    def _of_call(self, call_id: str) -> Item:
        return self._by_key.get(("call", call_id)) or self._new("call", call_id)


def seen_in(stream: Sequence[e.Envelope]) -> Seen:
    """Return what is seen of a stream, each event folded into what the ones before it have left."""
    seen, transcript = Seen(), Transcript()
    for envelope in stream:
        for change in transcript.take(envelope):
            seen.add(envelope.seq, change)
    return seen
