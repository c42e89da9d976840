"""A model that answers from a script: each element answers one request, chunk by chunk, on Trio's clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias, cast, final

import trio

from agentrail.adapters.models.settings import read_settings
from agentrail.errors import ContextTooLong, PermanentModelError, TransientModelError, WrongType
from agentrail.ports.model import EmitChunk
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked
from agentrail.values.content import Said, Text, Thinking, ToolCall
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.messages import AssistantMessage, StopReason, UserMessage
from agentrail.values.stream import Chunk, ModelRequest, Response, TextChunk, ThinkingChunk
from agentrail.values.untrusted_values import brief
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Authored

_WORD = re.compile(r"\s*\S+\s*")


@final
class ScriptError(PermanentModelError):
    """A `ScriptedModel` got more requests than its script has elements."""

    def __init__(self, model: str, elements: int, request: int) -> None:
        super().__init__(
            f"the script of `{model}` has {elements} elements and this is request {request}; "
            "add an element, or use `repeat_last=True`"
        )


class ScriptStep(Authored):
    """One step of a script for `simulate`. Those of this module are answers of a model, also for `ScriptedModel`."""


class Saying(ScriptStep):
    """An answer of the model: it streams chunks, then returns a whole response."""

    chunks: tuple[Chunk, ...]
    """The chunks that are streamed."""
    response: Response
    """The response that is returned after the last chunk."""
    delay: float | None = 0.0
    """Seconds to wait before each chunk; with 0 other tasks run in between, with `None` not even that."""


class Failing(ScriptStep, gc=True):
    """A failure of the model: it streams chunks, then raises an error."""

    chunks: tuple[Chunk, ...]
    """The chunks that are streamed before the error."""
    error: Exception
    """The error that is raised after the last chunk."""
    delay: float | None = 0.0
    """Seconds to wait before each chunk; with 0 other tasks run in between, with `None` not even that."""


class Stalling(ScriptStep):
    """A stall of the model: it streams chunks, then sends nothing more and never ends."""

    chunks: tuple[Chunk, ...]
    """The chunks that are streamed before the stall."""
    delay: float | None = 0.0
    """Seconds to wait before each chunk; with 0 other tasks run in between, with `None` not even that."""


ScriptedResponse: TypeAlias = Saying | Failing | Stalling
Element: TypeAlias = "str | ScriptedResponse | Callable[[ModelRequest], Element]"
"""The answer to one request: a text, a step of this module, or a function from the request to an element."""
Script: TypeAlias = "Iterable[Element]"
"""The elements of a model; it has a name so that `checked` leaves it to `_elements`, whose error says what they are."""


ELEMENT: Final = "a text, `say(…)`, `fail(…)`, `stall(…)`, or a function of the request that returns one of these"
"""The possible elements of a script in words, for the error about something else."""


@checked
def call(name: str, args: Mapping[str, Json] | None = None, *, id: str = "") -> ToolCall:  # noqa: A002 - the usual name
    """Return a tool call for `say(calls=[…])`; *id* is the id that the provider would give it."""
    return ToolCall("", name, freeze_object(args or {}), id)


@checked
def say(
    text: str = "",
    *,
    thinking: str = "",
    calls: Iterable[ToolCall] = (),
    chunks: int | Sequence[str | Chunk] | None = None,
    delay: float | None = 0.0,
    stop: StopReason | None = None,
    usage: Usage = NOTHING_USED,
) -> Saying:
    """Return an answer of the model: thinking, then a text, then tool calls.

    The text is streamed word by word; with a number as *chunks*, in so many pieces; with a list, in exactly these
    pieces, and *text* may be left out. The model waits *delay* seconds before each chunk; with `None` it sends all at
    once, and no other task runs in between.
    """
    _check_seconds("delay", delay)
    if isinstance(chunks, int):
        _check_count("chunks", chunks, 1)
    elif chunks is not None:
        text = text or "".join(chunk if isinstance(chunk, str) else _text_in(chunk) for chunk in chunks)
    parts: tuple[Said, ...] = ((Thinking(thinking),) if thinking else ()) + ((Text(text),) if text else ())
    calls_ = tuple(calls)
    why = stop or (StopReason.TOOL_CALLS if calls_ else StopReason.END)
    return Saying(_chunks(text, thinking, chunks), Response(parts, calls_, why, usage), delay)


@checked
def fail(error: Exception, *, after: int = 0, text: str = "", delay: float | None = 0.0) -> Failing:
    """Return a failure: the model raises *error* after streaming *after* chunks, which are words of *text* if given."""
    _check_seconds("delay", delay)
    return Failing(_beginning(text, after), error, delay)


@checked
def transient(message: str = "try again later", *, retry_after: float | None = None, after: int = 0) -> Failing:
    """Return a failure with a `TransientModelError`: another try may work."""
    _check_seconds("retry_after", retry_after)
    return fail(TransientModelError(message, retry_after), after=after)


@checked
def permanent(message: str = "this will never work", *, after: int = 0) -> Failing:
    """Return a failure with a `PermanentModelError`: another try would not work."""
    return fail(PermanentModelError(message), after=after)


@checked
def overflow(message: str = "the conversation is too long", *, after: int = 0) -> Failing:
    """Return a failure with `ContextTooLong`: the conversation is longer than the model can read."""
    return fail(ContextTooLong(message), after=after)


@checked
def stall(*, after: int = 0, text: str = "", delay: float | None = 0.0) -> Stalling:
    """Return a stall: the model streams *after* chunks (words of *text* if given), then nothing, and never ends."""
    _check_seconds("delay", delay)
    return Stalling(_beginning(text, after), delay)


@checked
def by_prompt(scripts: Mapping[str, Script]) -> Element:
    """Return the element that plays a script for each prompt, one element a request, whatever session it is of.

    `ScriptedModel([by_prompt({…})], repeat_last=True)` is a model for several sessions at once.
    """
    elements = {prompt: _elements(script) for prompt, script in scripts.items()}

    def choose(request: ModelRequest) -> Element:
        prompts = [index for index, message in enumerate(request.messages) if isinstance(message, UserMessage)]
        begin = prompts[-1] if prompts else 0
        prompt = request.messages[begin].text if prompts else ""
        round_ = sum(isinstance(message, AssistantMessage) for message in request.messages[begin:])
        script = elements.get(prompt)
        if script is None:
            return permanent(f"there is no script for the prompt {prompt!r}")
        return script[round_] if round_ < len(script) else fail(ScriptError(prompt, len(script), round_ + 1))

    return choose


@final
class ScriptedModel:
    """Model that answers from *script*, one element per request; each retry, and each plugin's `CallModel`, counts too.

    After the last element, a request raises `ScriptError`; with *repeat_last*, the last element answers all further
    requests. `requests` holds the requests, in order.
    """

    __slots__ = ("_repeat_last", "_script", "name", "requests")

    @checked
    def __init__(self, script: Script = (), *, repeat_last: bool = False, name: str = "scripted") -> None:
        self._script = _elements(script)
        self._repeat_last = repeat_last
        self.name = name
        self.requests: list[ModelRequest] = []

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.name!r} {len(self.requests)} of {len(self._script)} elements asked for"

    def check(self, options: JsonObject) -> None:
        """Raise `BadModelOptions` for options that no provider takes: a session with a real model would not start."""
        read_settings(options)

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Answer *request* as the next element of the script says."""
        self.requests.append(request)
        scripted = self._next(request)
        if scripted.delay is None or not scripted.chunks:
            await trio.lowlevel.checkpoint()
        for chunk in scripted.chunks:
            if scripted.delay is not None:
                await trio.sleep(scripted.delay)
            emit(chunk)
        match scripted:
            case Saying():
                return scripted.response
            case Failing():
                raise scripted.error
            case Stalling():
                return await trio.sleep_forever()

    def _next(self, request: ModelRequest) -> ScriptedResponse:
        index = len(self.requests) - 1
        if self._repeat_last and self._script:
            index = min(index, len(self._script) - 1)
        if index >= len(self._script):
            raise ScriptError(self.name, len(self._script), index + 1)
        element = self._script[index]
        while callable(element):
            element = element(request)
            _check_element("what an element of `script` returned", element)
        return say(element) if isinstance(element, str) else element


def _elements(script: Script) -> tuple[Element, ...]:
    """Return the elements of *script*; raise `WrongType` if it is not a list, or one of them is not an element."""
    items = cast("object", script)
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise WrongType.of("script", items, f"a list; each element is {ELEMENT}")
    elements = tuple(script)
    for index, element in enumerate(elements):
        _check_element(f"script[{index}]", element)
    return elements


def _check_element(name: str, element: object) -> None:
    if isinstance(element, ToolCall):
        raise WrongType.of(name, element, f"`say(calls=[call(…)])`; an element is {ELEMENT}")
    if not isinstance(element, str | Saying | Failing | Stalling) and not callable(element):
        raise WrongType.of(name, element, ELEMENT)


def _check_count(name: str, count: int, least: int) -> None:
    if count < least:
        raise WrongType(name, brief(count), f"a number of chunks, {least} or more")


def _check_seconds(name: str, seconds: float | None) -> None:
    if seconds is not None and not seconds >= 0:  # as NaN is not
        raise WrongType(name, brief(seconds), "seconds, 0 or more, or `None`")


def _chunks(text: str, thinking: str, chunks: int | Sequence[str | Chunk] | None) -> tuple[Chunk, ...]:
    thoughts: tuple[Chunk, ...] = tuple(map(ThinkingChunk, _words(thinking)))
    if chunks is None:
        return (*thoughts, *map(TextChunk, _words(text)))
    if isinstance(chunks, int):
        return (*thoughts, *map(TextChunk, _pieces(text, chunks)))
    return (*thoughts, *(TextChunk(chunk) if isinstance(chunk, str) else chunk for chunk in chunks))


def _words(text: str) -> list[str]:
    """Cut *text* into words with the spaces around them; joined, they give the text again."""
    return _WORD.findall(text) or ([text] if text else [])


def _pieces(text: str, count: int) -> list[str]:
    """Cut *text* into *count* pieces of about the same length; into fewer if it has fewer characters."""
    cuts = [len(text) * number // count for number in range(count + 1)]
    return [text[start:end] for start, end in pairwise(cuts) if end > start]


def _text_in(chunk: Chunk) -> str:
    return chunk.text if isinstance(chunk, TextChunk) else ""


def _beginning(text: str, after: int) -> tuple[Chunk, ...]:
    _check_count("after", after, 0)
    words = _words(text) if text else [f"word{index} " for index in range(after)]
    return tuple(map(TextChunk, words[:after]))
