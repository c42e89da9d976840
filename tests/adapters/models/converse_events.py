"""Answers of Bedrock's Converse stream, as frames. The frames are read by AWS's own reader in the tests, too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from struct import pack
from zlib import crc32


def packed(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a frame with *headers*, all texts, and *payload*."""
    block = b"".join(
        bytes([len(name.encode())]) + name.encode() + b"\x07" + pack(">H", len(value.encode())) + value.encode()
        for name, value in headers.items()
    )
    lengths = pack(">II", 16 + len(block) + len(payload), len(block))
    content = lengths + pack(">I", crc32(lengths)) + block + payload
    return content + pack(">I", crc32(content))


def event(kind: str, fields: object) -> bytes:
    """Return an event of this *kind*."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return packed(headers, json.dumps(fields).encode())


def exception(kind: str, message: str) -> bytes:
    """Return an exception of the service in the stream."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return packed(headers, json.dumps({"message": message}).encode())


def delta(fields: object, index: int = 0) -> bytes:
    """Return a piece of the block of this *index*."""
    return event("contentBlockDelta", {"contentBlockIndex": index, "delta": fields})


def ended(reason: str = "end_turn") -> bytes:
    """Return the end of an answer, with its usage."""
    usage = {"inputTokens": 9, "outputTokens": 4, "totalTokens": 13}
    return event("messageStop", {"stopReason": reason}) + event("metadata", {"usage": usage, "metrics": {}})


def saying(*pieces: str, thinking: str = "") -> bytes:
    """Return an answer with a text in *pieces*."""
    begun = event("messageStart", {"role": "assistant"})
    if thinking:
        begun += delta({"reasoningContent": {"text": thinking}}) + delta({"reasoningContent": {"signature": "c2Vh"}})
    return begun + b"".join(delta({"text": piece}, 1) for piece in pieces) + ended()


def calling(*calls: tuple[str, str, str]) -> bytes:
    """Return an answer with calls: id, name, and arguments as JSON."""
    answer = event("messageStart", {"role": "assistant"})
    for index, (wire_id, name, written) in enumerate(calls):
        start = {"toolUse": {"toolUseId": wire_id, "name": name}}
        answer += event("contentBlockStart", {"contentBlockIndex": index, "start": start})
        for place in range(0, len(written), 5):
            answer += delta({"toolUse": {"input": written[place : place + 5]}}, index)
        answer += event("contentBlockStop", {"contentBlockIndex": index})
    return answer + ended("tool_use")
