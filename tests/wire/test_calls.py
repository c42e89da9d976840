"""The table of calls: who may do what, and that no body says who one is."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from agentrail.errors import NotAuthenticated, ScopeMissing, TooManyRequests
from agentrail.wire.bodies import CallBody
from agentrail.wire.operation_table import CALLS, SCOPES, HostCall, Scope, errors_of
from agentrail.wire.problems import ROWS
from agentrail.wire.routes import ROUTES

ALL = pytest.mark.parametrize("call", CALLS.values(), ids=lambda call: call.name)
IDENTITY = {"tenant", "tenant_id", "user", "user_id", "by", "who", "scope", "scopes", "key", "identity"}


def classes(body: object) -> list[type[CallBody]]:
    return list(get_args(body)) or ([body] if isinstance(body, type) else [])


def test_the_scopes_are_those_that_were_agreed() -> None:
    assert get_args(Scope) == SCOPES == ("talk", "decide", "observe", "admin", "operate")


def test_who_may_do_what() -> None:
    allowed = {name: (call.scope, call.others) for name, call in CALLS.items()}
    assert allowed == {
        "chat": ("talk", "admin"),
        "stream": ("talk", "admin"),
        "open_session": ("talk", None),
        "list_sessions": ("talk", "observe"),
        "show_session": ("talk", "observe"),
        "delete_session": ("admin", "admin"),
        "prompt": ("talk", "admin"),
        "steer": ("talk", "admin"),
        "abort": ("talk", "admin"),
        "approve": ("decide", "decide"),
        "reject": ("decide", "decide"),
        "respond": ("talk", "decide"),
        "switch_model": ("admin", "admin"),
        "change_tools": ("admin", "admin"),
        "change_plugins": ("admin", "admin"),
        "compact": ("talk", "admin"),
        "fork": ("talk", "admin"),
        "events": ("talk", "observe"),
        "messages": ("talk", "observe"),
        "upload": ("talk", "admin"),
        "approvals": ("decide", None),
        "tree": ("observe", None),
        "commands": ("talk", None),
        "socket": (None, None),
        "health": (None, None),
        "ready": (None, None),
        "metrics": ("observe", None),
        "page": (None, None),
        "openapi": (None, None),
        "ask": ("talk", "admin"),
        "stop": ("talk", "admin"),
        "label": ("talk", "admin"),
        "queued": ("talk", "observe"),
        "withdraw": ("talk", "admin"),
        "suspend": ("talk", "admin"),
        "resume": ("talk", "admin"),
        "offered": ("talk", "observe"),
        "tasks": ("talk", "observe"),
        "message_task": ("talk", "admin"),
        "cancel_task": ("talk", "admin"),
        "task_result": ("talk", "observe"),
        "wait_tasks": ("talk", "observe"),
        "agents": ("talk", None),
    }


@ALL
def test_no_body_and_no_query_says_who_one_is(call: HostCall) -> None:
    for cls in (*classes(call.body), *classes(call.query)):
        assert not IDENTITY & {field.encode_name for field in msgspec.structs.fields(cls)}


@ALL
def test_each_error_of_a_call_has_a_row_and_is_told_once(call: HostCall) -> None:
    (route,) = [route for route in ROUTES if route.call == call]
    found = errors_of(call, about_session=route.about_session)
    assert len(found) == len(set(found))
    assert set(found) <= ROWS.keys()


@ALL
def test_a_call_that_needs_a_key_can_be_refused_for_want_of_one(call: HostCall) -> None:
    refusals = {NotAuthenticated, ScopeMissing, TooManyRequests}
    found = refusals & set(errors_of(call, about_session=False))
    late = refusals - {ScopeMissing} if call.name == "socket" else set()  # its key may come in the first message
    assert found == (refusals if call.scope else late)


@ALL
def test_what_changes_something_can_be_sent_twice(call: HostCall) -> None:
    (route,) = [route for route in ROUTES if route.call == call]
    assert call.command == (route.method == "POST" and call.body is not None)


@ALL
def test_what_comes_back_has_a_form(call: HostCall) -> None:
    assert (call.gives is None) == (
        call.status == 204 or call.media != "application/json" or call.name == "openapi"
    ) or call.held
