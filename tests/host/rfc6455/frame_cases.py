"""Cases of RFC 6455, by section: what a client sends after the handshake, and what has to come back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from attrs import frozen

from tests.host.rfc6455.raw_frames import RESERVED, Opcode, close, frame

NORMAL: Final = 1000
PROTOCOL: Final = 1002
NOT_UTF8: Final = 1007
TOO_LARGE: Final = 1009


NO_ID: Final = ""
"""In place of the id of a message that has none; it is answered with none."""


@frozen
class Case:
    """What a client sends, and what has to come back before the server closes."""

    section: str
    name: str
    last: Sequence[bytes]
    """Pieces of bytes, each sent by itself, after which the server closes."""
    code: int | None
    """The code of the server's close frame; `None` if it has none."""
    first: Sequence[bytes] = ()
    """Pieces that are sent before, and what they ask for is waited for."""
    ids: Sequence[str] = ()
    """The ids of the messages in *first*, which are answered."""
    pongs: Sequence[bytes] = ()
    """The content of the pongs that *first* asks for."""
    breaks: bool = False
    """Whether the client breaks a rule; otherwise it closes, and the server answers."""


def good(section: str, name: str, *first: bytes, ids: Sequence[str] = (), pongs: Sequence[bytes] = ()) -> Case:
    """Return a case in which the server answers, and the client closes at the end."""
    return Case(section, name, (close(NORMAL),), NORMAL, first, ids, pongs)


def bad(
    section: str,
    name: str,
    code: int | None,
    *last: bytes,
    first: Sequence[bytes] = (),
    ids: Sequence[str] = (),
    pongs: Sequence[bytes] = (),
) -> Case:
    """Return a case in which the client breaks a rule, and the server closes with *code*."""
    return Case(section, name, last, code, first, ids, pongs, breaks=True)


def left(section: str, name: str, code: int | None, *last: bytes) -> Case:
    """Return a case in which the client closes, and the server answers with *code*."""
    return Case(section, name, last, code)


def message(name: str, length: int = 0) -> bytes:
    """Return a message whose answer has the id *name*, filled up to *length* bytes with spaces."""
    return json.dumps({"id": name, "call": "list_sessions"}, ensure_ascii=False).encode().ljust(length)


def text(payload: bytes, *, fin: bool = True) -> bytes:
    return frame(Opcode.TEXT, payload, fin=fin)


def more(payload: bytes, *, fin: bool = True) -> bytes:
    return frame(Opcode.CONTINUATION, payload, fin=fin)


def ping(payload: bytes = b"") -> bytes:
    return frame(Opcode.PING, payload)


def in_pieces(payload: bytes, size: int) -> list[bytes]:
    """Return the frames of one message in fragments of *size* bytes."""
    pieces = [payload[start : start + size] for start in range(0, len(payload), size)]
    return [
        frame(Opcode.CONTINUATION if number else Opcode.TEXT, piece, fin=number == len(pieces) - 1)
        for number, piece in enumerate(pieces)
    ]


def each_byte(data: bytes) -> list[bytes]:
    """Return *data* as pieces of one byte."""
    return [data[index : index + 1] for index in range(len(data))]


def lengths() -> Iterator[Case]:
    """Yield cases of payload lengths and of the mask."""
    for length in (60, 125, 126, 127, 128, 65_535, 65_536, 100_000):
        yield good("5.2", f"message of {length} bytes", text(message("a", length)), ids=["a"])
    complete = message("a", 126)
    yield good("5.2", "each byte by itself", *each_byte(text(complete)), ids=["a"])
    yield good("5.2", "two messages at once", text(complete) + text(message("b")), ids=["a", "b"])
    for width, length in ((2, 0), (2, 125), (8, 0), (8, 125), (8, 126), (8, 65_535)):
        sent = frame(Opcode.TEXT, message("a", length)[:length], width=width)
        yield bad("5.2", f"length {length} in {width} bytes", PROTOCOL, sent)
    yield bad("5.2", "length with the highest bit", PROTOCOL, frame(Opcode.TEXT, width=8, told_length=1 << 63))
    yield good("5.3", "mask of zeros", frame(Opcode.TEXT, complete, mask=bytes(4)), ids=["a"])
    yield good("5.3", "mask of ones", frame(Opcode.TEXT, complete, mask=b"\xff" * 4), ids=["a"])
    unmasked = {
        "text": (Opcode.TEXT, complete),
        "empty text": (Opcode.TEXT, b""),
        "ping": (Opcode.PING, b"abc"),
        "pong": (Opcode.PONG, b""),
        "close": (Opcode.CLOSE, b"\x03\xe8"),
        "continuation": (Opcode.CONTINUATION, b""),
    }
    for name, (opcode, payload) in unmasked.items():
        yield bad("5.1", f"unmasked {name}", PROTOCOL, frame(opcode, payload, mask=None))
    second = frame(Opcode.TEXT, complete, mask=None)
    yield bad("5.1", "unmasked second message", PROTOCOL, second, first=[text(complete)], ids=["a"])


def bits() -> Iterator[Case]:
    """Yield cases of reserved bits and opcodes, and of binary messages, which do not fit."""
    for rsv in range(1, 8):
        sent = frame(Opcode.TEXT, message("a"), reserved=rsv)
        yield bad("5.2", f"reserved bits {rsv:03b} without an extension", PROTOCOL, sent)
    yield bad("5.2", "reserved bit in a ping", PROTOCOL, frame(Opcode.PING, reserved=4))
    yield bad("5.2", "reserved bit in a close", PROTOCOL, frame(Opcode.CLOSE, reserved=4))
    fragment = frame(Opcode.CONTINUATION, reserved=4)
    yield bad("5.2", "reserved bit in a fragment", PROTOCOL, text(b"{", fin=False), fragment)
    for opcode in RESERVED:
        yield bad("5.2", f"opcode {opcode:X}", PROTOCOL, frame(opcode))
        yield bad("5.2", f"opcode {opcode:X} with content", PROTOCOL, frame(opcode, b"abc"))
    yield good("5.6", "binary", frame(Opcode.BINARY, b"{}"), ids=[NO_ID])
    yield good("5.6", "binary in fragments", frame(Opcode.BINARY, b"{", fin=False), more(b"}"), ids=[NO_ID])
    mixed = [frame(Opcode.BINARY, b"{", fin=False), ping(), more(b"}"), text(message("a"))]
    yield good("5.6", "text after binary", *mixed, ids=[NO_ID, "a"], pongs=[b""])


def fragments() -> Iterator[Case]:
    """Yield cases of fragmentation."""
    complete = message("a", 60)
    for size in (1, 7, 59):
        yield good("5.4", f"fragments of {size} bytes", *in_pieces(complete, size), ids=["a"])
    yield good("5.4", "fragments at once", b"".join(in_pieces(complete, 7)), ids=["a"])
    empty = [text(b"", fin=False), more(b"", fin=False), more(complete, fin=False), more(b"")]
    yield good("5.4", "empty fragments", *empty, ids=["a"])
    yield good("5.4", "many empty fragments", empty[0], *[empty[1]] * 50, more(complete), ids=["a"])
    between = [
        text(complete[:9], fin=False),
        ping(b"1"),
        more(complete[9:20], fin=False),
        ping(b"2"),
        more(complete[20:]),
    ]
    yield good("5.4", "pings between fragments", *between, ids=["a"], pongs=[b"1", b"2"])
    yield good("5.4", "pings between fragments at once", b"".join(between), ids=["a"], pongs=[b"1", b"2"])
    pong = frame(Opcode.PONG, b"?")
    yield good("5.4", "pong between fragments", text(complete[:9], fin=False), pong, more(complete[9:]), ids=["a"])
    yield good("5.4", "close between fragments", text(complete[:9], fin=False))
    yield bad("5.4", "continuation of nothing", PROTOCOL, more(complete))
    yield bad("5.4", "continuation of nothing, not the last", PROTOCOL, more(complete, fin=False))
    parts = in_pieces(complete, 9)
    yield bad("5.4", "continuation after the last fragment", PROTOCOL, more(b"x"), first=parts, ids=["a"])
    yield bad("5.4", "continuation after a message", PROTOCOL, more(b"x"), first=[text(complete)], ids=["a"])
    yield bad("5.4", "continuation after a ping", PROTOCOL, more(b"x"), first=[ping(b"p")], pongs=[b"p"])
    seconds = {"whole": text(complete), "begun": text(complete, fin=False), "binary": frame(Opcode.BINARY, b"x")}
    for name, second in seconds.items():
        yield bad("5.4", f"a message within another: {name}", PROTOCOL, text(complete[:9], fin=False), second)


def controls() -> Iterator[Case]:
    """Yield cases of control frames."""
    for length in (0, 1, 124, 125):
        payload = bytes(range(length))
        yield good("5.5.2", f"ping of {length} bytes", ping(payload), pongs=[payload])
    yield good("5.5.2", "ping byte by byte", *each_byte(ping(b"\xff\xfe")), pongs=[b"\xff\xfe"])
    ten = [bytes([number]) for number in range(10)]
    yield good("5.5.2", "ten pings", *map(ping, ten), pongs=ten)
    yield good("5.5.2", "ten pings at once", b"".join(map(ping, ten)), pongs=ten)
    yield good("5.5.3", "pong that nobody asked for", frame(Opcode.PONG, b"abc"))
    yield good("5.5.3", "pong, then ping", frame(Opcode.PONG), ping(b"a"), pongs=[b"a"])
    for opcode in (Opcode.PING, Opcode.PONG, Opcode.CLOSE):
        name = opcode.name.lower()
        long = b"\x03\xe8" + b"a" * 124
        cut = frame(opcode, b"\x03\xe8", fin=False)
        yield bad("5.5", f"{name} of 126 bytes", PROTOCOL, frame(opcode, long))
        yield bad("5.5", f"{name} of 126 bytes, of which ten come", PROTOCOL, *each_byte(frame(opcode, long)[:10]))
        yield bad("5.5", f"{name} of 70,000 bytes", PROTOCOL, frame(opcode, b"\x03\xe8".ljust(70_000)))
        yield bad("5.5", f"{name} in fragments", PROTOCOL, cut)
        yield bad("5.5", f"{name} in fragments within a message", PROTOCOL, text(b"{", fin=False), cut)


REGISTERED: Final = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011)
"""Codes that an endpoint may send, by 7.4.1."""

LATER: Final = (1012, 1013, 1014)
"""Codes that were registered later."""

UNSENDABLE: Final = (0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1099, 1100, 1999, 2000, 2999, 5000, 65_535)
"""Codes that no endpoint may send: not in use, reserved, or for programs alone."""

OWN: Final = (3000, 3999, 4000, 4999)
"""The ends of the ranges for libraries and for applications."""


def closings() -> Iterator[Case]:
    """Yield cases of the close frame, its codes and its reason; a code that may be sent comes back."""
    yield left("5.5.1", "close without a code", None, close())
    yield bad("5.5.1", "close of one byte", PROTOCOL, frame(Opcode.CLOSE, b"\x03"))
    for code in (*REGISTERED, *LATER, *OWN):
        yield left("7.4", f"close with {code}", code, close(code))
        yield left("7.4", f"close with {code} and a reason", code, close(code, "grüße".encode()))
    for code in UNSENDABLE:
        yield bad("7.4", f"close with {code}, which may not be sent", PROTOCOL, close(code))
        yield bad("7.4", f"close with {code} and a reason", PROTOCOL, close(code, b"why"))
    yield left("5.5.1", "reason of 123 bytes", NORMAL, close(NORMAL, b"r" * 123))
    for name, ill in (("not UTF-8", b"\xff"), ("cut", b"gr\xc3"), ("a surrogate", b"\xed\xa0\x80")):
        yield bad("5.5.1", f"reason that is {name}", NOT_UTF8, close(NORMAL, ill))
    bye = close(NORMAL)
    yield left("5.5.1", "message after the close", NORMAL, bye + text(message("a")))
    yield left("5.5.1", "ping after the close", NORMAL, bye + ping(b"a"))
    yield left("5.5.1", "wrong frame after the close", NORMAL, bye + frame(Opcode.TEXT, b"", mask=None))
    yield left("5.5.1", "two closes", NORMAL, bye + close(1001))


WELL: Final = {
    "Greek": "κόσμε",
    "the last of each length": "\x7f\u07ff\uffff\U0010ffff",
    "the first of each length": "\x80\u0800\U00010000",
    "beside the surrogates": "\ud7ff\ue000",
    "no characters": "\ufffe\uffff\ufdd0\U0001fffe",
    "a mark of byte order": "\ufeffa",
    "beyond the first plane": "😀𐍈",
}
"""Texts that are UTF-8."""

ILL: Final = {
    "a continuation byte": b"\x80",
    "continuation bytes": b"\xbf\x80\xbf",
    "a lonely first byte of two": b"\xc3 ",
    "a lonely first byte of three": b"\xe2\x82 ",
    "a lonely first byte of four": b"\xf0\x9f\x98 ",
    "FE": b"\xfe",
    "FF": b"\xff",
    "a slash of two bytes": b"\xc0\xaf",
    "a slash of three bytes": b"\xe0\x80\xaf",
    "a slash of four bytes": b"\xf0\x80\x80\xaf",
    "the longest too long of two": b"\xc1\xbf",
    "the longest too long of three": b"\xe0\x9f\xbf",
    "the longest too long of four": b"\xf0\x8f\xbf\xbf",
    "a zero of two bytes": b"\xc0\x80",
    "a first surrogate": b"\xed\xa0\x80",
    "a last surrogate": b"\xed\xbf\xbf",
    "a pair of surrogates": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond the last": b"\xf4\x90\x80\x80",
    "five bytes": b"\xf8\x88\x80\x80\x80",
    "six bytes": b"\xfc\x84\x80\x80\x80\x80",
    "Latin-1": "grüße".encode("latin-1"),
}  # fmt: skip
"""Bytes that are no UTF-8, at the latest with a byte that follows."""


def characters() -> Iterator[Case]:
    """Yield cases of texts, which are UTF-8 over the whole message."""
    for name, well in WELL.items():
        complete = message(well)
        yield good("8.1", name, text(complete), ids=[well])
        yield good("8.1", f"{name}, in fragments of a byte", *in_pieces(complete, 1), ids=[well])
        yield good("8.1", f"{name}, byte by byte", *each_byte(text(complete)), ids=[well])
    for name, ill in ILL.items():
        complete = b'{"id": "' + ill + b'"}'
        yield bad("8.1", name, NOT_UTF8, text(complete))
        yield bad("8.1", f"{name}, in fragments of a byte", NOT_UTF8, *in_pieces(complete, 1))
        yield bad("8.1", f"{name}, in a message that does not end", NOT_UTF8, text(complete, fin=False))
    begun = text(b'{"id": "', fin=False)
    yield bad("8.1", "cut at the end of the message", NOT_UTF8, text(b'{"id": "\xe2\x82'))
    yield bad("8.1", "cut at the end of the last fragment", NOT_UTF8, begun, more(b"\xe2\x82"))
    around = [text(b'{"id": "\xe2\x82', fin=False), ping(b"a")]
    yield bad("8.1", "ill around a ping", NOT_UTF8, more(b"\x28"), first=around, pongs=[b"a"])
    yield good("8.1", "well around a ping", *around, more(b'\xac", "call": "list_sessions"}'), ids=["€"], pongs=[b"a"])
    yield bad("8.1", "ill after a message", NOT_UTF8, text(b"\xff"), first=[text(message("a"))], ids=["a"])


def sizes(most: int) -> Iterator[Case]:
    """Yield cases of messages of about as many bytes as a server takes."""
    for length in (most - 1, most):
        complete = message("a", length)
        yield good("10.4", f"{length} bytes", text(complete), ids=["a"])
        yield good("10.4", f"{length} bytes in fragments", *in_pieces(complete, most // 3), ids=["a"])
    over = message("a", most + 1)
    yield bad("10.4", f"{most + 1} bytes", TOO_LARGE, text(over))
    yield bad("10.4", f"{most + 1} bytes in fragments", TOO_LARGE, *in_pieces(over, most // 3))
    part = b" " * (most // 3)
    yield bad("10.4", "fragments without an end", TOO_LARGE, text(part, fin=False), *[more(part, fin=False)] * 3)
    yield bad("10.4", "a length that is told alone", TOO_LARGE, frame(Opcode.TEXT, told_length=most + 1))
    yield bad("10.4", "the greatest length", TOO_LARGE, frame(Opcode.TEXT, told_length=(1 << 63) - 1))


CASES: Final = (*lengths(), *bits(), *fragments(), *controls(), *closings(), *characters())
"""All cases but those of sizes, which depend on a limit."""
