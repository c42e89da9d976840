"""`Model`: a language model as the runtime calls it; `Prices`: what models cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from agentrail.ports.protocol_members import has_members
from agentrail.values.content import File, Image
from agentrail.values.json import Json, JsonObject
from agentrail.values.stream import Chunk, ModelRequest, Response
from agentrail.values.usage import Usage

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
    """Interface: a model that can check its options before the first request."""

    def check(self, options: JsonObject) -> None:
        """Raise `BadModelOptions` if the model does not take *options*."""
        ...


def times_beginning(model: Model) -> bool:
    """Whether *model* itself times out if an answer does not begin; the watchdog then ignores silence before that.

    Such a model has an attribute of this name. There is no Protocol for it, because `isinstance` with one is slow.
    """
    flag: object = getattr(model, "times_beginning", False)
    return flag is True


def forms_answers(model: Model) -> bool:
    """Whether *model* itself heeds `ModelRequest.returns`; for other models, the runtime adds a tool for the answer.

    Such a model has an attribute of this name.
    """
    flag: object = getattr(model, "forms_answers", False)
    return flag is True


@runtime_checkable
class ChoosesFiles(Protocol):
    """Interface: a model that does not take all files and images."""

    def why_untaken(self, part: File | Image) -> str | None:
        """Return why the model does not take *part*; `None` if it does."""
        ...


def why_untaken(model: Model, part: File | Image) -> str | None:
    """Return why *model* does not take *part*; `None` if it does, or does not say."""
    return model.why_untaken(part) if has_members(model, ChoosesFiles) else None


class PriceBook(Protocol):
    """Interface: looks up what models cost."""

    def knows(self, model: str, options: JsonObject) -> bool:
        """Whether the price of *model* with *options* is known."""
        ...

    def priced(self, model: str, options: JsonObject, usage: Usage) -> Usage:
        """Return *usage* with its cost, which is `None` if no price is known."""
        ...
