"""What errors of providers mean, as tables: by the provider's own type, by status, and by words where there is no more.

A provider's type of error decides before the status does. Words are looked for in one case alone: a context that is
too long is a plain bad request for some providers, and only the text says so.
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
from agentrail.values.value import Value, value

SHOWN: Final = 500
"""Characters of what a provider says that an error repeats."""

BEGINNING: Final = 100
"""Characters of a document that stands where a stream should."""

ErrorClass: TypeAlias = type[ModelError]

OK, MOVED, REFUSED, FAILED = 200, 300, 400, 500
"""Where the classes of statuses begin."""

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
"""What a status means; 3xx is a `WrongEndpoint`, any other 4xx a `RequestRefused`, any other 5xx a `ProviderFailed`."""

TOO_LONG: Final = re.compile(
    r"prompt is too long"  # Anthropic, 400 invalid_request_error
    r"|exceeds? (?:the )?(?:model )?context (?:limit|window)"  # Anthropic, 400 and 413
    r"|maximum context length"  # OpenAI's older models, vLLM, OpenRouter
    r"|context[_ ]length[_ ]exceeded"  # compatible servers that give OpenAI's code as text
    r"|exceeds the available context size"  # llama.cpp
    r"|input token count .{0,40}exceeds the maximum",  # Gemini
    re.IGNORECASE,
)
"""The one place where words decide: how providers say that the context is too long, if they give nothing else."""


@value
class Faults(Value):
    """The types of errors that one format has; its `error` object has them under `type`, `code` or `status`."""

    by_type: Mapping[str, ErrorClass]
    """What each type means."""
    fields: tuple[str, ...] = ("code", "type")
    """Where the types stand, the most telling first."""


@value
class Reported(Value):
    """An error as a provider reports it."""

    types: tuple[str, ...] = ()
    """What it calls it, the most telling first."""
    said: str = ""
    """What it says about it."""
    wait: float | None = None
    """Seconds that it asks us to wait, if it says so here and in no header."""


def reported(found: object, faults: Faults) -> Reported:
    """Return the error in *found*, a JSON value; tolerant, because gateways have shapes of their own."""
    if isinstance(found, list) and found:
        found = cast("list[object]", found)[0]
    if not isinstance(found, Mapping):
        return Reported((), found if isinstance(found, str) else "")
    whole = cast("Mapping[str, object]", found)
    error = whole.get("error", whole)
    if isinstance(error, str):
        return Reported((), error)
    if not isinstance(error, Mapping):
        return Reported()
    inner = cast("Mapping[str, object]", error)
    types = tuple(str(inner[field]) for field in faults.fields if isinstance(inner.get(field), str | int))
    said = inner.get("message") or inner.get("detail")
    reasons, wait = _details(inner.get("details"))
    return Reported((*reasons, *types), said if isinstance(said, str) else json.dumps(said) if said else "", wait)


def _details(found: object) -> tuple[tuple[str, ...], float | None]:
    """Return the reasons and the seconds to wait in what Google's APIs call the details of an error."""
    items = cast("list[object]", found) if isinstance(found, list) else []
    details = [cast("Mapping[str, object]", item) for item in items if isinstance(item, Mapping)]
    reasons = tuple(reason for item in details if isinstance(reason := item.get("reason"), str))
    delays = (delay for item in details if isinstance(delay := item.get("retryDelay"), str) and delay.endswith("s"))
    return reasons, next((_number(delay.removesuffix("s")) for delay in delays), None)


def error_of(faults: Faults, found: object, status: int = 0, headers: Mapping[str, str] | None = None) -> ModelError:
    """Return the error that an answer reports: *found* in its body, or in the stream, where there is no *status*."""
    error = reported(found, faults)
    kind = next((faults.by_type[name] for name in error.types if name in faults.by_type), None)
    if kind is None:
        number = next((int(name) for name in error.types if _STATUS.fullmatch(name)), 0 if _is_error(found) else status)
        kind = by_status(number if status < MOVED else status)
    if issubclass(kind, RequestRefused) and TOO_LONG.search(error.said):
        kind = ContextTooLong
    named = " ".join(dict.fromkeys((*([str(status)] if status else ()), *error.types)))
    reason = error.said[:SHOWN] or "it gives no reason"
    said = f"{named}: {reason}" if named else reason
    wait = retry_after(headers or {})
    return kind(said, error.wait if wait is None else wait)


def _is_error(found: object) -> bool:
    """Whether *found* calls itself an error, so that a status of 200 beside it means nothing."""
    return isinstance(found, Mapping) and bool(cast("Mapping[str, object]", found).get("error"))


def by_status(status: int) -> ErrorClass:
    """Return what *status* means; 0 stands for an error in the stream that says no more."""
    known = BY_STATUS.get(status)
    if known is not None:
        return known
    if OK <= status < REFUSED:
        return WrongEndpoint
    return RequestRefused if REFUSED <= status < FAILED else ProviderFailed


def error_of_body(faults: Faults, status: int, headers: Mapping[str, str], body: bytes) -> ModelError:
    """Return the error of an answer that is no stream."""
    said = body.decode("utf-8", "replace").strip()
    if MOVED <= status < REFUSED and "location" in headers:
        said = f"it leads to {headers['location']}"
    try:
        found: object = json.loads(said)
    except (ValueError, RecursionError):
        found = {"message": said[:SHOWN]}
    if said and status < MOVED and not _is_error(found):
        found = {"message": f"it is no stream, but begins with {said[:BEGINNING]}"}
    return error_of(faults, found, status, headers)


# When to try again


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that *headers* ask us to wait: in milliseconds, in seconds, or as a date.

    A date counts from the answer's own `date`, so that a wrong clock does no harm; without that it says nothing.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    try:
        wanted = parsedate_to_datetime(headers["retry-after"])
        now = parsedate_to_datetime(headers["date"])
        return max(0.0, (wanted - now).total_seconds())
    except (KeyError, ValueError, TypeError, OverflowError):
        return None


def _number(written: str) -> float | None:
    try:
        number = float(written)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
