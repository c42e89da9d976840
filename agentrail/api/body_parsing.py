"""Reads bodies and queries strictly: whatever does not fit is refused, and the error names the place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, cast, get_args, get_type_hints
from urllib.parse import parse_qsl

from agentrail.api.bodies import EventsQuery, Query
from agentrail.api.limits import DEFAULTS
from agentrail.api.operation_table import HostCall
from agentrail.api.sse_frames import read_cursor
from agentrail.codec.decode_error import shorten
from agentrail.codec.json_text import from_text
from agentrail.codec.values import decode
from agentrail.errors import BadData, BadText, UsageError
from agentrail.errors.agentrail_error import advice, cut
from agentrail.values.events import EVENTS
from agentrail.values.events.envelope import Cursor, Event
from agentrail.values.json import EMPTY, MAX_ITEMS, Json

MAX_FIELDS: Final = 20
"""The most fields of a query."""

_MEDIA: Final = re.compile(r"\s*([^\s;]+)\s*(?:;\s*charset\s*=\s*\"?utf-?8\"?\s*)?", re.ASCII | re.IGNORECASE)
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
# Possessive, and an open string may end with the text: otherwise each quote in it would start a search to the end.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+(?:"(\s*+:)?|\\?\Z)|[\[\]{}]|NaN|-?Infinity', re.DOTALL)
_COMMAND: Final = re.compile(r"[!-~]{1,128}", re.ASCII)
_PLACELESS: Final = "it has "
"""Beginning of what `from_text` says of a text whose grammar is right, without the place."""
_MAX_QUOTES: Final = 4 * (MAX_ITEMS + 1)
"""An item has a key and a text at most."""
_TOO_MANY: Final = f"it has more than {MAX_ITEMS} items"
_TRUTH: Final = {"": True, "true": True, "false": False}
"""Values of a yes or no in a query; `?redact` alone is a yes."""

_EVENTS: Final = {event.__name__: event for event in EVENTS}


def check_media(call: HostCall, media_type: str) -> None:
    """Raise `UsageError` if a body of the media type *media_type*, the header `Content-Type`, is not for *call*."""
    fits = _MEDIA.fullmatch(media_type)
    if call.body is not None and (fits is None or fits[1].lower() != call.takes):
        raise UsageError("wrong-media", cut(media_type or "of no media type"), call.takes)


def read_body(call: HostCall, content: bytes, depth: int = DEFAULTS.json_depth) -> object:
    """Return the body of *call*, an instance of its class; nothing at all counts as an empty object.

    Raise `BadText` for what is no strict JSON or has more than *depth* levels, and `UsageError` for what does not fit.
    """
    return body_of(call, strict_json(content or b"{}", depth))


def body_of(call: HostCall, data: Json) -> object:
    """Return the body of *call* that JSON *data* stands for; raise `UsageError` if it does not fit."""
    try:
        return decode(call.body, data)
    except BadData as bad:
        _, source, problem = map(str, bad.args)
        raise UsageError("bad-body", call.name, source, problem + _field_advice(call.body, data, problem)) from None


def _field_advice(body: object, data: Json, problem: str) -> str:
    """If *problem* is an unknown key of *data*, return advice: the field of *body* that was meant, or all fields."""
    names: Sequence[str] = getattr(body, "__struct_fields__", ())
    keys: Mapping[str, Json] = data if isinstance(data, Mapping) else EMPTY
    unknown = next((key for key in keys if key not in names and f"`{key}`, which is not known" in problem), None)
    return f" ({advice(unknown, names, 'its fields are')})" if unknown is not None and names else ""


def strict_json(content: bytes, depth: int) -> Json:
    """Return the value of JSON text; raise `BadText` for what is no strict JSON or has more than *depth* levels."""
    _check_items(content)
    try:
        return from_text(content, depth)
    except BadText as bad:
        problem = str(bad.args[0])
        if problem.startswith(_PLACELESS):
            problem = next(_flaws(content.decode(), depth), problem)
        raise BadText(problem) from None


def _check_items(content: bytes) -> None:
    """Raise `BadText` if *content* has more items than a value may have, before time is spent on parsing them."""
    if _count_marks(content) <= MAX_ITEMS:
        return
    # escapes are removed, so each quote that is left begins or ends a string
    bare = content.replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > _MAX_QUOTES or _count_marks(b"".join(bare.split(b'"')[::2])) > MAX_ITEMS:
        raise BadText(_TOO_MANY)


def _count_marks(content: bytes) -> int:
    """Count the characters that begin an item or follow one: an upper bound of the number of items."""
    return content.count(b",") + content.count(b"[") + content.count(b"{")


def _flaws(text: str, depth: int) -> Iterator[str]:
    """Yield problems of JSON *text* that its grammar may allow, each with line and column."""
    objects: list[set[str] | None] = []
    for token in _TOKEN.finditer(text):
        lexeme = token[0]
        problem = ""
        if lexeme in "[{":
            objects.append(set() if lexeme == "{" else None)
            problem = f"more than {depth} levels" if len(objects) > depth else ""
        elif lexeme in "]}":
            objects[-1:] = []
        elif lexeme[0] != '"':
            problem = f"`{lexeme}`, which is no JSON number,"
        elif token[1] is not None and objects and (keys := objects[-1]) is not None:
            key = _key(lexeme[: -len(token[1])])
            problem = f"the key `{shorten(key)}` twice" if key in keys else ""
            keys.add(key)
        if problem:
            line, start = text.count("\n", 0, token.start()), text.rfind("\n", 0, token.start())
            yield f"it has {problem} at line {line + 1}, column {token.start() - start}"


def _key(text: str) -> str:
    """Return the key that the JSON string *text* stands for; with escapes, several texts can mean one key."""
    try:
        return cast("str", json.loads(text))
    except ValueError:
        return text


def read_query(call: HostCall, query: str, path_fields: Sequence[tuple[str, str]] = ()) -> Query | None:
    """Return the query of *call*, an instance of its class, with the fields that its path has; `None` if it has none.

    Raise `UsageError` for a field that is not known, stands twice, or has a value of another form.
    """
    try:
        pairs = parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except ValueError:
        raise UsageError(
            "bad-query", call.name, "it", f"is not `name=value&name=value` in UTF-8, with at most {MAX_FIELDS}"
        ) from None
    return query_of(call, [*path_fields, *pairs])


def query_of(call: HostCall, pairs: Sequence[tuple[str, str]]) -> Query | None:
    """Return the query of *call* with these names and values, as `read_query` does."""
    if call.query is None:
        if pairs:
            raise UsageError(
                "bad-query", call.name, f"its `{shorten(pairs[0][0])}`", "is not known; the call takes none"
            )
        return None
    kinds = _kinds_of(call.query)
    fields: dict[str, object] = {}
    for name, value in pairs:
        source = f"its `{shorten(name)}`"
        if name not in kinds:
            raise UsageError("bad-query", call.name, source, f"is not known; {advice(name, kinds, 'the call takes')}")
        if name in fields:
            raise UsageError("bad-query", call.name, source, "stands there twice")
        fields[name] = _value(kinds[name], value)
    try:
        return decode(call.query, fields)
    except BadData as bad:
        _, source, problem = bad.args
        raise UsageError("bad-query", call.name, str(source), str(problem)) from None


@cache
def _kinds_of(query: type[Query]) -> Mapping[str, frozenset[object]]:
    """Return the classes that each field of a query may have, by its name."""
    return {name: frozenset(_classes(hint)) for name, hint in get_type_hints(query).items()}


def _value(kinds: frozenset[object], value: str) -> object:
    """Return the query text *value* as one of *kinds*; the text itself if it fits none but text."""
    if bool in kinds:
        return _TRUTH.get(value, value)
    return int(value) if int in kinds and _WHOLE.fullmatch(value) else value


def _classes(hint: object) -> Iterator[object]:
    inside = get_args(hint)
    yield from (inner for part in inside for inner in _classes(part)) if inside else (hint,)


def command_of(call: HostCall, key: str | None) -> str | None:
    """Return *key*, the header `Idempotency-Key`, as a command id; `None` if it is missing."""
    if key is not None and not _COMMAND.fullmatch(key):
        raise UsageError(
            "bad-query", call.name, "the header `Idempotency-Key`", "is not 1 to 128 characters of ASCII without spaces"
        )
    return key


def start_of(call: HostCall, query: EventsQuery, last_event_id: str) -> Cursor | None:
    """Return the cursor after which events are wanted; `None`: live events alone. *last_event_id* is the header."""
    for source, cursor_text in (("the header `Last-Event-ID`", last_event_id), ("its `since`", query.since)):
        if cursor_text:
            cursor = read_cursor(cursor_text)
            if cursor is None:
                raise UsageError(
                    "bad-query", call.name, source, "is no cursor, such as `12.0`, which events have as their id"
                )
            return cursor
    return None


def types_of(call: HostCall, query: EventsQuery) -> tuple[type[Event], ...] | None:
    """Return the classes of events that the query asks for; `None`: all."""
    if query.types is None:
        return None
    return classes_of(call, query.types.split(","))


def classes_of(call: HostCall, names: Sequence[str]) -> tuple[type[Event], ...]:
    """Return the classes of events with these *names*."""
    for name in names:
        if name not in _EVENTS:
            raise UsageError("bad-query", call.name, "its `types`", f"names no event: {_unknown(name)}")
    return tuple(dict.fromkeys(_EVENTS[name] for name in names))


def _unknown(name: str) -> str:
    return f"`{shorten(name)}`; {advice(name, _EVENTS, 'there are')}"
