"""The border: what tools, models and services give is made fit to be kept, or refused, before the machine sees it.

Half a surrogate pair is text that no file and no wire can hold. Where it comes from outside it is replaced, as a
terminal would; where a caller gives it, the caller is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from traceback import format_tb
from typing import cast

import trio

from agentrail.errors import BadMessage, NotJson
from agentrail.values.content import Data, Image, Part, Said, Text, ToolCall
from agentrail.values.json import freeze, freeze_object
from agentrail.values.stream import Response
from agentrail.values.tools import AskPerson, CompactNow, Effect, Err, Ok, SetTodos, ToolResult

TEXT = "the text"
PART = "a part"

MAX_SHOWN = 3
"""Exceptions of a group that are described."""

CRASHES = (Exception, SystemExit)
"""What may come out of code that is asked for one value and must not end anything but itself."""


class Contained:
    """Runs code that is not ours, in a task of ours: whatever it raises is *told*, and ends nothing but itself.

    A cancellation from outside goes on its way, also from within a group; one that nobody has asked for, kept from
    another call and raised again, is a crash like any other.
    """

    __slots__ = ("_told",)

    def __init__(self, told: Callable[[BaseException], None]) -> None:
        self._told = told

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None:
            return False
        passing, crash = _split(error)
        if crash is not None:
            self._told(_bare(crash))
        if passing is None or passing is error:
            return passing is None
        raise passing from None


def _split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return what of *error* must go on its way, and what is a crash."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        try:
            return group.split(_passes)
        except RecursionError:
            return None, group
    return (error, None) if _passes(error) else (None, error)


def _passes(error: BaseException) -> bool:
    if isinstance(error, trio.Cancelled):
        return trio.current_effective_deadline() == -math.inf
    return isinstance(error, KeyboardInterrupt)


def _bare(error: BaseException) -> BaseException:
    """Return *error* without the groups around it that hold nothing else."""
    found = error
    while len(inside := _inside(found)) == 1:
        found = inside[0]
    return found


def _inside(error: BaseException) -> tuple[BaseException, ...]:
    """Return what *error* holds, if it is a group."""
    if not isinstance(error, BaseExceptionGroup):
        return ()
    return cast("BaseExceptionGroup[BaseException]", error).exceptions


def mended(text: str) -> str:
    """Return *text* with half surrogate pairs replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def described(error: BaseException) -> str:
    """Return the class and the words of *error*, and of what it holds if it is a group."""
    return ": ".join(filter(None, (_named(error), "; ".join(map(_named, _inside(error)[:MAX_SHOWN])))))


def _named(error: BaseException) -> str:
    """Return the class and the words of *error*, whatever its author has made of `__str__`."""
    try:
        said = mended(str(error))
    except CRASHES:
        said = "it cannot even be shown"
    return f"{type(error).__name__}: {said}"


def traced(error: BaseException) -> str:
    """Return the class of *error* and the way it came, for the log: its words may be of the conversation."""
    return f"{type(error).__name__}\n{''.join(format_tb(error.__traceback__))}"


# From outside


def fit_result(result: object) -> ToolResult:
    """Return what a tool has returned, fit to be kept; raise what is wrong with it."""
    match result:
        case Ok() | Err():
            details = None if result.details is None else freeze_object(result.details)
            return type(result)(tuple(_fit_part(part) for part in result.content), details)
        case Effect(effect=SetTodos(todos=todos)):
            fit = tuple(todo.but(text=fit_text(todo.text), status=fit_text(todo.status)) for todo in todos)
            return Effect(SetTodos(fit))
        case Effect(effect=AskPerson(question=question, options=options)):
            return Effect(AskPerson(fit_text(question), tuple(fit_text(option) for option in options)))
        case Effect(effect=CompactNow(reason=reason)):
            return Effect(CompactNow(fit_text(reason)))
        case _:
            message = f"the tool returned a `{type(result).__name__}` where Ok, Err or Effect is wanted"
            raise TypeError(message)


def _fit_part(part: object) -> Part:
    match part:
        case Text(text=text):
            return Text(fit_text(text))
        case Image(media_type=media_type, data=data):
            return Image(fit_text(media_type), fit_text(data))
        case Data(data=found):
            return Data(freeze(found))
        case _:
            message = f"its content holds a `{type(part).__name__}` where Text, Image or Data is wanted"
            raise TypeError(message)


def fit_text(text: object) -> str:
    """Return *text*, fit to be kept; raise if it is none."""
    if not isinstance(text, str):
        message = f"a `{type(text).__name__}` where text is wanted"
        raise TypeError(message)
    return mended(text)


def fit_response(response: object) -> Response:
    """Return what a model has answered, fit to be kept; raise what is wrong with it."""
    if not isinstance(response, Response):
        message = f"the model returned a `{type(response).__name__}` where a Response is wanted"
        raise TypeError(message)
    parts: tuple[Said, ...] = tuple([_fit_said(part) for part in response.parts])
    calls = tuple(
        [
            ToolCall(mended(call.call_id), mended(call.name), freeze_object(call.args), mended(call.provider_id))
            for call in response.calls
        ]
    )
    return response.but(parts=parts, calls=calls)


def _fit_said(part: Said) -> Said:
    text = fit_text(part.text)
    return part if text is part.text else part.but(text=text)


# From a caller


def kept_text(text: object, what: str) -> str:
    """Return *text*, if it is text that can be kept; raise `BadMessage` otherwise."""
    if not isinstance(text, str):
        raise BadMessage(what, f"a `{type(text).__name__}`")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BadMessage(what, "text with half a surrogate pair") from None
    return text


def kept_parts(said: object) -> tuple[Part, ...]:
    """Return what a caller says, text or parts, as parts that can be kept; raise `BadMessage` otherwise."""
    if isinstance(said, str):
        return (Text(kept_text(said, TEXT)),)
    if not isinstance(said, Iterable):
        raise BadMessage(TEXT, f"a `{type(said).__name__}`")
    return tuple(_kept_part(part) for part in cast("Iterable[object]", said))


def _kept_part(part: object) -> Part:
    match part:
        case Text(text=text):
            return Text(kept_text(text, PART))
        case Image(media_type=media_type, data=data):
            return Image(kept_text(media_type, "a media type"), kept_text(data, "an image"))
        case Data(data=found):
            try:
                return Data(freeze(found))
            except NotJson as error:
                raise BadMessage(PART, str(error)) from None
        case _:
            raise BadMessage(PART, f"a `{type(part).__name__}`")
