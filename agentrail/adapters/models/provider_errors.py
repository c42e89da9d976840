"""Turns a provider's error into one of our exceptions, by tables.

The provider's own error type is looked up first, then the HTTP status. The text of the error decides in one case only:
some providers report a context that is too long as a plain bad request.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, TypeAlias, cast

from agentrail.errors import (
    AccessDenied,
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelMissing,
    Overloaded,
    ProviderFailed,
    QuotaSpent,
    RateLimited,
    RequestRefused,
    WrongEndpoint,
)
from agentrail.values.value import Value

SHOWN: Final = 500
"""The most characters of a provider's text that an exception repeats."""

BEGINNING: Final = 100
"""The most characters that an exception repeats of a document that came in place of a stream."""

ErrorClass: TypeAlias = type[ModelError]

OK, MOVED, REFUSED, FAILED = 200, 300, 400, 500
"""The first status of each class of HTTP statuses (2xx, 3xx, 4xx, 5xx)."""

_STATUS: Final = re.compile(r"[45]\d\d")

BY_STATUS: Final[Mapping[int, ErrorClass]] = {
    400: RequestRefused,
    401: KeyRefused,
    402: QuotaSpent,
    403: AccessDenied,
    404: ModelMissing,
    405: WrongEndpoint,
    408: ProviderFailed,
    409: ProviderFailed,
    413: ContextTooLong,
    422: RequestRefused,
    425: ProviderFailed,
    429: RateLimited,
    503: Overloaded,
    529: Overloaded,
}
"""The exception for an HTTP status. Others: 2xx and 3xx `WrongEndpoint`, 4xx `RequestRefused`, 5xx `ProviderFailed`."""

TOO_LONG: Final = re.compile(
    r"prompt is too long"  # Anthropic, 400 invalid_request_error
    r"|exceeds? (?:the )?(?:model )?context (?:limit|window)"  # Anthropic, 400 and 413
    r"|maximum context length"  # OpenAI's older models, vLLM, OpenRouter
    r"|context[_ ]length[_ ]exceeded"  # compatible servers that give OpenAI's code as text
    r"|exceeds the available context size"  # llama.cpp
    r"|input is too long|too many input tokens|exceeds? the maximum (?:number of )?(?:input )?tokens"  # Bedrock
    r"|number of input tokens exceeds"  # Nova at Bedrock
    r"|input token count .{0,40}(?:exceeds the maximum|but model only supports)",  # Gemini, also at Vertex AI
    re.IGNORECASE,
)
"""Texts by which providers say that the context is too long, without an error type of its own for it."""


class Faults(Value, gc=True):
    """The error types of one wire format, and where its error objects name them."""

    by_type: Mapping[str, ErrorClass]
    """The exception for each error type."""
    fields: tuple[str, ...] = ("code", "type")
    """The fields of the `error` object that may name a type, the most specific first."""
    header: str = ""
    """The header of an error answer that names its type, before a colon; empty if none does."""


class Reported(Value):
    """An error as a provider reports it in the body of an answer or in a stream."""

    types: tuple[str, ...] = ()
    """The provider's types of the error, the most specific first."""
    said: str = ""
    """The provider's text about the error."""
    wait: float | None = None
    """Seconds to wait before the next attempt, if the body says so; headers are read elsewhere."""


def reported(body: object, faults: Faults) -> Reported:
    """Return the error in *body*, a JSON value. It may have many shapes, because gateways write their own."""
    if isinstance(body, list) and body:
        body = cast("list[object]", body)[0]
    if not isinstance(body, Mapping):
        return Reported((), body if isinstance(body, str) else "")
    document = cast("Mapping[str, object]", body)
    error = document.get("error", document)
    if isinstance(error, str):
        return Reported((), error)
    if not isinstance(error, Mapping):
        return Reported()
    inner = cast("Mapping[str, object]", error)
    types = tuple(str(inner[field]) for field in faults.fields if isinstance(inner.get(field), str | int))
    message = inner.get("message") or inner.get("Message") or inner.get("detail")
    reasons, wait = _details(inner.get("details"))
    return Reported(
        (*reasons, *types), message if isinstance(message, str) else json.dumps(message) if message else "", wait
    )


def _details(value: object) -> tuple[tuple[str, ...], float | None]:
    """Return the reasons, and the seconds to wait or `None`, in *value*: the field `details` of Google's errors."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    details = [cast("Mapping[str, object]", item) for item in items if isinstance(item, Mapping)]
    reasons = tuple(reason for item in details if isinstance(reason := item.get("reason"), str))
    delays = (delay for item in details if isinstance(delay := item.get("retryDelay"), str) and delay.endswith("s"))
    return reasons, next((_number(delay.removesuffix("s")) for delay in delays), None)


def error_of(faults: Faults, body: object, status: int = 0, headers: Mapping[str, str] | None = None) -> ModelError:
    """Return the exception for the error in *body*, the JSON of an answer's body or of an event in a stream.

    An event has no *status*.
    """
    error = reported(body, faults)
    kind = next((faults.by_type[name] for name in error.types if name in faults.by_type), None)
    if kind is None:
        number = next((int(name) for name in error.types if _STATUS.fullmatch(name)), 0 if _is_error(body) else status)
        kind = by_status(number if status < MOVED else status)
    if issubclass(kind, RequestRefused) and TOO_LONG.search(error.said):
        kind = ContextTooLong
    named = " ".join(dict.fromkeys((*([str(status)] if status else ()), *error.types)))
    reason = error.said[:SHOWN] or "it gives no reason"
    message = f"{named}: {reason}" if named else reason
    wait = retry_after(headers or {})
    return kind(message, error.wait if wait is None else wait)


def _is_error(body: object) -> bool:
    """Whether *body* has a field `error` that is not empty. Some gateways answer so with the status 200."""
    return isinstance(body, Mapping) and bool(cast("Mapping[str, object]", body).get("error"))


def by_status(status: int) -> ErrorClass:
    """Return the exception for *status*; 0 means an error in a stream that names no status."""
    error_class = BY_STATUS.get(status)
    if error_class is not None:
        return error_class
    if OK <= status < REFUSED:
        return WrongEndpoint
    return RequestRefused if REFUSED <= status < FAILED else ProviderFailed


def error_of_body(faults: Faults, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the exception for an answer that is not a stream: an error, a redirect, or a document of another kind."""
    shown_body = body.decode("utf-8", "replace").strip()
    if MOVED <= status < REFUSED and "location" in headers:
        shown_body = f"it leads to {headers['location']}"
    try:
        parsed: object = json.loads(shown_body)
    except (ValueError, RecursionError):
        parsed = {"message": shown_body[:SHOWN]}
    if shown_body and status < MOVED and not _is_error(parsed):
        parsed = {"message": f"it is no stream, but begins with {shown_body[:BEGINNING]}"}
    return error_of(faults, _with_type(parsed, headers.get(faults.header, "")), status, headers)


def _with_type(body: object, header: str) -> object:
    """Return *body* as an error object with the type that *header* names before a colon, if it names one."""
    kind = header.partition(":")[0]
    if not kind or _is_error(body) or not isinstance(body, dict):
        return body  # pyright: ignore[reportUnknownVariableType]  # a `dict` of anything
    return {"error": {**cast("dict[str, object]", body), "type": kind}}


# When to try again


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that *headers* ask us to wait, or `None` if they do not.

    They may give milliseconds, seconds or a date. A date is compared with the answer's own `date`, so that our clock
    does not matter. Without that header it is ignored.
    """
    for name, unit in (("retry-after-ms", 0.001), ("x-amz-retry-after", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    try:
        until = parsedate_to_datetime(headers["retry-after"])
        now = parsedate_to_datetime(headers["date"])
        return max(0.0, (until - now).total_seconds())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
