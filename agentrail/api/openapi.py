"""The OpenAPI 3.1 document of a host, made from the tables of routes, calls and problems."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from inspect import cleandoc, get_annotations
from typing import Final, TypeAlias, cast

import msgspec

from agentrail.api import problems, sse_frames
from agentrail.api.bodies import CURSOR, FRAME_ID, SESSION_ID, Query
from agentrail.api.operation_table import (
    CALLS,
    FILE,
    JSON,
    ROUTES,
    SCOPES,
    SESSION,
    WEBSOCKET,
    HostCall,
    HostRoute,
    errors_of,
)
from agentrail.api.problems import ROWS
from agentrail.api.transcript_views import ChangesView
from agentrail.api.views import OpenedView, View, to_json
from agentrail.values.events.catalogue import AnyEvent
from agentrail.values.events.envelope import Envelope
from agentrail.values.json import FrozenObject
from agentrail.values.messages import Message
from agentrail.version import __version__

Document: TypeAlias = dict[str, object]

CREATED: Final = 201
UNAUTHORIZED: Final = 401
_TEMPLATE: Final = "#/components/schemas/{name}"
_PROBLEM: Final = "#/components/schemas/Problem"
_TEXT: Final[Document] = {"type": "string"}
_PROBLEM_SCHEMA: Final[Document] = {
    "title": "Problem",
    "description": "What stood in the way of a request (RFC 9457).",
    "type": "object",
    "properties": {
        "type": {"type": "string", "description": f"Kind of error, which never changes: `{problems.TYPES}NAME`."},
        "title": {"type": "string", "description": "The kind of error in words."},
        "status": {"type": "integer", "description": "Status of the response."},
        "detail": {"type": "string", "description": "The three that follow, as one sentence."},
        "attempted": {"type": "string", "description": "What the request was to do."},
        "found": {"type": "string", "description": "What stood in the way."},
        "to_do": {"type": "string", "description": "What the client can do about it."},
        "error": {"type": "string", "description": "Name of the class of the error in Python."},
        "facts": {
            "type": "array",
            "items": {},
            "description": "Facts of the error, in the order of its class; null for each that the host does not tell.",
        },
        "retry_after": {"type": "integer", "description": "Seconds after which another attempt may go well, if any."},
    },
    "required": ["type", "title", "status", "detail", "attempted", "found", "to_do", "error", "facts"],
}
_FILES: Final = ("application/octet-stream", "application/pdf", "image/*", "text/*")
"""Media types of files; the body is the file itself, so that others are taken too, but none of several parts."""
_BYTES: Final[Document] = {**_TEXT, "format": "binary", "minLength": 1}
"""Schema of bytes, at least one; JSON Schema needs none, but makers of clients leave out a call whose body has none."""
_ANY_OBJECT: Final[Document] = {"type": "object", "additionalProperties": True}
"""Schema of an object with any fields; generators of clients read one that only says its type as an empty object."""
COMMAND_ID: Final = r"^[!-~]{1,128}$"
_ABOUT: Final = (
    "Sessions of agents: talk to them, steer and abort them, decide about calls that wait for a person, and follow "
    "their events. Who sends a request is what its key says, never what is in its body."
)
_FRAMES: Final = (
    f"Frames of server-sent events. `id` is a cursor, `event` the name of the event (the `$` in the data), `data` an "
    f"`Envelope`. A frame `{sse_frames.GAP}` says that events are missing up to the cursor `to`; "
    f"`{sse_frames.REPLY}` and `{sse_frames.PROBLEM}` end a stream."
)


_RUN_FRAMES: Final = (
    "Frames of server-sent events whose `data` is an event of AG-UI 1.0. `id` is where to go on. A stream that ends "
    "without `RUN_FINISHED` and `RUN_ERROR` goes on with another connection."
)

_SOCKET: Final = (
    "The connection goes on as a WebSocket, whose messages are in the reference of the host. A client that cannot set "
    "the header `Authorization` sends its key as the first message."
)


def openapi_json() -> bytes:
    """Return the document as JSON; the bytes are the same for each call."""
    return _build_document()


@cache
def _build_document() -> bytes:
    return to_json(document())


def document() -> Document:
    """Return the document as plain data."""
    hints = [*_shown_classes(), Envelope, AnyEvent, Message, ChangesView]
    plain_schemas, components = msgspec.json.schema_components(hints, schema_hook=_foreign, ref_template=_TEMPLATE)
    schemas = dict(zip(map(repr, hints), map(_portable, plain_schemas), strict=True))
    components = {name: _portable(schema) for name, schema in components.items()}
    for view in classes_below(View):
        # views are always written with all fields, so clients may rely on each
        if schema := components.get(view.__name__):
            properties = cast("Mapping[str, Document]", schema["properties"])
            schema["required"] = [*properties]
            for name in properties.keys() - _own_fields(view):
                properties[name].pop("default", None)  # that of a value which is shown is its own affair
    for schema in components.values():
        if "description" in schema:
            schema["description"] = cleandoc(cast("str", schema["description"]))
    paths: dict[str, Document] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {"title": "agentrail", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": {**dict(sorted(components.items())), "Problem": _PROBLEM_SCHEMA},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": f"A key has scopes of {', '.join(SCOPES)}."}
            },
        },
    }


def _shown_classes() -> Iterator[object]:
    """Yield each class of a body, a query or an answer once."""
    hints = [hint for call in CALLS.values() for hint in (call.body, call.query, call.gives) if hint is not None]
    return iter(dict(zip(map(repr, hints), hints, strict=True)).values())


def classes_below(base: type) -> list[type]:
    """Return all subclasses of *base*, direct and indirect, in the order of their definition."""
    classes = [base]
    for cls in classes:  # which grows meanwhile
        subclasses: list[type] = cls.__subclasses__()
        classes += [subclass for subclass in subclasses if subclass not in classes]
    return classes[1:]


def _own_fields(view: type) -> set[str]:
    """Return the fields that *view*, and views that it inherits from, have besides those of values."""
    return {name for base in view.__mro__ if issubclass(base, View) for name in get_annotations(base)}


def _foreign(hint: object) -> Document:
    """Return the schema of a type that msgspec does not know: any JSON, or a JSON object."""
    return dict(_ANY_OBJECT) if hint is FrozenObject else {"description": "Any JSON value."}


def _portable(schema: Mapping[str, object]) -> Document:
    """Return a schema of msgspec in words that generators of clients know, with the same meaning.

    They drop a class whose tag has an `enum` of one value, and fail at `"items": false`, which `maxItems` says too.
    """
    portable = {name: _portable_part(part) for name, part in schema.items() if (name, part) != ("items", False)}
    values = cast("Sequence[object]", portable.get("enum", ()))
    if len(values) == 1:
        del portable["enum"]
        portable["const"] = values[0]
    return portable


def _portable_part(part: object) -> object:
    if isinstance(part, Mapping):
        return _portable(cast("Mapping[str, object]", part))
    if isinstance(part, list | tuple):
        return [_portable_part(item) for item in cast("Sequence[object]", part)]
    return part


def _operation(route: HostRoute, schemas: Mapping[str, Document]) -> Document:
    call = route.call
    operation: Document = {
        "operationId": call.name,
        "summary": f"{call.attempt[:1].upper()}{call.attempt[1:]}.",
        "parameters": [*_parameters(route)],
        "responses": _with_ids({**_answers(call, schemas), **_problems(call)}),
    }
    if call.body is not None:
        operation["requestBody"] = {"content": {call.takes: {"schema": schemas[repr(call.body)]}}, "required": True}
    elif call.takes != JSON:
        operation["requestBody"] = {"content": {media: {"schema": _BYTES} for media in _FILES}, "required": True}
    if call.scope is not None:
        operation["security"] = [{"key": []}]
        operation["description"] = _scopes(call)
    elif call.media == WEBSOCKET:
        operation["security"] = [{"key": []}, {}]
    return operation


def _scopes(call: HostCall) -> str:
    if call.about_knowledge and call.others:
        return f"Scope: `{call.scope}` or `{call.others}`."
    others = f" For sessions of other users of the tenant: `{call.others}`." if call.others else ""
    return f"Scope: `{call.scope}`.{others}"


def _parameters(route: HostRoute) -> Iterator[Document]:
    call = route.call
    if route.about_session:
        yield {
            "name": SESSION[1:-1],
            "in": "path",
            "required": True,
            "description": "Id of a session.",
            "schema": {**_TEXT, "pattern": SESSION_ID},
        }
    if FILE in route.path:
        yield {
            "name": FILE[1:-1],
            "in": "path",
            "required": True,
            "description": "Name of a file that the page loads.",
            "schema": _TEXT,
        }
    if call.query is not None:
        yield from _fields(call.query, route.path_fields)
    if call.command:
        yield _header("Idempotency-Key", "Id of the command: sent twice, it is carried out once.", COMMAND_ID)
    if call.name == "events":
        yield _header("Last-Event-ID", "Cursor of the last event that was read; counts more than `since`.", CURSOR)
    if call.name.startswith("ag_ui"):
        yield _header("Last-Event-ID", "Id of the last frame that was read; counts more than `since`.", FRAME_ID)


def _header(name: str, about: str, pattern: str) -> Document:
    schema = {**_TEXT, "pattern": pattern}
    return {"name": name, "in": "header", "required": False, "description": about, "schema": schema}


def _fields(query: type[Query], in_path: Sequence[str]) -> Iterator[Document]:
    _, components = msgspec.json.schema_components([query], ref_template=_TEMPLATE)
    schema = _portable(components[query.__name__])
    needed = cast("Sequence[str]", schema.get("required", ()))
    for name, part in cast("Mapping[str, Document]", schema["properties"]).items():
        source = "path" if name in in_path else "query"
        yield {"name": name, "in": source, "required": name in needed, "schema": part}


def _answers(call: HostCall, schemas: Mapping[str, Document]) -> Mapping[str, Document]:
    content: Document = {}
    if call.gives is not None:
        content[JSON] = {"schema": schemas[repr(call.gives)]}
    well: Document = {"description": "It went well.", **({"content": content} if content else {})}
    answers: dict[str, Document] = {str(call.status): well}
    if call.media == WEBSOCKET:
        answers[str(call.status)] = {"description": _SOCKET}
    elif call.media != JSON:
        about = "It went well."
        if call.media == sse_frames.MEDIA_TYPE:
            about = _RUN_FRAMES if call.name.startswith("ag_ui") else _FRAMES
        answers[str(call.status)] = {"description": about, "content": {call.media: {"schema": _TEXT}}}
    elif call.status == CREATED and call.gives is OpenedView:
        answers[str(call.status)]["headers"] = {"Location": _required_text("Path of the session.")}
    elif call.name == "openapi":
        answers[str(call.status)] = {"description": "This document.", "content": {JSON: {"schema": _ANY_OBJECT}}}
    if call.held:
        answers["202"] = {"description": "The turn waits for a person.", "content": content}
    if call.name == "ready":
        answers["503"] = {"description": "It is not ready.", "content": content}
    return answers


def _problems(call: HostCall) -> Document:
    by_status: dict[int, list[problems.Kind]] = {}
    for error in errors_of(call):
        by_status.setdefault(ROWS[error].status, []).append(error)
    answers: Document = {}
    for status, errors in sorted(by_status.items()):
        kinds = dict.fromkeys(problems.code_of(ROWS[error].told_as or error) for error in errors)
        content = {problems.MEDIA_TYPE: {"schema": {"$ref": _PROBLEM}}}
        answer: Document = {"description": ", ".join(f"`{kind}`" for kind in kinds), "content": content}
        if status == UNAUTHORIZED:
            answer["headers"] = {"WWW-Authenticate": _required_text("`Bearer`.")}
        elif all(ROWS[error].retry_after is not None for error in errors):
            answer["headers"] = {"Retry-After": _required_text("After how many seconds another attempt may help.")}
        answers[str(status)] = answer
    return answers


def _with_ids(answers: Document) -> Document:
    """Return *answers*, each with the header that the server adds to every answer."""
    number = {"X-Request-Id": _required_text("Id of the request, by which the log of the host names it.")}
    by_status = cast("Mapping[str, Document]", answers)
    return {
        status: {**answer, "headers": {**cast("Document", answer.get("headers", {})), **number}}
        for status, answer in by_status.items()
    }


def _required_text(about: str) -> Document:
    return {"description": about, "required": True, "schema": _TEXT}
