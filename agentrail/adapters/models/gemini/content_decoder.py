"""Decodes a streamed answer of the Gemini API; each event holds the next parts of the content."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final, cast, final

from agentrail.adapters.models.gemini import thought_signatures
from agentrail.adapters.models.gemini.faults import FAULTS
from agentrail.adapters.models.provider_errors import error_of
from agentrail.adapters.models.sse import ServerEvent
from agentrail.adapters.models.wire_format import arguments, count, object_of, sub, text
from agentrail.errors import AccessDenied, ModelError, RequestRefused, StreamEndedEarly, StreamGarbled
from agentrail.values.content import Said, Text, Thinking, ToolCall
from agentrail.values.messages import StopReason
from agentrail.values.stream import CallChunk, Chunk, Response, TextChunk, ThinkingChunk, UsageChunk
from agentrail.values.usage import NOTHING_USED, Usage

STOPS: Final[Mapping[str, StopReason]] = {
    "STOP": StopReason.END,
    "MAX_TOKENS": StopReason.LENGTH,
    "CONTINUATION": StopReason.LENGTH,
    "TOO_MANY_TOOL_CALLS": StopReason.LENGTH,  # calls of the provider's own tools; the answer is unfinished
    "SAFETY": StopReason.REFUSED,
    "RECITATION": StopReason.REFUSED,
    "LANGUAGE": StopReason.REFUSED,
    "BLOCKLIST": StopReason.REFUSED,
    "PROHIBITED_CONTENT": StopReason.REFUSED,
    "SPII": StopReason.REFUSED,
    "MODEL_ARMOR": StopReason.REFUSED,
    "ESCALATION": StopReason.REFUSED,
    "IMAGE_SAFETY": StopReason.REFUSED,
    "IMAGE_PROHIBITED_CONTENT": StopReason.REFUSED,
    "IMAGE_RECITATION": StopReason.REFUSED,
}
"""Our stop reason for each `finishReason` of the API. An unknown one counts as `StopReason.END`."""

BROKEN: Final[Mapping[str, type[ModelError]]] = {
    "MALFORMED_FUNCTION_CALL": StreamGarbled,
    "MALFORMED_RESPONSE": StreamGarbled,
    "UNEXPECTED_TOOL_CALL": StreamGarbled,
    "MISSING_THOUGHT_SIGNATURE": RequestRefused,
    "PUP_LIMITED_DISABLED": AccessDenied,  # the account is limited, because its policy was violated
}
"""The exception for each `finishReason` that means that there is no usable answer.

A fault of the model is `StreamGarbled`, which is tried again, because the next answer may be well formed.
"""

_COUNTS: Final = (
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "cachedContentTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
)


@final
class ContentDecoder:
    """Decodes the events of one answer into chunks, and puts the whole `Response` together."""

    __slots__ = ("_calls", "_counts", "_parts", "_seals", "_stop", "_thinks", "_usage", "_written")

    def __init__(self) -> None:
        self._parts: list[Said] = []
        self._written: list[str] = []
        self._thinks = False
        self._calls: list[ToolCall] = []
        self._seals: list[Thinking] = []
        self._stop: StopReason | None = None
        self._counts = dict.fromkeys(_COUNTS, 0)
        self._usage = NOTHING_USED

    @property
    def complete(self) -> bool:
        """Always false: no event marks the end of an answer; the server closes the stream."""
        return False

    def response(self) -> Response:
        """Return the whole answer; raise `StreamEndedEarly` if no event said why the model stopped."""
        if self._stop is None:
            problem = "no event says why the model stopped"
            raise StreamEndedEarly(problem)
        self._close()
        stop = StopReason.TOOL_CALLS if self._calls and self._stop is StopReason.END else self._stop
        return Response((*self._parts, *self._seals), tuple(self._calls), stop, self._usage)

    def feed(self, event: ServerEvent) -> Sequence[Chunk]:
        """Take the next event and return its chunks; raise a `ModelError` if it reports an error."""
        fields = object_of(event.data)
        if "error" in fields:
            raise error_of(FAULTS, fields)
        chunks: list[Chunk] = []
        candidate = _first(fields)
        for part in _objects(sub(candidate, "content"), "parts"):
            chunks += self._part(part)
        chunks += self._count(sub(fields, "usageMetadata"))
        if text(sub(fields, "promptFeedback"), "blockReason"):
            self._stop = StopReason.REFUSED
        self._end(candidate)
        return chunks

    def _end(self, candidate: Mapping[str, object]) -> None:
        reason = text(candidate, "finishReason")
        broken = BROKEN.get(reason)
        if broken is not None:
            message = text(candidate, "finishMessage")
            raise broken(f"{reason}: {message}" if message else reason)
        if reason:
            self._stop = STOPS.get(reason, StopReason.END)

    # Parts: pieces of one kind (text or thinking) that follow each other are one part; a signed piece ends it

    def _part(self, part: Mapping[str, object]) -> Sequence[Chunk]:
        signature = text(part, "thoughtSignature")
        if "functionCall" in part:
            return self._call(sub(part, "functionCall"), signature)
        piece, thinks = text(part, "text"), part.get("thought") is True
        if thinks is not self._thinks:
            self._close()
            self._thinks = thinks
        if signature and piece.strip() and not thinks:
            self._close()
        if piece:
            self._written.append(piece)
        if signature:
            self._sign(piece, signature)
        if not piece:
            return ()
        return (ThinkingChunk(piece),) if thinks else (TextChunk(piece),)

    def _sign(self, piece: str, signature: str) -> None:
        if self._thinks:
            self._close(signature)
        else:
            self._close()
            self._parts.append(
                thought_signatures.seal(
                    thought_signatures.TEXT if piece.strip() else thought_signatures.ALONE, signature
                )
            )

    def _close(self, signature: str = "") -> None:
        """Add the part whose pieces were collected to the answer; *signature* is the provider's, if it is a thought."""
        content = "".join(self._written)
        self._written.clear()
        if self._thinks and (content or signature):
            self._parts.append(thought_signatures.thought(content, signature))
        elif content:
            self._parts.append(Text(content))

    def _call(self, call: Mapping[str, object], signature: str) -> Sequence[Chunk]:
        args = json.dumps(call["args"], ensure_ascii=False) if call.get("args") is not None else ""
        if signature:
            self._seals.append(thought_signatures.seal_of_call(len(self._calls), signature))
        self._calls.append(ToolCall("", text(call, "name"), arguments(args), text(call, "id")))
        return (CallChunk(args),)

    # Usage: counts are running totals, and events may leave some out

    def _count(self, usage: Mapping[str, object]) -> Sequence[Chunk]:
        counts = self._counts
        for name in _COUNTS:
            counts[name] = max(counts[name], count(usage, name))
        input_tokens = counts["promptTokenCount"] + counts["toolUsePromptTokenCount"]
        thoughts = counts["thoughtsTokenCount"]
        output_tokens = counts["candidatesTokenCount"] + thoughts
        counted = Usage(input_tokens, output_tokens, counts["cachedContentTokenCount"], thoughts)
        if counted == self._usage:
            return ()
        self._usage = counted
        return (UsageChunk(counted),)


def _first(fields: Mapping[str, object]) -> Mapping[str, object]:
    """Return the first candidate, or an empty one; only one is asked for."""
    candidates = _objects(fields, "candidates")
    return candidates[0] if candidates else {}


def _objects(fields: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    items = fields.get(key)
    if not isinstance(items, list):
        return []
    return [cast("Mapping[str, object]", item) for item in cast("list[object]", items) if isinstance(item, Mapping)]
