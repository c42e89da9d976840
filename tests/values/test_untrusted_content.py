"""What is fit to be kept stays the object that it is; what is not is rebuilt from plain parts, or refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import get_args

import pytest

from agentrail.errors import BadResponse, NotJson, ResponseTooLong
from agentrail.models import (
    AssistantMessage,
    CallChunk,
    Chunk,
    Data,
    File,
    FrozenObject,
    Image,
    Message,
    Origin,
    Part,
    PingChunk,
    Response,
    StopReason,
    Text,
    TextChunk,
    Thinking,
    ThinkingChunk,
    ToolCall,
    ToolMessage,
    Usage,
    UsageChunk,
    UserMessage,
)
from agentrail.tools import AskPerson, CompactNow, Effect, Err, Ok, SetTodos, Todo, ToolResult
from agentrail.values.content import Said
from agentrail.values.tools import ActingAgent, HandOver, ToolEffect
from agentrail.values.untrusted_content import (
    MAX_PARTS,
    MAX_TEXT,
    UnfitError,
    fit_call,
    fit_chunk,
    fit_items,
    fit_message,
    fit_part,
    fit_response,
    fit_result,
    fit_said,
    fit_text,
    fit_usage,
)
from agentrail.values.value import Value
from tests.each_case import each_case
from tests.kit import freeze_object


class Words(str):
    """A text that says that it is another one."""

    __slots__ = ()

    def isascii(self) -> bool:
        """Lie."""
        return True

    def __len__(self) -> int:
        return 0


class Loud(Text):
    """A part that a model's code has derived from one of ours."""


def test_a_plain_text_is_not_rebuilt() -> None:
    part = Text("some words")
    assert fit_part(part) is part
    assert fit_said(part) is part
    assert fit_text(part.text) is part.text


def test_a_subclass_is_rebuilt() -> None:
    made = fit_part(Loud("some words"))
    assert type(made) is Text
    assert made == Text("some words")
    assert type(fit_text(Words("some words"))) is str


def test_a_text_that_is_not_plain_is_rebuilt_whatever_it_says_of_itself() -> None:
    said = fit_said(Text(Words("half a pair: \ud800")))
    assert type(said.text) is str
    assert said == Text("half a pair: \ufffd")
    with pytest.raises(UnfitError):
        fit_part(Text(Words("x" * (MAX_TEXT + 1))))


def test_the_parts_of_a_response_are_bounded_together() -> None:
    half = "x" * (MAX_TEXT // 2 + 1)
    assert fit_response(Response((Text(half),))).parts == (Text(half),)
    with pytest.raises(ResponseTooLong):
        fit_response(Response((Text(half), Thinking(half))))
    with pytest.raises(ResponseTooLong):
        fit_response(Response((Text(half + half),)))


def test_a_tuple_of_too_many_items_is_refused() -> None:
    many = (Image("image/png", ""),) * (MAX_PARTS + 1)
    assert fit_items(many[1:], "parts") is not many
    with pytest.raises(UnfitError):
        fit_items(many, "parts")


def test_frozen_json_is_not_frozen_again() -> None:
    args = freeze_object({"text": "some words", "more": [1, {"deep": None}]})
    assert freeze_object(args) is args
    assert type(args["more"][1]) is FrozenObject  # type: ignore[index]


SAID = UserMessage((Text("Name a river."),))
REPLIED = AssistantMessage((Text("The Po."),), model="some:model")


@pytest.mark.parametrize("message", [SAID, SAID.but(origin=Origin.STEERING), REPLIED, REPLIED.but(interrupted=False)])
def test_a_message_of_one_plain_text_is_not_rebuilt(message: Message) -> None:
    assert fit_message(message) is message


@pytest.mark.parametrize(
    "message",
    [
        SAID.but(parts=(Text(Words("Name a river.")),)),
        SAID.but(parts=(Loud("Name a river."),)),
        SAID.but(parts=[Text("Name a river.")]),
        type("Mine", (UserMessage,), {})((Text("Name a river."),)),
        REPLIED.but(parts=(Text(Words("The Po.")),)),
        REPLIED.but(parts=[Text("The Po.")]),
        REPLIED.but(calls=[]),
        REPLIED.but(model=Words("some:model")),
        REPLIED.but(usage=Usage()),
    ],
    ids=repr,
)
def test_another_one_is_rebuilt_of_plain_parts(message: Message) -> None:
    plain = SAID if isinstance(message, UserMessage) else REPLIED
    fit = fit_message(message)
    assert fit == plain
    assert fit is not message
    assert type(fit.parts) is tuple
    assert [(type(part), type(part.text)) for part in fit.parts if isinstance(part, Text)] == [(Text, str)]


@pytest.mark.parametrize(
    "message",
    [
        SAID.but(parts=(Text("x" * (MAX_TEXT + 1)),)),
        SAID.but(origin="prompt"),
        SAID.but(parts="Name a river."),
        REPLIED.but(stop="end"),
        REPLIED.but(interrupted=0),
        REPLIED.but(model=None),
        REPLIED.but(parts=(Image("image/png", ""),)),
        REPLIED.but(usage=None),
        None,
    ],
    ids=lambda message: repr(message)[:60],
)
def test_one_that_cannot_be_kept_is_refused(message: object) -> None:
    with pytest.raises(TypeError):
        fit_message(message)


# Each field: the values have other fields than the defaults, and texts that are rebuilt because they are not plain

WORD, ARGS = Words("na\u00efve"), {"a": 1}
CALL = ToolCall(WORD, WORD, ARGS, WORD, WORD)
USAGE = Usage(1, 2, 3, 4, 5.0, estimated=True, cache_write_tokens=6)
OK = Ok((Text(WORD),), ARGS)


def _fit_effect(effect: object) -> ToolEffect:
    result = fit_result(Effect(effect))  # type: ignore[arg-type]
    assert isinstance(result, Effect)
    return result.effect


def _fit_todo(todo: object) -> Todo:
    effect = _fit_effect(SetTodos((todo,)))  # type: ignore[arg-type]
    assert isinstance(effect, SetTodos)
    return effect.todos[0]


FIT: dict[type[Value], tuple[Value, Callable[[object], object]]] = {
    Text: (Text(WORD), fit_part),
    Image: (Image(WORD, WORD), fit_part),
    File: (File(WORD, "", WORD, WORD, WORD), fit_part),
    Data: (Data(ARGS), fit_part),
    Thinking: (Thinking(WORD, WORD), fit_said),
    ToolCall: (CALL, fit_call),
    UserMessage: (UserMessage((Text(WORD),), Origin.STEERING), fit_message),
    AssistantMessage: (AssistantMessage((Text(WORD),), (CALL,), WORD, StopReason.LENGTH, USAGE, True), fit_message),
    ToolMessage: (ToolMessage(WORD, WORD, (Text(WORD),), True, ARGS), fit_message),
    Usage: (USAGE, fit_usage),
    Response: (Response((Text(WORD),), (CALL,), StopReason.LENGTH, USAGE, True), fit_response),
    TextChunk: (TextChunk(WORD), partial(fit_chunk, room=MAX_TEXT)),
    ThinkingChunk: (ThinkingChunk(WORD), partial(fit_chunk, room=MAX_TEXT)),
    CallChunk: (CallChunk(WORD), partial(fit_chunk, room=MAX_TEXT)),
    UsageChunk: (UsageChunk(USAGE), partial(fit_chunk, room=MAX_TEXT)),
    Ok: (OK, fit_result),
    Err: (Err(OK.content, OK.details), fit_result),
    Effect: (Effect(AskPerson(WORD, (WORD,))), fit_result),
    AskPerson: (AskPerson(WORD, (WORD,)), _fit_effect),
    CompactNow: (CompactNow(WORD), _fit_effect),
    HandOver: (HandOver(ActingAgent(WORD), models=((WORD, ARGS),), priced=frozenset({WORD})), _fit_effect),
    SetTodos: (SetTodos((Todo(WORD, WORD),)), _fit_effect),
    Todo: (Todo(WORD, WORD), _fit_todo),
}
FIELDS = [(kind, field) for kind in FIT for field in kind.__struct_fields__]


def test_each_class_of_the_unions_is_tried() -> None:
    members = {kind for union in (Part, Said, Message, Chunk, ToolResult, ToolEffect) for kind in get_args(union)}
    assert members - set(FIT) == {PingChunk}, "only what has no fields needs no check of them"


@each_case(FIELDS)
def test_no_field_goes_unchecked(kind: type[Value], field: str) -> None:
    value, fit = FIT[kind]
    with pytest.raises((BadResponse, TypeError, NotJson)):
        fit(value.but(**{field: object()}))


@each_case(FIT)
def test_no_field_is_lost_when_a_value_is_rebuilt(kind: type[Value]) -> None:
    value, fit = FIT[kind]
    assert fit(value) == value
