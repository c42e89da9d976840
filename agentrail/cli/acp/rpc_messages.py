"""Messages of JSON-RPC 2.0: `read_message` reads one, and each kind is written as the fields of a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from agentrail.cli.output.screen import one_line
from agentrail.codec.json_text import from_text
from agentrail.errors import BadText
from agentrail.values.json import EMPTY, Json, JsonObject

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
CANCELLED: Final = -32800
NOT_FOUND: Final = -32002
UNSUPPORTED_VERSION: Final = -32022

RpcId: TypeAlias = str | int | None
"""Id of a request."""


class RpcError(Exception):
    """A request failed: the code, a sentence, and data for programs."""

    def __init__(self, code: int, message: str, details: Json = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    @property
    def fields(self) -> JsonObject:
        """The error as the protocol writes it: with its message in one line."""
        fields: dict[str, Json] = {"code": self.code, "message": one_line(self.message)}
        if self.details is not None:
            fields["data"] = self.details
        return fields


class BadMessageError(Exception):
    """A line is not a valid message; `answer` is the error message to send back."""

    def __init__(self, code: int, message: str, request_id: RpcId = None) -> None:
        super().__init__(message)
        self.answer = failure_fields(request_id, RpcError(code, message))


class RpcRequest(NamedTuple):
    """A request of the editor; it gets exactly one answer."""

    id: RpcId
    method: str
    params: JsonObject


class RpcNotification(NamedTuple):
    """A message of the editor that gets no answer."""

    method: str
    params: JsonObject


class RpcAnswer(NamedTuple):
    """The editor's answer to a request that this program sent."""

    id: RpcId
    result: Json
    """The result; `None` if there is an error."""
    error: JsonObject | None
    """The error; `None` if there is a result."""


RpcMessage: TypeAlias = RpcRequest | RpcNotification | RpcAnswer


def read_message(line: bytes) -> RpcMessage:
    """Return the message that *line* holds; raise `BadMessageError` if it is none."""
    try:
        value = from_text(line)
    except BadText as error:
        raise BadMessageError(PARSE_ERROR, str(error)) from None
    if isinstance(value, Mapping):
        return _message(value)
    problem = "a batch: send each message in a line of its own" if isinstance(value, tuple) else "no JSON object"
    raise BadMessageError(INVALID_REQUEST, f"a message of JSON-RPC is one object in one line; this line has {problem}")


def _message(fields: JsonObject) -> RpcMessage:
    request_id = _id_of(fields)
    if fields.get("jsonrpc") != "2.0":
        raise BadMessageError(INVALID_REQUEST, 'a message of JSON-RPC has `"jsonrpc": "2.0"`', request_id)
    if "method" not in fields:
        return _answer(fields, request_id)
    method = fields["method"]
    if not isinstance(method, str):
        raise BadMessageError(INVALID_REQUEST, "`method` is a text", request_id)
    params = fields.get("params")
    if params is not None and not isinstance(params, Mapping):
        problem = f"{method}: `params` is an object, with parameters by name"
        raise BadMessageError(INVALID_PARAMS if "id" in fields else INVALID_REQUEST, problem, request_id)
    named = EMPTY if params is None else params
    return RpcRequest(request_id, method, named) if "id" in fields else RpcNotification(method, named)


def _answer(fields: JsonObject, request_id: RpcId) -> RpcAnswer:
    error = fields.get("error")
    if "id" not in fields or ("result" not in fields and not isinstance(error, Mapping)):
        problem = "a message has a `method`, or it is an answer with an `id` and a `result` or an `error`"
        raise BadMessageError(INVALID_REQUEST, problem, request_id)
    return RpcAnswer(request_id, fields.get("result"), error if isinstance(error, Mapping) else None)


def _id_of(fields: JsonObject) -> RpcId:
    request_id = fields.get("id")
    if request_id is None or (isinstance(request_id, str | int) and not isinstance(request_id, bool)):
        return request_id
    raise BadMessageError(INVALID_REQUEST, "`id` is a text or a whole number")


def request_fields(request_id: RpcId, method: str, params: JsonObject) -> JsonObject:
    """Return the JSON fields of a request."""
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def notification_fields(method: str, params: JsonObject) -> JsonObject:
    """Return the JSON fields of a notification."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def result_fields(request_id: RpcId, result: Json) -> JsonObject:
    """Return the JSON fields of the answer to a request that succeeded."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure_fields(request_id: RpcId, error: RpcError) -> JsonObject:
    """Return the JSON fields of the answer to a request that failed."""
    return {"jsonrpc": "2.0", "id": request_id, "error": error.fields}
