"""Answers of chat completions, made up as they are needed; the shapes are those of the recorded streams."""

from __future__ import annotations

from tests.adapters.models.server import events

DONE = b"data: [DONE]\n\n"


def piece(finish: str | None = None, **delta: object) -> dict[str, object]:
    """Return a piece of the message."""
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def calling(*, index: int | None = 0, call_id: str | None = None, **function: object) -> dict[str, object]:
    """Return a piece of a call."""
    call: dict[str, object] = {"type": "function", "function": function}
    if index is not None:
        call["index"] = index
    if call_id is not None:
        call["id"] = call_id
    return piece(tool_calls=[call])


def counting(read: int = 5, written: int = 7, **more: object) -> dict[str, object]:
    usage = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written, **more}
    return {"object": "chat.completion.chunk", "choices": [], "usage": usage}


def saying(*pieces: str, thinking: str = "") -> bytes:
    """Return a whole answer of a thought and a text."""
    thought = [piece(reasoning_content=thinking)] if thinking else []
    return events(*thought, *(piece(content=text) for text in pieces), piece("stop"), counting(), named=False) + DONE
