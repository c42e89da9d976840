"""`Model`: a language model as the runtime calls it; `Compactor`: a function that sums messages up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from agentrail.values.content import File
from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.stream import Chunk, ModelRequest, Response
from agentrail.values.usage import Usage
from agentrail.values.value import Authored

EmitChunk = Callable[[Chunk], None]
"""Callback with which a model hands on each chunk when it comes; it takes no time and never fails."""


class Model(Protocol):
    """One model of one provider."""

    @property
    def name(self) -> str:
        """Name of the model, such as `demo` or `anthropic:some-model`."""
        ...

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Make one attempt at a request: call *emit* with each chunk as it comes, and return the whole response.

        Raises `TransientModelError`, `PermanentModelError` or `ContextTooLong`. It may be cancelled at any await.
        """
        ...


ChainLink: TypeAlias = str | Model | tuple[str | Model, Mapping[str, Json]]
"""A model of a chain: a name or a `Model`, or a pair of one of them and options for its provider."""

ModelChain: TypeAlias = ChainLink | Sequence[ChainLink]
"""One model, or several: each later one is asked only if all before it failed to answer."""


@runtime_checkable
class ChecksOptions(Protocol):
    """Implemented by a model that can check its options before the first request."""

    def check(self, options: JsonObject) -> None:
        """Raise `BadModelOptions` if the model does not take *options*."""
        ...


def times_beginning(model: Model) -> bool:
    """Whether *model* itself times out if an answer does not begin; the watchdog then ignores silence before that.

    Such a model has an attribute of this name. There is no Protocol for it, because `isinstance` with one is slow.
    """
    found: object = getattr(model, "times_beginning", False)
    return found is True


def forms_answers(model: Model) -> bool:
    """Whether *model* itself heeds `ModelRequest.returns`; for other models, the runtime adds a tool for the answer.

    Such a model has an attribute of this name.
    """
    found: object = getattr(model, "forms_answers", False)
    return found is True


@runtime_checkable
class ChoosesFiles(Protocol):
    """Implemented by a model that cannot take all files."""

    def why_untaken(self, file: File) -> str | None:
        """Return why the model does not take *file*; `None` if it does."""
        ...


def why_untaken(model: Model, file: File) -> str | None:
    """Return why *model* does not take *file*; `None` if it does, or does not say."""
    return model.why_untaken(file) if isinstance(model, ChoosesFiles) else None


class Prices(Protocol):
    """Interface: looks up what models cost."""

    def knows(self, model: str, options: JsonObject) -> bool:
        """Whether the price of *model* with *options* is known."""
        ...

    def priced(self, model: str, options: JsonObject, usage: Usage) -> Usage:
        """Return *usage* with its cost, which is `None` if no price is known."""
        ...


class Leaving(Authored):
    """Messages that are about to leave the context of a session, for the compactor that writes what replaces them."""

    messages: tuple[Message, ...]
    """The messages, in order. The first one may be what replaced earlier ones."""
    room: int
    """The most characters that the text in their place may have; a longer one is refused."""
    most: int
    """About how many characters of them the session's model can read at once."""


class AskModel(Protocol):
    """A function that asks the session's model; its tokens count as those of the session."""

    async def __call__(self, prompt: str, system: str = "") -> str:
        """Return the model's answer to *prompt*, with *system* as the system prompt."""
        ...


class Compactor(Protocol):
    """A function that writes what replaces messages which leave the context, such as a summary."""

    async def __call__(self, leaving: Leaving, ask: AskModel) -> str:
        """Return the text for the model; if it raises, is too long or takes too long, the messages are dropped."""
        ...
