"""The class of the demo model: it streams the answers that `answers` makes, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import final

import trio

from agentrail.adapters.models.demo.answers import answer
from agentrail.ports.model import EmitChunk
from agentrail.values.content import Thinking
from agentrail.values.stream import Chunk, ModelRequest, Response, TextChunk, ThinkingChunk
from agentrail.values.value import Authored

_WORD = re.compile(r"\s*\S+\s*")


@final
class DemoModel(Authored):
    """The built-in offline model: it is deterministic and needs no API key."""

    delay: float = 0.02
    """Seconds to sleep before each chunk; with 0 other tasks run in between, without a delay."""

    @property
    def name(self) -> str:
        """The name of the model."""
        return "demo"

    async def stream(self, request: ModelRequest, emit: EmitChunk) -> Response:
        """Pass the answer to *request* to *emit* in chunks, a thought whole and text word by word, and return it."""
        response = answer(request)
        for chunk in chunks_of(response):
            await trio.sleep(self.delay)
            emit(chunk)
        return response


def chunks_of(response: Response) -> Iterator[Chunk]:
    """Yield the chunks of *response*: each thought whole, each text in words with their spaces."""
    for part in response.parts:
        if isinstance(part, Thinking):
            yield ThinkingChunk(part.text)
        else:
            yield from map(TextChunk, _WORD.findall(part.text))
