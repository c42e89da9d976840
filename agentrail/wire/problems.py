"""Problem documents (RFC 9457): what a client is told of an error; `ROWS` has each class of error.

A document repeats no paths, addresses or exceptions of the host. Its words are for clients over HTTP, so most rows have
their own advice: the advice in the error is for programs in Python. For those, a document names the class of the error
and its facts, as far as its words tell them, so that `error_of` can make the same error again.
"""

from __future__ import annotations

import math
import re
from functools import cache
from string import Formatter
from typing import Final, cast

import msgspec

from agentrail.errors import (
    AgentrailError,
    HostFailed,
    MethodRefused,
    ModelError,
    NotAuthenticated,
    TurnAborted,
    UpgradeWanted,
)
from agentrail.values.json import Json
from agentrail.values.value import Value
from agentrail.wire.bodies import GREATEST
from agentrail.wire.problem_rows import ROWS, Row
from agentrail.wire.public_ids import without_tenant

MEDIA_TYPE: Final = "application/problem+json"

TYPES: Final = "urn:agentrail:problem:"
"""Beginning of the `type` of each document; what follows is `Problem.type`."""

MAX_FOUND: Final = 2_000
"""The most characters of a document that tell what was found."""

PROVIDER_ERROR: Final = "provider_error"
"""The kind of the end of a turn whose model failed: its client has nothing to correct."""

MODEL_FAILED: Final = "the turn was aborted, because its model did not answer; its events say why"

RETRY_AFTER: Final = "retry-after"
"""Header that says after how many seconds another attempt may go well."""

_CAPITAL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_encode: Final = msgspec.json.Encoder().encode


class Problem(Value, gc=True):
    """One error in terms of HTTP."""

    status: int
    """Status of the response."""
    type: str
    """Short name of the kind of error, such as `queue-full`; it never changes for a kind."""
    title: str
    """The kind of error in words."""
    attempted: str
    """What the request was to do."""
    found: str
    """What stood in the way."""
    to_do: str
    """What the client can do about it."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of the response, beside its type and length: `retry-after`, `allow`, `www-authenticate`."""
    error: str = HostFailed.__name__
    """Name of the class of the error in Python."""
    facts: tuple[Json, ...] = ()
    """Facts of the error, in order; `None` at the place of each that is not told."""

    @property
    def content(self) -> bytes:
        """The document, as JSON. It has `retry_after`, in seconds, beside the header: a WebSocket has no headers."""
        wait = dict(self.headers).get(RETRY_AFTER)
        return _encode(
            {
                "type": f"{TYPES}{self.type}",
                "title": self.title,
                "status": self.status,
                "detail": f"cannot {self.attempted}: {self.found}; {self.to_do}",
                "attempted": self.attempted,
                "found": self.found,
                "to_do": self.to_do,
                "error": self.error,
                "facts": self.facts,
                **({} if wait is None else {"retry_after": int(wait)}),
            }
        )


def problem_of(error: BaseException, attempted: str, tenant: str = "") -> Problem:
    """Return what a client of *tenant* is told of *error*, at a request that was to do what *attempted* says."""
    if isinstance(error, TurnAborted) and error.args[1] == PROVIDER_ERROR:
        ref, kind, _ = error.args
        failed = problem_of(ModelError(MODEL_FAILED), attempted)
        return failed.but(error=TurnAborted.__name__, facts=(ref, kind, None))
    cls = next((cls for cls in type(error).__mro__ if cls in ROWS), None)
    if cls is None or not isinstance(error, AgentrailError):
        return INTERNAL.but(attempted=attempted)
    row = ROWS[cls]
    found, to_do = _said(error, row)
    if tenant:
        found, to_do = without_tenant(found, tenant), without_tenant(to_do, tenant)
    kind, facts = row.told_as or cls, _told_facts(error, row, tenant)
    told = kind if issubclass(cls, kind) else cls  # which of the classes of missing sessions it is, is not told
    headers = _headers(error, row)
    return Problem(row.status, slug(kind), title_of(kind), attempted, found, to_do, headers, told.__name__, facts)


def _said(error: AgentrailError, row: Row) -> tuple[str, str]:
    """Return what was found and what to do, from the row or from the two halves of the error's wording."""
    found, _, advice = error.wording.partition("; ")
    told = (found if row.found is None else row.found).format(*error.args)
    return _shortened(told) or title_of(type(error)), row.to_do or _shortened(
        advice.format(*error.args)
    ) or "try another request"


def _told_facts(error: AgentrailError, row: Row, tenant: str) -> tuple[Json, ...]:
    """Return the facts of *error*, with `None` at the place of each that the words of its document do not tell."""
    told = _named_in(error.wording, row) if row.told_as is None else frozenset[int]()
    return tuple([_plain(fact, tenant) if place in told else None for place, fact in enumerate(error.args)])


@cache
def _named_in(wording: str, row: Row) -> frozenset[int]:
    """Return the positions of the facts that a document of this row tells."""
    found, _, advice = wording.partition("; ")
    texts = (found if row.found is None else row.found, "" if row.to_do else advice)
    named = [name for text in texts for _, name, _, _ in Formatter().parse(text) if name]
    return frozenset([*map(int, named), *row.facts])


def _plain(fact: object, tenant: str) -> Json:
    """Return *fact* as JSON, with the ids of sessions as clients of *tenant* see them; `None` if JSON has no such."""
    if isinstance(fact, str):
        return _shortened(without_tenant(fact, tenant) if tenant else fact)
    if isinstance(fact, tuple):
        return [_plain(each, tenant) for each in cast("tuple[object, ...]", fact)]
    is_number = isinstance(fact, int | float) and math.isfinite(fact) and abs(fact) <= GREATEST
    return cast("Json", fact) if is_number else None


def _shortened(text: str) -> str:
    sent = text.encode(errors="replace").decode()  # half a surrogate pair cannot be sent
    return sent if len(sent) <= MAX_FOUND else f"{sent[: MAX_FOUND - 1]}…"


def _headers(error: AgentrailError, row: Row) -> tuple[tuple[str, str], ...]:
    if isinstance(error, MethodRefused):
        return (("allow", error.allowed),)
    if isinstance(error, UpgradeWanted):
        return (("sec-websocket-version", "13"),)
    if isinstance(error, NotAuthenticated):
        return (("www-authenticate", "Bearer"),)
    asked: object = getattr(error, "retry_after", None)
    wait = asked if isinstance(asked, int | float) and math.isfinite(asked) and asked >= 0 else row.retry_after
    return () if wait is None or row.retry_after is None else ((RETRY_AFTER, str(max(1, math.ceil(wait)))),)


def slug(cls: type[AgentrailError]) -> str:
    """Return the short name of a class of errors: `QueueFull` is `queue-full`."""
    return _CAPITAL.sub("-", cls.__name__).lower()


def title_of(cls: type[AgentrailError]) -> str:
    """Return the first sentence of what a class of errors says of itself."""
    return (cls.__doc__ or slug(cls)).partition("\n")[0].removesuffix(".")


INTERNAL: Final = Problem(
    500,
    "internal-error",
    "The host has a fault",
    "answer the request",
    "an error that is no fault of the request",
    "tell the operator of the host; its log has the error",
    facts=("it has a fault",),
)
"""What a client is told of an exception that is none of agentrail's."""
