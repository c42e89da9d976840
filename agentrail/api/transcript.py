"""`Transcript`: folds the events of a session to what a person sees of it, without any I/O.

What an event says by itself is passed on as it is; changes tell what it is only with the events before it. The
terminal, editors (ACP) and front ends (AG-UI) draw both.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from agentrail.values import events as e
from agentrail.values.content import Part, Thinking
from agentrail.values.events.envelope import Cursor
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, ToolMessage

OpenState: TypeAlias = Literal["asked", "held", "running"]
"""States of calls that have not ended; `held`: a person decides about it."""

EndState: TypeAlias = Literal["done", "failed", "blocked", "killed", "skipped", "in doubt", "unknown tool", "rejected"]
"""States of calls of whose end an event has told."""

CallState: TypeAlias = OpenState | EndState | Literal["unheard", "stopped"]
"""What has become of a call. `unheard`: the model was asked again, so it has ended, and no event has told how;
`stopped`: its turn was over before it was.
"""

OPEN: Final[frozenset[CallState]] = frozenset(get_args(OpenState))

NOT_APPROVED: Final = frozenset({"rejected", "timeout", "superseded", "aborted"})
"""Statuses of approvals after which a call does not run."""

ENDS: Final[Mapping[type[e.Event], CallState]] = {
    e.ToolBlocked: "blocked",
    e.ToolCallUnknown: "unknown tool",
    e.ToolKilled: "killed",
    e.ToolSkippedForSteering: "skipped",
    e.ToolUnknown: "in doubt",
}
"""The states of calls that end without a result of their own, by the events that tell it."""

FindResult: TypeAlias = Callable[[str], Sequence[Part] | None]
"""Returns the result of a call of the session by its id; `None` if it has none."""


class SteeringRead(NamedTuple):
    """The model reads texts of steering now."""

    refs: tuple[str, ...]
    """Their ids."""
    text: str
    """Those that were heard, as one text; empty if none was."""


class ResponseEnded(NamedTuple):
    """A response is complete."""

    message: AssistantMessage
    """All of it."""
    streamed: str
    """The text of it that was told before, by its deltas."""
    thoughts: str
    """Its thoughts; empty if it has none, or they were told before."""
    is_heard: bool
    """Whether all of its deltas were heard."""

    @property
    def rest(self) -> str:
        """The end of the text that was not told; empty if what was told is not its beginning."""
        text = self.message.text
        return text.removeprefix(self.streamed) if text.startswith(self.streamed) else ""

    @property
    def is_other(self) -> bool:
        """Whether it has another text in place of what was told, but for space around it."""
        text = self.message.text
        return not text.startswith(self.streamed) and text.strip() != self.streamed.strip()


class Voided(NamedTuple):
    """The response under way has failed, and the model is asked again: nothing of it counts."""

    text: str
    """The text of it that was told."""


class CutOff(NamedTuple):
    """The response under way was cut off, by the end of its turn or by steering: what was told of it stays."""

    text: str
    """The text of it that was told."""
    is_heard: bool
    """Whether all of its deltas were heard."""


class ShownCall(NamedTuple):
    """A call of a tool."""

    call_id: str
    """Id of the call: unique in its session, but not among that session and its sub-agents."""
    name: str
    """Name of the tool."""
    args: JsonObject | None
    """The arguments; `None` if they were not heard."""
    state: CallState = "asked"
    """What has become of it."""
    attempt: int = 1
    """Number of its last attempt, from 1."""
    was_held: bool = False
    """Whether a person was asked about it."""


class CallChanged(NamedTuple):
    """A call was announced, waits for a person, or has started."""

    call: ShownCall
    """The call."""
    is_new: bool
    """Whether it is the first that is told of it."""


class CallEnded(NamedTuple):
    """A call has ended; or the result of one that has ended before is known now."""

    call: ShownCall
    """The call."""
    content: Sequence[Part] | None
    """The result; `None` if it is not known, or not yet."""
    cause: e.Event
    """The event that tells it."""


class OfSubagent(NamedTuple):
    """A change in the conversation of a sub-agent."""

    call_id: str
    """Id of the call that has started it."""
    child: str
    """Its session id; empty if that was not heard."""
    change: Change
    """What has changed there."""


Change: TypeAlias = e.Event | SteeringRead | ResponseEnded | Voided | CutOff | CallChanged | CallEnded | OfSubagent
"""What an event changes for a person. One that is not folded is a change itself, and so is each delta that was heard
from the first of its response on.
"""


def thoughts_in(message: AssistantMessage) -> str:
    """Return the thoughts in a response as one text; empty if the provider shows none."""
    return "\n\n".join([part.text for part in message.parts if isinstance(part, Thinking) and part.text])


def _find_nothing(_: str) -> None:
    """Know of no results but those that events tell."""


class Transcript:
    """Folds the events of one session, one by one. It may begin with any of them.

    It keeps only what is open, and ids of calls that run on after their turn: so no event costs more in a long
    conversation.
    """

    def __init__(self, find_result: FindResult = _find_nothing) -> None:
        """Begin with nothing open; *find_result* tells results that no event does, such as those of blocked calls."""
        self.child = ""
        """The session id of the sub-agent that it is of; empty for the session itself."""
        self.turn_open = False
        """Whether a turn is open, as of the last event."""
        self.turn_ref = ""
        """Id of the prompt of the open turn; empty if its start was not heard."""
        self.is_under_way = False
        """Whether a response was asked for, and has not come to its end."""
        self._find_result = find_result
        self._is_heard = False
        """Whether all deltas of the response under way were heard."""
        self._lost_to = Cursor(0)
        """Deltas up to here are no longer kept."""
        self._streamed: list[str] = []
        """The pieces of text of the response under way that were told."""
        self._has_thoughts = False
        """Whether thoughts of it were told."""
        self._steering: dict[str, str] = {}
        """The texts of steering that the model has not read, by their ids."""
        self._calls: dict[str, ShownCall] = {}
        """The calls of the open turn whose results are not known, by their ids."""
        self._touched: dict[str, None] = {}
        """Ids of the calls of which something was told since the last request: the state has their results by the next.
        """
        self._running_on: set[str] = set()
        """Ids of calls that ran when their turn was over: those that go on in the background end by an event."""
        self._held_in: dict[str, tuple[str, ...]] = {}
        """The paths of the sub-agents whose calls wait for people, by ids of approvals."""
        self._agents: dict[str, Transcript] = {}
        """The transcripts of the sub-agents that run, by the ids of the calls that have started them."""

    def take(self, envelope: e.Envelope) -> Iterator[Change]:
        """Yield what the event in *envelope* changes, in order. All of it is to be read before the next event."""
        event = envelope.event
        match event:
            case e.MessageDelta() | e.ThinkingDelta():
                yield from self._stream(event)
            case e.ResponseComplete(message=message):
                yield from self._answer(message)
            case e.RequestStart() | e.Retry():
                if self.is_under_way:  # at a request: the process that has asked before has ended
                    yield Voided(self._forget_streamed())
                if isinstance(event, e.RequestStart):
                    yield from self._part_all("unheard", event, [*self._touched])
                    self._touched.clear()
                    self.is_under_way, self._is_heard = True, envelope.cursor >= self._lost_to
                yield event
            case e.AgentResumed() | e.AgentEnd() | e.AgentAbort(ref=str()):
                if self.is_under_way:
                    yield CutOff(self._forget_streamed(), self._is_heard)
                if not isinstance(event, e.AgentResumed):
                    yield from self._close(event)
                yield event
            case e.SteeringApplied(refs=refs):
                texts = [text for ref in refs if (text := self._steering.pop(ref, None)) is not None]
                yield SteeringRead(refs, "\n\n".join(texts))
            case _:
                yield from self._of_call(event, envelope)

    def miss(self) -> None:
        """Note that deltas were missed: of the response under way nothing is told before its end."""
        self._is_heard = False

    def unanswered(self) -> Iterator[tuple[str, ShownCall]]:
        """Yield the calls that were announced and have no result, each after the sub-agent that makes it."""
        for call in self._calls.values():
            if call.args is not None:
                yield self.child, call
        for agent in self._agents.values():
            if agent.child:
                yield from agent.unanswered()

    def part_all(self, cause: e.SubagentEnd) -> Iterator[Change]:
        """Yield the ends of all calls that are open, those of sub-agents too, as the agent itself has ended."""
        yield from self._part_all("stopped", cause, [*self._calls])
        for call_id, agent in self._agents.items():
            yield from (OfSubagent(call_id, agent.child, change) for change in agent.part_all(cause))

    # Responses and turns

    def _stream(self, event: e.MessageDelta | e.ThinkingDelta) -> Iterator[Change]:
        if not (self.is_under_way and self._is_heard and event.delta):
            return
        if isinstance(event, e.MessageDelta):
            self._streamed.append(event.delta)
        else:
            self._has_thoughts = True
        yield event

    def _answer(self, message: AssistantMessage) -> Iterator[Change]:
        thoughts = "" if self._has_thoughts else thoughts_in(message)
        yield ResponseEnded(message, self._forget_streamed(), thoughts, self._is_heard)
        for call in message.calls:
            yield self._change(ShownCall(call.call_id, call.name, call.args))

    def _forget_streamed(self) -> str:
        """Note that the response under way is over; return the text of it that was told."""
        text = "".join(self._streamed)
        self._streamed.clear()
        self.is_under_way = self._has_thoughts = False
        return text

    def _close(self, event: e.AgentEnd | e.AgentAbort) -> Iterator[Change]:
        for message in event.messages if isinstance(event, e.AgentEnd) else ():
            if isinstance(message, ToolMessage) and message.call_id in self._calls:
                state: CallState = "failed" if message.is_error else "done"
                yield self._part(self._calls[message.call_id], state, event, message.parts)
        yield from self._part_all("stopped", event, [*self._calls])
        self._calls.clear()
        self._touched.clear()
        self.turn_open, self.turn_ref = False, ""

    # Calls

    def _of_call(self, event: e.Event, envelope: e.Envelope) -> Iterator[Change]:
        match event:
            case e.ToolExecutionStart(call_id=call_id, name=name, args=args, attempt=attempt):
                was_held = call_id in self._calls and self._calls[call_id].was_held
                yield self._change(ShownCall(call_id, name, args, "running", attempt, was_held))
            case e.ToolExecutionEnd(call_id=call_id, name=name, content=content, is_error=is_error):
                call = yield from self._announced(call_id, name)
                self._calls.pop(call_id, None)
                self._running_on.discard(call_id)
                yield CallEnded(call._replace(state="failed" if is_error else "done"), content, event)
            case (
                e.ToolBlocked(call_id=call_id, name=name)
                | e.ToolCallUnknown(call_id=call_id, name=name)
                | e.ToolKilled(call_id=call_id, name=name)
                | e.ToolSkippedForSteering(call_id=call_id, name=name)
                | e.ToolUnknown(call_id=call_id, name=name)
            ):
                call = yield from self._announced(call_id, name)
                yield self._part(call, ENDS[type(event)], event)
            case e.ApprovalRequired(approval_id=ref, path=path):
                yield from self._decide(path[len(envelope.path) :], event, envelope)
            case e.ApprovalResolved(approval_id=ref):
                yield from self._decide(self._held_in.pop(ref, ()), event, envelope)
            case e.SubAgentEvent(call_id=call_id, child=child, event=inner):
                yield from self._within(call_id, child, inner, envelope)
            case e.SubagentEnd(call_id=call_id, child=child):
                agent = self._agents.pop(call_id, self)
                if agent is not self:
                    yield from (OfSubagent(call_id, child, change) for change in agent.part_all(event))
                yield event
            case _:
                self._note(event)
                yield event

    def _note(self, event: e.Event) -> None:
        match event:
            case e.AgentStart(ref=ref):
                self.turn_open, self.turn_ref = True, ref
            case e.Gap(to_seq=seq, to_n=n):
                self._lost_to = Cursor(seq, n)
                self.miss()
            case e.SteeringReceived(ref=ref, text=text, status="queued"):
                self._steering[ref] = text
            case e.SteeringReceived(ref=ref):
                self._steering.pop(ref, None)
            case e.SubagentStart(call_id=call_id, child=child):
                self._agents.pop(call_id, None)  # the call is tried again
                self._agent(call_id, child)
            case _:
                pass

    def _change(self, call: ShownCall) -> Change:
        is_new = not self._was_told(call.call_id)
        self._calls[call.call_id] = call
        self._touched[call.call_id] = None
        return CallChanged(call, is_new)

    def _was_told(self, call_id: str) -> bool:
        return call_id in self._calls or call_id in self._running_on

    def _announced(self, call_id: str, name: str) -> Generator[Change, None, ShownCall]:
        """Return a call that ends; of one of which nothing was told, first yield that."""
        call = self._calls.get(call_id, ShownCall(call_id, name, None))
        if not self._was_told(call_id):
            yield self._change(call)
        return call

    def _part(self, call: ShownCall, state: CallState, cause: e.Event, content: Sequence[Part] | None = None) -> Change:
        """Note that a call is over for the conversation, in *state* if that was not told; return the change."""
        if call.state == "running" and state == "stopped":
            self._running_on.add(call.call_id)
        if call.state in OPEN or call.state == "unheard":
            call = call._replace(state=state)
        if content is not None:
            self._calls.pop(call.call_id, None)
        elif call.call_id in self._calls:
            self._calls[call.call_id] = call
            self._touched[call.call_id] = None
        return CallEnded(call, content, cause)

    def _part_all(self, state: CallState, cause: e.Event, call_ids: Sequence[str]) -> Iterator[Change]:
        """Yield the ends of those of the calls that are open, and the results of them that are to be found now."""
        for call in [self._calls[call_id] for call_id in call_ids if call_id in self._calls]:
            content = self._find_result(call.call_id)
            if content is not None or call.state in OPEN:
                yield self._part(call, state, cause, content)

    def _decide(
        self, path: tuple[str, ...], event: e.ApprovalRequired | e.ApprovalResolved, envelope: e.Envelope
    ) -> Iterator[Change]:
        """Fold an event of the call of the sub-agent at *path*, of which the session tells as of one of its own."""
        if isinstance(event, e.ApprovalRequired):
            self._held_in[event.approval_id] = path
        if path:
            yield from self._within(path[1], "", event, envelope)
        elif isinstance(event, e.ApprovalRequired):
            yield self._change(ShownCall(event.call_id, event.tool, event.args, "held", was_held=True))
        elif event.status in NOT_APPROVED and event.call_id in self._calls:
            yield self._part(self._calls[event.call_id], "rejected", event)
        else:
            yield event

    def _agent(self, call_id: str, child: str) -> Transcript:
        agent = self._agents.setdefault(call_id, Transcript())
        agent.child = child or agent.child
        return agent

    def _within(self, call_id: str, child: str, event: e.Event, envelope: e.Envelope) -> Iterator[Change]:
        """Fold an event of a sub-agent."""
        agent = self._agent(call_id, child)
        path = (*envelope.path, envelope.session_id, call_id)
        for change in agent.take(envelope.but(event=event, session_id=agent.child, path=path)):
            yield OfSubagent(call_id, agent.child, change)
