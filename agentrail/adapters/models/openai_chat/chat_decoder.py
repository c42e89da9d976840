"""Decodes a streamed answer of chat completions, also where servers other than OpenAI's deviate from the format."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast, final

from attrs import define, field

from agentrail.adapters.models.openai.faults import IN_STREAM
from agentrail.adapters.models.openai_chat.requests import DETAILS, FIELDS
from agentrail.adapters.models.provider_errors import error_of
from agentrail.adapters.models.sse import ServerEvent
from agentrail.adapters.models.wire_format import arguments, count, index_of, object_of, sub, text
from agentrail.errors import NotJson, StreamEndedEarly
from agentrail.values.content import Said, Text, Thinking, ToolCall
from agentrail.values.json import canonical, freeze
from agentrail.values.messages import StopReason
from agentrail.values.stream import CallChunk, Chunk, Response, TextChunk, ThinkingChunk, UsageChunk
from agentrail.values.untrusted_values import as_usd
from agentrail.values.usage import NOTHING_USED, Usage

DONE: Final = "[DONE]"
"""The data of the last event; some servers do not send it."""

STOPS: Final[Mapping[str, StopReason]] = {
    "length": StopReason.LENGTH,
    "max_tokens": StopReason.LENGTH,
    "model_length": StopReason.LENGTH,  # Mistral
    "content_filter": StopReason.REFUSED,
}
"""Our stop reason for each `finish_reason`. Any other one means calls if the answer has calls, else a normal end."""

BROKEN: Final = ("error", "abort", "insufficient_system_resource")
"""Values of `finish_reason` that report a failure, of OpenRouter, vLLM and DeepSeek."""


@define
class ChatCall:
    """One tool call of the answer, filled while its pieces arrive."""

    id: str = ""
    """Id of the call."""
    name: str = ""
    """Name of the tool."""
    written: list[str] = field(factory=list[str])
    """The pieces of the JSON of the call's arguments received so far."""


@final
class ChatDecoder:
    """Decodes the events of one answer into chunks, and puts the whole `Response` together."""

    __slots__ = (
        "_begun",
        "_calls",
        "_calls_by_index",
        "_details",
        "_ended",
        "_field",
        "_finish",
        "_refused",
        "_said",
        "_thought",
        "_usage",
    )

    def __init__(self) -> None:
        self._begun = False
        self._ended = False
        self._finish = ""
        self._refused = False
        self._said: list[str] = []
        self._thought: list[str] = []
        self._field = ""
        self._details: dict[tuple[str, int | str | None], dict[str, object]] = {}
        self._calls: list[ChatCall] = []
        self._calls_by_index: dict[int | str | None, ChatCall] = {}
        self._usage = NOTHING_USED

    @property
    def complete(self) -> bool:
        """Whether `[DONE]` has arrived; many servers end the stream without it."""
        return self._ended

    def feed(self, event: ServerEvent) -> Sequence[Chunk]:
        """Take the next event and return its chunks; raise a `ModelError` if it reports an error."""
        data = event.data.strip()
        if data in {"", DONE}:
            self._ended = data == DONE and self._begun
            return ()
        fields = object_of(data)
        if fields.get("error") or event.name == "error" or text(fields, "object") == "error":
            raise error_of(IN_STREAM, fields)
        self._begun = True
        chunks: list[Chunk] = []
        for choice in _objects(fields.get("choices")):
            chunks += self._take(choice)
        return (*chunks, *self._count(fields))

    def response(self) -> Response:
        """Return the whole answer; raise `StreamEndedEarly` if neither a `finish_reason` nor `[DONE]` has arrived."""
        if not self._ended and not self._finish:
            raise StreamEndedEarly("neither a reason for the end nor `[DONE]` came" if self._begun else "nothing came")
        calls = tuple(ToolCall("", call.name, arguments("".join(call.written)), call.id) for call in self._calls)
        usual = StopReason.TOOL_CALLS if calls else StopReason.END
        stop = StopReason.REFUSED if self._refused else STOPS.get(self._finish, usual)
        return Response(tuple(self._parts()), calls, stop, self._usage)

    def _parts(self) -> Iterable[Said]:
        thought = "".join(self._thought)
        seal = self._seal()
        if thought or seal is not None:
            yield Thinking(thought, seal)
        if self._said:
            yield Text("".join(self._said))

    def _seal(self) -> str | None:
        if not self._details:
            return self._field or None
        try:
            return f"{DETAILS}:{canonical(freeze(list(self._details.values())))}"
        except NotJson:
            return None

    # One method for each part of a piece

    def _take(self, choice: Mapping[str, object]) -> Sequence[Chunk]:
        """Take a piece of the answer. Servers that do not stream send the whole answer under `message`."""
        delta = sub(choice, "delta") or sub(choice, "message")
        self._gather(delta.get(DETAILS))
        chunks = [*self._think(delta), *self._speak(delta)]
        for piece in _objects(delta.get("tool_calls")):
            chunks += self._ask(piece)
        finish = text(choice, "finish_reason")
        if finish in BROKEN:
            raise error_of(IN_STREAM, {"code": finish, "message": "the answer was broken off"})
        self._finish = finish or self._finish
        return chunks

    def _think(self, delta: Mapping[str, object]) -> Iterable[Chunk]:
        for name in FIELDS:
            if piece := text(delta, name):
                self._field = name
                yield from _more(self._thought, piece, ThinkingChunk)
                return

    def _speak(self, delta: Mapping[str, object]) -> Iterable[Chunk]:
        if refusal := text(delta, "refusal"):
            self._refused = True
            yield from _more(self._said, refusal, TextChunk)
        yield from _more(self._said, text(delta, "content"), TextChunk)
        for part in _objects(delta.get("content")):  # Mistral sends a list of parts if the model thinks
            if text(part, "type") == "thinking":
                inner = "".join(text(piece, "text") for piece in _objects(part.get("thinking")))
                yield from _more(self._thought, inner, ThinkingChunk)
            else:
                yield from _more(self._said, text(part, "text"), TextChunk)

    def _gather(self, details: object) -> None:
        """Join the pieces of `reasoning_details` (see `DETAILS`); pieces with the same type and index are one item."""
        for piece in _objects(details):
            detail = self._details.setdefault((text(piece, "type"), index_of(piece)), {})
            for key, item in piece.items():
                if key in _GROWING and isinstance(item, str):
                    detail[key] = text(detail, key) + item
                elif item is not None:
                    detail[key] = item

    def _ask(self, piece: Mapping[str, object]) -> Iterable[Chunk]:
        call = self._call(piece)
        function = sub(piece, "function")
        call.id = call.id or text(piece, "id")
        call.name = call.name or text(function, "name")
        args = function.get("arguments")
        args_text = json.dumps(args) if isinstance(args, Mapping) else text(function, "arguments")
        return _more(call.written, args_text, CallChunk)

    def _call(self, piece: Mapping[str, object]) -> ChatCall:
        """Return the call that *piece* belongs to. A different id or name begins a new call, even at the same index."""
        call_id, index = text(piece, "id"), index_of(piece)
        name = text(sub(piece, "function"), "name")
        if isinstance(index, int):
            call = self._calls_by_index.get(index)
        elif call_id:
            call = next((call for call in self._calls if call.id == call_id), None)
        else:
            call = None if name or not self._calls else self._calls[-1]
        if call is None or _is_other(call_id, call.id) or _is_other(name, call.name):
            call = ChatCall()
            self._calls.append(call)
            self._calls_by_index[index] = call
        return call

    # Usage may come with each piece, after the last one, or never

    def _count(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        usage = sub(fields, "usage") or sub(sub(fields, "x_groq"), "usage")
        if not usage:
            return ()
        self._usage = _larger_usage(self._usage, _usage(usage))
        return (UsageChunk(self._usage),)


def _is_other(new: str, old: str) -> bool:
    return bool(new and old) and new != old


def _more(pieces: list[str], piece: str, make: Callable[[str], Chunk]) -> Sequence[Chunk]:
    if not piece:
        return ()
    pieces.append(piece)
    return (make(piece),)


def _objects(value: object) -> Iterable[Mapping[str, object]]:
    listed = cast("list[object]", value) if isinstance(value, list) else []
    return (cast("Mapping[str, object]", item) for item in listed if isinstance(item, Mapping))


def _usage(fields: Mapping[str, object]) -> Usage:
    input_tokens, output_tokens = count(fields, "prompt_tokens"), count(fields, "completion_tokens")
    details = sub(fields, "prompt_tokens_details")
    cached = count(details, "cached_tokens") or count(fields, "prompt_cache_hit_tokens")
    cache_write = count(details, "cache_write_tokens")
    reasoning = count(sub(fields, "completion_tokens_details"), "reasoning_tokens")
    output_tokens = max(
        output_tokens, count(fields, "total_tokens") - input_tokens
    )  # xAI counts reasoning only in the total
    cost = as_usd(fields.get("cost"))  # OpenRouter reports the cost itself
    return Usage(input_tokens, output_tokens, cached, reasoning, cost, cache_write_tokens=cache_write)


def _larger_usage(old: Usage, new: Usage) -> Usage:
    return Usage(
        max(old.input_tokens, new.input_tokens),
        max(old.output_tokens, new.output_tokens),
        max(old.cached_tokens, new.cached_tokens),
        max(old.reasoning_tokens, new.reasoning_tokens),
        old.cost_usd if new.cost_usd is None else new.cost_usd,
        cache_write_tokens=max(old.cache_write_tokens, new.cache_write_tokens),
    )


_GROWING: Final = frozenset({"text", "summary", "data"})
