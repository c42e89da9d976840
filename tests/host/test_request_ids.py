"""The id of a request: in the answer, in the log with tenant and user, in what plugins get, and in a log of JSON."""

from __future__ import annotations

import json
import logging
import re

import pytest

from agentrail import SessionSpec
from agentrail.host import HostPlugin, Request, RequestLog
from agentrail.host.requests.access_log import JsonLines
from tests.host.hosted import open_desk
from tests.host.websocket.talking import talking


async def test_answer_access_log_and_request_log_name_the_same_request(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with open_desk(SessionSpec(model="demo"), [RequestLog()]) as desk:
        answer = await desk.ann.post("/v1/chat", json={"message": "hello"})
        refused = await desk.clients["bob"].get("/v1/approvals")
    sent = answer.headers["x-request-id"]
    lines = [json.loads(JsonLines().format(record)) for record in caplog.records]
    of_server = {line["request"]: line for line in lines if line["logger"] == "agentrail.access"}
    (of_plugin,) = [line for line in lines if line["logger"] == "agentrail.requests"]
    assert of_plugin["request"] == f"chat-{sent}"
    expected = {"client": "127.0.0.1", "method": "POST", "target": "/v1/chat", "status": 200, "level": "info"}
    assert {**of_server[sent], **expected, "tenant": "acme", "user": "ann"} == of_server[sent]
    assert (refused.status_code, of_server[refused.headers["x-request-id"]]["user"]) == (403, "bob")
    assert of_server[sent]["message"].endswith(f" ms tenant=acme user=ann request={sent}")


class Failing(HostPlugin):
    """Fails, and takes the request with it."""

    name = "failing"
    critical = True

    def intercept(self, request: Request) -> None:
        raise ValueError(request.message)


async def test_warnings_of_the_host_name_the_request(caplog: pytest.LogCaptureFixture) -> None:
    async with open_desk(SessionSpec(model="demo"), [Failing()], on_plugin_error=lambda *_: None) as desk:
        answer = await desk.ann.post("/v1/chat", json={"message": "a secret"})
        async with talking(desk) as talker:
            await talker.ask("prompt", session="trip", body={"message": "a secret"})
    warnings = [record.getMessage() for record in caplog.records if record.name == "agentrail.host"]
    assert answer.status_code >= 500
    assert any(f"(request {answer.headers['x-request-id']})" in line for line in warnings)
    assert len(warnings) == 2
    assert all(re.search(r"^cannot .* \(request [0-9a-f]{32}(\.\w+)?\)", line) for line in warnings)
    assert "a secret" not in caplog.text


def test_a_line_of_json_is_one_line_with_its_traceback() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        record = logging.makeLogRecord({"msg": "it\nfailed", "exc_info": (ValueError, error, error.__traceback__)})
    (line,) = JsonLines().format(record).splitlines()
    assert json.loads(line)["message"] == "it\nfailed"
    assert "ValueError" in json.loads(line)["traceback"]
