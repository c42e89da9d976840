"""`AgentFrames`: the calls of one agent, the session itself or a sub-agent, as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from agentrail.host.ag_ui.shown_messages import Frame, args_json, result_id, shown_content, thoughts_of
from agentrail.values.content import Part
from agentrail.values.json import JsonObject
from agentrail.values.messages import AssistantMessage, Message, ToolMessage

FindResult: TypeAlias = Callable[[str], Sequence[Part] | None]
"""Returns the result of a call of the session by its id; `None` if it has none."""


class AgentFrames:
    """Makes the frames of one agent's calls, and knows which of them have no result yet."""

    def __init__(self, child: str = "") -> None:
        """Begin without calls; *child* is the id of a sub-agent as clients see it, and empty for the session itself."""
        self.child = child
        self._announced: set[str] = set()
        self._unanswered: dict[str, tuple[str, JsonObject]] = {}

    def attributed(self, frame: Frame) -> Frame:
        """Return *frame* with the sub-agent that it is of; the frame itself if it is the session's."""
        return {**frame, "subagentRunId": self.child} if self.child else frame

    def call_id(self, call_id: str) -> str:
        """Return the id of a call as clients see it: ids of calls are unique within one session alone."""
        return f"{self.child}:{call_id}" if self.child else call_id

    # Calls

    def announce(self, call_id: str, name: str, args: JsonObject, message_id: str = "") -> Iterator[Frame]:
        """Yield the frames of a call, which is part of the message *message_id* if it has one; none if it had them."""
        if call_id in self._announced:
            return
        self._announced.add(call_id)
        self._unanswered[call_id] = name, args
        yield from self._call(call_id, name, args, message_id)

    def reopen(self) -> Iterator[Frame]:
        """Yield the frames of the calls that have no result yet, for a client that has no messages of this agent."""
        for call_id, (name, args) in self._unanswered.items():
            yield from self._call(call_id, name, args)

    def _call(self, call_id: str, name: str, args: JsonObject, message_id: str = "") -> Iterator[Frame]:
        shown_id = self.call_id(call_id)
        start: Frame = {"type": "TOOL_CALL_START", "toolCallId": shown_id, "toolCallName": name}
        if message_id:
            start["parentMessageId"] = message_id
        yield self.attributed(start)
        yield self.attributed({"type": "TOOL_CALL_ARGS", "toolCallId": shown_id, "delta": args_json(args)})
        yield self.attributed({"type": "TOOL_CALL_END", "toolCallId": shown_id})

    def answer(self, call_id: str, parts: Sequence[Part]) -> Iterator[Frame]:
        """Yield the frame with the result of a call; none if the call has its result."""
        if call_id not in self._unanswered:
            return
        del self._unanswered[call_id]
        shown_id = self.call_id(call_id)
        yield self.attributed(
            {
                "type": "TOOL_CALL_RESULT",
                "messageId": result_id(shown_id),
                "toolCallId": shown_id,
                "content": shown_content(parts),
            }
        )

    def answer_all(self, find_result: FindResult) -> Iterator[Frame]:
        """Yield the results of calls that no event has told of, such as those that a plugin has blocked."""
        for call_id in [*self._unanswered]:
            parts = find_result(call_id)
            if parts is not None:
                yield from self.answer(call_id, parts)

    def answer_from(self, messages: Iterable[Message]) -> Iterator[Frame]:
        """Yield the results in *messages* that no event has told of."""
        for message in messages:
            if isinstance(message, ToolMessage):
                yield from self.answer(message.call_id, message.parts)

    def is_open(self, call_id: str) -> bool:
        """Whether a call has frames, and none with its result yet."""
        return call_id in self._unanswered

    def forget_all(self) -> None:
        """Note that the turn is over: what has no result now gets none."""
        self._unanswered.clear()

    # Whole responses

    def response(self, message: AssistantMessage, message_id: str) -> Iterator[Frame]:
        """Yield the frames of a response that was not streamed."""
        yield from self.thoughts(message, message_id)
        if message.text:
            yield from self.whole_text(message_id, "assistant", message.text)
        for call in message.calls:
            yield from self.announce(call.call_id, call.name, call.args, message_id)

    def thoughts(self, message: AssistantMessage, message_id: str) -> Iterator[Frame]:
        """Yield the frames of the thoughts in a response; none if there are none."""
        thoughts = thoughts_of(message)
        if thoughts:
            yield from self._whole("r", f"{message_id}.r", thoughts)

    def whole_text(self, message_id: str, role: str, text: str) -> Iterator[Frame]:
        """Yield the frames of a message that is complete."""
        yield from self._whole("t", message_id, text, role)

    def _whole(self, kind: str, message_id: str, text: str, role: str = "assistant") -> Iterator[Frame]:
        yield self.start(kind, message_id, role)
        if text:
            yield self.content(kind, message_id, text)
        yield self.end(kind, message_id)

    # A message in pieces; *kind* is `t` for a text and `r` for thoughts

    def start(self, kind: str, message_id: str, role: str = "assistant") -> Frame:
        """Return the frame that opens a message."""
        name = "REASONING_MESSAGE_START" if kind == "r" else "TEXT_MESSAGE_START"
        role = "reasoning" if kind == "r" else role
        return self.attributed({"type": name, "messageId": message_id, "role": role})

    def content(self, kind: str, message_id: str, delta: str) -> Frame:
        """Return the frame that adds *delta* to an open message."""
        name = "REASONING_MESSAGE_CONTENT" if kind == "r" else "TEXT_MESSAGE_CONTENT"
        return self.attributed({"type": name, "messageId": message_id, "delta": delta})

    def end(self, kind: str, message_id: str) -> Frame:
        """Return the frame that closes a message."""
        name = "REASONING_MESSAGE_END" if kind == "r" else "TEXT_MESSAGE_END"
        return self.attributed({"type": name, "messageId": message_id})
