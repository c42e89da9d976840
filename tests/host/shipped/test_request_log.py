"""`RequestLog` over a real socket: one line for each request, and nothing in it that a client can abuse."""

from __future__ import annotations

import json
import logging
import re

import pytest

from agentrail import SessionSpec
from agentrail.errors import BadChoice, UnknownArgument, WrongType
from agentrail.host import HandledResponse, HostPlugin, Request, RequestLog
from agentrail.models import Usage
from agentrail.testing import ScriptedModel, say
from tests.host.hosted import open_desk, scripted
from tests.host.test_host import chat

LOGGER = "agentrail.requests"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


async def test_each_request_to_talk_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    used = Usage(7, 3, cost_usd=0.25)
    async with open_desk(scripted(say("one", usage=used), "two"), [RequestLog()]) as desk:
        assert (await chat(desk.ann, "hi", session="trip", agent="desk")).status_code == 200
        await desk.ann.post("/v1/stream", json={"message": "and?", "session": "trip"})
        assert (await chat(desk.ann, "hi", agent="none")).status_code == 404
        assert (await desk.ann.get("/v1/sessions")).status_code == 200  # talks to nobody
    first, second, third = lines(caplog)
    assert re.fullmatch(
        r"request=chat-[0-9a-f]{32} kind=chat tenant=acme user=ann session=ann\.trip agent=desk outcome=finished "
        r"ms=\d+ input_tokens=7 output_tokens=3 cost_usd=0\.25",
        first,
    )
    assert re.fullmatch(
        r"request=stream-[0-9a-f]{32} kind=stream tenant=acme user=ann session=ann\.trip agent=desk outcome=finished "
        r"ms=\d+ input_tokens=0 output_tokens=0 cost_usd=0\.0",
        second,
    )
    assert re.fullmatch(
        r"request=chat-[0-9a-f]{32} kind=chat tenant=acme user=ann session=ann\.s-\w+ agent=none outcome=refused "
        r"ms=\d+ input_tokens=0 output_tokens=0 error=UnknownAgent",
        third,
    )


async def test_a_client_cannot_begin_a_line_or_bring_a_secret_in(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    agent = 'a\nrequest=r-1 outcome=finished \x1b[2J\u2028\u202e"'
    async with open_desk(scripted("one"), [RequestLog()]) as desk:
        headers = {"x-secret": "hush"}
        await desk.ann.post("/v1/chat", json={"message": "hush", "agent": agent}, headers=headers)
    (line,) = lines(caplog)
    assert f" agent={json.dumps(agent)} outcome=refused " in line
    assert (line.isascii(), line.isprintable(), "hush" in line, "art_" in line) == (True, True, False, False)


async def test_a_line_can_be_json(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    async with open_desk(scripted("one"), [RequestLog(form="json")]) as desk:
        await chat(desk.ann, "hi", session="trip", agent="x\ny")
    (line,) = lines(caplog)
    document = json.loads(line)
    assert "\n" not in line
    del document["request"], document["ms"]
    assert document == {
        "kind": "chat",
        "tenant": "acme",
        "user": "ann",
        "session": "ann.trip",
        "agent": "x\ny",
        "outcome": "refused",
        "input_tokens": 0,
        "output_tokens": 0,
        "error": "UnknownAgent",
    }


class Busy(HostPlugin):
    """Answers every request."""

    def intercept(self, request: Request) -> HandledResponse:
        del request
        return HandledResponse(429, {"why": "busy"}, {"retry-after": "3"})


async def test_requests_that_no_session_has_seen_are_told_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    async with open_desk(scripted("one"), [RequestLog(), Busy()]) as desk:
        assert (await chat(desk.ann, "hi")).status_code == 429
    (line,) = lines(caplog)
    assert " outcome=intercepted " in line


async def test_a_turn_that_fails_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)
    async with open_desk(SessionSpec(model=ScriptedModel([])), [RequestLog()]) as desk:
        failed = await chat(desk.ann, "hi", session="trip")
        assert failed.status_code >= 400
    (line,) = lines(caplog)
    assert re.search(r" outcome=(aborted|failed) .* error=\w+$", line)


async def test_the_level_and_the_logger_are_options(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "mine")
    async with open_desk(scripted("one", "two"), [RequestLog(level="warning", logger="mine")]) as desk:
        await chat(desk.ann, "hi")
    assert [(record.name, record.levelno) for record in caplog.records if record.name == "mine"] == [
        ("mine", logging.WARNING)
    ]


def test_wrong_options_are_refused_where_they_are_given() -> None:
    with pytest.raises(BadChoice, match="form"):
        RequestLog(form="xml")
    with pytest.raises(BadChoice, match="level"):
        RequestLog(level="loud")
    with pytest.raises(WrongType, match="logger"):
        RequestLog(logger=5)  # type: ignore[arg-type]
    with pytest.raises(UnknownArgument, match="did you mean `level`"):
        RequestLog(levl="info")  # type: ignore[call-arg]
