"""Frames carry a cursor from which a client goes on, and the ids that it may know."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from agentrail.api.sse_frames import HEARTBEAT, WITH_SESSION, as_seen, event_frame, frame, read_cursor
from agentrail.api.views import to_json
from agentrail.events import (
    EVENTS,
    ApprovalRequired,
    AskUser,
    Cursor,
    Envelope,
    Event,
    Gap,
    MessageDelta,
    PromptReceived,
    ResultRequired,
    SessionForked,
    SubAgentEvent,
    SubagentStart,
    UserResponded,
)
from tests.codec.sampling import event_sample
from tests.each_case import each_case

NUMBERS = st.integers(min_value=0, max_value=10**18 - 1)


@given(NUMBERS, NUMBERS)
def test_a_cursor_is_read_as_it_was_written(seq: int, n: int) -> None:
    cursor = Cursor(seq, n)
    assert str(cursor) == f"{seq}.{n}"
    assert read_cursor(str(cursor)) == cursor
    assert read_cursor(str(seq)) == Cursor(seq)


@given(st.text(max_size=10) | st.text(alphabet="0123456789.", max_size=8))
def test_what_is_read_as_a_cursor_is_written_so(text: str) -> None:
    cursor = read_cursor(text)
    assert cursor is None or text in {str(cursor), str(cursor.seq)}


@each_case(["", ".", "1.", ".1", "-1", "+1", "01", "1.02", " 1", "1 ", "1\n", "1.2.3", "1e3", "٣", "9" * 19])
def test_what_is_no_cursor_is_not_read_as_one(text: str) -> None:
    assert read_cursor(text) is None


def lines(sent: bytes) -> dict[str, str]:
    """Return the fields of the one frame, as a browser reads it."""
    assert sent.endswith(b"\n\n")
    assert sent.count(b"\n\n") == 1
    return dict(line.split(": ", 1) for line in sent.decode().splitlines() if line)


@each_case(EVENTS)
def test_each_event_is_one_frame_in_which_its_data_is_one_line(event: type[Event]) -> None:
    envelope = event_sample(event)
    frame_lines = lines(event_frame(envelope))
    if event is Gap:
        assert frame_lines["event"] == "gap"
        return
    assert frame_lines["id"] == str(envelope.cursor)
    assert frame_lines["event"] == event.__name__
    assert json.loads(frame_lines["data"])["event"]["$"] == event.__name__


def test_an_event_is_told_with_its_place_and_its_time() -> None:
    envelope = Envelope("h.acme.bob.main", 4, 2, 1_700, 1, 1, MessageDelta("so\n\nid: 9.9"))
    assert event_frame(envelope) == (
        b"id: 4.2\nevent: MessageDelta\n"
        b'data: {"session_id":"bob.main","seq":4,"n":2,"at":1700,"turn":1,"round":1,'
        b'"event":{"$":"MessageDelta","delta":"so\\n\\nid: 9.9"}}\n\n'
    )


@each_case([event for event in EVENTS if event is not Gap])
def test_the_quick_frame_of_an_event_is_that_of_its_whole_envelope(event: type[Event]) -> None:
    sample = event_sample(event).but(session_id="h.acme.bob.main")
    for envelope in (sample.but(path=(), by=""), sample.but(path=("h.acme.bob.top",)), sample.but(path=(), by="zoë")):
        plain_frame = frame(event.__name__, to_json(as_seen(envelope)), envelope.cursor)
        assert event_frame(envelope) == plain_frame


def test_a_gap_has_no_id_of_its_own() -> None:
    envelope = Envelope("h.acme.bob.main", 4, 2, 0, 0, 0, Gap(4, 2, 9, 0))
    assert event_frame(envelope) == b'event: gap\ndata: {"from":"4.2","to":"9.0"}\n\n'


def test_a_heartbeat_is_a_comment() -> None:
    assert HEARTBEAT == b":\n\n"
    assert frame("reply", b"{}") == b"event: reply\ndata: {}\n\n"


def test_the_fields_with_ids_of_sessions_are_those_that_say_so() -> None:
    begins = {"approval_id", "child", "origin", "session", "session_id"}
    waits: dict[type[Event], set[str]] = {
        AskUser: {"ref", "path"},
        ResultRequired: {"ref", "path"},
        ApprovalRequired: {"approval_id", "path"},
        UserResponded: {"ref"},
    }
    named = {event: (set(event.__struct_fields__) & begins) | waits.get(event, set()) for event in EVENTS}
    assert {event: set(fields) for event, fields in WITH_SESSION.items()} == {e: f for e, f in named.items() if f}


@each_case(EVENTS)
def test_no_event_tells_a_tenant(event: type[Event]) -> None:
    secret = "h.acme.bob.main"
    sample = event_sample(event).event
    ids = {name: (secret, "call-1") if name == "path" else f"{secret}:a1" for name in WITH_SESSION.get(event, ())}
    envelope = Envelope(secret, 1, 0, 0, 0, 0, sample.but(**ids), (secret, "call-1"))
    assert b"acme" not in event_frame(envelope)


def test_ids_in_an_event_of_a_sub_agent_are_as_clients_see_them() -> None:
    inner = SubagentStart("c2", "h.acme.bob.main.c1.c2", "look")
    outer = SubAgentEvent("c1", "h.acme.bob.main.c1", inner)
    document = json.loads(lines(event_frame(Envelope("h.acme.bob.main", 1, 0, 0, 0, 0, outer)))["data"])
    assert document["event"]["child"] == "bob.main.c1"
    assert document["event"]["event"]["child"] == "bob.main.c1.c2"
    forked = event_frame(Envelope("h.acme.bob.b", 1, 0, 0, 0, 0, SessionForked("h.acme.bob.a", 3)))
    assert json.loads(lines(forked)["data"])["event"]["origin"] == "bob.a"


def test_words_that_look_like_an_id_stay_as_they_were_said() -> None:
    event = event_sample(PromptReceived).event.but(ref="h.acme.bob.main")
    assert b'"ref":"h.acme.bob.main"' in event_frame(Envelope("h.acme.bob.main", 1, 0, 0, 0, 0, event))
