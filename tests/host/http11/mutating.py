"""Requests that are nearly right: a good one, or one that is refused, changed in a few places by chance."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from tests.host.http11.served import request
from tests.host.http11.strictness import CASES

GOOD: Final = (
    request("GET /v1/sessions?cursor=a&limit=10 HTTP/1.1", "Accept: */*", "User-Agent: a/1.0 (b; c)"),
    request("POST /v1/chat HTTP/1.1", "Content-Type: application/json", "Content-Length: 17") + b'{"message": "hi"}',
    request("POST /v1/chat HTTP/1.1", "Transfer-Encoding: chunked") + b"5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n",
    request("POST /v1/chat HTTP/1.1", "Expect: 100-continue", "Content-Length: 5") + b"hello",
    request("HEAD /%C3%A4%20b HTTP/1.1", 'If-None-Match: W/"a", "b"', host="[::1]:8000"),
    request("GET /stream HTTP/1.1", "Last-Event-ID: 12.3", "Origin: http://localhost:3000"),
    request("OPTIONS / HTTP/1.0", "Access-Control-Request-Method: POST"),
    request() + request("DELETE /v1/sessions/a HTTP/1.1", "Authorization: Bearer abc") + request(),
    request("GET / HTTP/1.1", *[f"X-{number}: {'a' * 200}" for number in range(60)]),
)
SEEDS: Final = (*GOOD * 20, *(case.sent for case in CASES))

TOKENS: Final = (
    b"\r\n", b"\n", b"\r", b"\r\n\r\n", b" ", b"\t", b"\x00", b"\xff", b"%", b"%00", b"%2f", b"..", b"/", b"?", b"#",
    b":", b";", b",", b"0", b"-1", b"1" * 30, b"f" * 9, b"A" * 9_000, b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: g\r\n", b"Expect: 100-continue\r\n", b"Connection: close\r\n", b"Upgrade: websocket\r\n",
    b"HTTP/1.1", b"HTTP/1.0",
    b"CONNECT ", b"HEAD ", b"0\r\n\r\n", b"{0}", b"%s", b"\xe2\x82\xac",
)  # fmt: skip


def mutated(chance: random.Random) -> bytes:
    """Return a request with up to four changes."""
    return mutated_bytes(chance, chance.choice(SEEDS), TOKENS, SEEDS)


def mutated_bytes(chance: random.Random, data: bytes, tokens: Sequence[bytes], others: Sequence[bytes]) -> bytes:
    """Return *data* with up to four changes, some of which put *tokens* in, or the end of one of the *others*."""
    sent = bytearray(data)
    for _ in range(chance.randrange(5)):
        start = chance.randrange(len(sent) + 1)
        end = min(len(sent), start + chance.choice((0, 1, 1, 2, 5, 40)))
        match chance.randrange(6):
            case 0:
                sent[start:end] = b""
            case 1:
                sent[start:end] = chance.choice(tokens)
            case 2:
                sent[start:start] = sent[start:end] * chance.choice((1, 2, 50))
            case 3:
                sent[start:end] = chance.randbytes(end - start)
            case 4:
                other = chance.choice(others)
                sent[start:] = other[chance.randrange(max(1, len(other))) :]
            case _:
                del sent[start:]
    return bytes(sent)
