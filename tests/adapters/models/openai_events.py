"""Answers of the Responses API, made up as they are needed; the shapes are those of the recorded streams."""

from __future__ import annotations

from tests.adapters.models.server import events


def error(code: str | None, message: str, kind: str = "invalid_request_error") -> dict[str, object]:
    """Return the body of an answer that is an error."""
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def failed(code: str, message: str) -> dict[str, object]:
    """Return the event that ends a response which failed."""
    return {"type": "response.failed", "response": {"status": "failed", "error": {"code": code, "message": message}}}


def delta(kind: str, index: int, piece: str, **more: object) -> dict[str, object]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": piece, **more}


def item(index: int, *inside: dict[str, object], **whole: object) -> list[dict[str, object]]:
    """Return an item with the events *inside*; it is done as *whole*."""
    begun = {key: found for key, found in whole.items() if key in {"type", "id"}}
    return [
        {"type": "response.output_item.added", "output_index": index, "item": begun},
        *inside,
        {"type": "response.output_item.done", "output_index": index, "item": whole},
    ]


def message(index: int, *pieces: str, **more: object) -> list[dict[str, object]]:
    content = [{"type": "output_text", "text": "".join(pieces)}]
    inside = [delta("output_text", index, piece) for piece in pieces]
    return item(index, *inside, type="message", id=f"msg_{index}", content=content, **more)


def thought(index: int, *pieces: str, sealed: str = "") -> list[dict[str, object]]:
    inside = [delta("reasoning_summary_text", index, piece, summary_index=0) for piece in pieces]
    summary = [{"type": "summary_text", "text": "".join(pieces)}]
    return item(index, *inside, type="reasoning", id=f"rs_{index}", summary=summary, encrypted_content=sealed or None)


def call(index: int, name: str, *pieces: str, call_id: str) -> list[dict[str, object]]:
    inside = [delta("function_call_arguments", index, piece) for piece in pieces]
    written = "".join(pieces)
    return item(index, *inside, type="function_call", id=f"fc_{index}", call_id=call_id, name=name, arguments=written)


def closing(
    status: str = "completed", reason: str | None = None, *, read: int = 5, written: int = 7
) -> dict[str, object]:
    """Return the last event."""
    details = None if reason is None else {"reason": reason}
    usage = {"input_tokens": read, "output_tokens": written}
    return {
        "type": f"response.{status}",
        "response": {"status": status, "incomplete_details": details, "output": [], "usage": usage},
    }


def saying(*pieces: str, thinking: str = "") -> bytes:
    """Return a whole answer of a thought and a text."""
    before = thought(0, thinking, sealed="c2VhbA==") if thinking else []
    return events({"type": "response.created", "response": {}}, *before, *message(1, *pieces), closing())
