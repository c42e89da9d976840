"""`RunFrames`: translates what the events of a session change into the events of one AG-UI run, without any I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from agentrail.api.problems import Problem
from agentrail.api.public_ids import visible
from agentrail.api.session_values import HeldCall
from agentrail.api.transcript import (
    CallChanged,
    CallEnded,
    Change,
    CutOff,
    FindResult,
    OfSubagent,
    ResponseEnded,
    SteeringRead,
    Transcript,
    Voided,
)
from agentrail.core.vocabulary.tool_calls import Subagent
from agentrail.host.ag_ui.shown_messages import AgentFrames, Frame
from agentrail.runtime.shared.clock import utc_time
from agentrail.values import events as e
from agentrail.values.json import Json
from agentrail.values.usage import Usage

PROTOCOL: Final = "1.0"
"""Version of AG-UI."""

CANCELLED: Final = ("user", "stopped")
"""Kinds of aborts by which somebody has stopped the turn; after others, it has failed."""


class OpenMessage(NamedTuple):
    """A message whose pieces are being sent."""

    kind: str
    """`t` for a text, `r` for thoughts."""
    message_id: str
    """Id of the message."""

    def __str__(self) -> str:
        return f"{self.kind}{self.message_id}"


class RunFrames:
    """Converts the events of one session, one by one, into the frames of a run, and knows what is open in it."""

    def __init__(self, thread_id: str, run_id: str, find_result: FindResult, ref: str = "") -> None:
        """Begin a run; with *ref*, it ends with the turn of this prompt, which the client shows already."""
        self.ref = ref
        """Id of the prompt whose turn ends the run; empty if the run goes on for as long as the session works."""
        self.ending: Frame | None = None
        """The last frame, as the end of the last turn has it; `None` before that end."""
        self.is_over = False
        """Whether the turn of the prompt `ref` is over: events after that are not translated."""
        self.wants_snapshot = False
        """Whether the client has a message that is not, or not so, part of the conversation."""
        self.open: OpenMessage | None = None
        """The message whose pieces are being sent; `None` if none is."""
        self._thread_id = thread_id
        self._run_id = run_id
        self._transcript = Transcript(find_result)
        self._session = AgentFrames()
        self._active: dict[str, Frame] = {}  # those that are open for the client, with the frames that opened them
        self._response = ""  # id of the response under way
        self._pieces = {"t": 0, "r": 0}  # how many messages of each kind were begun of it
        self._open_text = ""  # text of the open message
        self._has_part = False  # whether the client may have a part of the response that is no longer known here

    def of(self, envelope: e.Envelope) -> list[Frame]:
        """Return the frames for the event in *envelope*; empty if the run is over, or clients are not shown it."""
        if self.is_over:
            return []
        frames = (frame for change in self._transcript.take(envelope) for frame in self._frames(change, envelope))
        return [{**frame, "timestamp": envelope.at} for frame in frames]

    def _frames(self, change: Change, envelope: e.Envelope) -> Iterable[Frame]:
        match change:
            case e.MessageDelta(delta=delta):
                return (*self._open("t"), *self._piece(delta))
            case e.ThinkingDelta(delta=delta):
                return (*self._open("r"), *self._piece(delta))
            case e.RequestStart():
                self._response, self._has_part = f"m{envelope.seq}", False
                self._pieces.update(t=0, r=0)
                return self._close_open()
            case ResponseEnded():
                return self._answered(change, self._message_id(envelope))
            case Voided():
                return self._voided()
            case CutOff(is_heard=is_heard):
                self.wants_snapshot |= not is_heard
                return self._close_open()
            case SteeringRead(text=text) if text:
                return self._session.whole_text(f"m{envelope.seq}", "user", text)
            case CallChanged():
                return _call_frames(self._session, change, self._message_id(envelope))
            case CallEnded():
                return _result_frames(self._session, change)
            case OfSubagent():
                return self._subagent(change, envelope)
            case _:
                return self._of_life(change, envelope)

    def _of_life(self, event: Change, envelope: e.Envelope) -> Iterable[Frame]:
        match event:
            case e.PromptReceived(ref=ref, text=text):
                self.ending = None
                if ref != self.ref:  # the client shows what it has sent
                    return self._session.whole_text(f"m{envelope.seq}", "user", text)
            case e.AgentEnd(ref=ref, usage=usage):
                self._end(ref, self._finished({"type": "success"}, usage))
                return self._close_open()
            case e.AgentAbort(ref=str(ref), kind=kind, reason=reason):
                is_cancelled = kind in CANCELLED
                error = _error(kind, reason or f"the turn was aborted: {kind}")
                self._end(ref, self._finished({"type": "cancelled"}) if is_cancelled else error)
                return self._close_open()
            case e.AgentResumed():
                return self._close_open()
            case e.PromptDropped(ref=ref) | e.PromptWithdrawn(ref=ref) if ref == self.ref:
                self._end(ref, self._finished({"type": "cancelled"}))
            case e.PromptRejected(ref=ref, reason=reason) if ref == self.ref:
                self._end(ref, _error("rejected", reason))
            case e.SessionEnded():
                self._end(self.ref, self.ending or self._finished({"type": "cancelled"}))
                self.is_over = True
            case e.SubagentStart(child=child, agent=name, call_id=call_id, description=about):
                return self._open_subagent(child, name, call_id, about)
            case e.SubagentEnd():
                return self._subagent_ended(event)
            case _:
                pass
        return ()

    # The beginning and the end of the run

    def opening(self, messages: Sequence[Frame], running: Iterable[Subagent]) -> list[Frame]:
        """Return the frames with which the run begins: the conversation, and what is open now."""
        frames: list[Frame] = [
            {
                "type": "RUN_STARTED",
                "threadId": self._thread_id,
                "runId": self._run_id,
                "protocolVersion": PROTOCOL,
            }
        ]
        if messages:
            frames.append(self._declare(messages))
        former, self._active = self._active, {}
        for child, frame in former.items():
            if frame.get("parentSubagentRunId") in {None, *self._active}:
                self._active[child] = frame
                frames.append(frame)
                for whose, call in self._transcript.unanswered():
                    if visible(whose) == child:
                        frames += AgentFrames(child).call(call)
        for agent in running:  # those that are not known from the events of this turn
            frames += self._open_subagent(agent.child, agent.agent, agent.call_id, agent.description)
        if self.open is not None:
            frames += [self._session.start(*self.open), self._session.content(*self.open, self._open_text)]
        return frames

    def snapshot(self, messages: Sequence[Frame]) -> list[Frame]:
        """Return the frames that replace the conversation of the client by *messages*, as they are now.

        The open message is not among them: it is closed before, and goes on after them as another one.
        """
        self.wants_snapshot = False
        if self.open is None:
            return [self._declare(messages)]
        kind, text = self.open.kind, self._open_text
        return [*self._close_open(), self._declare(messages), *self._open(kind), *(self._piece(text) if text else ())]

    def _declare(self, messages: Sequence[Frame]) -> Frame:
        """Return the frame that declares the whole conversation, without the results that get frames of their own."""
        unanswered = {call.call_id for child, call in self._transcript.unanswered() if not child and not self.is_over}
        answered = [message for message in messages if message.get("toolCallId") not in unanswered]
        return {"type": "MESSAGES_SNAPSHOT", "messages": answered}

    def closing(self, held_calls: Sequence[HeldCall], *, waits: bool) -> list[Frame]:
        """Return the last frames: what is open is closed, and the run ends; with *waits*, it waits for people."""
        frames = [*self._close_open()]
        for child in reversed([*self._active]):
            ids = [interrupt_id(call) for call in held_calls if call.path and visible(_session_of(call)) == child]
            outcome: Json = {"type": "suspended", "interruptIds": ids}
            frames.append({"type": "SUBAGENT_FINISHED", "subagentRunId": child, "outcome": outcome})
        self._active.clear()
        # a client that has the tool of a call runs it after the run, and sends the result with its next one
        interrupts = [interrupt(call) for call in held_calls if call.kind != "result"] if waits else []
        if interrupts:
            frames.append(self._finished({"type": "interrupt", "interrupts": interrupts}))
        else:
            frames.append(self.ending or self._finished({"type": "success"}))
        return frames

    def failed(self, problem: Problem) -> list[Frame]:
        """Return the last frames of a run that ends by an error of the host."""
        return [*self._close_open(), {"type": "RUN_ERROR", "message": problem.detail, "code": problem.error}]

    def _finished(self, outcome: Frame, usage: Usage | None = None) -> Frame:
        frame: Frame = {
            "type": "RUN_FINISHED",
            "threadId": self._thread_id,
            "runId": self._run_id,
            "outcome": outcome,
        }
        if usage is not None and not usage.is_nothing:
            frame["usage"] = [_usage(usage)]
        return frame

    # Going on

    def begin(self) -> None:
        """Forget what the events before the run have to say of its end."""
        self.wants_snapshot = False
        if not self.is_over:
            self.ending = None

    def adopt(self, open_message: str) -> None:
        """Go on with *open_message*, which the client has in place of the open one, or of one that has no text yet."""
        if open_message and (self.open is None or self.open.kind == open_message[0]):
            self._take(open_message)

    def take_over(self, open_message: str) -> None:
        """Go on for a client that may have a part of a response which is no longer known here.

        *open_message* is the message that is open for it; empty if none is.
        """
        self._transcript.miss()
        self._has_part, self.open, self._open_text = True, None, ""
        self._take(open_message)

    def _take(self, open_message: str) -> None:
        if open_message:
            self.open = OpenMessage(open_message[0], open_message[1:])
            # the next messages of the response get other ids
            number = self.open.message_id.removesuffix(".r").rpartition(".")[2]
            self._pieces[self.open.kind] = max(self._pieces[self.open.kind], int(number.removeprefix("m")), 1)

    def _end(self, ref: str, ending: Frame) -> None:
        self.ending = ending
        self.is_over = bool(self.ref) and ref == self.ref

    # Responses

    @property
    def is_under_way(self) -> bool:
        """Whether a response was asked for, and has not come to its end."""
        return self._transcript.is_under_way

    @property
    def owes_snapshot(self) -> bool:
        """Whether a snapshot is to come, now or when the response under way is complete."""
        return self.wants_snapshot or (self._has_part and self.is_under_way)

    @property
    def _is_begun(self) -> bool:
        """Whether the client has a part of the response under way."""
        return any(self._pieces.values()) or self._has_part

    def _voided(self) -> Iterable[Frame]:
        """Return the frames that close the message of a response that has failed; a snapshot then takes it away."""
        self.wants_snapshot |= self._is_begun
        self._has_part = False
        self._pieces.update(t=0, r=0)
        return self._close_open()

    def _close_open(self) -> Iterator[Frame]:
        if self.open is not None:
            kind, message_id = self.open
            self.open = None
            yield self._session.end(kind, message_id)

    def _open(self, kind: str) -> Iterator[Frame]:
        if self.open is None or self.open.kind != kind:
            yield from self._close_open()
            self._pieces[kind] += 1
            tail = ".r" if kind == "r" else ""
            self.open = OpenMessage(kind, f"{self._response}.{self._pieces[kind]}{tail}")
            self._open_text = ""
            yield self._session.start(*self.open)

    def _piece(self, delta: str) -> Iterator[Frame]:
        if self.open is not None:
            self._open_text += delta
            yield self._session.content(*self.open, delta)

    def _message_id(self, envelope: e.Envelope) -> str:
        """Return the id of the message of a response.

        It is the same whether that was streamed or not: a client that goes on may have the beginning of either.
        """
        return f"{self._response or f'm{envelope.seq}'}.1"

    def _answered(self, change: ResponseEnded, message_id: str) -> Iterable[Frame]:
        if not change.is_heard and self._is_begun:
            # What the client has of the response is not known: it gets all of it with the conversation.
            self.wants_snapshot = True
            frames = [*self._close_open()]
        else:
            thoughts = "" if self._is_begun else change.thoughts
            frames = [*self._session.thoughts(thoughts, message_id), *self._rest(change, message_id)]
        self._has_part = False
        self._pieces.update(t=0, r=0)
        return frames

    def _rest(self, change: ResponseEnded, message_id: str) -> Iterator[Frame]:
        """Yield what was not streamed of a response; if the stream differs from it, a snapshot corrects that."""
        if not change.streamed:
            yield from self._close_open()
            if change.rest:
                yield from self._session.whole_text(message_id, "assistant", change.rest)
            return
        if change.rest:
            yield from self._open("t")
            yield from self._piece(change.rest)
        self.wants_snapshot |= change.is_other
        yield from self._close_open()

    # Sub-agents

    def _open_subagent(
        self, child: str, name: str, call_id: str, description: str, parent: AgentFrames | None = None
    ) -> Iterator[Frame]:
        child, parent = visible(child), parent or self._session
        if child in self._active:
            return
        frame: Frame = {
            "type": "SUBAGENT_STARTED",
            "subagentRunId": child,
            "name": name or "agent",
            "parentToolCallId": parent.call_id(call_id),
        }
        if description:
            frame["description"] = description
        if parent.child:
            frame["parentSubagentRunId"] = parent.child
        self._active[child] = frame
        yield frame

    def _subagent_ended(self, event: e.SubagentEnd) -> Iterable[Frame]:
        child = visible(event.child)
        if child in self._active:
            del self._active[child]
            if event.is_error:
                yield {"type": "SUBAGENT_ERROR", "subagentRunId": child, "message": event.text}
            else:
                outcome: Json = {"type": "success"}
                yield {
                    "type": "SUBAGENT_FINISHED",
                    "subagentRunId": child,
                    "result": event.text,
                    "outcome": outcome,
                }

    def _subagent(self, change: OfSubagent, envelope: e.Envelope) -> Iterable[Frame]:
        if not change.child:  # its start was not heard, and so neither was that of the call
            return
        agent, message_id = AgentFrames(visible(change.child)), f"m{envelope.seq}"
        match change.change:
            case ResponseEnded(message=message, thoughts=thoughts):
                yield from agent.thoughts(thoughts, message_id)
                if message.text:
                    yield from agent.whole_text(message_id, "assistant", message.text)
            case CallChanged() as call:
                yield from _call_frames(agent, call, message_id)
            case CallEnded() as end:
                yield from _result_frames(agent, end)
            case e.SubagentStart(call_id=call_id, child=child, description=about, agent=name):
                yield from self._open_subagent(child, name, call_id, about, agent)
            case e.SubagentEnd() as event:
                yield from self._subagent_ended(event)
            case OfSubagent() as inner:
                yield from self._subagent(inner, envelope)
            case _:
                pass


def _call_frames(agent: AgentFrames, change: CallChanged, message_id: str) -> Iterable[Frame]:
    """Return the frames that announce a call; none if it was announced, or was not heard of before its end."""
    if not change.is_new or change.call.args is None:
        return ()
    return agent.call(change.call, message_id if change.call.state == "asked" else "")


def _result_frames(agent: AgentFrames, change: CallEnded) -> Iterable[Frame]:
    """Return the frame with the result of a call; none if it is not known, or comes too late."""
    call, content = change.call, change.content
    return () if content is None or call.args is None else (agent.result(call.call_id, content),)


def _error(code: str, message: str) -> Frame:
    return {"type": "RUN_ERROR", "message": message, "code": code}


def _usage(usage: Usage) -> Json:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cached_tokens,
        "cacheWriteInputTokens": usage.cache_write_tokens,
    }


# Interrupts: a call that is held again is another one, so that an answer is about the arguments that were shown


def _session_of(call: HeldCall) -> str:
    """Return the id of the session that makes *call*; its approval id begins with it."""
    return call.id.rpartition(":")[0]


def interrupt_id(call: HeldCall) -> str:
    """Return the id of the interrupt for a held call, which is that of its approval or question."""
    return visible(call.id)


def shown_call_id(call: HeldCall) -> str:
    """Return the id of the call as clients see it."""
    return f"{visible(_session_of(call))}:{call.call_id}" if call.path else call.call_id


def interrupt(call: HeldCall) -> Json:
    """Return a call that waits for a person as an interrupt, with the form of the answer."""
    is_question = call.kind == "question"
    frame: Frame = {
        "id": interrupt_id(call),
        "reason": "input_required" if is_question else "tool_call",
        "message": call.hint,
        "toolCallId": shown_call_id(call),
        "responseSchema": _question_schema(call) if is_question else _approval_schema(call),
        "metadata": {"tool": call.tool, "args": call.args, **({} if is_question else {"digest": call.digest})},
    }
    if call.path:
        frame["subagentRunId"] = visible(_session_of(call))
    if call.expires_at is not None:
        frame["expiresAt"] = utc_time(call.expires_at).isoformat()
    return frame


def _question_schema(call: HeldCall) -> Json:
    answer: Frame = {"type": "string", "minLength": 1}
    if call.options:
        answer["enum"] = [*call.options]
    return {"type": "object", "properties": {"answer": answer}, "required": ["answer"]}


def _approval_schema(call: HeldCall) -> Json:
    properties: Frame = {
        "approved": {"type": "boolean"},
        "reason": {"type": "string"},
        "editedArgs": {"type": "object"},
    }
    if call.family is not None:
        properties["always"] = {"type": "boolean", "description": f"let all of {call.family} pass"}
    return {"type": "object", "properties": properties, "required": ["approved"]}
