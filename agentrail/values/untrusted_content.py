"""Checks values that foreign code made (a model, a tool, a plugin), and rebuilds them from plain parts.

A frozen class does not check what its fields hold, and foreign code may not be type-checked. The functions raise
`TypeError` or `NotJson` for values that cannot be stored, those for responses a `ModelError`, and run no code of the
values that they check.

Half a surrogate pair is text that no file can hold. In text from outside it is replaced; in text from a caller it is an
error.
"""

from __future__ import annotations

from typing import Final, TypeGuard, cast

from agentrail.errors import (
    BadResponse,
    ContextTooLong,
    EncodingRefused,
    LimitReached,
    ModelError,
    ModelMissing,
    NotJson,
    PermanentModelError,
    ProviderNotReached,
    ProxyRefused,
    QuotaSpent,
    ResponseTooLong,
    ServerMissing,
    TransientModelError,
)
from agentrail.values.content import Data, File, Image, Part, Said, Text, Thinking, ToolCall
from agentrail.values.json import MAX_ITEMS, TOO_DEEP, TOO_MANY, JsonObject, freeze, freeze_object, weight
from agentrail.values.messages import AssistantMessage, Message, Origin, StopReason, ToolMessage, UserMessage
from agentrail.values.stream import (
    PING,
    CallChunk,
    Chunk,
    Failure,
    FailureKind,
    PingChunk,
    Response,
    TextChunk,
    ThinkingChunk,
    UsageChunk,
)
from agentrail.values.tools import (
    ActingAgent,
    AskPerson,
    CompactNow,
    Effect,
    Err,
    HandOver,
    Ok,
    SetTodos,
    Todo,
    ToolResult,
    ToolSpec,
)
from agentrail.values.untrusted_values import (
    PLAIN,
    as_seconds,
    as_usd,
    brief,
    items_of,
    mended,
    message_of,
    plain_text,
    tokens,
    type_name,
)
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import quick

_ok = quick(Ok)
_response = quick(Response)
_user_message = quick(UserMessage)
_answered = quick(AssistantMessage)

MAX_TEXT: Final = 2 * 1024 * 1024
"""The most characters of one text, and of all texts of one response or of one tool result together."""

MAX_IMAGE: Final = 5_000_000
"""The most characters of one image in base64; providers accept no more."""

MAX_IMAGES: Final = 20_000_000
"""Most characters of all images and files of one result in base64; providers accept no more in one request."""

MAX_NAME: Final = 64 * 1024
"""The most characters of each id, and of each tool's name, in a call that a model makes."""

MAX_PARTS: Final = 10_000
"""The most items of a list that a tool or a model returns, such as the parts of a message."""

MAX_CALLS: Final = 5_000
"""The most calls of one response, because a single step of the session may have to give each of them a result."""

CALLS_WITH_MUCH: Final = 2
"""The arguments of all calls of a response may have so many times `MAX_ITEMS` items together."""

COUNTS: Final = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "cache_write_tokens")
"""Names of the fields of `Usage` that count tokens."""


KINDS: tuple[tuple[type[ModelError], FailureKind], ...] = (
    (ContextTooLong, FailureKind.OVERFLOW),
    (LimitReached, FailureKind.LIMIT),
    (TransientModelError, FailureKind.TRANSIENT),
    (PermanentModelError, FailureKind.PERMANENT),
    (ModelError, FailureKind.PERMANENT),
)
"""Kind of failure for each error of a model; the first class that fits counts."""

HERE_ALONE: Final[tuple[type[ModelError], ...]] = (
    EncodingRefused,
    ModelMissing,
    ProxyRefused,
    QuotaSpent,
    ServerMissing,
)
"""Permanent errors after which a fallback model is tried; for others, that would hide a mistake in the program."""


UNREACHED: Final[tuple[type[ModelError], ...]] = (ProviderNotReached, ServerMissing)
"""Errors after which it is certain that no server has heard of the request: there was no connection."""


class UnfitError(TypeError):
    """A value is not of the wanted type or form."""

    def __init__(self, found: object, expected: str, where: str = "it") -> None:
        # The error does not show a text, which might be private
        value = brief(found) if type(found) in PLAIN else f"a `{type_name(found)}`"
        super().__init__(f"{where} has {value} where {expected} is wanted")


class TooLongError(UnfitError):
    """A value has the right type, but more characters or items than a session keeps."""


def fit_result(result: object) -> ToolResult:
    """Return the result of a tool, rebuilt from plain parts; raise `TypeError` or `NotJson` if it is not valid."""
    kind = type(result)
    if kind is Ok or issubclass(kind, (Ok, Err)):  # a tuple: `Ok | Err` would be built at each call
        answer = cast("Ok | Err", result)
        details: object = answer.details
        make = _ok if kind is Ok or issubclass(kind, Ok) else Err
        budget = [MAX_ITEMS]
        parts = tuple([fit_part(part, budget) for part in fit_items(answer.content, "content")])
        if len(parts) != 1 or type(parts[0]) is not Text:  # for a single text, `fit_text` has checked the size
            _check_parts(parts)
        if details is None:
            return make(parts)
        frozen = freeze_object(details, budget)
        _check_size(weight(frozen), "its `details`")
        return make(parts, frozen)
    if issubclass(kind, Effect):
        return _fit_effect(cast("Effect", result).effect)
    raise UnfitError(result, "Ok, Err or Effect", "what the tool returned")


def _fit_effect(effect: object) -> Effect:
    match effect:
        case SetTodos(todos=todos):
            return Effect(SetTodos(tuple([_fit_todo(todo) for todo in fit_items(todos, "todos")])))
        case AskPerson(question=question, options=options, resume=resume):
            offered = tuple([fit_text(option) for option in fit_items(options, "options")])
            return Effect(AskPerson(fit_text(question), offered, None if resume is None else _fit_resume(resume)))
        case CompactNow(reason=reason):
            return Effect(CompactNow(fit_text(reason)))
        case HandOver():
            return Effect(_fit_handoff(effect))
        case _:
            raise UnfitError(effect, "SetTodos, AskPerson, CompactNow or HandOver", "its `effect`")


def _fit_resume(state: object) -> JsonObject:
    frozen = freeze_object(state, [MAX_ITEMS])
    _check_size(weight(frozen), "its `resume`")
    return frozen


def _fit_handoff(handoff: HandOver) -> HandOver:
    """Return *handoff* rebuilt; its tools and its agent are values of this package, as nothing else makes handoffs."""
    agent, tools = handoff.agent, fit_items(handoff.tools, "tools")
    if type(agent) is not ActingAgent or any(type(spec) is not ToolSpec for spec in tools):
        raise UnfitError(handoff, "an ActingAgent and ToolSpecs", "its `agent` and `tools`")
    if type(handoff.revision) is not int or type(handoff.priced) is not frozenset:
        raise UnfitError(handoff, "a whole number and a frozenset", "its `revision` and `priced`")
    return HandOver(
        agent,
        cast("tuple[ToolSpec, ...]", tools),
        tuple([fit_text(name) for name in fit_items(handoff.leaves, "leaves")]),
        handoff.revision,
        tuple([(fit_text(model), freeze_object(options)) for model, options in handoff.models]),
        frozenset(map(fit_text, handoff.priced)),
        fit_text(handoff.history),
    )


def _fit_todo(todo: object) -> Todo:
    match todo:
        case Todo(text=text, status=status):
            return Todo(fit_text(text), fit_text(status))
        case _:
            raise UnfitError(todo, "a Todo", "its `todos`")


def fit_items(value: object, what: str, most: int = MAX_PARTS) -> tuple[object, ...]:
    """Return the items of *value*, a tuple or a list with at most *most*; refuse other iterables, which may not end."""
    kind: type = type(value)
    if kind is tuple:
        items: tuple[object, ...] = value  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]  # it was tested
    elif issubclass(kind, tuple | list):
        items = tuple(items_of(cast("tuple[object, ...]", value)))
    else:
        raise UnfitError(value, "a tuple", f"its `{what}`")
    if len(items) > most:
        raise TooLongError(len(items), f"at most {most} items", f"its `{what}`")
    return items


def _check_parts(parts: tuple[Part, ...]) -> None:
    """Raise `TooLongError` if the texts and JSON of a result, or its images, have too many characters together."""
    chars = pictured = 0
    for part in parts:
        match part:
            case Text(text=text):
                chars += len(text)
            case Image(data=data) | File(data=data):
                pictured += len(data)
            case Data(data=data):
                chars += weight(data)
    _check_size(chars, "its text")
    _check_size(pictured, "its images and files", MAX_IMAGES)


def _check_size(characters: int, what: str, most: int = MAX_TEXT) -> None:
    if characters > most:
        raise TooLongError(characters, f"at most {most} characters", what)


def _fit_text_part(part: Text) -> Text:
    text = fit_text(part.text)
    return part if text is part.text and type(part) is Text else Text(text)


def fit_part(part: object, budget: list[int] | None = None) -> Part:
    """Return *part*, content for the model, rebuilt from plain parts.

    Raises `TypeError` if it is no `Part`, and `NotJson` if its data is not JSON, or has more items than
    *budget* allows: a list of one number, from which they are taken.
    """
    match part:
        case Text():
            return _fit_text_part(part)
        case Image(media_type=media_type, data=data):
            return Image(fit_text(media_type), fit_text(data, MAX_IMAGE))
        case File():
            return _fit_file(part)
        case Data(data=json):
            return Data(freeze(json, budget=budget))
        case _:
            raise UnfitError(part, "Text, Image, File or Data", "its content")


def _fit_file(file: File) -> File:
    """Return *file*, rebuilt from plain texts; raise `UnfitError` if no provider can take it."""
    plain_file = File(
        fit_text(file.media_type),
        fit_text(file.data, MAX_IMAGES),
        fit_text(file.reference),
        fit_text(file.name),
        fit_text(file.provider),
    )
    if plain_file.problem is not None:
        raise UnfitError(file, f"bytes or a reference, and not {plain_file.problem},", "its content")
    return plain_file


def fit_text(value: object, most: int = MAX_TEXT) -> str:
    """Return *value* as a plain `str`; raise `TypeError` if it is not a text, or has more than *most* characters."""
    if type(value) is str and value.isascii() and len(value) <= most:
        return value
    text = plain_text(value)
    if text is None:
        raise UnfitError(value, "text")
    if len(text) > most:
        raise TooLongError(len(text), f"at most {most} characters", "a text")
    return mended(text)


def fit_said(part: object) -> Said:
    """Return *part*, text or thoughts of a response, rebuilt; raise `TypeError` if it is neither."""
    match part:
        case Text():
            return _fit_text_part(part)
        case Thinking(text=part_text, signature=signature):
            return Thinking(fit_text(part_text), None if signature is None else fit_text(signature))
        case _:
            raise UnfitError(part, "Text or Thinking", "its `parts`")


def fit_call(call: object, budget: list[int] | None = None) -> ToolCall:
    """Return *call*, a tool call of a response, rebuilt from plain parts.

    Raises `TypeError` if it is no `ToolCall`, and `NotJson` if its arguments are not a JSON object, or have more items
    than *budget* still allows: a list of one number, from which they are taken.
    """
    match call:
        case ToolCall(call_id=call_id, name=name, args=args, provider_id=provider_id, via=via):
            our_id, tool, their_id = (
                fit_text(call_id, MAX_NAME),
                fit_text(name, MAX_NAME),
                fit_text(provider_id, MAX_NAME),
            )
            frozen, caller = freeze_object(args, budget), fit_text(via, MAX_NAME)
            is_plain = type(call) is ToolCall and frozen is args and our_id is call_id and tool is name
            if is_plain and their_id is provider_id and caller is via:
                return call
            return ToolCall(our_id, tool, frozen, their_id, caller)
        case _:
            raise UnfitError(call, "a ToolCall", "its `calls`")


def fit_usage(usage: object) -> Usage:
    """Return *usage* rebuilt from plain numbers; raise `TypeError` for an impossible count or cost (a negative one)."""
    if usage is NOTHING_USED:
        return NOTHING_USED
    if type(usage) is not Usage:
        raise UnfitError(usage, "a Usage", "its `usage`")
    fields: dict[str, object] = {name: getattr(usage, name) for name in COUNTS}
    counts = {name: tokens(value) for name, value in fields.items()}
    for name, count in counts.items():
        if count is None:
            raise UnfitError(fields[name], "a count of tokens", f"its `usage.{name}`")
    cost_: object = usage.cost_usd
    cost = None if cost_ is None else as_usd(cost_)
    if cost is None and cost_ is not None:
        raise UnfitError(cost_, "a cost", "its `usage.cost_usd`")
    if type(cast("object", usage.estimated)) is not bool:
        raise UnfitError(usage.estimated, "true or false", "its `usage.estimated`")
    return usage.but(**counts, cost_usd=cost)


def fit_message(message: object) -> Message:
    """Return *message*, rebuilt from plain parts; raise `TypeError` or `NotJson` if it is not valid."""
    if _is_one_text(message):
        return message
    match message:
        case UserMessage(parts=parts, origin=origin) if type(origin) is Origin:
            return _user_message(tuple([fit_part(part) for part in fit_items(parts, "parts")]), origin)
        case AssistantMessage(parts=parts, calls=calls, model=model, stop=stop, usage=usage, interrupted=interrupted):
            if type(stop) is StopReason and type(cast("object", interrupted)) is bool:
                fitted_parts = tuple([fit_said(part) for part in fit_items(parts, "parts")])
                fitted_calls = tuple([fit_call(call) for call in fit_items(calls, "calls", MAX_CALLS)])
                return _answered(fitted_parts, fitted_calls, fit_text(model), stop, fit_usage(usage), interrupted)
        case ToolMessage(call_id=call_id, name=name, parts=parts, is_error=is_error, details=details):
            if type(cast("object", is_error)) is bool:
                fitted_parts_ = tuple([fit_part(part) for part in fit_items(parts, "parts")])
                fitted_details = None if details is None else freeze_object(details)
                return ToolMessage(fit_text(call_id), fit_text(name), fitted_parts_, is_error, fitted_details)
        case _:
            pass
    raise UnfitError(message, "a message, with fields of the types that its class names,")


def _is_one_text(message: object) -> TypeGuard[UserMessage | AssistantMessage]:
    """Whether *message* has one plain text and no other content, so that it needs no rebuilding: the usual case."""
    if type(message) is AssistantMessage:
        calls, model, usage = cast("object", message.calls), cast("object", message.model), message.usage
        if type(calls) is not tuple or calls or usage is not NOTHING_USED or type(message.stop) is not StopReason:
            return False
        if cast("object", message.interrupted) is not False or not _is_plain(model):
            return False
    elif type(message) is not UserMessage or type(message.origin) is not Origin:
        return False
    parts = cast("object", message.parts)
    if type(parts) is not tuple:
        return False
    items = cast("tuple[object, ...]", parts)
    return len(items) == 1 and type(items[0]) is Text and _is_plain(items[0].text)


def _is_plain(value: object) -> bool:
    return type(value) is str and value.isascii() and len(value) <= MAX_TEXT


def fit_response(response: object) -> Response:
    """Return a model's response, rebuilt from plain parts; raise `BadResponse` if it is none.

    One that is above a limit raises `ResponseTooLong`: the model has said it, not the code of its `Model`.
    """
    try:
        return _rebuilt_response(response)
    except TooLongError as error:
        raise ResponseTooLong(message_of(error)) from error
    except (NotJson, TypeError) as error:
        if isinstance(error, NotJson) and error.args[1] in {TOO_DEEP, TOO_MANY}:
            path, excess = error.args
            problem = f"the arguments of a call have {excess} at `{path}`"
            raise ResponseTooLong(problem) from error
        raise BadResponse(message_of(error)) from error


def _rebuilt_response(response: object) -> Response:
    plain = response if type(response) is Response else _as_response(response)
    parts: tuple[Said, ...] = tuple(map(fit_said, fit_items(plain.parts, "parts")))
    if len(parts) > 1:  # for a single part, `fit_text` has checked the size
        _check_size(sum([len(part.text) for part in parts]), "its text")
    calls: tuple[ToolCall, ...] = ()
    calls_ = fit_items(plain.calls, "calls", MAX_CALLS)
    if calls_:
        budget = [MAX_ITEMS * CALLS_WITH_MUCH]
        calls = tuple([fit_call(call, budget) for call in calls_])
    stop: object = plain.stop
    if type(stop) is not StopReason:
        raise UnfitError(stop, "a StopReason", "its `stop`")
    if type(cast("object", plain.by_tool)) is not bool:
        raise UnfitError(plain.by_tool, "true or false", "its `by_tool`")
    return _response(parts, calls, stop, fit_usage(plain.usage), plain.by_tool)


def _as_response(value: object) -> Response:
    if not issubclass(type(value), Response):
        raise UnfitError(value, "a Response", "what it returned")
    return cast("Response", value)


def fit_chunk(chunk: object, room: int) -> Chunk:
    """Return a response's chunk of at most *room* characters, rebuilt from plain values.

    Raise `ResponseTooLong` if it has more, and `BadResponse` if it is no chunk.
    """
    try:
        match chunk:
            case TextChunk(text=chunk_text):
                return TextChunk(fit_text(chunk_text, room))
            case ThinkingChunk(text=chunk_text):
                return ThinkingChunk(fit_text(chunk_text, room))
            case CallChunk(text=chunk_text):
                return CallChunk(fit_text(chunk_text, room))
            case UsageChunk(usage=usage):
                return UsageChunk(fit_usage(usage))
            case PingChunk():
                return PING
            case _:
                raise UnfitError(chunk, "a chunk", "a piece of its answer")
    except TooLongError as error:
        problem = f"it has more than {MAX_TEXT:,} characters of text, thoughts and arguments"
        raise ResponseTooLong(problem) from error
    except TypeError as error:
        raise BadResponse(message_of(error)) from error


def fit_failure(error: ModelError, took: float = 0.0) -> Failure:
    """Return the `Failure` that tells the machine about *error* of a model, after an attempt that *took* seconds."""
    kind = next(kind for cls, kind in KINDS if isinstance(error, cls))
    unreached_ms = round(1000 * took) if isinstance(error, UNREACHED) else None
    return Failure(
        kind, type_name(error), message_of(error), fit_wait(error), isinstance(error, HERE_ALONE), unreached_ms
    )


def fit_wait(error: ModelError) -> float | None:
    """Return the seconds that *error* asks to wait; `None` if it names none."""
    try:
        return as_seconds(error.retry_after)
    except Exception:  # noqa: BLE001 - a foreign error class whose attribute fails
        return None
