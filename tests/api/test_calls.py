"""The table of calls: who may do what, and that no body says who one is."""

from __future__ import annotations

from typing import get_args

import msgspec

from agentrail.api.bodies import CallBody
from agentrail.api.operation_table import CALLS, HostCall, errors_of
from agentrail.api.problems import ROWS
from agentrail.errors import NotAuthenticated, ScopeMissing, TooManyRequests
from tests.each_case import each_case

ALL = each_case(CALLS.values())
IDENTITY = {"tenant", "tenant_id", "user", "user_id", "by", "who", "scope", "scopes", "key", "identity"}


def classes(body: object) -> list[type[CallBody]]:
    return list(get_args(body)) or ([body] if isinstance(body, type) else [])


@ALL
def test_no_body_and_no_query_says_who_one_is(call: HostCall) -> None:
    for cls in (*classes(call.body), *classes(call.query)):
        assert not IDENTITY & {field.encode_name for field in msgspec.structs.fields(cls)}


@ALL
def test_each_error_of_a_call_has_a_row_and_is_told_once(call: HostCall) -> None:
    errors = errors_of(call)
    assert len(errors) == len(set(errors))
    assert set(errors) <= ROWS.keys()


@ALL
def test_a_call_that_needs_a_key_can_be_refused_for_want_of_one(call: HostCall) -> None:
    refusals = {NotAuthenticated, ScopeMissing, TooManyRequests}
    result = refusals & set(errors_of(call))
    late = refusals - {ScopeMissing} if call.name == "socket" else set()  # its key may come in the first message
    assert result == (refusals if call.scope else late)


@ALL
def test_what_changes_something_can_be_sent_twice(call: HostCall) -> None:
    assert call.command == (call.route.startswith("POST ") and call.body is not None)


@ALL
def test_what_comes_back_has_a_form(call: HostCall) -> None:
    assert (call.gives is None) == (
        call.status == 204 or call.media != "application/json" or call.name == "openapi"
    ) or call.held
