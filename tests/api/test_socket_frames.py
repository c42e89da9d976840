"""Messages of the WebSocket are read strictly, and written so that their id says what they answer."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.api import socket_frames as frames
from agentrail.api.operation_table import CALLS
from agentrail.api.problems import problem_of
from agentrail.api.socket_frames import (
    SOCKET_CALLS,
    CallFrame,
    EndFrame,
    KeyFrame,
    ListenFrame,
    SentFrame,
    id_in,
    is_view,
    read_frame,
    read_object,
)
from agentrail.api.views import to_json
from agentrail.errors import BadFrame, BadText, QueueFull, UnknownSession
from agentrail.events import Cursor
from agentrail.values.events.policies import POLICIES, SubscriptionPolicy
from tests.each_case import each_case

EVENTS = {"id": "1", "listen": "events", "session": "s"}
NO_CALL = "its `call` names no call that goes over a WebSocket: `promt`; did you mean `prompt`?"

FRAMES: list[SentFrame] = [
    KeyFrame("ar-key"),
    CallFrame("7", "prompt", "trip", {"message": "hi"}, command="c1"),
    CallFrame("x" * 64, "list_sessions", query={"owner": "*", "ended": True, "limit": 5}),
    ListenFrame("8", "events", "trip", "12.3", ("TextDelta",), "drop"),
    ListenFrame("9", "tree", changes=True),
    ListenFrame("9", "approvals"),
    ListenFrame("9", "transcript", "trip", "12.3", policy="drop", last=7),
    EndFrame("8", end=True),
]


def read(message: object) -> SentFrame:
    return read_frame(read_object(json.dumps(message)))


def wrong(message: object) -> str:
    with pytest.raises(BadFrame) as caught:
        read(message)
    return " ".join(map(str, caught.value.args))


@pytest.mark.parametrize("frame", FRAMES, ids=repr)
def test_what_is_written_is_read_as_it_was(frame: SentFrame) -> None:
    assert read_frame(read_object(to_json(frame))) == frame


def test_calls_that_go_over_a_socket_take_and_give_json_for_clients_with_a_key() -> None:
    left_out = {"upload", "stream", "events", "ag_ui_run", "ag_ui_follow", "metrics", "page", "console_file", "openapi"}
    left_out |= {"health", "ready", "socket", "file", "put_document"}
    assert set(CALLS) - left_out == SOCKET_CALLS


def test_the_policies_are_those_of_a_subscription() -> None:
    assert get_args(SubscriptionPolicy) == POLICIES
    assert [ListenFrame("1", "events", "s", policy=policy).policy for policy in POLICIES] == [*POLICIES]


@each_case(
    [
        ([], "it is no object"),
        ("prompt", "it is no object"),
        ({}, "it has none of these"),
        ({"id": "1"}, "it has none of these"),
        ({"id": "1", "call": "tree", "end": True}, "it has `call`, `end`, of which only one may be there"),
        ({"call": "tree"}, "it lacks `id`"),
        ({"id": 1, "call": "tree"}, "its `id` is a whole number where text is wanted"),
        ({"id": "", "call": "tree"}, "its `id` is empty"),
        ({"id": "x" * 65, "call": "tree"}, "its `id` has more than 64 characters"),
        ({"id": "1", "call": "tree", "key": "k"}, "it has `key`, `call`, of which only one may be there"),
        ({"id": "1", "call": "tree", "tenant": "a"}, "it has the key `tenant`, which is not known"),
        ({"id": "1", "call": "tree", "body": "hi"}, "its `body` is a `str` where a JSON object is wanted"),
        ({"id": "1", "call": "tree", "session": ""}, "its `session` is empty"),
        ({"id": "1", "call": "promt"}, NO_CALL),
        ({"id": "1", "listen": "all"}, "its `listen` is none of those that are known"),
        ({"id": "1", "listen": "events"}, "it lacks `session`"),
        ({**EVENTS, "types": "A"}, "its `types` is text where an array or nothing is wanted"),
        ({**EVENTS, "last": 7}, "its `last` does not go with `events`"),
        ({**EVENTS, "listen": "transcript", "types": ["A"]}, "its `types` does not go with `transcript`"),
        ({"id": "1", "listen": "transcript", "last": 7}, "it lacks `session`"),
        ({**EVENTS, "policy": "x"}, "its `policy` is none of those that are known"),
        ({"id": "1", "listen": "tree"}, "it lacks `changes`, which is true for the tree: its rows come one by one"),
        ({"id": "1", "listen": "tree", "changes": True, "session": "s"}, "its `session` does not go with `tree`"),
        ({"id": "1", "listen": "approvals", "since": "1"}, "its `since` does not go with `approvals`"),
        ({"id": "1", "end": False}, "its `end` is none of those that are known"),
        ({"key": ""}, "its `key` is empty"),
        ({"key": "k", "id": "1"}, "it has the key `id`, which is not known"),
    ]
)
def test_what_does_not_fit_is_refused_with_the_place(message: object, problem: str) -> None:
    assert wrong(message) == problem


@each_case(sorted(set(CALLS) - SOCKET_CALLS))
def test_a_call_of_another_media_type_or_without_a_key_is_refused(name: str) -> None:
    assert wrong({"id": "1", "call": name}).startswith(f"its `call` names no call that goes over a WebSocket: `{name}`")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "expecting value at line 1, column 1"),
        ("{", "expecting property name enclosed in double quotes at line 1, column 2"),
        ('{"id":"1","id":"2"}', "it has the key `id` twice at line 1, column 11"),
        ('{"id":NaN}', "it has `NaN`, which is no JSON number, at line 1, column 7"),
        ('{"id":"\ud800"}', "byte 7 is not UTF-8"),
        ('{"a":"b",' * 10_000, "it has more than 10000 items"),
    ],
)
def test_what_is_no_strict_json_is_refused_with_the_place(content: str, problem: str) -> None:
    with pytest.raises(BadText) as caught:
        read_object(content)
    assert caught.value.args[0] == problem


def nested(levels: int) -> str:
    """Return a call whose body has so many levels."""
    return '{"id":"1","call":"tree","body":' + '{"a":' * (levels - 1) + "{}" + "}" * levels


def test_a_body_may_be_as_deep_as_over_http() -> None:
    assert read_object(nested(63), 64)["id"] == "1"
    assert read_object(nested(64), 64)["id"] == "1"
    with pytest.raises(BadText, match="it has more than 65 levels"):
        read_object(nested(65), 64)


@pytest.mark.parametrize(
    ("message", "frame_id"),
    [
        ({"id": "7", "call": 5}, "7"),
        ({"id": "x" * 64}, "x" * 64),
        ({"id": "x" * 65}, None),
        ({"id": ""}, None),
        ({"id": 7}, None),
        ({}, None),
    ],
)
def test_the_id_of_a_message_that_does_not_fit_is_told_if_it_is_one(
    message: dict[str, object], frame_id: str | None
) -> None:
    assert id_in(read_object(json.dumps(message))) == frame_id


def test_a_query_stands_as_in_an_address() -> None:
    frame = CallFrame("1", "list_sessions", query={"owner": "a&b=ü", "ended": False, "limit": 5, "label": ""})
    assert frames.query_pairs(frame.query) == (("owner", "a&b=ü"), ("ended", "false"), ("limit", "5"), ("label", ""))
    assert frames.query_pairs(CallFrame("1", "list_sessions").query) == ()


@pytest.mark.parametrize("value", [None, 1.5, [1], {"a": 1}])
def test_what_cannot_stand_in_an_address_is_refused(value: object) -> None:
    frame = read({"id": "1", "call": "list_sessions", "query": {"limit": value}})
    assert isinstance(frame, CallFrame)
    with pytest.raises(BadFrame) as caught:
        frames.query_pairs(frame.query)
    assert caught.value.args == ("its `query.limit`", "is no text, no whole number, and no yes or no")


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (CallFrame("1", "tree", session="s"), "its `session` does not go with `tree`, which is about none"),
        (CallFrame("1", "prompt"), "it lacks `session`"),
        (CallFrame("1", "messages", "s", body={"a": 1}), "its `body` does not go with `messages`, which takes none"),
    ],
)
def test_a_call_has_the_session_and_the_body_that_it_needs(frame: CallFrame, problem: str) -> None:
    with pytest.raises(BadFrame) as caught:
        frames.check_session_and_body(frame)
    assert " ".join(map(str, caught.value.args)) == problem


def test_views_are_told_from_events() -> None:
    assert not is_view("events")
    assert [is_view(message) for message in frames.VIEWS] == [True, True]


def test_what_the_host_sends_has_the_id_that_it_answers() -> None:
    problem, missing = problem_of(QueueFull(8), "prompt the session"), problem_of(UnknownSession("a"), "listen")
    document, lost = json.loads(problem.content), json.loads(missing.content)
    assert problem.status == 429
    assert document["retry_after"] == 5
    name = 'x"\\ü'
    sent = [
        frames.answer(name, 202, b'{"ref":"p1"}'),
        frames.answer(name, 204, b""),
        frames.refused(name, 429, problem.content),
        frames.unread(name, problem.content),
        frames.unread(None, problem.content),
        frames.begun(name, Cursor(12, 2)),
        frames.event(name, "TextDelta", b'{"delta":"a"}', Cursor(12, 3)),
        frames.gap(name, b'{"from":"1.0","to":"2.0"}'),
        frames.view(name, b"[]"),
        frames.ended(name),
        frames.ended(name, missing.content),
    ]
    assert [json.loads(message) for message in sent] == [
        {"id": name, "status": 202, "body": {"ref": "p1"}},
        {"id": name, "status": 204},
        {"id": name, "status": 429, "problem": document},
        {"id": name, "problem": document},
        {"problem": document},
        {"id": name, "cursor": "12.2"},
        {"id": name, "cursor": "12.3", "event": "TextDelta", "data": {"delta": "a"}},
        {"id": name, "gap": {"from": "1.0", "to": "2.0"}},
        {"id": name, "data": []},
        {"id": name, "end": True},
        {"id": name, "end": True, "problem": lost},
    ]


SEEDS = [to_json(frame) for frame in FRAMES]
BYTES = st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"\xff", b"\x00", b"NaN", b" "])


@pytest.mark.long
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 3), BYTES | st.binary(max_size=3)), max_size=4),
)
def test_mutated_messages_are_read_or_refused(seed: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    content = seed
    for offset, cut, put in edits:
        content = content[:offset] + put + content[offset + cut :]
    try:
        frame = read_frame(read_object(content))
    except (BadText, BadFrame):
        return
    assert read_frame(read_object(to_json(frame))) == frame
