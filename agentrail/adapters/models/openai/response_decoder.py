"""Decodes a streamed answer of the Responses API event by event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, cast, final

from attrs import define, field

from agentrail.adapters.models.openai.faults import IN_STREAM
from agentrail.adapters.models.openai.requests import PHASE, SEAL, SEARCHED, WEB_SEARCH, WEB_SEARCH_FIELDS
from agentrail.adapters.models.provider_errors import error_of
from agentrail.adapters.models.sse import ServerEvent
from agentrail.adapters.models.wire_format import arguments, count, index_of, object_of, sub, text
from agentrail.core.tools_on_demand import FINDER
from agentrail.errors import ModelError, StreamEndedEarly
from agentrail.values.content import Said, Text, Thinking, ToolCall
from agentrail.values.messages import StopReason
from agentrail.values.stream import CallChunk, Chunk, Response, TextChunk, ThinkingChunk, UsageChunk
from agentrail.values.usage import NOTHING_USED, Usage

SEARCH: Final = "tool_search_call"
"""Type of an item that calls the tool by which others are found, in the provider's own form."""

CALLS: Final = ("function_call", SEARCH)

BETWEEN: Final = "\n\n"
"""The text between the parts of a summary of the model's reasoning."""


@define
class OutputItem:
    """One output item of the answer, filled while its events arrive."""

    kind: str
    """Type of the item in the API: `message`, `reasoning`, `function_call` or another."""
    id: str = ""
    """Id of the item; for a tool call the `call_id`, under which its result is sent."""
    name: str = ""
    """Name of the tool, if the item is a tool call."""
    written: list[str] = field(factory=list[str])
    """The pieces received so far: of the text, or of the JSON of a call's arguments."""
    sealed: str = ""
    """The encrypted reasoning, if the item is reasoning; the phase, if it is a message; the item, if it is a search."""
    part: object = None
    """Index of the part of the summary that the last piece belonged to."""


@final
class ResponseDecoder:
    """Decodes the events of one answer into chunks, and puts the whole `Response` together."""

    __slots__ = ("_ended", "_failure", "_items", "_refused", "_stop", "_takes", "_usage")

    def __init__(self) -> None:
        self._items: dict[int | str | None, OutputItem] = {}
        self._ended = False
        self._failure: ModelError | None = None
        self._refused = False
        self._stop: StopReason | None = None
        self._usage = NOTHING_USED
        self._takes: Mapping[str, Callable[[Mapping[str, object]], Sequence[Chunk]]] = {
            "response.output_item.added": self._added,
            "response.output_text.delta": self._text,
            "response.refusal.delta": self._refusal,
            "response.reasoning_summary_text.delta": self._thought,
            "response.reasoning_text.delta": self._thought,
            "response.function_call_arguments.delta": self._call,
            "response.output_item.done": self._end_item,
            "response.completed": self._end,
            "response.incomplete": self._end,
            "response.failed": self._failed,
            "error": self._error,
        }

    @property
    def complete(self) -> bool:
        """Whether the last event of the answer, `response.completed` or `response.incomplete`, has arrived."""
        return self._ended

    def feed(self, event: ServerEvent) -> Sequence[Chunk]:
        """Take the next event and return its chunks. Unknown kinds of events are ignored."""
        fields = object_of(event.data)
        take = self._takes.get(text(fields, "type") or event.name)
        return () if take is None else take(fields)

    def response(self) -> Response:
        """Return the whole answer; raise `StreamEndedEarly` if its last event has not arrived."""
        if self._failure is not None:
            raise self._failure
        if not self._ended:
            raise StreamEndedEarly("the last event did not complete the response" if self._items else "nothing came")
        items = [self._items[key] for key in sorted(self._items, key=_order_key)]
        calls = tuple(
            ToolCall("", item.name, arguments("".join(item.written)), item.id) for item in items if item.kind in CALLS
        )
        stop = self._stop or (StopReason.TOOL_CALLS if calls else StopReason.END)
        parts = tuple(part for item in items for part in _parts_of(item))
        return Response(parts, calls, StopReason.REFUSED if self._refused else stop, self._usage)

    # One method per kind of event

    def _item(self, fields: Mapping[str, object], kind: str) -> OutputItem:
        """Return the item of the event *fields*; create it if the server did not announce it."""
        return self._items.setdefault(index_of(fields, "output_index"), OutputItem(kind))

    def _added(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        begun = sub(fields, "item")
        _learn(self._item(fields, text(begun, "type")), begun)
        return ()

    def _text(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        return _more(self._item(fields, "message"), text(fields, "delta"))

    def _refusal(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        self._refused = True
        return self._text(fields)

    def _thought(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        item = self._item(fields, "reasoning")
        part = fields.get("summary_index", fields.get("content_index"))
        between = BETWEEN if item.written and part != item.part else ""
        item.part = part
        return _more(item, between + text(fields, "delta"))

    def _call(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        return _more(self._item(fields, "function_call"), text(fields, "delta"))

    def _end_item(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        """Take the whole item at its end: its last fields, and its text if no pieces of it arrived before."""
        whole_item = sub(fields, "item")
        item = self._item(fields, text(whole_item, "type"))
        _learn(item, whole_item)
        self._refused = self._refused or any(
            text(part, "type") == "refusal" for part in _objects(whole_item, "content")
        )
        return () if item.written else _more(item, _whole(whole_item))

    def _end(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        response = sub(fields, "response")
        chunks: list[Chunk] = []
        if not self._items:
            for index, item in enumerate(_objects(response, "output")):
                chunks += self._end_item({"output_index": index, "item": item})
        if text(response, "status") == "incomplete" or text(fields, "type") == "response.incomplete":
            reason = text(sub(response, "incomplete_details"), "reason")
            self._stop = StopReason.REFUSED if reason == "content_filter" else StopReason.LENGTH
        self._usage = _usage(sub(response, "usage"))
        self._ended = True
        return (*chunks, UsageChunk(self._usage))

    def _failed(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        """Raise the failure; without a word about it, keep it: Azure says the reason in an event `error` after it."""
        error = sub(sub(fields, "response"), "error")
        failure = error_of(IN_STREAM, {"error": error})
        if error:
            raise failure
        self._failure = failure
        return ()

    def _error(self, fields: Mapping[str, object]) -> Sequence[Chunk]:
        raise error_of(IN_STREAM, fields)


def _order_key(index: object) -> int:
    return index if isinstance(index, int) else 0


def _learn(item: OutputItem, fields: Mapping[str, object]) -> None:
    """Copy *fields* to *item*, except its text."""
    item.kind = text(fields, "type") or item.kind
    item.id = text(fields, "call_id") or text(fields, "id") or item.id
    item.name = text(fields, "name") or (FINDER if item.kind == SEARCH else item.name)
    item.sealed = text(fields, "encrypted_content") or text(fields, "phase") or item.sealed
    if item.kind == WEB_SEARCH:
        item.sealed = json.dumps({key: fields[key] for key in WEB_SEARCH_FIELDS if key in fields})


def _more(item: OutputItem, piece: str) -> Sequence[Chunk]:
    make = _CHUNKS.get(item.kind)
    if make is None or not piece:
        return ()
    item.written.append(piece)
    return (make(piece),)


def _objects(fields: Mapping[str, object], key: str) -> Iterable[Mapping[str, object]]:
    items = fields.get(key)
    listed = cast("list[object]", items) if isinstance(items, list) else []
    return (cast("Mapping[str, object]", item) for item in listed if isinstance(item, Mapping))


def _whole(fields: Mapping[str, object]) -> str:
    """Return the text of a complete item; for a tool call, the JSON of its arguments."""
    match text(fields, "type"):
        case "message":
            return "".join(text(part, "text") or text(part, "refusal") for part in _objects(fields, "content"))
        case "reasoning":
            parts = [*_objects(fields, "summary"), *_objects(fields, "content")]
            return BETWEEN.join(text(part, "text") for part in parts)
        case "tool_search_call" if text(fields, "execution") == "client":
            return json.dumps(fields.get("arguments"))
        case _:
            return text(fields, "arguments")


def _parts_of(item: OutputItem) -> Iterable[Said]:
    content = "".join(item.written)
    if item.kind == "reasoning" and (content or item.sealed):
        yield Thinking(content, f"{SEAL}{item.id}:{item.sealed}" if item.sealed else None)
    elif item.kind == WEB_SEARCH:
        yield Thinking("", SEARCHED + item.sealed)
    elif item.kind == "message" and content:
        if item.sealed:
            yield Thinking("", PHASE + item.sealed)
        yield Text(content)


def _usage(fields: Mapping[str, object]) -> Usage:
    input_tokens, output_tokens = count(fields, "input_tokens"), count(fields, "output_tokens")
    details = sub(fields, "input_tokens_details")
    reasoning = count(sub(fields, "output_tokens_details"), "reasoning_tokens")
    cache_write = count(details, "cache_write_tokens")
    return Usage(
        input_tokens, output_tokens, count(details, "cached_tokens"), reasoning, cache_write_tokens=cache_write
    )


_CHUNKS: Final[Mapping[str, Callable[[str], Chunk]]] = {
    "message": TextChunk,
    "reasoning": ThinkingChunk,
    "function_call": CallChunk,
    SEARCH: CallChunk,
}
