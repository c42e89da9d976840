"""Decodes a streamed answer of the Messages API event by event."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, final

from attrs import define, field

from agentrail.adapters.models.anthropic.faults import FAULTS
from agentrail.adapters.models.anthropic.requests import REDACTED
from agentrail.adapters.models.provider_errors import Faults, error_of
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
    "pause_turn": StopReason.LENGTH,  # the provider paused a long answer that uses its own tools; it is unfinished
    "refusal": StopReason.REFUSED,
}
"""Our stop reason for each `stop_reason` of the API. An unknown one counts as `StopReason.END`."""


@define
class Block:
    """One content block of the answer, filled while its events arrive."""

    kind: str
    """Type of the block in the API, such as `text` or `tool_use`."""
    id: str = ""
    """Id of the tool call, if the block is one."""
    name: str = ""
    """Name of the tool, if the block is a tool call."""
    written: list[str] = field(factory=list[str])
    """The pieces received so far: of the text, or of the JSON of a call's arguments."""
    given: str = ""
    """Arguments in the block's first event, as JSON; used if no pieces follow."""
    signature: str = ""
    """Signature of a thinking block. It goes back to the provider with the thinking in later requests."""
    open: bool = True
    """Whether more pieces may arrive; false after `content_block_stop`."""


@final
class MessageDecoder:
    """Decodes the events of one answer into chunks, and puts the whole `Response` together.

    *faults* are the errors of the place that sends the answer: a cloud has some of its own.
    """

    __slots__ = ("_at", "_blocks", "_counts", "_ended", "_faults", "_started", "_stop", "_takes")

    def __init__(self, faults: Faults = FAULTS) -> None:
        self._faults = faults
        self._blocks: list[Block] = []
        self._at: dict[int | str | None, Block] = {}
        self._counts: dict[str, int] = {}
        self._started = False
        self._ended = False
        self._stop = ""
        self._takes: Mapping[str, Callable[[Mapping[str, object]], Sequence[Chunk]]] = {
            "message_start": self._start,
            "content_block_start": self._block_start,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stop,
            "message_delta": self._delta,
            "message_stop": self._end,
            "error": self._error,
        }

    @property
    def complete(self) -> bool:
        """Whether `message_stop`, the last event of an answer, has arrived."""
        return self._ended

    def feed(self, event: ServerEvent) -> Sequence[Chunk]:
        """Take the next event and return its chunks. Unknown kinds of events are ignored, as the API demands."""
        fields = object_of(event.data)
        kind = text(fields, "type") or event.name or ("error" if "error" in fields else "")
        take = self._takes.get(kind)
        if take is None:
            return ()
        if not self._started and kind not in _ANYWHERE:
            problem = f"`{kind}` came before `message_start`"
            raise StreamGarbled(problem)
        return take(fields)

    def response(self) -> Response:
        """Return the whole answer; raise `StreamEndedEarly` if `message_stop` has not arrived."""
        if not self._ended:
            raise StreamEndedEarly("the last event was not `message_stop`" if self._started else "nothing came")
        calls = tuple(
            ToolCall("", block.name, arguments("".join(block.written) or block.given), block.id)
            for block in self._blocks
            if block.kind == "tool_use"
        )
        parts = tuple(part for block in self._blocks if (part := _part_of(block)) is not None)
        return Response(parts, calls, STOPS.get(self._stop, StopReason.END), self._usage())

    # One method per kind of event

    def _start(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        """Begin the answer, with its input tokens.

        The count of output tokens in this event is preliminary, so it is set to 0. Otherwise it would stand for the
        whole answer if no later event brought a count.
        """
        self._started = True
        return self._count({**sub(sub(fields, "message"), "usage"), "output_tokens": 0})

    def _block_start(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        begun = sub(fields, "content_block")
        block = Block(text(begun, "type"), text(begun, "id"), text(begun, "name"))
        if args := sub(begun, "input"):
            block.given = json.dumps(args)
        self._blocks.append(block)
        self._at[index_of(fields)] = block
        if block.kind == "redacted_thinking":
            block.signature = REDACTED + text(begun, "data")
        return self._more(block, text(begun, "text") or text(begun, "thinking"))

    def _block_delta(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        block = self._at.get(index_of(fields))
        if block is None or not block.open:
            problem = f"a piece came for the block {fields.get('index')!r}, which is not open"
            raise StreamGarbled(problem)
        delta = sub(fields, "delta")
        kind = text(delta, "type")
        if kind == "signature_delta":
            block.signature += text(delta, "signature")
            return ()
        field_name = _PIECES.get(kind)
        return () if field_name is None else self._more(block, text(delta, field_name))

    def _more(self, block: Block, piece: str) -> Sequence[Chunk]:
        if not piece:
            return ()
        block.written.append(piece)
        make = _CHUNKS.get(block.kind)
        return () if make is None else (make(piece),)

    def _block_stop(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        block = self._at.get(index_of(fields))
        if block is not None:
            block.open = False
        return ()

    def _delta(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        self._stop = text(sub(fields, "delta"), "stop_reason") or self._stop
        return self._count(sub(fields, "usage"))

    def _end(self, _: Mapping[str, object]) -> Sequence[Chunk]:
        self._ended = True
        return ()

    def _error(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        raise error_of(self._faults, fields)

    # Usage: each count is a running total, so a later one replaces it; later events may leave counts out

    def _count(self, usage: Mapping[str, object]) -> Sequence[Chunk]:
        details = sub(usage, "output_tokens_details")
        self._counts |= {name: count(usage, name) for name in _COUNTS if usage.get(name) is not None}
        self._counts |= {name: count(details, name) for name in _DETAILS if details.get(name) is not None}
        return (UsageChunk(self._usage()),)

    def _usage(self) -> Usage:
        counts = {name: self._counts.get(name, 0) for name in (*_COUNTS, *_DETAILS)}
        cached = counts["cache_read_input_tokens"]
        cache_write = counts["cache_creation_input_tokens"]
        input_tokens = counts["input_tokens"] + cache_write + cached
        return Usage(
            input_tokens, counts["output_tokens"], cached, counts["thinking_tokens"], cache_write_tokens=cache_write
        )


def _part_of(block: Block) -> Said | None:
    content = "".join(block.written)
    match block.kind:
        case "text":
            return Text(content) if content else None
        case "thinking":
            return Thinking(content, block.signature or None)
        case "redacted_thinking":
            return Thinking("", block.signature)
        case _:
            return None


_ANYWHERE: Final = frozenset({"message_start", "content_block_stop", "error"})
"""Events that are accepted before `message_start`; all others of `_takes` raise `StreamGarbled` then."""

_COUNTS: Final = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")

_DETAILS: Final = ("thinking_tokens",)

_PIECES: Final[Mapping[str, str]] = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "input_json_delta": "partial_json",
}
"""The key that holds the new piece, for each kind of delta."""

_CHUNKS: Final[Mapping[str, Callable[[str], Chunk]]] = {
    "text": TextChunk,
    "thinking": ThinkingChunk,
    "tool_use": CallChunk,
}
