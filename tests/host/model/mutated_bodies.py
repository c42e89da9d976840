"""JSON bodies that are nearly right, for each call of a host: changed as values, and then as bytes."""

from __future__ import annotations

import json
from random import Random
from typing import Final

from agentrail.api.operation_table import ROUTES, HostRoute
from tests.host.http11.mutating import mutated_bytes
from tests.host.model.in_process import DrawnRequest
from tests.host.model.people import PEOPLE
from tests.host.model.requests import NAMES, Making, build_request

WORDS: Final = ("", "", "child")
"""What messages say: nothing for which the turn would wait."""

PARTS: Final[tuple[object, ...]] = (
    {"$": "Text", "text": "hi"},
    {"$": "Image", "media_type": "image/png", "data": "iVBORw0KGgo="},
    {"$": "File", "media_type": "application/pdf", "data": "JVBERi0=", "name": "a.pdf"},
    {"$": "Data", "data": {"a": [1, None]}},
)
ODD: Final[tuple[object, ...]] = (
    None, True, 0, -1, 1.5, 10**30, 2**63, float("nan"), float("inf"), "", "\0", "\ud800", "x" * 5_000, "*", "..",
    "h.acme.ann.s1", [], [[]], {}, {"$": "Text"}, {"$": "Prompt"}, {"": {}}, [0] * 500, {"__class__": "x"},
)  # fmt: skip
KEYS: Final = ("", "$", "tenant", "user", "message", "session", "text", "args", "\0", "\ud800", "__init__", "x" * 300)
TOKENS: Final = (
    b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u", b"\\ud800", b"\\u0000", b",", b":", b"NaN", b"-Infinity", b"1e999",
    b"-", b"0", b"00", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"[" * 200, b'{"a":' * 200, b"9" * 400,
    b'"a":1,', b"//", b"true", b"\n", b'"message":"x",', b"\xf0\x9f\x98\x80", b",,", b"1" * 20 + b".5",
)  # fmt: skip


def deep(levels: int) -> object:
    """Return a list in a list in a list …"""
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


def changed(chance: Random, value: object) -> object:
    """Return *value*, or something in it, as something else."""
    odd = chance.choice((*ODD, *PARTS, deep(chance.choice((3, 64, 65, 300)))))
    if isinstance(value, dict) and value and chance.random() < 0.8:
        key = chance.choice([*value])
        match chance.randrange(5):
            case 0:
                return {name: item for name, item in value.items() if name != key}
            case 1:
                return {**value, chance.choice(KEYS): odd}
            case _:
                return {**value, key: changed(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.7:
        index = chance.randrange(len(value))
        return [*value[:index], changed(chance, value[index]), *value[index + chance.randrange(2) :]]
    return odd


def draw_request(chance: Random) -> tuple[HostRoute, DrawnRequest]:
    """Return a request for a route, with a body that may be changed."""
    route = chance.choice(ROUTES)
    person = chance.choice(PEOPLE[:4])
    make = Making(chance, person, f"{person.user}.{chance.choice(NAMES)}", "text", (), WORDS)
    request = build_request(route, make, person.key)
    body = request.body
    if route.call.body is not None:
        value = json.loads(body)
        if "message" in value and chance.random() < 0.3:
            value["message"] = [chance.choice(PARTS), chance.choice(PARTS)]
        for _ in range(chance.randrange(3)):
            value = changed(chance, value)
        body = json.dumps(value, ensure_ascii=chance.random() < 0.9).encode(errors="surrogatepass")
        if chance.random() < 0.4:
            body = mutated_bytes(chance, body, TOKENS, (body,))
    return route, DrawnRequest(request.method, request.target, request.headers, body)


def sent(request: DrawnRequest) -> bytes:
    """Return a request as bytes."""
    lines = [f"{request.method} {request.target} HTTP/1.1", "host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in request.headers]
    if request.method == "POST":
        lines.append(f"content-length: {len(request.body)}")
        return "\r\n".join([*lines, "", ""]).encode() + request.body
    return "\r\n".join([*lines, "", ""]).encode()
