"""Views are made of what the runtime has, field by field, with the ids that clients see."""

from __future__ import annotations

import json

import pytest

from agentrail import Accepted, ChildView, HeldCall, Reply, Status, Task
from agentrail.api.openapi import classes_below
from agentrail.api.operation_table import CALLS
from agentrail.api.session_values import Asking, Background, Compacting
from agentrail.api.views import (
    AcceptedView,
    AskingView,
    ChildShown,
    HealthView,
    HeldView,
    MessagesView,
    ReplyView,
    SessionsView,
    SessionView,
    StatusView,
    TaskView,
    UsageView,
    View,
    WholeReplyView,
    to_json,
    view,
)
from agentrail.models import AssistantMessage, History, Text, Usage, UserMessage
from tests.kit import NOTHING_USED, freeze_object

SESSION = "h.acme.bob.main"
HELD = HeldCall(
    f"{SESSION}:a1",
    "approval",
    "c1",
    "shell",
    freeze_object({"cmd": "h.acme.x"}),
    "why?",
    path=(SESSION, "c0"),
    since=5,
    asked_by=("ann",),
    digest="d1",
)
HELD_SEEN = {
    "id": "bob.main:a1",
    "kind": "approval",
    "call_id": "c1",
    "tool": "shell",
    "args": {"cmd": "h.acme.x"},
    "hint": "why?",
    "options": [],
    "expires_at": None,
    "family": None,
    "path": ["bob.main", "c0"],
    "since": 5,
    "asked_by": ["ann"],
    "digest": "d1",
    "session": "bob.main",
}
USED = {
    "input_tokens": 3,
    "output_tokens": 2,
    "cached_tokens": 0,
    "reasoning_tokens": 0,
    "cache_write_tokens": 0,
    "cost_usd": None,
    "estimated": False,
}
USAGE = Usage(3, 2)


def shown_json(cls: type[View], value: object) -> object:
    return json.loads(to_json(view(cls, value, SESSION)))


def test_a_reply_has_its_text_its_usage_and_what_is_held() -> None:
    reply = Reply("p1", "end", (AssistantMessage((Text('{"a":1}'),)),), USAGE, (HELD,), fits=True)
    assert shown_json(ReplyView, reply) == {
        "ref": "p1",
        "stop_reason": "end",
        "text": '{"a":1}',
        "answer": {"a": 1},
        "usage": USED,
        "held": [HELD_SEEN],
        "session": "bob.main",
        "dropped": [],
    }


def test_a_reply_that_waits_for_a_person_has_no_text_and_no_answer() -> None:
    reply = Reply("p1", "held", (AssistantMessage((Text('{"a":1}'),)),), USAGE, (HELD,), fits=True)
    seen = view(ReplyView, reply, SESSION)
    assert (seen.text, seen.answer, len(seen.held)) == ("", None, 1)


def test_a_status_has_all_that_a_session_does() -> None:
    status = Status(
        SESSION, "idle", "m", 1, 0, False, USAGE, 2, 3, (HELD,), (Asking("before_request", "P", "RunTool"),),
        (Background("c2", "t", 5),), (),
        (Task(f"{SESSION}.c0", "helper", "look", "c0"),), Compacting("full", 9), True, "desk",
    )  # fmt: skip
    assert shown_json(StatusView, status) == {
        "phase": "idle",
        "model": "m",
        "turn": 1,
        "round": 0,
        "turn_open": False,
        "usage": USED,
        "queued": 2,
        "steering": 3,
        "held": [HELD_SEEN],
        "lingering": [{"call_id": "c2", "name": "t", "since": 5, "abandoned": False}],
        "quarantined": [],
        "tasks": [
            {
                "child": "bob.main.c0",
                "agent": "helper",
                "description": "look",
                "call_id": "c0",
                "background": False,
                "status": "running",
                "peers": [],
            }
        ],
        "asking": [{"hook": "before_request", "plugin": "P", "request": "RunTool"}],
        "compacting": {"reason": "full", "tokens": 9},
        "waits": True,
        "agent": "desk",
    }


def test_a_tree_names_sessions_as_clients_do() -> None:
    below = ChildView("h.acme.bob.main.c0", "session", "running", "temporary")
    tree = ChildView(
        "root",
        "supervisor",
        "running",
        "permanent",
        children=(ChildView(SESSION, "session", "running", "transient", children=(below,)),),
    )
    tree_view = view(ChildShown, tree)
    names = [tree_view.name, tree_view.children[0].name, tree_view.children[0].children[0].name]
    assert names == ["root", "bob.main", "bob.main.c0"]


def test_an_accepted_text_says_in_which_session() -> None:
    assert shown_json(AcceptedView, Accepted("p1", "queued", 2)) == {
        "ref": "p1",
        "status": "queued",
        "position": 2,
        "session": "bob.main",
        "dropped": [],
    }


@pytest.mark.parametrize(
    ("cls", "source", "but"),
    [
        (HeldView, HeldCall, {"session"}),
        (UsageView, Usage, set()),
        (TaskView, Task, set()),
        (ChildShown, ChildView, set()),
        (StatusView, Status, set()),
        (AcceptedView, Accepted, {"session"}),
        (AskingView, Asking, set()),
        (WholeReplyView, Reply, {"session", "text", "answer"}),
    ],
)
def test_a_view_shows_all_that_there_is(cls: type[View], source: type[View], but: set[str]) -> None:
    left_out = {"session_id"}
    assert set(cls.__struct_fields__) - but == set(source.__struct_fields__) - left_out


def test_messages_are_written_as_the_journal_has_them() -> None:
    page = MessagesView(tuple(History([UserMessage((Text("hi"),))])), None)
    assert to_json(page) == b'{"items":[{"$":"UserMessage","parts":[{"$":"Text","text":"hi"}]}],"next":null}'


def test_an_empty_list_is_a_list() -> None:
    assert to_json(SessionsView((), None)) == b'{"items":[],"next":null}'


def test_all_fields_are_written_also_those_at_their_default() -> None:
    assert shown_json(UsageView, NOTHING_USED) == {**USED, "input_tokens": 0, "output_tokens": 0}


def test_a_default_is_written_too() -> None:
    assert to_json(HealthView()) == b'{"status":"ok"}'
    assert b'"problem":""' in to_json(
        SessionView("bob.main", "bob", "demo", "", (), 1, 2, at_work=False, ended=False, records=3, due=None)
    )


def test_each_view_is_what_some_call_gives_or_a_part_of_it() -> None:
    assert {call.gives for call in CALLS.values() if call.gives is not None} <= set(classes_below(View))
