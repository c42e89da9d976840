"""The GenAI conventions of OpenTelemetry: names of spans and attributes, and what is in each.

Names and values are the latest. What the conventions have no name for begins with `agentrail.`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from agentrail.adapters.otel.spans import CallSpan, RequestSpan, Span, TurnSpan
from agentrail.values.content import Data, Part, Said, Text, Thinking, text_of
from agentrail.values.json import Json, canonical
from agentrail.values.messages import AssistantMessage, StopReason
from agentrail.values.untrusted_values import mended
from agentrail.values.usage import Usage
from agentrail.values.value import Value

log = logging.getLogger("agentrail.otel")

CAPTURE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
ON_SPANS: Final = frozenset({"span_only", "span_and_event", "true"})
"""Values of that switch with which spans have content; `true` is that of the time before there were events."""
OFF: Final = frozenset({"", "no_content", "false", "event_only"})

Attribute: TypeAlias = str | bool | int | float | Sequence[str]
"""A value of an attribute."""

OPERATIONS: Final[Mapping[type[Span], str]] = MappingProxyType(
    {TurnSpan: "invoke_agent", RequestSpan: "chat", CallSpan: "execute_tool"}
)
"""The operation of each kind of span, which is the first word of its name."""


def wants_content(environment: Mapping[str, str]) -> bool:
    """Return whether *environment* asks for texts of people, the model and tools on spans; log what cannot be done."""
    switch = environment.get(CAPTURE, "").strip().lower()
    if switch == "event_only":
        log.warning("content is not exported: %s=EVENT_ONLY, and agentrail exports it on spans (SPAN_ONLY)", CAPTURE)
    elif switch not in ON_SPANS | OFF:
        log.warning("content is not exported: %s=%s is none of NO_CONTENT and SPAN_ONLY", CAPTURE, switch)
    return switch in ON_SPANS


# Values

NAMES_OF_PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "azure": "azure.ai.openai",
        "azure-chat": "azure.ai.openai",
        "bedrock": "aws.bedrock",
        "gemini": "gcp.gemini",
        "mistral": "mistral_ai",
        "openai-chat": "openai",
        "vertex": "gcp.vertex_ai",
        "xai": "x_ai",
    }
)
"""Names of providers in the conventions, by the part of a model's name before the colon, where they differ."""

REASONS: Final[Mapping[StopReason, str]] = MappingProxyType(
    {
        StopReason.END: "stop",
        StopReason.TOOL_CALLS: "tool_call",
        StopReason.LENGTH: "length",
        StopReason.REFUSED: "content_filter",
    }
)


def provider_of(model: str) -> str:
    """Return the name of the provider of a model in the conventions; for a model of a program, that of the model."""
    prefix = model.partition(":")[0]
    return NAMES_OF_PROVIDERS.get(prefix, prefix)


def model_name(model: str) -> str:
    """Return the name by which the provider knows a model."""
    return model.partition(":")[2] or model


def _model_of(span: Span) -> str:
    return span.model if isinstance(span, TurnSpan | RequestSpan) else ""


def _provider(span: Span) -> str | None:
    return provider_of(_model_of(span)) or None


def _usage_of(span: Span) -> Usage | None:
    """Return the usage of a span; `None` if nothing is known of it."""
    if isinstance(span, TurnSpan):
        return None if span.usage.is_nothing else span.usage
    if isinstance(span, RequestSpan) and span.message is not None:
        return span.message.usage
    return None


# Content


def _part(part: Part | Said) -> Json:
    """Return a part of a message as the conventions write it; images and files are only named."""
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Thinking(text=text):
            return {"type": "reasoning", "content": text}
        case Data(data=data):
            return {"type": "text", "content": canonical(data)}
        case _:
            return {"type": "text", "content": f"({part.media_type})"}


def _response(message: AssistantMessage) -> str:
    calls: list[Json] = [
        {"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": call.args} for call in message.calls
    ]
    parts = [*map(_part, message.parts), *calls]
    return canonical([{"role": "assistant", "parts": parts, "finish_reason": REASONS[message.stop]}])


def _message(role: str, text: str, **more: Json) -> str | None:
    parts: Json = [{"type": "text", "content": text}]
    return canonical([{"role": role, "parts": parts, **more}]) if text else None


def _input_of(span: Span) -> str | None:
    return _message("user", span.prompt) if isinstance(span, TurnSpan) else None


def _output_of(span: Span) -> str | None:
    if isinstance(span, TurnSpan):
        return _message("assistant", span.answer, finish_reason="stop")
    return _response(span.message) if isinstance(span, RequestSpan) and span.message is not None else None


# The table


class AttributeRow(Value, gc=True):
    """One attribute: its name, on which spans it is, and its value."""

    name: str
    """Its name in the conventions, or one of our own."""
    kinds: tuple[type[Span], ...]
    """The kinds of spans that may have it."""
    about: str
    """What it says, and when it is there."""
    value: str | Callable[[Span], Attribute | None]
    """The field of the span that is its value, unless that is empty or false; or what returns it, or `None`."""
    is_content: bool = False
    """Whether it holds texts of people, of the model or of tools."""


_ALL: Final = (TurnSpan, RequestSpan, CallSpan)
_MODEL: Final = (TurnSpan, RequestSpan)
_TURN: Final = (TurnSpan,)
_REQUEST: Final = (RequestSpan,)
_CALL: Final = (CallSpan,)


def _of_usage(value: Callable[[Usage], Attribute | None]) -> Callable[[Span], Attribute | None]:
    """Return the value of an attribute that is a figure of the usage of a span."""

    def figure(span: Span) -> Attribute | None:
        usage = _usage_of(span)
        return None if usage is None else value(usage)

    return figure


def _of_request(value: Callable[[RequestSpan], Attribute | None]) -> Callable[[Span], Attribute | None]:
    return lambda span: value(span) if isinstance(span, RequestSpan) else None


def _of_call(value: Callable[[CallSpan], Attribute | None]) -> Callable[[Span], Attribute | None]:
    return lambda span: value(span) if isinstance(span, CallSpan) else None


def _finish_reasons(span: RequestSpan) -> Attribute | None:
    return None if span.message is None else [REASONS[span.message.stop]]


ROWS: Final = (
    AttributeRow("gen_ai.operation.name", _ALL, "the operation", lambda span: OPERATIONS[type(span)]),
    AttributeRow("gen_ai.provider.name", _MODEL, "the provider of the model", _provider),
    AttributeRow("gen_ai.conversation.id", _ALL, "id of the session", "session_id"),
    AttributeRow("gen_ai.agent.name", _ALL, "name of the specification, if it has one", "agent"),
    AttributeRow(
        "gen_ai.request.model",
        _MODEL,
        "the model; of a turn, that of its last request",
        lambda span: model_name(_model_of(span)) or None,
    ),
    AttributeRow(
        "gen_ai.response.model",
        _REQUEST,
        "the model that answered",
        _of_request(lambda span: None if span.message is None else model_name(span.message.model)),
    ),
    AttributeRow("gen_ai.response.finish_reasons", _REQUEST, "why the model stopped", _of_request(_finish_reasons)),
    AttributeRow("gen_ai.request.stream", _REQUEST, "always true", lambda _: True),
    AttributeRow(
        "gen_ai.response.time_to_first_chunk",
        _REQUEST,
        "seconds from the sending of the request to the first chunk of its response",
        _of_request(lambda span: None if span.first_chunk_ms is None else span.first_chunk_ms / 1000),
    ),
    AttributeRow(
        "gen_ai.usage.input_tokens",
        _MODEL,
        "tokens read, cached ones included; of a turn, with its sub-agents'",
        _of_usage(lambda usage: usage.input_tokens),
    ),
    AttributeRow(
        "gen_ai.usage.output_tokens",
        _MODEL,
        "tokens written, reasoning included",
        _of_usage(lambda usage: usage.output_tokens),
    ),
    AttributeRow(
        "gen_ai.usage.cache_read.input_tokens",
        _MODEL,
        "of them, read from the provider's cache",
        _of_usage(lambda usage: usage.cached_tokens or None),
    ),
    AttributeRow(
        "gen_ai.usage.cache_creation.input_tokens",
        _MODEL,
        "of them, written to the provider's cache",
        _of_usage(lambda usage: usage.cache_write_tokens or None),
    ),
    AttributeRow(
        "gen_ai.usage.reasoning.output_tokens",
        _MODEL,
        "of the tokens written, reasoning",
        _of_usage(lambda usage: usage.reasoning_tokens or None),
    ),
    AttributeRow("gen_ai.tool.name", _CALL, "name of the tool", "tool"),
    AttributeRow("gen_ai.tool.call.id", _CALL, "id of the call", "call_id"),
    AttributeRow("gen_ai.tool.type", _CALL, "always `function`", lambda _: "function"),
    AttributeRow(
        "error.type",
        _ALL,
        "kind of error: of a request that of its failure; of a call `tool_error`, `blocked`, `killed`, `skipped`, "
        "`outcome_unknown`, `stopped`, or how it was not approved; of a turn that of its abort",
        "error",
    ),
    AttributeRow("gen_ai.input.messages", _TURN, "the prompt", _input_of, is_content=True),
    AttributeRow(
        "gen_ai.output.messages",
        _MODEL,
        "the response; of a turn, the text of its last one",
        _output_of,
        is_content=True,
    ),
    AttributeRow(
        "gen_ai.tool.call.arguments",
        _CALL,
        "the arguments",
        _of_call(lambda span: canonical(span.args)),
        is_content=True,
    ),
    AttributeRow(
        "gen_ai.tool.call.result",
        _CALL,
        "the result, as text",
        _of_call(lambda span: text_of(span.result) or None),
        is_content=True,
    ),
    AttributeRow("agentrail.tenant", _ALL, "the tenant, if the session has one", "tenant"),
    AttributeRow(
        "agentrail.interrupted",
        _ALL,
        "true if the process ended meanwhile: what goes on is another span, with a link to this one",
        "is_interrupted",
    ),
    AttributeRow(
        "agentrail.usage.cost_usd",
        _MODEL,
        "cost in US dollars, if the prices are known",
        _of_usage(lambda usage: usage.cost_usd),
    ),
    AttributeRow(
        "agentrail.usage.estimated",
        _MODEL,
        "true if the provider did not count all tokens",
        _of_usage(lambda usage: usage.estimated or None),
    ),
    AttributeRow("agentrail.turn.number", _TURN, "number of the turn in its session", "turn"),
    AttributeRow("agentrail.turn.end", _TURN, "how it ended: `reason` of `AgentEnd`, or `aborted`", "outcome"),
    AttributeRow("agentrail.abort.kind", _TURN, "why it was aborted", "abort_kind"),
    AttributeRow("agentrail.request.id", _REQUEST, "id of the request", "request_id"),
    AttributeRow("agentrail.request.round", _REQUEST, "number of the round", "round"),
    AttributeRow("agentrail.request.attempt", _REQUEST, "number of the attempt", "attempt"),
    AttributeRow(
        "agentrail.request.cut",
        _REQUEST,
        "true if nobody waited for the response any more: steering, or an abort",
        "is_cut",
    ),
    AttributeRow("agentrail.call.attempts", _CALL, "how often the tool was started", "attempts"),
    AttributeRow("agentrail.call.held", _CALL, "true if it waited for a person", "was_held"),
    AttributeRow(
        "agentrail.call.held_ms",
        _CALL,
        "for how many milliseconds it did",
        _of_call(lambda span: span.held_ms if span.was_held else None),
    ),
    AttributeRow("agentrail.call.approval", _CALL, "what was decided: `status` of `ApprovalResolved`", "approval"),
    AttributeRow("agentrail.call.late", _CALL, "true if its turn no longer waited for it", "is_late"),
    AttributeRow("agentrail.call.subagent", _CALL, "session id of the sub-agent that it started", "subagent"),
)
"""All attributes, in the order of the page."""


def attributes_of(span: Span, *, has_content: bool) -> dict[str, Attribute]:
    """Return the attributes of *span* as they are exported."""
    rows = [row for row in ROWS if type(span) in row.kinds and (has_content or not row.is_content)]
    values = ((row.name, _value_in(span, row.value)) for row in rows)
    return {name: mended(value) if isinstance(value, str) else value for name, value in values if value is not None}


def _value_in(span: Span, value: str | Callable[[Span], Attribute | None]) -> Attribute | None:
    if not isinstance(value, str):
        return value(span)
    field: Attribute = getattr(span, value)
    return None if field == "" or field is False else field


def name_of(span: Span) -> str:
    """Return the name of *span*: its operation, and what that is about."""
    match span:
        case RequestSpan(model=model):
            about = model_name(model)
        case CallSpan(tool=tool):
            about = tool
        case _:
            about = span.agent
    return mended(f"{OPERATIONS[type(span)]} {about}".rstrip())
