"""Decodes a streamed answer of the Converse API event by event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, final

from attrs import define, field

from agentrail.adapters.models.anthropic.requests import REDACTED
from agentrail.adapters.models.bedrock.faults import FAULTS
from agentrail.adapters.models.bedrock.frame_reader import EXCEPTION
from agentrail.adapters.models.provider_errors import error_of
from agentrail.adapters.models.sse import ServerEvent
from agentrail.adapters.models.wire_format import arguments, count, index_of, object_of, sub, text
from agentrail.errors import StreamEndedEarly, StreamGarbled
from agentrail.values.content import Said, Text, Thinking, ToolCall
from agentrail.values.messages import StopReason
from agentrail.values.stream import CallChunk, Chunk, Response, TextChunk, ThinkingChunk, UsageChunk
from agentrail.values.usage import Usage

STOPS: Final[Mapping[str, StopReason]] = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "guardrail_intervened": StopReason.REFUSED,
    "content_filtered": StopReason.REFUSED,
}
"""Our stop reason for each `stopReason` of the API. An unknown one counts as `StopReason.END`."""

BROKEN: Final = frozenset({"malformed_model_output", "malformed_tool_use"})
"""Values of `stopReason` after which there is no usable answer; the next one may be well formed."""

INDEX: Final = "contentBlockIndex"


@define
class ConverseBlock:
    """One content block of the answer, filled while its events arrive."""

    tool_use_id: str = ""
    """Id of the tool call, if the block is one."""
    name: str = ""
    """Name of the tool, if the block is a tool call."""
    text: list[str] = field(factory=list[str])
    """The pieces of the text, of the thought, or of the JSON of a call's arguments."""
    is_call: bool = False
    is_thought: bool = False
    signature: str = ""
    """Signature of a thought. It goes back to the provider with the thought in later requests."""


@final
class ConverseDecoder:
    """Decodes the events of one answer into chunks, and puts the whole `Response` together.

    The usage comes after the reason of the stop, in the last event.
    """

    __slots__ = ("_blocks", "_complete", "_stop", "_usage")

    def __init__(self) -> None:
        self._blocks: dict[int | str | None, ConverseBlock] = {}
        self._stop: str | None = None
        self._usage = Usage()
        self._complete = False

    @property
    def complete(self) -> bool:
        """Whether `metadata`, the last event of an answer, has arrived."""
        return self._complete

    def feed(self, event: ServerEvent) -> Sequence[Chunk]:
        """Take the next event and return its chunks. Unknown kinds of events are ignored."""
        match event.name:
            case "contentBlockStart":
                return self._start(object_of(event.data))
            case "contentBlockDelta":
                return self._delta(object_of(event.data))
            case "messageStop":
                self._end(text(object_of(event.data), "stopReason"))
            case "metadata":
                return self._metadata(sub(object_of(event.data), "usage"))
            case name if name == EXCEPTION:
                raise error_of(FAULTS, object_of(event.data))
            case _:
                pass
        return ()

    def _start(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        start = sub(fields, "start")
        if isinstance(start.get("toolUse"), Mapping):
            call = sub(start, "toolUse")
            self._blocks[index_of(fields, INDEX)] = ConverseBlock(
                text(call, "toolUseId"), text(call, "name"), is_call=True
            )
        return ()

    def _delta(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        delta = sub(fields, "delta")
        block = self._blocks.setdefault(index_of(fields, INDEX), ConverseBlock())
        if isinstance(delta.get("toolUse"), Mapping):
            if not block.is_call:
                problem = f"a piece of a call came for the block {fields.get(INDEX)!r}, which is none"
                raise StreamGarbled(problem)
            return _chunk(block, CallChunk, text(sub(delta, "toolUse"), "input"))
        if isinstance(delta.get("reasoningContent"), Mapping):
            thought = sub(delta, "reasoningContent")
            block.is_thought = True
            block.signature += text(thought, "signature")
            if redacted := text(thought, "redactedContent"):
                block.signature = (block.signature or REDACTED) + redacted
            return _chunk(block, ThinkingChunk, text(thought, "text"))
        return _chunk(block, TextChunk, text(delta, "text"))

    def _end(self, reason: str) -> None:
        if reason in BROKEN:
            problem = f"the model stopped by `{reason}`"
            raise StreamGarbled(problem)
        self._stop = reason

    def _metadata(self, usage: Mapping[str, object]) -> Sequence[Chunk]:
        cached, cache_write = count(usage, "cacheReadInputTokens"), count(usage, "cacheWriteInputTokens")
        input_tokens = count(usage, "inputTokens") + cached + cache_write
        self._usage = Usage(input_tokens, count(usage, "outputTokens"), cached, cache_write_tokens=cache_write)
        self._complete = self._stop is not None
        return (UsageChunk(self._usage),)

    def response(self) -> Response:
        """Return the whole answer; raise `StreamEndedEarly` if `messageStop` has not arrived."""
        if self._stop is None:
            raise StreamEndedEarly("no `messageStop` came")
        blocks = self._blocks.values()
        calls = tuple(
            ToolCall("", block.name, arguments("".join(block.text)), block.tool_use_id)
            for block in blocks
            if block.is_call
        )
        parts = tuple(part for block in blocks if (part := _part_of(block)) is not None)
        return Response(parts, calls, STOPS.get(self._stop, StopReason.END), self._usage)


def _chunk(
    block: ConverseBlock, kind: type[TextChunk | ThinkingChunk | CallChunk], piece: str
) -> Sequence[TextChunk | ThinkingChunk | CallChunk]:
    if not piece:
        return ()
    block.text.append(piece)
    return (kind(piece),)


def _part_of(block: ConverseBlock) -> Said | None:
    content = "".join(block.text)
    if block.is_thought:
        return Thinking(content, block.signature or None)
    return Text(content) if content and not block.is_call else None
