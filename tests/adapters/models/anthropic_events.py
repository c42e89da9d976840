"""Answers of the Messages API, made up as they are needed; the shapes are those of the recorded streams."""

from __future__ import annotations

from tests.adapters.models.server import events


def error(kind: str, message: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def opening(*, read: int = 5) -> dict[str, object]:
    return {"type": "message_start", "message": {"usage": {"input_tokens": read, "output_tokens": 1}}}


def block(index: int, kind: str, delta: str, field: str, *pieces: str, **begun: object) -> list[dict[str, object]]:
    """Return a block that comes in *pieces*."""
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": kind, **begun}},
        *({"type": "content_block_delta", "index": index, "delta": {"type": delta, field: piece}} for piece in pieces),
        {"type": "content_block_stop", "index": index},
    ]


def closing(stop: str = "end_turn", *, written: int = 7) -> list[dict[str, object]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": written}},
        {"type": "message_stop"},
    ]


def saying(*pieces: str, thinking: str = "") -> bytes:
    """Return a whole answer of a thought and a text."""
    thought = block(0, "thinking", "thinking_delta", "thinking", thinking, signature="seal") if thinking else []
    return events(opening(), *thought, *block(1, "text", "text_delta", "text", *pieces), *closing())
