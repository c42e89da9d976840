"""Messages of a WebSocket with fields that are right, wrong, deep or huge: what fits is read, all else refused."""

from __future__ import annotations

import json
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentrail.api.problems import problem_of
from agentrail.api.socket_frames import (
    MAX_ID,
    NOT_OF,
    SOCKET_CALLS,
    CallFrame,
    KeyFrame,
    id_in,
    read_frame,
    read_object,
    unread,
)
from agentrail.errors import AgentrailError, BadFrame, BadText
from agentrail.models import Json
from agentrail.values.events.policies import POLICIES
from tests.api.schemas import ANY

pytestmark = pytest.mark.long

TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
ID: Final = TEXT | st.just("x" * MAX_ID) | st.just("€" * MAX_ID)
OBJECT: Final = st.dictionaries(st.text(max_size=4), st.none() | st.integers(-9, 9) | st.text(max_size=4), max_size=3)
RIGHT: Final[dict[str, st.SearchStrategy[Json]]] = {
    "key": TEXT,
    "id": ID,
    "call": st.sampled_from(sorted(SOCKET_CALLS)),
    "session": TEXT,
    "query": OBJECT,
    "command": st.text(max_size=4),
    "listen": st.sampled_from(tuple(NOT_OF)),
    "since": TEXT,
    "types": st.lists(TEXT, max_size=2),
    "policy": st.sampled_from(POLICIES),
    "last": st.integers(1, 9),
    "end": st.just(value=True),
}
"""What is right for each field but `body`."""

WITH: Final = {
    "key": ((), ()),
    "call": (("id",), ("session", "body", "query", "command")),
    "listen": (("id",), NOT_OF["tree"]),
    "end": (("id",), ()),
}
"""Which fields each kind of message has to have, and which it may have, beside its own."""

HUGE: Final[tuple[Json, ...]] = ("x" * 100_000, 10**400, -(10**400), [[]] * 5_000, {str(n): n for n in range(5_000)})


def nested(levels: int) -> Json:
    """Return objects in each other."""
    value: Json = "x"
    for _ in range(levels):
        value = {"a": value}
    return value


WRONG: Final = ANY | st.sampled_from(HUGE) | st.integers(1, 200).map(nested)


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, dict[str, Json], bool]:
    """Draw the kind of a message, its fields, and whether each is right."""
    kind = draw(st.sampled_from(sorted(WITH)))
    needed, may = WITH[kind]
    names = [kind, *needed, *(name for name in may if draw(st.booleans()))]
    message = {name: draw(OBJECT if name == "body" else RIGHT[name]) for name in names}
    is_right = True
    if draw(st.booleans()):
        field = draw(st.sampled_from([*names, *RIGHT, "body", "other", ""]))
        message[field] = draw(WRONG)
        is_right = False
    return kind, message, is_right


def read(message: object) -> object:
    """Return the message, or its problem as a client gets it, which must be made without an error."""
    try:
        return read_frame(read_object(json.dumps(message)))
    except (BadFrame, BadText) as error:
        return problem(error)


def problem(error: AgentrailError) -> dict[str, object]:
    document: dict[str, object] = json.loads(unread(None, problem_of(error, "read the message").content))["problem"]
    return document


@given(messages())
@example(("call", {"id": "1", "call": "tree", "query": nested(200)}, False))
@example(("end", {"id": 10**400, "end": True}, False))
@example(("listen", {"listen": [], "id": "x" * MAX_ID}, False))
def test_what_is_right_is_read_as_it_was_and_what_is_wrong_is_told_shortly(
    drawn: tuple[str, dict[str, Json], bool],
) -> None:
    kind, message, is_right = drawn
    frame = read(message)
    feed = message.get("listen")
    unfit = next((fields for name, fields in NOT_OF.items() if name == feed), ())  # what is drawn may have no hash
    lacks = kind == "listen" and (feed == "tree" or ("session" not in unfit and "session" not in message))
    if is_right and not (lacks or any(name in message for name in unfit)):
        assert {name: getattr(frame, name) for name in message if name != "types"} == {
            name: value for name, value in message.items() if name != "types"
        }
        assert list(getattr(frame, "types", None) or ()) == list(message.get("types", ()))  # type: ignore[arg-type]  # texts
    elif isinstance(frame, dict):
        assert frame["status"] in {400, 422}
        assert len(json.dumps(frame)) < 2_000


@given(WRONG)
def test_an_id_is_told_if_it_is_one(value: Json) -> None:
    is_one = isinstance(value, str) and 0 < len(value) <= MAX_ID
    assert id_in({"id": value}) == (value if is_one else None)


@given(ANY)
def test_each_message_of_any_kind_is_read_or_refused(value: Json) -> None:
    frame = read(value)
    assert isinstance(frame, dict | KeyFrame | CallFrame)
