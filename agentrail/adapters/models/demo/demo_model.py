"""The demo as a model: it streams its answers word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import final

import trio

from agentrail.adapters.models.demo.answers import answer
from agentrail.ports.model import EmitChunk
from agentrail.values.content import Thinking
from agentrail.values.stream import Chunk, ModelRequest, Response, TextChunk, ThinkingChunk
from agentrail.values.value import Value, value

_WORD = re.compile(r"\s*\S+\s*")


@final
@value
class DemoModel(Value):
    """The built-in offline model: deterministic, and it needs no key."""

    delay: float = 0.02
    """Seconds before each chunk; 0 only lets others run."""

    @property
    def name(self) -> str:
        """Its name."""
        return "demo"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Give the answer to *request* to *emit*, a thought whole and text word by word, and return it."""
        response = answer(request)
        for chunk in chunks_of(response):
            await trio.sleep(self.delay)
            emit(chunk)
        return response


def chunks_of(response: Response) -> Iterator[Chunk]:
    """Cut *response* into chunks; joined, they are its parts."""
    for part in response.parts:
        if isinstance(part, Thinking):
            yield ThinkingChunk(part.text)
        else:
            yield from map(TextChunk, _WORD.findall(part.text))
