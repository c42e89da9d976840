"""A call that is sent on to another host is the same there."""

from __future__ import annotations

import json
from typing import Final

import pytest

from agentrail.api.body_parsing import read_body, read_query
from agentrail.api.limits import DEFAULTS
from agentrail.api.operation_table import CALLS
from agentrail.api.views import to_json
from agentrail.host.authentication.identity import NOBODY
from agentrail.host.cluster.holder_connection import passed_content, passed_headers, passed_query
from agentrail.host.operations.call import OperationCall, Upload
from agentrail.models import Image, Text
from tests.host.model.in_process import GivenBody

PARTS: Final = json.loads(to_json((Text("look: \U0001f600"), Image("image/png", "aGk="))))
ANSWERED: Final = [{"interruptId": "i", "status": "resolved", "payload": {"ok": True}}]
SAID: Final = [{"role": "user", "id": "m", "content": [1]}]

BODIES: Final = (
    ("chat", {"message": PARTS, "agent": "a", "session": "trip", "files": ["f"], "returns": {"type": "object"}}),
    ("chat", {"message": "hello"}),
    ("ask", {"message": "hello", "until": "end"}),
    ("open_session", {"labels": ["b", "a"], "title": ""}),
    ("fork", {"at": 3}),
    ("fork", {"at": "m1"}),
    ("steer", {"text": "no", "when": "now"}),
    ("approve", {"approval": "trip:c1", "args": {"x": [1, 2.5, None, {"y": "z"}]}, "always": True}),
    ("reject", {"approval": "trip:c1", "reason": "no"}),
    ("switch_model", {"model": ["a", "b"], "options": {"temperature": 0.5}}),
    ("change_tools", {"do": "detach", "tools": ["t"]}),
    ("change_plugins", {"do": "update", "plugin": "P", "options": {"a": [1]}, "pin": True}),
    ("ag_ui_run", {"threadId": "t", "runId": "r", "messages": SAID, "more": 1}),
    ("ag_ui_run", {"threadId": "t", "runId": "r", "resume": ANSWERED}),
)

QUERIES: Final = (
    ("list_sessions", "owner=a%26b%3D%C3%BC&ended=false&limit=5&label=%20"),
    ("delete_session", "redact"),
    ("events", "since=12.0&types=AgentEnd,AgentAbort"),
    ("upload", "name=a%20b.txt"),
    ("messages", ""),
)


@pytest.mark.parametrize(("name", "body"), BODIES)
async def test_another_host_reads_the_same_body(name: str, body: object) -> None:
    row = CALLS[name]
    call = OperationCall(row, NOBODY, "trip", DEFAULTS, read_body(row, json.dumps(body).encode()), key="once")
    assert read_body(row, await passed_content(call)) == call.body(object)
    headers = dict(passed_headers(call))
    assert (headers["content-type"], headers["idempotency-key"]) == ("application/json", "once")


@pytest.mark.parametrize(("name", "query"), QUERIES)
async def test_another_host_reads_the_same_query(name: str, query: str) -> None:
    row = CALLS[name]
    call = OperationCall(row, NOBODY, "trip", DEFAULTS, query=read_query(row, query))
    assert read_query(row, passed_query(call)) == call.query(object)
    assert await passed_content(call) == b""
    assert "content-type" not in dict(passed_headers(call))


async def test_a_file_is_sent_on_as_it_is() -> None:
    call = OperationCall(CALLS["upload"], NOBODY, "trip", DEFAULTS, Upload(GivenBody(b"\x00{"), "image/png"))
    assert await passed_content(call) == b"\x00{"
    assert dict(passed_headers(call))["content-type"] == "image/png"


def test_a_key_of_the_client_is_not_sent_on() -> None:
    headers = (("authorization", "Bearer secret"), ("x-key", "secret"), ("user-agent", "me"), ("idempotency-key", "a"))
    call = OperationCall(CALLS["messages"], NOBODY, "trip", DEFAULTS, headers=headers, peer="10.0.0.9")
    sent = passed_headers(call)
    assert {name for name, _ in sent} == {"x-forwarded-for", "x-request-id", "user-agent"}
