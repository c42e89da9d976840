"""What the shell needs of a model, and of whatever makes a context shorter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from agentrail.values.json import Json, JsonObject
from agentrail.values.messages import Message
from agentrail.values.stream import Chunk, ModelRequest, Response
from agentrail.values.value import Value, value

EmitChunk = Callable[[Chunk], None]


class Model(Protocol):
    """One model of one provider."""

    @property
    def name(self) -> str:
        """What it is called, such as `demo` or `anthropic:some-model`."""
        ...

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Make one attempt: give each chunk to *emit* as it comes, and return the whole response.

        Raises `TransientModelError`, `PermanentModelError` or `ContextTooLong`; it is cancelled at any await.
        """
        ...


ChainLink: TypeAlias = str | Model | tuple[str | Model, Mapping[str, Json]]
"""A model by its name or itself, or one of both with options for its provider."""

ModelChain: TypeAlias = ChainLink | Sequence[ChainLink]
"""A model, or several: each is asked when those before it cannot answer."""


@runtime_checkable
class ChecksOptions(Protocol):
    """A model that can say beforehand whether it takes its options."""

    def check(self, options: JsonObject) -> None:
        """Raise `BadModelOptions` for *options* that it does not take."""
        ...


def times_beginning(model: Model) -> bool:
    """Whether *model* gives up by itself if an answer does not begin: silence before its first word is no stall.

    Such a model says so by an attribute of this name. It is not a protocol, because those are slow to look for.
    """
    found: object = getattr(model, "times_beginning", False)
    return found is True


@value
class Compacted(Value):
    """A shorter context."""

    messages: tuple[Message, ...]
    """What is left, in order; valid for a provider."""
    removed: int
    """How many messages went."""
    note: str
    """What was done, in words."""


class Compactor(Protocol):
    """Makes a context shorter."""

    async def __call__(self, messages: Sequence[Message], keep: int) -> Compacted:
        """Return *messages* in about *keep* characters; never split a call from its result."""
        ...
