"""`HttpRefusal`: a request that is refused, and the problem document that tells its sender why."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from agentrail.api.problems import RETRY_AFTER, Problem


@frozen
class RefusalKind:
    """A class of refusals: its status, the name of its type, and its title."""

    status: int
    name: str
    title: str
    headers: tuple[tuple[str, str], ...] = ()


MALFORMED: Final = RefusalKind(400, "malformed-request", "The request is malformed")
TOO_LATE: Final = RefusalKind(408, "request-too-late", "The request did not arrive in time")
NO_LENGTH: Final = RefusalKind(411, "length-required", "The length of the body is missing")
TARGET_TOO_LONG: Final = RefusalKind(414, "target-too-long", "The path with its query is too long")
UNKNOWN_EXPECTATION: Final = RefusalKind(417, "unknown-expectation", "The expectation is unknown")
HEAD_TOO_LARGE: Final = RefusalKind(431, "head-too-large", "The head of the request is too large")
NOT_IMPLEMENTED: Final = RefusalKind(501, "not-implemented", "The server does not do this")
FULL: Final = RefusalKind(503, "too-many-connections", "The server has too many connections", ((RETRY_AFTER, "1"),))
UNKNOWN_VERSION: Final = RefusalKind(505, "unknown-version", "The version of HTTP is unknown")


@frozen
class RefusalRow:
    """A reason to refuse a request, in words: what was found, and what the sender can do. `{0}` is a value."""

    kind: RefusalKind
    found: str
    to_do: str
    attempted: str = "read the request"


LATE_HEAD: Final = RefusalRow(TOO_LATE, "the beginning of a request", "send all of its head within {0:g} s")
CUT_HEAD: Final = RefusalRow(MALFORMED, "the end of the connection within the head", "send the whole head")
ENDLESS_LINE: Final = RefusalRow(TARGET_TOO_LONG, "a request line of more than {0} bytes", "send at most {0} bytes")
LONG_HEAD: Final = RefusalRow(HEAD_TOO_LARGE, "a head of more than {0} bytes", "send at most {0} bytes")
LONG_TARGET: Final = RefusalRow(
    TARGET_TOO_LONG, "a path with its query of more than {0} bytes", "send at most {0} bytes"
)
MANY_HEADERS: Final = RefusalRow(HEAD_TOO_LARGE, "more than {0} headers", "send at most {0}")
BARE_END: Final = RefusalRow(MALFORMED, "a line that does not end with CR LF", "end each line of the head with CR LF")
CONTROL: Final = RefusalRow(MALFORMED, "a control character in the head", "leave it out")
BAD_REQUEST_LINE: Final = RefusalRow(
    MALFORMED, "a request line of another form", "send `METHOD /path HTTP/1.1`, with single spaces"
)
OTHER_VERSION: Final = RefusalRow(UNKNOWN_VERSION, "`{0}`", "use HTTP/1.1")
OTHER_METHOD: Final = RefusalRow(NOT_IMPLEMENTED, "a method that is not known", "use one of {0}")
FOLDED: Final = RefusalRow(MALFORMED, "a header that goes on in the next line", "write each header in one line")
BAD_HEADER: Final = RefusalRow(
    MALFORMED, "a header of another form", "write `Name: value`, with no space before the colon"
)
TWICE: Final = RefusalRow(MALFORMED, "two headers `{0}`", "send it once")
BAD_HOST: Final = RefusalRow(
    MALFORMED, "a `Host` header that is missing or not valid", "send one `Host`, such as `example.com:8080`"
)
TWO_LENGTHS: Final = RefusalRow(MALFORMED, "both `Transfer-Encoding` and `Content-Length`", "send one of them")
OLD_CHUNKS: Final = RefusalRow(MALFORMED, "`Transfer-Encoding` in HTTP/1.0", "use HTTP/1.1, or send `Content-Length`")
OTHER_CODING: Final = RefusalRow(NOT_IMPLEMENTED, "a `Transfer-Encoding` that is not known", "use `chunked` alone")
UNKNOWN_LENGTH: Final = RefusalRow(NO_LENGTH, "a request with a body of unknown length", "send `Content-Length`")
BAD_LENGTH: Final = RefusalRow(
    MALFORMED, "a `Content-Length` that is no plain number", "send the number of bytes, in decimal digits"
)
OTHER_EXPECTATION: Final = RefusalRow(
    UNKNOWN_EXPECTATION, "an `Expect` that is not known", "use `100-continue`, or leave it out"
)
NO_PATH: Final = RefusalRow(MALFORMED, "a target that is no path", "send `/path?query`, and the host in `Host`")
BAD_QUERY: Final = RefusalRow(
    MALFORMED, "a query with a character that is not allowed there", "percent-encode it; NUL is never allowed"
)
BAD_PATH: Final = RefusalRow(
    MALFORMED, "a path with a character that is not allowed there", "percent-encode it, as two digits each"
)
NOT_UTF8: Final = RefusalRow(MALFORMED, "a path that is not UTF-8", "percent-encode the bytes of UTF-8")
DOTS: Final = RefusalRow(MALFORMED, "a path with an empty segment, `.` or `..`", "send the path that is meant")
HIDDEN: Final = RefusalRow(MALFORMED, "an encoded slash, backslash or control character in the path", "leave it out")
LATE_BODY: Final = RefusalRow(
    TOO_LATE, "a part of the body", "send it without pauses of more than {0:g} s", "read the body"
)
SLOW_BODY: Final = RefusalRow(
    TOO_LATE,
    "only {0} bytes of the body in {1:g} s",
    "send it within {2:g} s, and one second more for each {3} bytes",
    "read the body",
)
CUT_BODY: Final = RefusalRow(
    MALFORMED, "the end of the connection within the body", "send as much as is announced", "read the body"
)
TRAILER: Final = RefusalRow(
    MALFORMED, "a trailer after the body", "send it as a header, before the body", "read the body"
)
LONG_CHUNK: Final = RefusalRow(
    MALFORMED, "a chunk that is longer than its size", "end each chunk with CR LF", "read the body"
)
BAD_CHUNK: Final = RefusalRow(
    MALFORMED,
    "a chunk with an extension, or without a plain size",
    "send the size as up to 8 hexadecimal digits and CR LF, and nothing else",
    "read the body",
)
NO_PLACE: Final = RefusalRow(
    FULL, "{0} open connections, as many as `connections` lets there be", "try again later", "accept the connection"
)
ADDRESS_FULL: Final = RefusalRow(
    FULL,
    "{0} connections of one address that no known caller uses, as many as `connections_per_address` lets there be",
    "try again later; if the address is that of a proxy before the host, name it with `--proxy`",
    "accept the connection",
)
ALL_IN_USE: Final = RefusalRow(
    FULL,
    "{0} connections in use, as many as `connections` lets known callers have",
    "try again later",
    "answer the request",
)
CLOSED_FOR_ANOTHER: Final = RefusalRow(
    FULL,
    "as many connections as `connections` lets there be, and another caller that needs this one",
    "try again later",
    "keep the connection",
)


class HttpRefusal(Exception):  # noqa: N818 - it is no failure of ours
    """Raised where a request is refused; the connection answers with its problem document."""

    def __init__(self, row: RefusalRow, *facts: object) -> None:
        super().__init__(row, *facts)
        self.problem = Problem(
            row.kind.status,
            row.kind.name,
            row.kind.title,
            row.attempted,
            row.found.format(*facts),
            row.to_do.format(*facts),
            headers=row.kind.headers,
        )

    def __str__(self) -> str:
        problem = self.problem
        return f"cannot {problem.attempted}: {problem.found}; {problem.to_do}"
