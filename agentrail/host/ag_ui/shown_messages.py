"""The conversation of a session as messages of AG-UI: what people and the model have said, and what tools returned.

`AgentFrames`: the messages and calls of one agent, the session itself or a sub-agent, as frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from agentrail.api.transcript import ShownCall, thoughts_in
from agentrail.api.views import to_json
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import Call
from agentrail.values.content import File, Image, Part, ToolCall, text_of
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.messages import AssistantMessage, Message, Origin, ToolMessage, UserMessage

Frame: TypeAlias = dict[str, Json]
"""One event of AG-UI, or a part of one, such as a message."""

OF_PEOPLE: Final = (Origin.PROMPT, Origin.STEERING)
"""Origins of the user messages that are shown; the others are words of plugins and of the session for the model."""


def shown_messages(state: State, waiting_content: Json = None) -> list[Frame]:
    """Return the conversation of *state*, with the results of those calls of the open turn that have one.

    *waiting_content* is the content of a message that waits for its turn.

    A client keeps the order of messages that it has, and adds others at the end. So the id of a message is its place,
    and never one that a client or a stream has made: then it replaces all that it has, but for what is the same.
    """
    messages = [item for index, message in enumerate(state.history) for item in _messages_of(message, index)]
    index = len(state.history)
    for call in () if state.batch is None else state.batch.calls:
        parts = _answer(call)
        if parts is not None:
            messages.append(_tool_message(index, call.call_id, parts))
            index += 1
    if waiting_content is not None:
        messages.append({"id": f"h{index}", "role": "user", "content": waiting_content})
    return messages


def result_of(state: State, call_id: str) -> Sequence[Part] | None:
    """Return the result of a call in *state*; `None` if it has none, or has left the conversation."""
    call = None if state.batch is None else state.batch.calls.find(call_id)
    if call is not None:
        return _answer(call)
    for message in reversed(state.history):
        if isinstance(message, ToolMessage) and message.call_id == call_id:
            return message.parts
    return None


def _answer(call: Call) -> Sequence[Part] | None:
    """Return the result of a call of the open turn, or what its tool has returned; `None` if there is nothing yet."""
    if call.result is not None:
        return call.result.parts
    return None if call.answer is None else call.answer.content


def _messages_of(message: Message, index: int) -> Iterator[Frame]:
    if isinstance(message, ToolMessage):
        yield _tool_message(index, message.call_id, message.parts)
    elif isinstance(message, UserMessage):
        if message.origin in OF_PEOPLE:
            yield {"id": f"h{index}", "role": "user", "content": shown_content(message.parts)}
    else:
        yield from _response(message, index)


def _response(message: AssistantMessage, index: int) -> Iterator[Frame]:
    thoughts = thoughts_in(message)
    if thoughts:
        yield {"id": f"h{index}.r", "role": "reasoning", "content": thoughts}
    response: Frame = {"id": f"h{index}", "role": "assistant", "content": message.text}
    if message.calls:
        response["toolCalls"] = [_tool_call(call) for call in message.calls]
    yield response


def _tool_call(call: ToolCall) -> Json:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": args_json(call.args)}}


def args_json(args: JsonObject) -> str:
    """Return the arguments of a call as JSON text."""
    return to_json(args).decode()


def _tool_message(index: int, call_id: str, parts: Sequence[Part]) -> Frame:
    return {"id": f"h{index}", "role": "tool", "toolCallId": call_id, "content": shown_content(parts)}


def result_id(call_id: str) -> str:
    """Return the id of the message with the result of a call."""
    return f"r.{call_id}"


def shown_content(parts: Sequence[Part]) -> Json:
    """Return the content of a message: a text, or a list of parts if there is an image or a file among them."""
    if not any(isinstance(part, Image | File) for part in parts):
        return text_of(parts)
    return [_shown_part(part) for part in parts]


def _shown_part(part: Part) -> Json:
    if isinstance(part, Image):
        return {"type": "image", "source": {"type": "data", "value": part.data, "mimeType": part.media_type}}
    if isinstance(part, File) and part.provider:
        return {"type": "text", "text": f"[{part.name or part.media_type}]"}  # its id at the provider is the host's
    if isinstance(part, File):
        kind = "image" if part.media_type.startswith("image/") else "document"
        if part.data:
            return {"type": kind, "source": {"type": "data", "value": part.data, "mimeType": part.media_type}}
        return {"type": kind, "source": {"type": "url", "value": part.reference, "mimeType": part.media_type}}
    return {"type": "text", "text": text_of((part,))}


class AgentFrames:
    """Makes the frames of one agent."""

    def __init__(self, child: str = "") -> None:
        """Begin; *child* is the id of a sub-agent as clients see it, and empty for the session itself."""
        self.child = child

    def attributed(self, frame: Frame) -> Frame:
        """Return *frame* with the sub-agent that it is of; the frame itself if it is the session's."""
        return {**frame, "subagentRunId": self.child} if self.child else frame

    def call_id(self, call_id: str) -> str:
        """Return the id of a call as clients see it: ids of calls are unique within one session alone."""
        return f"{self.child}:{call_id}" if self.child else call_id

    # Calls

    def call(self, call: ShownCall, message_id: str = "") -> Iterator[Frame]:
        """Yield the frames that announce a call, which is part of the message *message_id* if it has one."""
        shown_id = self.call_id(call.call_id)
        start: Frame = {"type": "TOOL_CALL_START", "toolCallId": shown_id, "toolCallName": call.name}
        if message_id:
            start["parentMessageId"] = message_id
        yield self.attributed(start)
        args = args_json(EMPTY if call.args is None else call.args)
        yield self.attributed({"type": "TOOL_CALL_ARGS", "toolCallId": shown_id, "delta": args})
        yield self.attributed({"type": "TOOL_CALL_END", "toolCallId": shown_id})

    def result(self, call_id: str, parts: Sequence[Part]) -> Frame:
        """Return the frame with the result of a call."""
        shown_id = self.call_id(call_id)
        return self.attributed(
            {
                "type": "TOOL_CALL_RESULT",
                "messageId": result_id(shown_id),
                "toolCallId": shown_id,
                "content": shown_content(parts),
            }
        )

    # Whole messages

    def thoughts(self, thoughts: str, message_id: str) -> Iterator[Frame]:
        """Yield the frames of the thoughts in the response *message_id*; none if there are none."""
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
