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
    finding: str
    to_do: str
    attempted: str = "read the request"


LATE_HEAD: Final = RefusalRow(TOO_LATE, "the beginning of a request", "send all of its head within {0:g} s")
BAD_HEAD: Final = RefusalRow(
    MALFORMED,
    "a head that is not valid in HTTP/1.1",
    "send `METHOD /path HTTP/1.1`, then each header once as `Name: value`, with one `Host` and at most one length,"
    " and CR LF after each line",
)
BAD_TARGET: Final = RefusalRow(
    MALFORMED,
    "a path or query that is not valid",
    "send `/path?query` in percent-encoded UTF-8, without empty segments, `.` or `..`, and without control characters,"
    " slashes or backslashes that are encoded",
)
BAD_BODY: Final = RefusalRow(
    MALFORMED,
    "a body that is not as its head says",
    "send as many bytes as are announced, or chunks without extensions and trailers",
    "read the body",
)
ENDLESS_LINE: Final = RefusalRow(TARGET_TOO_LONG, "a request line of more than {0} bytes", "send at most {0} bytes")
LONG_HEAD: Final = RefusalRow(HEAD_TOO_LARGE, "a head of more than {0} bytes", "send at most {0} bytes")
LONG_TARGET: Final = RefusalRow(
    TARGET_TOO_LONG, "a path with its query of more than {0} bytes", "send at most {0} bytes"
)
MANY_HEADERS: Final = RefusalRow(HEAD_TOO_LARGE, "more than {0} headers", "send at most {0}")
OTHER_VERSION: Final = RefusalRow(UNKNOWN_VERSION, "`{0}`", "use HTTP/1.1")
OTHER_METHOD: Final = RefusalRow(NOT_IMPLEMENTED, "a method that is not known", "use one of {0}")
OTHER_CODING: Final = RefusalRow(NOT_IMPLEMENTED, "a `Transfer-Encoding` that is not known", "use `chunked` alone")
UNKNOWN_LENGTH: Final = RefusalRow(NO_LENGTH, "a request with a body of unknown length", "send `Content-Length`")
OTHER_EXPECTATION: Final = RefusalRow(
    UNKNOWN_EXPECTATION, "an `Expect` that is not known", "use `100-continue`, or leave it out"
)
LATE_BODY: Final = RefusalRow(
    TOO_LATE, "a part of the body", "send it without pauses of more than {0:g} s", "read the body"
)
SLOW_BODY: Final = RefusalRow(
    TOO_LATE,
    "only {0} bytes of the body in {1:g} s",
    "send it within {2:g} s, and one second more for each {3} bytes",
    "read the body",
)
NO_SLOT: Final = RefusalRow(
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
            row.finding.format(*facts),
            row.to_do.format(*facts),
            headers=row.kind.headers,
        )

    def __str__(self) -> str:
        problem = self.problem
        return f"cannot {problem.attempted}: {problem.finding}; {problem.to_do}"
