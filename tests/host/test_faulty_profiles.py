"""Functions for profiles and specifications that fail: no client is blamed, the log says why, and the host goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest

from agentrail import SessionSpec
from agentrail.errors import UnknownAgent
from agentrail.host import Profile, Profiles, RequestContext
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import open_desk
from tests.host.test_host import chat
from tests.host.websocket.talking import problem, talking

Fails = Callable[[RequestContext], Any]


def misuses(_: RequestContext) -> SessionSpec:
    return SessionSpec(model=ScriptedModel([say(calls=[call("pay", amount=3)])]))  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]


def no_contract(_: RequestContext) -> SessionSpec:
    raise KeyError("acme")


FUNCTIONS: Final[dict[str, tuple[Fails, str]]] = {
    "misuse": (misuses, "raised UnknownArgument: `call` takes no argument `amount`"),
    "error": (no_contract, "its function raised KeyError: 'acme'"),
    "exit": (lambda _: sys.exit(3), "raised SystemExit: 3"),
    "nothing": (lambda _: None, "cannot take a `NoneType` as `spec`"),
    "whole": (lambda _: cast("Any", SessionSpec)(model=5), "its `model` is a `int`"),
}


@pytest.mark.parametrize("how", FUNCTIONS)
async def test_a_function_that_returns_no_specification_is_a_fault_of_the_host(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    build, problem = FUNCTIONS[how]
    async with open_desk([Profile("desk", build)]) as desk:
        for path in ("/v1/chat", "/v1/sessions"):
            body = {"session": "trip", "message": "hi"} if path == "/v1/chat" else {"session": "trip"}
            refused = await desk.ann.post(path, json=body)
            assert (refused.status_code, refused.json()["found"]) == (
                500,
                "the code of the host is not as it has to be",
            )
        assert (await desk.ann.get("/healthz")).status_code == 200
    warned = [record.exc_text or "" for record in caplog.records if record.levelname == "WARNING"]
    assert len(warned) == 2
    for text in warned:
        assert problem in text


@pytest.mark.parametrize(
    ("find", "status", "kind"),
    [
        (lambda _: 5, 500, "bad-profile"),
        (lambda _: Profile("desk", cast("Any", 5)), 500, "bad-profile"),
        (lambda _: sys.exit(3), 500, "bad-profile"),
        (lambda _: 1 // 0, 500, "bad-profile"),
        (lambda _: SessionSpec(modle="demo"), 500, "bad-profile"),  # type: ignore[call-arg] # pyright: ignore[reportCallIssue]
        (lambda context: (_ for _ in ()).throw(UnknownAgent(context.agent_id, "x")), 404, "unknown-agent"),
        (lambda _: None, 404, "unknown-agent"),
    ],
)
async def test_a_function_that_returns_no_profile_is_a_fault_of_the_host(
    find: Profiles, status: int, kind: str
) -> None:
    async with open_desk(find) as desk:
        refused = await chat(desk.ann, "hi", session="trip")
        assert (refused.status_code, refused.json()["type"]) == (status, f"urn:agentrail:problem:{kind}")


async def test_what_a_function_raises_is_told_over_a_websocket_as_over_http_and_logged_with_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with open_desk([Profile("desk", no_contract)]) as desk, talking(desk) as talker:
        over_http = await desk.ann.post("/v1/sessions", json={"session": "trip"})
        over_socket = await talker.ask("open_session", body={"session": "trip"})
    assert over_socket == {"status": 500, "problem": over_http.json()}
    assert problem(over_socket) == "bad-profile"
    assert "acme" not in over_http.text
    logged = [record.exc_text or "" for record in caplog.records if record.levelname == "WARNING"]
    assert ["its function raised KeyError: 'acme'" in text for text in logged] == [True, True]


async def test_a_function_that_would_end_the_process_ends_no_host_when_a_session_comes_back(tmp_path: Path) -> None:
    failing = list[bool]()

    def build(_: RequestContext) -> SessionSpec:
        if failing:
            failing.pop()
            sys.exit(3)
        return SessionSpec(model=ScriptedModel(["one"], repeat_last=True))

    journal = tmp_path / "kept.db"
    async with open_desk([Profile("desk", build)], journal=SqliteJournal(journal)) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
    async with open_desk([Profile("desk", build)], journal=SqliteJournal(journal)) as desk:
        failing.append(True)
        refused = await chat(desk.ann, "hi", session="trip")
        assert refused.json()["type"] == "urn:agentrail:problem:bad-profile"
        assert (await chat(desk.ann, "hi", session="trip")).json()["text"] == "one"
