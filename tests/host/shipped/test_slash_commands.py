"""`SlashCommands` over a real socket: what is carried out, for whom, and what reaches the model."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import pytest
import trio

from agentrail import SessionSpec
from agentrail.errors import AgentrailError, BadChoice, BadOptions, WrongType
from agentrail.host import (
    HandledResponse,
    HostPlugin,
    Identity,
    Invocation,
    Request,
    RequestEnd,
    SlashCommand,
    SlashCommands,
)
from agentrail.models import Usage
from agentrail.testing import say
from tests.each_case import each_case
from tests.host.hosted import Desk, open_desk, scripted
from tests.host.test_host import chat

ALL: Final = ["/compact", "/fork", "/help", "/model", "/status"]


def ping(invocation: Invocation) -> str:
    return f"pong {invocation.arguments}".strip()


async def clear(invocation: Invocation) -> HandledResponse:
    await trio.lowlevel.checkpoint()
    return HandledResponse(202, {"cleared": invocation.arguments}, {"X-Cleared": "yes"})


PING: Final = SlashCommand("/ping", "say pong", ping)


async def prompts(desk: Desk, session: str) -> list[str]:
    """Return what a session was told."""
    items = (await desk.ann.get(f"/v1/sessions/{session}/messages")).json()["items"]
    return [item["parts"][0]["text"] for item in items]


async def test_a_command_is_carried_out_and_no_model_sees_it() -> None:
    async with open_desk(scripted("one", "two"), [SlashCommands([PING])]) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).json()["text"] == "one"
        answer = await chat(desk.ann, "/ping  me ", session="trip")
        assert (answer.status_code, answer.json()) == (
            200,
            {
                "ref": "",
                "stop_reason": "command",
                "text": "pong me",
                "answer": None,
                "usage": {
                    "input_tokens": 0,
                    "output_tokens": 0,
                    "cached_tokens": 0,
                    "reasoning_tokens": 0,
                    "cache_write_tokens": 0,
                    "cost_usd": None,
                    "estimated": False,
                },
                "held": [],
                "dropped": [],
                "session": "ann.trip",
            },
        )
        assert await prompts(desk, "trip") == ["hi", "one"]


@pytest.mark.parametrize("way", ["chat", "stream", "prompt", "steer"])
async def test_a_command_is_taken_however_it_comes_in(way: str) -> None:
    async with open_desk(scripted("one"), [SlashCommands([PING])]) as desk:
        await chat(desk.ann, "hi", session="trip")
        of_session = f"/v1/sessions/trip/{way}"
        target, body = {
            "chat": ("/v1/chat", {"message": "/ping", "session": "trip"}),
            "stream": ("/v1/stream", {"message": "/ping", "session": "trip"}),
            "prompt": (of_session, {"message": "/ping"}),
            "steer": (of_session, {"text": "/ping"}),
        }[way]
        answer = await desk.ann.post(target, json=body)
        assert (answer.status_code, answer.headers["content-type"], answer.json()["text"]) == (
            200,
            "application/json",
            "pong",
        )
        assert await prompts(desk, "trip") == ["hi", "one"]


async def test_the_longest_name_wins() -> None:
    commands = [
        SlashCommand("/memory", "say what is kept", lambda text: f"memory: {text.arguments}"),
        SlashCommand("/memory clear", "forget", clear),
        SlashCommand("/memory-file", "name the file", lambda text: f"file: {text.arguments}"),
    ]
    async with open_desk(scripted("one"), [SlashCommands(commands)]) as desk:
        report = [(await chat(desk.ann, text)).json() for text in ("/memory", "/memory x clear", "/memory-file\nx")]
        assert [item["text"] for item in report] == ["memory: ", "memory: x clear", "file: x"]
        own_item = await chat(desk.ann, "/memory clear all of it")
        assert (own_item.status_code, own_item.headers["x-cleared"], own_item.json()) == (
            202,
            "yes",
            {"cleared": "all of it"},
        )


async def test_help_lists_the_commands_that_one_has() -> None:
    async with open_desk(scripted("one"), [SlashCommands([PING])]) as desk:
        lines = (await chat(desk.ann, "/help")).json()["text"].split("\n")
        assert [line.partition(":")[0] for line in lines] == ["/compact", "/fork", "/help", "/ping", "/status"]
        assert (await chat(desk.ann, "/help ping")).json()["text"] == "/ping: say pong"
        assert (await chat(desk.ann, "/help pong")).status_code == 404
        listed = (await desk.ann.get("/v1/commands")).json()
        assert [f"{item['name']}: {item['about']}" for item in listed["items"]] == lines
        of_boss = (await desk.clients["boss"].get("/v1/commands")).json()
        assert (listed["next"], [item["name"] for item in of_boss["items"]]) == (None, sorted([*ALL, "/ping"]))


async def test_a_host_without_the_plugin_has_no_commands() -> None:
    async with open_desk(scripted("one")) as desk:
        assert (await desk.ann.get("/v1/commands")).json() == {"items": [], "next": None}
        assert (await chat(desk.ann, "/help")).json()["text"] == "one"


async def test_status_says_what_the_session_does() -> None:
    async with open_desk(scripted(say("one", usage=Usage(5, 1))), [SlashCommands()]) as desk:
        await chat(desk.ann, "hi", session="trip")
        body = (await chat(desk.ann, "/status", session="trip")).json()
        output = (await desk.ann.get("/v1/sessions/trip")).json()
        assert body["answer"] == output
        assert re.fullmatch(
            r"`ann\.trip` is idle; model `[^`]+`; 1 turns, \d+ tokens read and \d+ written, cost unknown\.",
            body["text"],
        )
        missing = await chat(desk.ann, "/status", session="none")
        assert (missing.status_code, missing.headers["content-type"], missing.json()["type"]) == (
            404,
            "application/problem+json",
            "urn:agentrail:problem:unknown-session",
        )


async def test_fork_goes_on_in_a_copy() -> None:
    async with open_desk(scripted("one", "two"), [SlashCommands()]) as desk:
        await chat(desk.ann, "hi", session="trip")
        body = (await chat(desk.ann, "/fork other", session="trip")).json()
        assert (body["session"], body["answer"]) == ("ann.other", {"session": "ann.other"})
        assert await prompts(desk, "other") == ["hi", "one"]
        again = await chat(desk.ann, "/fork other", session="trip")
        assert (again.status_code, again.json()["type"]) == (409, "urn:agentrail:problem:session-exists")


async def test_a_command_that_is_sent_again_is_carried_out_once() -> None:
    async with open_desk(scripted("one"), [SlashCommands()]) as desk:
        await chat(desk.ann, "hi", session="trip")
        body, key = {"message": "/fork", "session": "trip"}, {"idempotency-key": "k1"}
        report = [(await desk.ann.post("/v1/chat", json=body, headers=key)).json() for _ in range(2)]
        assert report[0] == report[1]
        sessions = (await desk.ann.get("/v1/sessions")).json()["items"]
        assert {session["session"] for session in sessions} == {"ann.trip", report[0]["session"]}


async def test_model_is_for_those_who_may_switch_it() -> None:
    async with open_desk(SessionSpec(model="demo"), [SlashCommands()]) as desk:
        await chat(desk.ann, "hi", session="trip")
        refused = await chat(desk.ann, "/model demo", session="trip")
        assert (refused.status_code, refused.json()["type"]) == (404, "urn:agentrail:problem:unknown-command")
        boss = desk.clients["boss"]
        assert (await chat(boss, "/model", session="ann.trip")).json()["text"] == "The model is `demo`."
        report = await chat(boss, "/model demo demo", session="ann.trip")
        assert report.json()["text"] == "From the next turn on, the model is `demo`, else `demo`."
        unknown = await chat(boss, "/model nope:x", session="ann.trip")
        assert unknown.json()["type"] == "urn:agentrail:problem:not-registered"


async def test_compact_shortens_the_context() -> None:
    async with open_desk(scripted("one", "two"), [SlashCommands()]) as desk:
        await chat(desk.ann, "hi", session="trip")
        report = await chat(desk.ann, "/compact it is long", session="trip")
        assert (report.status_code, report.json()["stop_reason"]) == (200, "command")


async def test_another_users_session_is_as_if_it_were_not_there() -> None:
    async with open_desk(scripted("one"), [SlashCommands()]) as desk:
        await chat(desk.ann, "hi", session="trip")
        for command in ("/status", "/fork", "/compact"):
            missing = await chat(desk.clients["bob"], command, session="ann.trip")
            assert (missing.status_code, missing.json()["type"]) == (404, "urn:agentrail:problem:unknown-session")


# What is no command


@pytest.mark.parametrize("message", ["/etc/hosts is what?", "/ ping", "//", " /ping", "ping", "/1", "/a.b"])
async def test_what_does_not_look_like_a_command_goes_to_the_agent(message: str) -> None:
    async with open_desk(scripted("one"), [SlashCommands([PING])]) as desk:
        assert (await chat(desk.ann, message)).json()["text"] == "one"


async def test_an_unknown_command_is_told() -> None:
    async with open_desk(scripted("one"), [SlashCommands([PING])]) as desk:
        report = await chat(desk.ann, "/Pin g")
        assert (report.status_code, report.headers["content-type"]) == (404, "application/problem+json")
        assert report.json() == {
            "type": "urn:agentrail:problem:unknown-command",
            "title": "A message looks like a command, and the host has none of this name",
            "status": 404,
            "detail": "cannot carry out the command: there is no command '/Pin' here; did you mean `/ping`?; begin "
            "with a space to send the message as it is",
            "attempted": "carry out the command",
            "found": "there is no command '/Pin' here",
            "to_do": "did you mean `/ping`?; begin with a space to send the message as it is",
            "error": "UnknownCommand",
            "facts": ["/Pin", "did you mean `/ping`?"],
        }


async def test_an_unknown_command_is_passed_on_if_the_host_says_so() -> None:
    async with open_desk(scripted("one"), [SlashCommands([PING], unknown="pass")]) as desk:
        assert (await chat(desk.ann, "/pin")).json()["text"] == "one"
        assert (await chat(desk.ann, "/ping")).json()["text"] == "pong"


def _broken(_: Invocation) -> str:
    raise RuntimeError("secret")


async def _hangs(_: Invocation) -> str:
    await trio.sleep_forever()
    raise AssertionError


@pytest.mark.parametrize("run", [_broken, _hangs, lambda _: 5], ids=["raises", "hangs", "answers no text"])
async def test_a_command_that_fails_never_reaches_the_agent(run: Callable[[Invocation], str]) -> None:
    commands = SlashCommands([SlashCommand("/bad", "fail", run)], deadline=0.2)
    async with open_desk(scripted("one"), [commands]) as desk:
        report = await chat(desk.ann, "/bad")
        assert (report.status_code, report.json()["type"]) == (503, "urn:agentrail:problem:plugin-failed")
        assert "secret" not in report.text
        assert (await chat(desk.ann, "hi")).json()["text"] == "one"


class Calls(HostPlugin):
    """Makes the calls whose names are sent as messages, and notes how requests end."""

    def __init__(self) -> None:
        self.ends: list[str] = []
        self.errors: list[str] = []

    def start(self, host: object) -> None:
        self.kept = host

    async def intercept(self, request: Request) -> HandledResponse | None:
        try:
            return await self.kept.call(request.message, request)  # type: ignore[attr-defined,no-any-return]
        except AgentrailError as error:
            self.errors.append(str(error))
            return HandledResponse(418)

    def on_request_end(self, context: RequestEnd) -> None:
        self.ends.append(context.outcome)


async def test_a_plugin_makes_calls_for_whoever_asks_and_no_others() -> None:
    plugin = Calls()
    async with open_desk(scripted("one"), [plugin]) as desk:
        assert (await chat(desk.ann, "list_sessions")).json() == {"items": [], "next": None}
        assert (await chat(desk.ann, "tree")).json()["type"] == "urn:agentrail:problem:scope-missing"
        for name in ("chat", "stream", "prompt", "steer", "events", "health", "page", "metrics", "nothing"):
            assert (await chat(desk.ann, name)).status_code == 418
    assert plugin.ends == ["intercepted"] * 11
    assert len(set(plugin.errors)) == 9


# What it is given


@each_case(
    [
        ({"unknown": "tell"}, BadChoice, "unknown"),
        ({"shipped": ["/staus"]}, BadChoice, "/status"),
        ({"shipped": "/status"}, WrongType, "shipped"),
        ({"deadline": 0}, WrongType, "deadline"),
        ({"commands": [ping]}, BadOptions, "SlashCommand"),
        ({"commands": [PING, PING]}, BadOptions, "two commands `/ping`"),
        ({"commands": [SlashCommand("/help", "x", ping)]}, BadOptions, "two commands `/help`"),
        ({"commands": [SlashCommand("ping", "x", ping)]}, BadOptions, "a slash and words"),
        ({"commands": [SlashCommand("/ping\n", "x", ping)]}, BadOptions, "a slash and words"),
        ({"commands": [SlashCommand(f"/{'p' * 64}", "x", ping)]}, BadOptions, "at most 64"),
        ({"commands": [SlashCommand("/ping", "", ping)]}, BadOptions, "one line"),
        ({"commands": [SlashCommand("/ping", "a\nb", ping)]}, BadOptions, "one line"),
        ({"commands": [SlashCommand("/ping", "x", "ping")]}, BadOptions, "functions"),  # type: ignore[arg-type]
    ]
)
def test_wrong_options_are_refused_where_they_are_given(
    value: dict[str, object], error: type[Exception], report: str
) -> None:
    with pytest.raises(error, match=re.escape(report)):
        SlashCommands(**value)  # type: ignore[arg-type]


def test_fewer_commands_can_be_shipped() -> None:
    result = SlashCommands(shipped=["/status"]).commands(Identity("acme", "ann", frozenset(["admin"])))
    assert [item.name for item in result] == ["/help", "/status"]
