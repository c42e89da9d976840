"""Removes secrets from answers: a server may echo its request, and a model may repeat a secret."""

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
"""Characters of a secret's beginning that tell something; fewer may end any sentence."""


class Redactor:
    """Knows the secrets of one request; it is never shown."""

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
        """Return *text* without the secrets."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, INSTEAD)
        return text

    def json(self, found: Json) -> Json:
        """Return *found* without the secrets."""
        if isinstance(found, str):
            return self.text(found)
        if isinstance(found, Mapping):
            return FrozenObject({self.text(key): self.json(item) for key, item in found.items()})
        return tuple(map(self.json, found)) if isinstance(found, list | tuple) else found

    def error(self, error: ModelError) -> ModelError:
        """Return *error* without the secrets, nor the beginning of one that it was shortened in."""
        said = self.text(str(error.args[0]))
        end = self._beginning(said)
        return type(error)(said if len(said) - end < TELLING else said[:end] + INSTEAD, error.retry_after)

    def response(self, response: Response) -> Response:
        """Return *response* without the secrets."""
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
        """Return what may be heard of *chunk*; what could be the beginning of a secret is held back until the next."""
        if not isinstance(chunk, TextChunk | ThinkingChunk):
            return (chunk,)
        kind = type(chunk)
        text = self.text(self._held.pop(kind, "") + chunk.text)
        cut = self._beginning(text)
        if cut < len(text):
            self._held[kind] = text[cut:]
        return (kind(text[:cut]),) if cut else ()

    def rest(self) -> tuple[Chunk, ...]:
        """Return what was held back and turned out to be no secret."""
        held, self._held = self._held, {}
        return tuple(kind(text) for kind, text in held.items())

    def _beginning(self, text: str) -> int:
        """Return where at the end of *text* a secret may begin; the length of *text* if none does."""
        first = len(text)
        for secret in self._secrets:
            at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
            while at >= 0 and not secret.startswith(text[at:]):
                at = text.find(secret[0], at + 1)
            if at >= 0:
                first = min(first, at)
        return first
