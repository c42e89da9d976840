"""`A2aError`: an error as A2A's JSON-RPC has it; `a2a_error_of` makes one of an error of agentrail."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail import errors

PARSE: Final = -32700
INVALID_REQUEST: Final = -32600
NO_METHOD: Final = -32601
INVALID_PARAMS: Final = -32602
REFUSED: Final = -32000
"""The host refuses it, or cannot do it now; the reason is in the data."""
NO_TASK: Final = -32001
NOT_CANCELABLE: Final = -32002
NO_PUSH: Final = -32003
UNSUPPORTED: Final = -32004
NO_CONTENT_TYPE: Final = -32005
NO_EXTENDED_CARD: Final = -32007
NO_VERSION: Final = -32009

REASONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        PARSE: "JSON_PARSE_ERROR",
        INVALID_REQUEST: "INVALID_REQUEST",
        NO_METHOD: "METHOD_NOT_FOUND",
        INVALID_PARAMS: "INVALID_PARAMS",
        NO_TASK: "TASK_NOT_FOUND",
        NOT_CANCELABLE: "TASK_NOT_CANCELABLE",
        NO_PUSH: "PUSH_NOTIFICATION_NOT_SUPPORTED",
        UNSUPPORTED: "UNSUPPORTED_OPERATION",
        NO_CONTENT_TYPE: "CONTENT_TYPE_NOT_SUPPORTED",
        NO_EXTENDED_CARD: "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
        NO_VERSION: "VERSION_NOT_SUPPORTED",
    }
)
"""The reason that the protocol has for each code."""

ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"

UNKNOWN: Final = frozenset({"unknown-session", "unknown-turn", "no-turn"})
"""Codes of errors for what is not there, or is somebody else's."""

UNFIT: Final = frozenset(
    {
        "bad-body",
        "bad-id",
        "bad-message",
        "bad-name",
        "bad-query",
        "bad-text",
        "bad-result",
        "bad-value",
        "not-as-shown",
        "result-not-wanted",
        "unknown-approval",
        "unknown-cursor",
        "web-refused",
        "wrong-decision",
    }
)
"""Codes of errors about what the client has sent."""


class A2aError(Exception):
    """An error that a client gets as that of JSON-RPC; its text is for the client."""

    def __init__(self, code: int, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason or REASONS[code]
        """Why, as a name in capitals, for programs."""

    @property
    def document(self) -> Mapping[str, object]:
        """The error as JSON."""
        info: dict[str, object] = {
            "@type": ERROR_INFO,
            "reason": self.reason,
            "domain": "a2a-protocol.org",
            "metadata": {},
        }
        return {"code": self.code, "message": str(self), "data": [info]}


def a2a_error_of(error: errors.AgentrailError) -> A2aError:
    """Return an error of a call of the host as a client of A2A gets it."""
    code = error.code
    if code in UNKNOWN:
        return A2aError(NO_TASK, "there is no such task")
    if code in UNFIT:
        return A2aError(INVALID_PARAMS, str(error))
    if code == "command-conflict":
        return A2aError(
            INVALID_PARAMS, "a message with this `messageId` was sent before, and was another: give it a new one"
        )
    if code in {"part-refused", "unknown-file"}:
        return A2aError(NO_CONTENT_TYPE, str(error))
    if code == "illegal-input":
        return A2aError(UNSUPPORTED, str(error))
    return A2aError(REFUSED, str(error), code.upper().replace("-", "_"))
