"""Answers of the Gemini API, made up as they are needed; the shapes are those of the recorded streams."""

from __future__ import annotations

from tests.adapters.models.server import events


def error(code: int, status: str, message: str, *details: dict[str, object]) -> dict[str, object]:
    inside: dict[str, object] = {"code": code, "message": message, "status": status}
    return {"error": {**inside, "details": list(details)} if details else inside}


def reason(name: str) -> dict[str, object]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": name, "domain": "googleapis.com"}


def retry(delay: str) -> dict[str, object]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}


def content(*parts: dict[str, object], finish: str = "", **more: object) -> dict[str, object]:
    """Return an event with *parts*."""
    candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate], **more}


def thought(text: str) -> dict[str, object]:
    return {"text": text, "thought": True}


def called(name: str, args: object = None, signature: str = "", **more: object) -> dict[str, object]:
    """Return a part that is a call."""
    call: dict[str, object] = {"functionCall": {"name": name, **({} if args is None else {"args": args}), **more}}
    return {**call, "thoughtSignature": signature} if signature else call


def closing(stop: str = "STOP", *, read: int = 5, written: int = 7) -> dict[str, object]:
    usage = {"promptTokenCount": read, "candidatesTokenCount": written, "totalTokenCount": read + written}
    return content({"text": ""}, finish=stop, usageMetadata=usage)


def saying(*pieces: str, thinking: str = "") -> bytes:
    """Return a whole answer of a thought and a text."""
    thoughts = [content(thought(thinking))] if thinking else []
    return events(*thoughts, *(content({"text": piece}) for piece in pieces), closing(), named=False)
