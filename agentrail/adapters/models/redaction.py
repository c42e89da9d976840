"""Removes secrets from answers and errors: a server may echo its request, and a model may repeat a secret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from agentrail.errors import ModelError
from agentrail.values.content import Said, Thinking, ToolCall
from agentrail.values.json import FrozenObject, Json, freeze_object
from agentrail.values.stream import Chunk, Response, TextChunk, ThinkingChunk

INSTEAD: Final = "[secret]"
"""Text that replaces a secret."""

TELLING: Final = 4
"""The fewest characters at the end of an error that count as the beginning of a secret; fewer may be chance."""


class Redactor:
    """Removes the secrets of one request from texts and chunks. Its `repr` does not show them."""

    __slots__ = ("_held", "_secrets")

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = tuple(sorted({secret for secret in secrets if secret}, key=len, reverse=True))
        self._held: dict[type[TextChunk | ThinkingChunk], str] = {}

    def __repr__(self) -> str:
        return f"<Redactor of {len(self._secrets)}>"

    @property
    def knows_none(self) -> bool:
        """Whether the request has no secrets."""
        return not self._secrets

    def text(self, text: str) -> str:
        """Return *text* with each secret replaced by `INSTEAD`."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, INSTEAD)
        return text

    def json(self, found: Json) -> Json:
        """Return *found* with each secret in its texts and keys replaced."""
        if isinstance(found, str):
            return self.text(found)
        if isinstance(found, Mapping):
            return FrozenObject({self.text(key): self.json(item) for key, item in found.items()})
        return tuple(map(self.json, found)) if isinstance(found, list | tuple) else found

    def error(self, error: ModelError) -> ModelError:
        """Return *error* with the secrets in its text replaced, also one that was cut off at the end of the text."""
        said = self.text(str(error.args[0]))
        end = self._beginning(said)
        return type(error)(said if len(said) - end < TELLING else said[:end] + INSTEAD, error.retry_after)

    def response(self, response: Response) -> Response:
        """Return *response* with each secret in its texts, signatures and calls replaced."""
        return response.but(parts=tuple(map(self._said, response.parts)), calls=tuple(map(self._call, response.calls)))

    def _said(self, part: Said) -> Said:
        text = self.text(part.text)
        if isinstance(part, Thinking) and part.signature is not None:
            return Thinking(text, self.text(part.signature))
        return part.but(text=text)

    def _call(self, call: ToolCall) -> ToolCall:
        args = freeze_object(self.json(call.args))
        return call.but(name=self.text(call.name), args=args, provider_id=self.text(call.provider_id))

    def chunks(self, chunk: Chunk) -> tuple[Chunk, ...]:
        """Return *chunk* with each secret replaced.

        Text at its end that may be the beginning of a secret is held back until the next chunk of the same kind.
        """
        if not isinstance(chunk, TextChunk | ThinkingChunk):
            return (chunk,)
        kind = type(chunk)
        text = self.text(self._held.pop(kind, "") + chunk.text)
        cut = self._beginning(text)
        if cut < len(text):
            self._held[kind] = text[cut:]
        return (kind(text[:cut]),) if cut else ()

    def rest(self) -> tuple[Chunk, ...]:
        """Return the text that `chunks` still holds back at the end of the answer; it is no secret."""
        held, self._held = self._held, {}
        return tuple(kind(text) for kind, text in held.items())

    def _beginning(self, text: str) -> int:
        """Return the index at which the end of *text* may be the beginning of a secret; its length if it is not."""
        first = len(text)
        for secret in self._secrets:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            if at >= 0:
                first = min(first, at)
        return first
