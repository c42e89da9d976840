"""`SentMessage`: a message of a client, read strictly; `decisions_of` says what it decides about calls that wait.

A call is approved by data alone, which names it: a text that a model has written in the client approves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple, cast

from agentrail import to_json
from agentrail.a2a.a2a_errors import INVALID_PARAMS, NO_CONTENT_TYPE, A2aError
from agentrail.a2a.shapes import HELD_IDS
from agentrail.models import Data, File, Image, Json, JsonObject, Part, Text
from agentrail.tools import Err, Ok, err, ok

MOST_PARTS: Final = 100
"""The most parts of a message."""

MAX_ID: Final = 1000
"""The most characters of an id that a client has made."""

USERS: Final = frozenset({"ROLE_USER", "user"})
CONTENTS: Final = ("text", "raw", "url", "data", "file")
"""Fields of a part, of which each part has one; `file` is that of protocol 0.3."""


class SentMessage(NamedTuple):
    """A message of a client."""

    id: str
    """Its id, which its client has made."""
    context: str
    """Id of the context; empty if there is none."""
    task: str
    """Id of the task that it is for; empty if it begins one."""
    parts: tuple[Part, ...]
    """Its content."""

    @property
    def command(self) -> str:
        """Command id of what it has the host do: a message that is sent twice is carried out once."""
        return self._digest("send")

    @property
    def opening(self) -> str:
        """Command id by which it opens a session."""
        return self._digest("open")

    def _digest(self, purpose: str) -> str:
        return sha256(f"a2a {purpose} {self.id}".encode(errors="surrogatepass")).hexdigest()

    @property
    def text(self) -> str:
        """Its texts."""
        return "\n".join([part.text for part in self.parts if isinstance(part, Text)])

    @property
    def values(self) -> list[Json]:
        """The values of its data parts."""
        return [part.data for part in self.parts if isinstance(part, Data)]

    @property
    def has_files(self) -> bool:
        """Whether it has parts besides texts and data."""
        return any(not isinstance(part, Text | Data) for part in self.parts)

    @property
    def content(self) -> Json:
        """Its content as the body of a call has it."""
        return [cast("Json", json.loads(to_json(part))) for part in self.parts]


def objects_in(value: object, path: str) -> JsonObject:
    """Return *value*, an object; raise `A2aError` if it is none."""
    if not isinstance(value, Mapping):
        raise A2aError(INVALID_PARAMS, f"`{path}` must be an object")
    return cast("JsonObject", value)


def text_in(fields: JsonObject, name: str, path: str, *, may_lack: bool = True, most: int = MAX_ID) -> str:
    """Return the text *name* in *fields*, or an empty one; raise `A2aError` for another value, or a longer text."""
    value = fields.get(name)
    if value is None and may_lack:
        return ""
    if not isinstance(value, str) or not (value or may_lack) or len(value) > most:
        raise A2aError(INVALID_PARAMS, f"`{path}.{name}` must be a text of 1 to {most} characters")
    return value


def read_message(params: JsonObject) -> SentMessage:
    """Return the message in *params*; raise `A2aError` for one that does not fit."""
    message = objects_in(params.get("message"), "message")
    if message.get("role", "user") not in USERS:
        raise A2aError(INVALID_PARAMS, "`message.role` must be that of a user")
    parts = message.get("parts")
    if not isinstance(parts, Sequence) or isinstance(parts, str) or not 0 < len(parts) <= MOST_PARTS:
        raise A2aError(INVALID_PARAMS, f"`message.parts` must be a list of 1 to {MOST_PARTS} parts")
    return SentMessage(
        text_in(message, "messageId", "message", may_lack=False),
        text_in(message, "contextId", "message"),
        text_in(message, "taskId", "message"),
        tuple([_part(part, f"message.parts[{number}]") for number, part in enumerate(parts)]),
    )


def _part(value: object, path: str) -> Part:
    part = objects_in(value, path)
    kinds = [name for name in CONTENTS if name in part]
    if len(kinds) != 1:
        raise A2aError(NO_CONTENT_TYPE, f"`{path}` must have one of {', '.join(CONTENTS)}")
    match kinds[0], part[kinds[0]]:
        case "text", str(text) if text:
            return Text(text)
        case "data", data if data is not None:
            return Data(data)
        case "file", Mapping() as file:  # of protocol 0.3
            content = file.get("bytes", file.get("uri"))
            return _file("raw" if "bytes" in file else "url", content, file.get("mimeType"), file.get("name"), path)
        case ("raw" | "url") as kind, content:
            return _file(kind, content, part.get("mediaType"), part.get("filename"), path)
        case _:
            raise A2aError(INVALID_PARAMS, f"`{path}` has no content")


def _file(kind: str, content: object, media_type: object, name: object, path: str) -> Part:
    if not isinstance(content, str) or not content or not isinstance(media_type, str) or not media_type:
        raise A2aError(NO_CONTENT_TYPE, f"`{path}` must have content, and the media type of its file")
    file_name = name if isinstance(name, str) else ""
    if kind == "url":
        return File(media_type, reference=content, name=file_name)
    return Image(media_type, content) if media_type.startswith("image/") else File(media_type, content, name=file_name)


# Decisions


DECIDING: Final = frozenset({"decision", "answer", "result", "error"})
"""Fields of data by which it decides about a call that waits."""


class DecisionCall(NamedTuple):
    """A call of the host by which a call that waits is decided about."""

    name: str
    """`approve`, `reject`, `respond` or `result`."""
    body: JsonObject


def decides(message: SentMessage) -> bool:
    """Whether data in *message* decides about a call that waits."""
    return any(isinstance(value, Mapping) and value.keys() & DECIDING for value in message.values)


def decisions_of(message: SentMessage, held_calls: Sequence[JsonObject]) -> list[DecisionCall]:
    """Return what *message* decides about the calls that wait in its task; raise `A2aError` if that is not clear.

    A text answers the question that waits, or else is the reason why no call may run.
    """
    if message.has_files:
        raise A2aError(NO_CONTENT_TYPE, "the task waits for a decision or an answer, which takes no files")
    if message.values:
        return [_decision(objects_in(value, "data"), held_calls) for value in message.values]
    questions = [held_call for held_call in held_calls if held_call["kind"] == "question"]
    if questions:
        return [DecisionCall("respond", {"ref": _only(questions, "question")["id"], "answer": message.text})]
    approvals = [held_call for held_call in held_calls if held_call["kind"] == "approval"]
    if not approvals:
        _only([], "call")
    reason: JsonObject = {"reason": message.text, "auto_resume": True}
    return [DecisionCall("reject", {"approval": held_call["id"], **reason}) for held_call in approvals]


def _decision(data: JsonObject, held_calls: Sequence[JsonObject]) -> DecisionCall:
    match data:
        case {"decision": "approve"}:
            return DecisionCall(
                "approve", {"approval": _id(data, "approval", held_calls, is_needed=True), **_digest(data)}
            )
        case {"decision": "reject"}:
            reason: JsonObject = {"reason": data["reason"]} if data.get("reason") else {}
            approval = _id(data, "approval", held_calls)
            return DecisionCall("reject", {"approval": approval, "auto_resume": True, **_digest(data), **reason})
        case {"answer": str(answer)}:
            return DecisionCall("respond", {"ref": _id(data, "question", held_calls), "answer": answer})
        case {"error": str(error)}:
            return DecisionCall("result", {"call": _id(data, "call", held_calls), "result": _plain(err(error))})
        case {"result": result}:
            value = ok(result) if isinstance(result, str) else Ok((Data(result),))
            return DecisionCall("result", {"call": _id(data, "call", held_calls), "result": _plain(value)})
        case _:
            problem = 'its data must have a `decision` ("approve" or "reject"), an `answer`, a `result` or an `error`'
            raise A2aError(INVALID_PARAMS, f"the task waits: {problem}")


def _plain(result: Ok | Err) -> Json:
    return cast("Json", json.loads(to_json(result)))


def _digest(data: JsonObject) -> JsonObject:
    return {"digest": data["digest"]} if data.get("digest") else {}


KINDS: Final = {field: kind for kind, field in HELD_IDS.items()}
"""The kind of a call that waits, by the field of data with its id."""


def _id(data: JsonObject, field: str, held_calls: Sequence[JsonObject], *, is_needed: bool = False) -> Json:
    """Return the id of the call that *data* decides about, which *is_needed*, or else may be the only one."""
    waiting = [held_call for held_call in held_calls if held_call["kind"] == KINDS[field]]
    call_id = data.get(field)
    if call_id is None and not is_needed:
        return _only(waiting, field)["id"]
    if not isinstance(call_id, str) or not call_id:
        ids = ", ".join([f"`{held_call['id']}`" for held_call in waiting]) or "none waits"
        problem = f"data that approves must name the call that was shown, as `{field}`: {ids}"
        raise A2aError(INVALID_PARAMS, problem)
    for held_call in waiting:
        differs = [name for name in ("tool", "args") if name in data and data[name] != held_call[name]]
        if held_call["id"] == call_id and differs:
            raise A2aError(INVALID_PARAMS, f"`{call_id}` is another call than the one that the data shows")
    return call_id


def _only(held_calls: Sequence[JsonObject], field: str) -> JsonObject:
    if len(held_calls) == 1:
        return held_calls[0]
    ids = ", ".join([f"`{held_call['id']}`" for held_call in held_calls]) or "none waits"
    raise A2aError(INVALID_PARAMS, f"say by data which call is meant, as `{field}`: {ids}")
