"""Bodies and queries that do not fit are refused, and the error names the place."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail.api.bodies import (
    DeleteQuery,
    EventsQuery,
    MessagesQuery,
    PageQuery,
    PromptBody,
    SessionsQuery,
)
from agentrail.api.body_parsing import check_media, command_of, read_body, read_query, start_of, types_of
from agentrail.api.operation_table import CALLS
from agentrail.errors import AgentrailError, BadText, UsageError
from agentrail.events import AgentEnd, Cursor, MessageDelta
from agentrail.models import Image, Text
from tests.coded import coded
from tests.profiles import CAMPAIGN

PROMPT, ABORT, EVENTS = CALLS["prompt"], CALLS["abort"], CALLS["events"]


def test_a_message_is_a_text_or_parts() -> None:
    assert read_body(PROMPT, b'{"message":"hi","files":["a.txt"]}') == PromptBody("hi", ("a.txt",))
    parts = [{"$": "Text", "text": "look"}, {"$": "Image", "media_type": "image/png", "data": "AA=="}]
    assert read_body(PROMPT, json.dumps({"message": parts}).encode()) == PromptBody(
        (Text("look"), Image("image/png", "AA=="))
    )


def test_no_body_is_an_empty_one() -> None:
    assert read_body(ABORT, b"") == read_body(ABORT, b"{}")
    with pytest.raises(
        UsageError, check=coded("bad-body"), match="the body of `prompt` does not fit: it lacks `message`"
    ):
        read_body(PROMPT, b"")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"message=hi", "expecting value at line 1, column 1"),
        (b'{"message":"hi"', "expecting ',' delimiter at line 1, column 16"),
        (b'{"message":"hi"} {}', "extra data at line 1, column 18"),
        (b'{"message":"\xff"}', "byte 12 is not UTF-8"),
        (b'\xef\xbb\xbf{"message":"hi"}', "expecting value at line 1, column 1"),
        (b'{"message":\n "a",\n "message":"b"}', "it has the key `message` twice at line 3, column 2"),
        (b'{"message":"a","m\\u0065ssage":"b"}', "it has the key `message` twice at line 1, column 16"),
        (b'{"message":[{"a":{},"b":[{"c":1,"c":2}]}]}', "it has the key `c` twice at line 1, column 33"),
        (b"[" + b"{}," * 70 + b'{"a":1},{"a":1,"a":2}]', "it has the key `a` twice at line 1, column 227"),
        (b'{"message":\n NaN}', "it has `NaN`, which is no JSON number, at line 2, column 2"),
        (b'{"message":"NaN", "x": -Infinity}', "it has `-Infinity`, which is no JSON number, at line 1, column 24"),
        (b'{"message":' + b"[" * 64 + b"]" * 64 + b"}", "it has more than 64 levels at line 1, column 75"),
        (b"[" * 4_500 + b"]" * 4_500, "it has more than 64 levels at line 1, column 65"),
        (b"[" * 100_000, "it has more than 10000 items"),
        (b'{"message":1e999}', "its `message` is the number inf, which JSON cannot hold"),
        (b'{"message":["\\ud800"]}', "its `message[0]` is text with half a surrogate pair, which JSON cannot hold"),
        (b'{"a":"b",' * 10_000, "it has more than 10000 items"),
        (b'{"message":[' + b"0," * 10_001, "it has more than 10000 items"),
    ],
)  # fmt: skip
def test_what_is_no_strict_json_is_refused_with_the_place(content: bytes, problem: str) -> None:
    with pytest.raises(BadText) as caught:
        read_body(PROMPT, content)
    assert caught.value.args[0] == problem


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ([], "it is an array where an object is wanted"),
        ({}, "it lacks `message`"),
        ({"message": None}, "its `message` is nothing where text or an array is wanted"),
        ({"message": 1}, "its `message` is a whole number where text or an array is wanted"),
        ({"message": ""}, "its `message` is empty"),
        ({"message": []}, "its `message` is empty"),
        ({"message": [{"$": "Text"}]}, "its `message[0]` lacks `text`"),
        ({"message": [{"$": "Text", "text": 1}]}, "its `message[0].text` is a whole number where text is wanted"),
        ({"message": [{"$": "Thinking", "text": "a"}]}, "its `message[0].$` is none of those that are known"),
        (
            {"message": "a", "tenant": "b"},
            "it has the key `tenant`, which is not known (its fields are `files`, `message`, `returns`)",
        ),
        ({"message": "a", "files": "b"}, "its `files` is text where an array is wanted"),
        ({"message": "a", "files": ["a", 2]}, "its `files[1]` is a whole number where text is wanted"),
        ({"message": "a", "files": ["a" * 201]}, "its `files[0]` has more than 200 characters"),
        ({"message": "a", "files": ["a"] * 101}, "its `files` has more than 100 items"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_place(content: object, problem: str) -> None:
    with pytest.raises(UsageError, check=coded("bad-body")) as caught:
        read_body(PROMPT, json.dumps(content).encode())
    assert f"{caught.value.args[2]} {caught.value.args[3]}" == problem
    assert str(caught.value) == f"the body of `prompt` does not fit: {problem}; `/openapi.json` has its schema"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("change_tools", b'{"do":"attach","tools":[]}', "its `tools` is empty"),
        ("change_tools", b'{"do":"drop","tools":["a"]}', "its `do` is none of those that are known"),
        ("switch_model", b'{"model":[]}', "its `model` is empty"),
        ("fork", b'{"at":0}', "its `at` is less than 1"),
        ("change_plugins", b'{"plugin":"guard"}', "it lacks `do`"),
        ("change_plugins", b'{"do":"attach","plugin":"guard","pin":true}', "it has the key `pin`, which is not known"),
    ],
)
def test_other_bodies_name_the_place_too(name: str, content: bytes, problem: str) -> None:
    with pytest.raises(UsageError, check=coded("bad-body")) as caught:
        read_body(CALLS[name], content)
    assert f"{caught.value.args[2]} {caught.value.args[3]}" == problem


def test_words_that_look_like_items_are_words() -> None:
    text = ",[{" * 20_000
    assert read_body(PROMPT, json.dumps({"message": text}).encode()) == PromptBody(text)
    assert read_body(PROMPT, json.dumps({"message": f'"{text}\\'}).encode()) == PromptBody(f'"{text}\\')


SEEDS = [b'{"message":"hi","files":["a"]}', b'{"message":[{"$":"Data","data":{"a":[1,2.5e3,null,"\\u00e9\\""]}}]}']
BYTES = st.sampled_from(
    [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"0", b"-", b"e9", b"\xff", b"\x00", b"\\ud800", b"NaN", b" "]
)


@pytest.mark.long
@given(
    st.sampled_from(SEEDS),
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 3), BYTES | st.binary(max_size=3)), max_size=4),
)
def test_mutated_bodies_are_read_or_refused(seed: bytes, edits: list[tuple[int, int, bytes]]) -> None:
    content = seed
    for offset, cut, put in edits:
        content = content[:offset] + put + content[offset + cut :]
    try:
        body = read_body(PROMPT, content)
    except UsageError:
        return
    assert isinstance(body, PromptBody)


WORST = [
    b'\\"',
    b'"',
    b'"\\',
    b"[",
    b"[],",
    b'{"a":',
    b'{"a":1,',
    b"0,",
    b"9",
    b'"a":',
    b'"a" ',
    b'" ',
    b"\\",
    b"1e9,",
    b'"\xc3\xa9',
]


@pytest.mark.parametrize("piece", WORST)
def test_a_large_bad_body_costs_no_more_than_its_length(piece: bytes) -> None:
    """Sixteen times the text may take at most some fifty times as long: a square would take 256 times."""

    def spent(size: int) -> float:
        content = b'{"message":' + piece * (size // len(piece))
        began = time.perf_counter()
        for _ in range(3):
            with pytest.raises(AgentrailError):
                read_body(PROMPT, content)
        return time.perf_counter() - began

    large = spent(1024 * 1024)
    assert not CAMPAIGN or large < 50 * max(spent(64 * 1024), 0.01)


@pytest.mark.parametrize(
    "media_type", ["application/json", "Application/JSON; charset=utf-8", 'application/json;charset="UTF-8"']
)
def test_json_is_taken_as_json(media_type: str) -> None:
    check_media(PROMPT, media_type)


@pytest.mark.parametrize(
    "media_type",
    [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/json; charset=latin-1",
        "application/jsonp",
        "multipart/form-data; boundary=x",
    ],
)
def test_another_media_type_is_refused(media_type: str) -> None:
    with pytest.raises(UsageError, check=coded("wrong-media"), match="send `application/json`"):
        check_media(PROMPT, media_type)
    check_media(EVENTS, media_type)


@pytest.mark.parametrize(
    ("name", "query", "expected"),
    [
        ("approvals", "", PageQuery()),
        ("approvals", "limit=5&after=a.b", PageQuery("a.b", 5)),
        ("list_sessions", "ended=true&label=x+y&owner=*", SessionsQuery(owner="*", label="x y", ended=True)),
        ("list_sessions", "ended=false", SessionsQuery(ended=False)),
        ("list_sessions", "label=5", SessionsQuery(label="5")),
        ("messages", "after=0&limit=1", MessagesQuery(0, 1)),
        ("delete_session", "redact", DeleteQuery(redact=True)),
        ("delete_session", "redact=true", DeleteQuery(redact=True)),
        ("events", "since=4.3&types=AgentEnd%2CMessageDelta", EventsQuery("4.3", "AgentEnd,MessageDelta")),
        ("tree", "", None),
    ],
)
def test_a_query_is_read_by_the_kinds_of_its_fields(name: str, query: str, expected: object) -> None:
    assert read_query(CALLS[name], query) == expected


@pytest.mark.parametrize(
    ("name", "query", "problem"),
    [
        ("approvals", "limt=5", "its `limt` is not known; did you mean `limit`?"),
        ("approvals", "limit=5&limit=6", "its `limit` stands there twice"),
        ("approvals", "limit=five", "its `limit` is text where a whole number or nothing is wanted"),
        ("approvals", "limit=05", "its `limit` is text where a whole number or nothing is wanted"),
        ("approvals", "limit=0", "its `limit` is less than 1"),
        ("approvals", "after=", "its `after` is empty"),
        ("approvals", "after=%ff", "it is not `name=value&name=value` in UTF-8, with at most 20"),
        ("approvals", "&".join(["a=1"] * 21), "it is not `name=value&name=value` in UTF-8, with at most 20"),
        ("delete_session", "redact=maybe", "its `redact` is text where a boolean is wanted"),
        ("tree", "deep=1", "its `deep` is not known; the call takes none"),
    ],
)
def test_a_query_that_does_not_fit_is_refused_with_the_place(name: str, query: str, problem: str) -> None:
    with pytest.raises(UsageError, check=coded("bad-query")) as caught:
        read_query(CALLS[name], query)
    assert f"{caught.value.args[2]} {caught.value.args[3]}" == problem


@pytest.mark.long
@given(st.text(max_size=20) | st.text(alphabet="limtafer=&%5+;", max_size=20))
def test_any_query_is_read_or_refused(query: str) -> None:
    for name in ("approvals", "delete_session", "tree"):
        try:
            values = read_query(CALLS[name], query)
        except UsageError:
            continue
        assert isinstance(values, PageQuery | DeleteQuery | None)


def test_the_header_of_a_browser_that_comes_back_counts_more_than_the_address() -> None:
    assert start_of(EVENTS, EventsQuery("1.0"), "") == Cursor(1)
    assert start_of(EVENTS, EventsQuery("1.0"), "4.2") == Cursor(4, 2)
    assert start_of(EVENTS, EventsQuery(), "") is None
    with pytest.raises(UsageError, check=coded("bad-query"), match="its `since` is no cursor"):
        start_of(EVENTS, EventsQuery("soon"), "")
    with pytest.raises(UsageError, check=coded("bad-query"), match="the header `Last-Event-ID` is no cursor"):
        start_of(EVENTS, EventsQuery("1.0"), "4.x")


def test_a_command_id_is_printable_and_short() -> None:
    assert command_of(PROMPT, None) is None
    assert command_of(PROMPT, "a" * 128) == "a" * 128
    for key in ("", "a" * 129, "a b", "ä", "\t", "a\n"):
        with pytest.raises(
            UsageError, check=coded("bad-query"), match="the header `Idempotency-Key` is not 1 to 128 characters"
        ):
            command_of(PROMPT, key)


def test_types_are_names_of_events() -> None:
    assert types_of(EVENTS, EventsQuery()) is None
    assert types_of(EVENTS, EventsQuery(types="AgentEnd,MessageDelta,AgentEnd")) == (AgentEnd, MessageDelta)
    with pytest.raises(
        UsageError, check=coded("bad-query"), match="its `types` names no event: `AgentEnds`; did you mean `AgentEnd`"
    ):
        types_of(EVENTS, EventsQuery(types="AgentEnds"))
    with pytest.raises(UsageError, check=coded("bad-query"), match="its `types` names no event: ``; there are"):
        types_of(EVENTS, EventsQuery(types="AgentEnd,"))
