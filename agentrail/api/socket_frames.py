"""Messages of `WS /v1/ws`: reads those of a client strictly, and writes those of the host. Each is one JSON object.

A client sends a `KeyFrame`, if its handshake had no key, then each `CallFrame`, `ListenFrame` and `EndFrame` with an id
of its choice; the host answers with the same id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Final, Literal, TypeAlias, TypeGuard, get_args

import msgspec
from msgspec import Meta

from agentrail.api.bodies import Filled, Name, Names, Positive
from agentrail.api.body_parsing import strict_json
from agentrail.api.limits import DEFAULTS
from agentrail.api.operation_table import CALLS, JSON
from agentrail.codec.decode_error import shorten
from agentrail.codec.values import decode
from agentrail.errors import BadData, BadFrame
from agentrail.errors.agentrail_error import advice
from agentrail.values.events.envelope import Cursor
from agentrail.values.events.policies import SubscriptionPolicy
from agentrail.values.json import EMPTY, Json, JsonObject
from agentrail.values.value import Value

PATH: Final = "/v1/ws"
"""Where a host opens a WebSocket."""

USER: Final = "agentrail-user"
"""Header of the answer to a handshake with a key: its user as ids of sessions have it, see `public_ids.whole_id`."""

SUBPROTOCOL: Final = "agentrail.v1"
"""Name of this protocol in the handshake; it is offered and answered, and not demanded."""

MAX_ID: Final = 64
"""The most characters of the id of a call or a subscription."""

FrameId: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
"""Id of a call or a subscription, of the client's choice; it may be used again when its use has ended."""

ViewName: TypeAlias = Literal["tree", "approvals"]
"""What can be listened to: approvals come whole at first, and each time they have changed; of the tree, its rows."""

Listened: TypeAlias = Literal["events", "transcript"] | ViewName
"""What can be listened to: of a session its events, or what each of them changes in the conversation."""

VIEWS: Final[tuple[ViewName, ...]] = get_args(ViewName)

SOCKET_CALLS: Final = frozenset(
    name for name, call in CALLS.items() if call.scope is not None and call.takes == call.media == JSON
)
"""Names of the calls that go over a WebSocket: those that take and give JSON, for clients with a key."""

Close: TypeAlias = Literal[1007, 1008, 1009, 1011, 1012, 1013]
"""Codes with which the host closes: https://www.iana.org/assignments/websocket."""

BROKEN_RULE: Final[Close] = 1008
TOO_LARGE: Final[Close] = 1009
FAULT: Final[Close] = 1011
RESTARTS: Final[Close] = 1012
TRY_LATER: Final[Close] = 1013

SLOW_READER: Final = "too slow; continue from your last cursor"
KEY_UNKNOWN: Final = "the host cannot find out whose key it is; connect again, and continue from your last cursor"
TOO_MANY_CONNECTIONS: Final = "too many connections are in use; connect again later"
"""Reasons of a close with `TRY_LATER`."""


_MOST: Final = re.compile(r"a message has at most ([0-9]{1,12}) bytes", re.ASCII)


def too_large(most: int) -> str:
    """Return the reason of a close with `TOO_LARGE`: a message has more than *most* bytes, or too many fragments."""
    return f"a message has at most {most} bytes, and no tiny fragments"


def most_told(reason: str) -> int | None:
    """Return the limit, in bytes, that a reason made by `too_large` names; `None` for any other reason."""
    match = _MOST.match(reason)
    return None if match is None else int(match[1])


class SentFrame(Value):
    """Base class of the messages that a client sends."""


class KeyFrame(SentFrame):
    """The first message of a client that cannot set the header `Authorization`, such as a browser."""

    key: Filled
    """The key."""


class CallFrame(SentFrame):
    """A call of the table: the same as over HTTP, carried out by the same function."""

    id: FrameId
    """Id that its answer has."""
    call: Name
    """Name of the call."""
    session: Name | None = None
    """Id of the session that the call is about; `None` if it is about none."""
    body: JsonObject = EMPTY
    """The body of the call."""
    query: JsonObject = EMPTY
    """The query of the call: texts, whole numbers, and yes or no."""
    command: str | None = None
    """The command id: over HTTP, the header `Idempotency-Key`."""


class ListenFrame(SentFrame):
    """A subscription: to the events of a session, to what they change in its conversation, or to a view."""

    id: FrameId
    """Id that all its messages have."""
    listen: Listened
    """What is listened to."""
    session: Name | None = None
    """Id of the session; `None` for a view."""
    since: Filled | None = None
    """A cursor, `seq.n`: the events after it, then live ones; `None`: live ones alone."""
    types: Names | None = None
    """Of `events`: names of events; `None`: all."""
    policy: SubscriptionPolicy | None = None
    """What happens if the client reads too slowly; `None`: `coalesce`."""
    last: Positive | None = None
    """Of `transcript`: number of a record; what is stored up to there is all, and the session is not started."""
    changes: bool = False
    """Of `tree`: true, as its rows are sent one by one, each when it changes."""
    query: JsonObject = EMPTY
    """With `changes`: which rows, as in the query of the call `rows`."""


class EndFrame(SentFrame):
    """Ends a subscription, or gives up waiting for a call; what the call was to do may still be done."""

    id: FrameId
    """Id of the subscription or the call."""
    end: Literal[True]


KINDS: Final[Mapping[str, type[SentFrame]]] = {
    "key": KeyFrame,
    "call": CallFrame,
    "listen": ListenFrame,
    "end": EndFrame,
}
"""Each kind of message that a client sends, by the field that tells it."""

NOT_OF: Final[Mapping[Listened, tuple[str, ...]]] = {
    "events": ("last",),
    "transcript": ("types",),
    **dict.fromkeys(VIEWS, ("session", "since", "last", "types", "policy")),
}
"""Fields of a `ListenFrame` that do not go with what is listened to."""

IT: Final = "it"
BODY: Final = "its `body`"
CALL: Final = "its `call`"
SESSION: Final = "its `session`"
CHANGES: Final = "its `changes`"
QUERY: Final = "its `query`"
NO_SESSION: Final = "lacks `session`"
NO_CHANGES: Final = "lacks `changes`, which is true for the tree: its rows come one by one"
NO_CALL: Final = "names no call that goes over a WebSocket"


# What a client sends


def read_object(content: str | bytes, depth: int = DEFAULTS.json_depth) -> Mapping[str, Json]:
    """Parse the JSON object of a message, whose body may have *depth* levels, and return it.

    Raise `BadText` if *content* is not strict JSON, and `BadFrame` if it is not an object.
    """
    value = strict_json(content.encode(errors="surrogatepass") if isinstance(content, str) else content, depth + 1)
    if not isinstance(value, dict):
        raise BadFrame(IT, "is no object")
    return value


def id_in(message: Mapping[str, Json]) -> str | None:
    """Return the id of a message, even one that is otherwise invalid; `None` if it has no valid id."""
    name = message.get("id")
    return name if isinstance(name, str) and 0 < len(name) <= MAX_ID else None


def read_frame(message: Mapping[str, Json]) -> SentFrame:
    """Convert *message* to its class; raise `BadFrame` if it is not a valid message."""
    kinds = [kind for kind in KINDS if kind in message]
    if len(kinds) != 1:
        listed_kinds = "`, `".join(kinds)
        raise BadFrame(IT, f"has `{listed_kinds}`, of which only one may be there" if kinds else "has none of these")
    try:
        frame = decode(KINDS[kinds[0]], message)
    except BadData as bad:
        _, source, problem = bad.args
        raise BadFrame(str(source), str(problem)) from None
    if isinstance(frame, CallFrame) and frame.call not in SOCKET_CALLS:
        raise BadFrame(CALL, f"{NO_CALL}: `{shorten(frame.call)}`; {advice(frame.call, SOCKET_CALLS, 'there are')}")
    if isinstance(frame, ListenFrame):
        _check_listened(frame)
    return frame


def check_session_and_body(frame: CallFrame) -> None:
    """Raise `BadFrame` if a call lacks its session, or has one or a body although it takes none."""
    call = CALLS[frame.call]
    if not call.about_session and frame.session is not None:
        raise BadFrame(SESSION, f"does not go with `{frame.call}`, which is about none")
    if call.about_session and frame.session is None:
        raise BadFrame(IT, NO_SESSION)
    if call.body is None and frame.body:
        raise BadFrame(BODY, f"does not go with `{frame.call}`, which takes none")


def query_pairs(query: JsonObject) -> tuple[tuple[str, str], ...]:
    """Return the names and values of *query* as in a URL; raise `BadFrame` for a value that cannot stand there."""
    for name, value in query.items():
        if not isinstance(value, str | int):
            source = f"its `query.{shorten(name)}`"
            raise BadFrame(source, "is no text, no whole number, and no yes or no")
    return tuple(
        [(name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in query.items()]
    )


def _check_listened(frame: ListenFrame) -> None:
    if frame.changes and frame.listen != "tree":
        raise BadFrame(CHANGES, f"does not go with `{frame.listen}`")
    if frame.listen == "tree" and not frame.changes:
        raise BadFrame(IT, NO_CHANGES)
    if frame.query and not frame.changes:
        raise BadFrame(QUERY, "goes with `changes` alone")
    for name in NOT_OF[frame.listen]:
        if getattr(frame, name) is not None:
            source = f"its `{name}`"
            raise BadFrame(source, f"does not go with `{frame.listen}`")
    if not is_view(frame.listen) and frame.session is None:
        raise BadFrame(IT, NO_SESSION)


def is_view(listened: Listened) -> TypeGuard[ViewName]:
    """Whether *listened*, the subject of a subscription, is a view, and not about one session."""
    return listened in VIEWS


# What the host sends

_encode: Final = msgspec.json.Encoder().encode


def answer(name: str, status: int, content: bytes) -> bytes:
    """Return the answer to the call *name*, with the JSON text *content*, empty if the call returns nothing."""
    body = b',"body":%s' % content if content else b""
    return b'{"id":%s,"status":%d%s}' % (_encode(name), status, body)


def refused(name: str, status: int, problem: bytes) -> bytes:
    """Return the answer to the call *name* that failed, with its problem document."""
    return b'{"id":%s,"status":%d,"problem":%s}' % (_encode(name), status, problem)


def unread(name: str | None, problem: bytes) -> bytes:
    """Return the answer to a client's message that is not valid; *name* is its id, if that could be read."""
    head = b"" if name is None else b'"id":%s,' % _encode(name)
    return b'{%s"problem":%s}' % (head, problem)


def begun(name: str, cursor: Cursor) -> bytes:
    """Return the message that the subscription *name* has begun: the events after *cursor* follow."""
    return b'{"id":%s,"cursor":"%d.%d"}' % (_encode(name), *cursor)


def event(name: str, kind: str, data: bytes, cursor: Cursor) -> bytes:
    """Return an event of the subscription *name*; *data* is what the frame of a stream has."""
    return b'{"id":%s,"cursor":"%d.%d","event":%s,"data":%s}' % (_encode(name), *cursor, _encode(kind), data)


def folded(name: str, changes_: bytes, cursor: Cursor) -> bytes:
    """Return what an event of the subscription *name* changes in the conversation: *changes_*, a `ChangesView`."""
    return b'{"id":%s,"cursor":"%d.%d","data":%s}' % (_encode(name), *cursor, changes_)


def gap(name: str, data: bytes) -> bytes:
    """Return the message that events are missing at this place; *data* says from where to where."""
    return b'{"id":%s,"gap":%s}' % (_encode(name), data)


def view(name: str, data: bytes) -> bytes:
    """Return the message with the present state of the view that *name* subscribes to."""
    return b'{"id":%s,"data":%s}' % (_encode(name), data)


def changes(
    name: str,
    changed: Iterable[tuple[str, bytes]],
    matching: int,
    total: int,
    missing: Sequence[str] = (),
    *,
    is_first: bool,
) -> bytes:
    """Return a message with rows of the tree that have changed, as JSON by their session; `null` for one that left.

    *is_first* tells the client to forget the rows that it has from before; *matching* and *total* are counts of rows,
    *missing* hosts whose rows are not among them.
    """
    rows = b",".join([b"%s:%s" % (_encode(session), row) for session, row in changed])
    more = b',"first":true' if is_first else b""
    if missing:
        more += b',"missing":%s' % _encode(missing)
    return b'{"id":%s,"changed":{%s},"matching":%d,"total":%d%s}' % (_encode(name), rows, matching, total, more)


def ended(name: str, problem: bytes = b"") -> bytes:
    """Return the end of the subscription *name*; the document *problem* says why, unless it came to its end."""
    why = b',"problem":%s' % problem if problem else b""
    return b'{"id":%s,"end":true%s}' % (_encode(name), why)
