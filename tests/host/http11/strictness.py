"""Requests that two readers could understand in different ways, by group. Each is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Final

from attrs import frozen

from tests.host.http11.served import request

NEXT: Final = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
"""What would be a second request, if the first one were understood in another way."""

CHUNKS: Final = b"5\r\nhello\r\n0\r\n\r\n"


@frozen
class Case:
    group: str
    sent: bytes
    status: int = 400

    def __str__(self) -> str:
        return f"{self.group}-{ascii(self.sent.decode('latin-1'))[1:-1][:60]}"


def _post(*headers: str) -> bytes:
    return request("POST / HTTP/1.1", *headers)


def _lengths_and_codings() -> Iterator[Case]:
    codings = ("chunked", "Chunked", "CHUNKED", " \tchunked", "chunked \t", "gzip", "identity", "")
    for length, coding, name in product(
        ("0", "4", "5", "15", "999"), codings, ("Transfer-Encoding", "tRANSFER-encoding")
    ):
        both = (f"Content-Length: {length}", f"{name}: {coding}")
        yield Case("both", _post(*both) + CHUNKS)
        yield Case("both", _post(*reversed(both)) + CHUNKS)


def _two_lengths() -> Iterator[Case]:
    for first, second in product(("0", "5", "6", "+5", "05"), repeat=2):
        yield Case("two lengths", _post(f"Content-Length: {first}", f"Content-Length: {second}") + b"hello")
        yield Case("two lengths", _post(f"Content-Length: {first}", "A: b", f"content-length: {second}") + b"hello")
    for value in ("5, 5", "5,5", "5,6", "0, 5", "5,", ",5"):
        yield Case("list of lengths", _post(f"Content-Length: {value}") + b"hello")


def _lengths() -> Iterator[Case]:
    odd = [
        "+5",
        "-5",
        "-0",
        "0x5",
        "5.0",
        "5e0",
        "05",
        "00",
        "005",
        "0b101",
        "0o5",
        "1_0",
        "5;",
        "'5'",
        '"5"',
        "5a",
        "a5",
        "²",
        "½",
        "NaN",
        "inf",
        "∞",
    ]
    for value in (*odd, "", "5 5", "5\t5", "5 a", "9" * 19, "9" * 400, "1" + "0" * 18):
        yield Case("length", _post("Content-Length: " + value.encode().decode("latin-1")) + b"hello")


def _codings() -> Iterator[Case]:
    lists = ("gzip, chunked", "chunked, gzip", "chunked, chunked", "chunked,chunked", "chunked,", ",chunked")
    odd = ("identity", "gzip", "deflate", "compress", "x", "xchunked", "chunkedx", "chunke", '"chunked"', "'chunked'")
    more = ("chunked;q=1", "chunked; a", "chunked identity", "trailers", "chunked\xa0", "\xa0chunked", "ch\xfcnked", "")
    for value in (*lists, *odd, *more):
        yield Case("coding", _post(f"Transfer-Encoding: {value}") + CHUNKS, 501)
    for first, second in product(("chunked", "identity", "gzip", ""), repeat=2):
        yield Case("two codings", _post(f"Transfer-Encoding: {first}", f"Transfer-Encoding: {second}") + CHUNKS)
    yield Case("coding in 1.0", request("POST / HTTP/1.0", "Transfer-Encoding: chunked") + CHUNKS)


def _names() -> Iterator[Case]:
    for name, value in (("Transfer-Encoding", "chunked"), ("Content-Length", "5"), ("Host", "h"), ("X", "y")):
        for odd in (f"{name} : {value}", f"{name}\t: {value}", f"{name}", f"{name} {value}", f"{name}\xa0: {value}"):
            yield Case("name", _post(odd) + CHUNKS)
        for fold in (" ", "\t", "  ", " \t"):
            yield Case("fold", _post("A: b", f"{fold}{name}: {value}") + CHUNKS)
            yield Case("fold first", f"POST / HTTP/1.1\r\n{fold}{name}: {value}\r\nHost: h\r\n\r\n".encode() + CHUNKS)
    for letter in '()<>@,;\\"/[]?={} \t\x00\x01\x0b\x0c\x1f\x7f\x80\xff':
        yield Case("name", _post(f"a{letter}b: c"))
    yield Case("name", _post(": c"))


def _controls() -> Iterator[Case]:
    for code in (*range(9), *range(10, 32), 127):
        yield Case("control in a value", _post(f"A: b{chr(code)}c", "Content-Length: 0"))
        yield Case("control in a target", request(f"GET /a{chr(code)}b HTTP/1.1"))


def _ends_of_lines() -> Iterator[Case]:
    good = b"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n"
    for index in (14, 23, 29, 31):
        for end in (b"\n", b"\r", b"\n\r", b"\r\r\n", b"\r\n\n"):
            if (index, end) != (31, b"\r\n\n"):  # there the head is whole
                yield Case("end of a line", good[:index] + end + good[index + 2 :])
    for first in (b"\r\n", b"\n", b"\r", b" ", b"\t", b"\r\n\r\n", b"\x00", b"\x16\x03\x01\x02\x00", b"\xef\xbb\xbf"):
        yield Case("before the request", first + good)


def _request_lines() -> Iterator[Case]:
    for line in (
        "GET  / HTTP/1.1", "GET /  HTTP/1.1", "GET\t/ HTTP/1.1", "GET /\tHTTP/1.1", " GET / HTTP/1.1",
        "GET / HTTP/1.1 ",
        "GET /", "GET", "/ HTTP/1.1", "GET HTTP/1.1", "GET / HTTP/1.10", "GET / HTTP/11", "GET / HTTP", "GET / HTTP/",
        "GET / HTTP/a.b", "GET / http/1.1", "GET / Http/1.1", "GET / HTTPS/1.1", "GET / XHTTP/1.1", "GET / HTTP/1.1;a",
        "GET / HTTP/-1.1", "GET / HTTP/1,1", "GET / HTTP / 1.1", "GET /a b HTTP/1.1", "G(T / HTTP/1.1",
        "GET, / HTTP/1.1",
        "GET: / HTTP/1.1", '"GET" / HTTP/1.1', "G\xcbT / HTTP/1.1",
    ):  # fmt: skip
        yield Case("request line", request(line))
    for version in ("0.9", "1.2", "1.9", "2.0", "2", "3.0", "0.0", "9.9"):
        yield Case("version", request(f"GET / HTTP/{version}"), 505)
    for method in ("get", "Get", "TRACE", "CONNECT", "PRI", "FOO", "GETT", "SEARCH", "!", "PROPFIND"):
        yield Case("method", request(f"{method} / HTTP/1.1"), 501)


def _targets() -> Iterator[Case]:
    forms = "* h h:80 http://h/ https://h/ HTTP://h/ //h/ a ?a #a . .. ./a ../a %2fa \\a h/a ftp://h /../"
    more = "/.. /. /./ /a/.. /a/."
    paths = (
        "/a/../b /a/./b /%2e /%2e%2e /.%2e /%2E./ /a/%2e%2E/b // /a//b /a// /%2f /a%2fb /a%2Fb /%5c /a%5Cb /\\ /a\\b"
    )
    broken = "/% /%a /%g0 /%0g /%%20 /a% /a%2 /%u0041 /%-1 /%+1 /% 20 /%00 /a%00b /%01 /%0a /%0d /%0d%0a /%1f /%7f /%09"
    coded = "/%80 /%ff /%c0%af /%c0%ae%c0%ae /%e0%80%af /%ed%a0%80 /%f5%80%80%80 /%c3 /%c3a /a%e2%82 /%fe%ff"
    odd = '/# /a#b /^ /` /{a} /a|b /<a> /" /[a] /?% /?%g0 /?a=%00 /?a#b /?" /?<a> /?a|b /?a^b /?{a} /?[a] /?a\\b'
    for value in " ".join((forms, more, paths, broken.replace("/% 20 ", ""), coded, odd)).split():
        yield Case("target", request(f"GET {value} HTTP/1.1"))
    for value in ("/\xe4", "/\x80", "/\xff", "/?\xe4", "/ä".encode().decode("latin-1"), "/a\xa0b", "/?a=\xa0"):
        yield Case("target", request(f"GET {value} HTTP/1.1"))


def _hosts() -> Iterator[Case]:
    yield Case("host", request(host=None))
    yield Case("host", request("GET / HTTP/1.0", host=None))
    for second in ("h", "g", ""):
        yield Case("host", request("GET / HTTP/1.1", f"Host: {second}"))
        yield Case("host", request("GET / HTTP/1.1", "A: b", f"hOST: {second}"))
    names = (
        "h: :80 h:a h:80a h:-1 h:+1 h:65536 h:999999 h:80:80 h/ h/a http://h u@h u:p@h h,g h;g h?a h#a h\\a -h h- .h h."
    )
    more = "[::1 ::1] [::1]a [::1]: [g] [] [1] [:::] [::1%25lo] [::ffff:1.2.3]"
    odd = '*.h * h%00 h%2e h|g "h" <h> (h) h\xe4 \xe4 h$ h&g h..g'
    for name in (*names.split(), *more.split(), *odd.split(), "", "h g", "h\tg", "h" * 300):
        yield Case("host", request(host=name))


def _chunks() -> Iterator[Case]:
    sizes = [
        "5;a",
        "5;a=b",
        '5;a="b"',
        "5;",
        ";5",
        "0x5",
        "+5",
        "-5",
        "5.",
        "5,5",
        "g",
        "5g",
        "000000005",
        "ffffffffff",
        "5_0",
        "5h",
        "'five'",
        "5#a",
        "5=a",
        "²",
    ]
    for size in (*sizes, "", " 5", "5 ", "5\t", "\t5", "5 ;a", "5\x00", "5\x0b", "5\n", "5\r", "\n5", "\r5"):
        body = f"{size}\r\nhello\r\n0\r\n\r\n".encode("latin-1", "replace")
        yield Case("size of a chunk", _post("Transfer-Encoding: chunked") + body)
    for body in (
        b"5\nhello\r\n0\r\n\r\n", b"5\rhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n",
        b"5\r\nhello\r0\r\n\r\n", b"5\r\nhello!\r\n0\r\n\r\n", b"4\r\nhello\r\n0\r\n\r\n", b"6\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\nA: b\r\n\r\n", b"0\r\nA: b\r\n\r\n",
        b"0\r\nHost: g\r\n\r\n",
        b"0\r\nContent-Length: 5\r\n\r\n", b"0\r\n \r\n\r\n", b"0\r\n\n", b"0\r\n\r", b"0\n\r\n", b"0;a\r\n\r\n",
        b"0\r\nTransfer-Encoding: chunked\r\n\r\n", b"hello", b"\r\n5\r\nhello\r\n0\r\n\r\n",
    ):  # fmt: skip
        yield Case("chunk", _post("Transfer-Encoding: chunked") + body)


def _others() -> Iterator[Case]:
    for name in ("Expect", "Authorization", "Origin", "Content-Type", "Idempotency-Key", "Last-Event-ID"):
        value = "100-continue" if name == "Expect" else "a"
        yield Case("twice", _post(f"{name}: {value}", f"{name.lower()}: {value}", "Content-Length: 0"))
    for expected in ("200-ok", "100-continue, 100-continue", "100-continued", "", "100", "99-continue", "continue"):
        yield Case("expectation", _post(f"Expect: {expected}", "Content-Length: 5") + b"hello", 417)
    for method in ("PATCH", "POST", "PUT"):
        yield Case("no length", request(f"{method} / HTTP/1.0") + b"hello", 411)
        yield Case("no length", request(f"{method} / HTTP/1.1", "Expect: 100-continue") + b"hello", 411)


CASES: Final = tuple(
    case
    for group in (
        _lengths_and_codings,
        _two_lengths,
        _lengths,
        _codings,
        _names,
        _controls,
        _ends_of_lines,
        _request_lines,
        _targets,
        _hosts,
        _chunks,
        _others,
    )
    for case in group()
)
