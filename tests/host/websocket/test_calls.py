"""Calls on a WebSocket are those of the table: the same functions, answers and errors as over HTTP."""

from __future__ import annotations

import json
import logging

import pytest
import trio
import trio.testing

from agentrail.host import HandledResponse, HostLimits, HostPlugin, Request
from agentrail.host.websocket import socket_connection
from agentrail.journals import ALL_SESSIONS, MemoryJournal, SessionFilter, StoredSession
from agentrail.testing import stall
from tests.host.hosted import open_desk, scripted
from tests.host.websocket.talking import SECONDS, finding_of, problem, talking


async def test_a_client_opens_a_session_prompts_it_and_reads_it() -> None:
    async with open_desk(scripted("well said")) as desk, talking(desk) as talker:
        assert talker.socket.subprotocol == "agentrail.v1"
        assert await talker.ask("open_session", body={"session": "trip"}) == {
            "status": 201,
            "body": {"session": "ann.trip"},
        }
        message = await talker.ask("chat", body={"message": "hi", "session": "trip"})
        assert message["status"] == 200
        over_http = (await desk.ann.get("/v1/sessions/trip/messages", params={"limit": 1})).json()
        assert await talker.ask("messages", session="trip", query={"limit": 1}) == {"status": 200, "body": over_http}
        assert await talker.ask("abort", session="trip") == {"status": 204}


async def test_a_problem_has_the_document_that_it_has_over_http() -> None:
    async with open_desk(scripted("one")) as desk, talking(desk) as talker:
        for method, path, call, session, body in (
            ("GET", "/v1/sessions/none", "show_session", "none", None),
            ("POST", "/v1/sessions/none/prompt", "prompt", "none", {"message": "hi"}),
            ("POST", "/v1/chat", "chat", None, {"message": ""}),
            ("GET", "/v1/tree", "tree", None, None),
        ):
            over_http = await desk.ann.request(method, path, json=body)
            fields = {"session": session, "body": body}
            sent_fields = {name: value for name, value in fields.items() if value is not None}
            assert await talker.ask(call, **sent_fields) == {
                "status": over_http.status_code,
                "problem": over_http.json(),
            }


async def test_a_command_that_is_sent_twice_is_carried_out_once_also_over_http() -> None:
    async with open_desk(scripted("one", "two")) as desk, talking(desk) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        first = await talker.ask("prompt", session="trip", body={"message": "hi"}, command="c1")
        assert first["status"] == 202
        assert await talker.ask("prompt", session="trip", body={"message": "hi"}, command="c1") == first
        sent = {"idempotency-key": "c1"}
        again = await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "hi"}, headers=sent)
        assert again.json() == first["body"]


async def test_what_one_may_not_see_is_not_there() -> None:
    async with open_desk(scripted("one")) as desk, talking(desk) as talker, talking(desk, "eve") as eve:
        await talker.ask("open_session", body={"session": "trip"})
        assert problem(await eve.ask("show_session", session="ann.trip")) == "unknown-session"
        assert (await eve.ask("list_sessions"))["body"] == {"items": [], "next": None}
        assert problem(await talker.ask("tree")) == "scope-missing"


@pytest.mark.parametrize(
    ("message", "problem_text"),
    [
        ({"call": "prompt", "body": {"message": "a"}}, "the message does not fit: it lacks `session`"),
        ({"call": "commands", "session": "a"}, "the message does not fit: its `session` does not go with `commands`"),
        ({"call": "commands", "body": {"a": 1}}, "the message does not fit: its `body` does not go with `commands`"),
        (
            {"call": "messages", "session": "a", "query": {"limit": []}},
            "the message does not fit: its `query.limit` is",
        ),
        ({"call": "messages", "session": "a", "query": {"x": 1}}, "the query of `messages` does not fit: its `x` is"),
        ({"call": "chat", "body": {"text": "a"}}, "the body of `chat` does not fit: it "),
        ({"call": "chat", "body": {"message": "a"}, "command": "a b"}, "the query of `chat` does not fit: the header"),
    ],
)
async def test_a_call_that_does_not_fit_is_refused_by_its_id(message: dict[str, object], problem_text: str) -> None:
    async with open_desk(scripted("one")) as desk, talking(desk) as talker:
        await talker.ask("open_session", body={"session": "a"})
        await talker.say(id="1", **message)
        answer = await talker.heard()
        assert answer["id"] == "1"
        assert answer["status"] in {400, 422}
        assert finding_of(answer).startswith(problem_text)


class Asked(HostPlugin):
    name = "asked"

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def intercept(self, request: Request) -> HandledResponse | None:
        self.requests.append(request)
        return HandledResponse(402, {"pay": "first"}) if request.message == "buy" else None


async def test_host_plugins_see_a_prompt_of_the_kind_ws_and_may_answer_it() -> None:
    plugin = Asked()
    async with open_desk(scripted("one"), [plugin]) as desk, talking(desk, "ann", ("x-shop", "7")) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        assert await talker.ask("prompt", session="trip", body={"message": "buy"}, command="c1") == {
            "status": 402,
            "body": {"pay": "first"},
        }
        assert (await talker.ask("chat", body={"message": "hi", "session": "trip"}))["status"] == 200
    (first, second) = plugin.requests
    assert [first.kind, first.context.kind, second.kind] == ["ws", "ws", "ws"]
    assert (first.header("x-shop"), first.header("idempotency-key")) == ("7", "c1")
    assert first.context.request_id.startswith("ws-")
    assert [name for name, _ in first.headers if name.startswith("sec-") or name == "upgrade"] == []


async def test_calls_run_at_once_and_a_lost_connection_stops_no_turn() -> None:
    async with open_desk(scripted(stall(after=1))) as desk:
        async with talking(desk) as talker:
            await talker.ask("open_session", body={"session": "trip"})
            await talker.say(id="long", call="chat", body={"message": "stay", "session": "trip"})
            while not (await desk.ann.get("/v1/sessions/trip")).json()["status"]["turn_open"]:
                await trio.lowlevel.checkpoint()
        assert (await desk.ann.get("/v1/sessions/trip")).json()["status"]["turn_open"] is True
        assert (await desk.ann.post("/v1/sessions/trip/abort", json={})).status_code == 204


async def test_an_id_has_one_use_at_a_time_and_a_call_that_is_given_up_frees_it() -> None:
    async with open_desk(scripted(stall(after=1))) as desk, talking(desk) as talker:
        await talker.say(id="1", call="chat", body={"message": "stay", "session": "trip"})
        await talker.say(id="1", call="commands")
        twice = await talker.heard()
        assert (twice["id"], problem(twice), "status" in twice) == ("1", "bad-frame", False)
        await talker.say(id="1", end=True)
        await talker.say(id="none", end=True)
        await talker.say(id="1", call="commands")
        assert await talker.heard() == {"id": "1", "status": 200, "body": {"items": [], "next": None}}
        assert await talker.ask("abort", session="trip") == {"status": 204}


@pytest.mark.parametrize("most", [1, 3])
async def test_so_many_calls_run_at_once_and_further_ones_wait_unread(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_connection, "SOCKET_CALLS", most)
    limits = HostLimits(drain_seconds=0.5)
    async with open_desk(scripted(*[stall(after=1)] * 5), limits=limits) as desk, talking(desk) as talker:
        for number in range(most - 1):
            await talker.say(id=f"{number}", call="chat", body={"message": "a", "session": f"s{number}"})
        assert (await talker.ask("commands"))["status"] == 200  # one below the limit, one more is served
        await talker.say(id="last", call="chat", body={"message": "a", "session": "last"})
        await talker.say(id="late", call="commands")
        with trio.move_on_after(0.3) as waited:
            await talker.heard()
        assert waited.cancelled_caught
        while (await desk.ann.post("/v1/sessions/last/abort", json={})).status_code == 404:
            await trio.lowlevel.checkpoint()
        assert {str((await talker.heard())["id"]) for _ in range(2)} == {"last", "late"}


class Slow(MemoryJournal):
    """Counts how many lists of stored sessions are asked for before it may `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.lists = 0
        self.go = trio.Event()

    async def sessions(
        self, session_filter: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        self.lists += not self.go.is_set()
        await self.go.wait()
        return await super().sessions(session_filter, after, limit)


async def test_of_calls_that_only_look_one_is_carried_out_at_a_time() -> None:
    journal = Slow()
    journal.go.set()
    async with open_desk(scripted("one"), journal=journal) as desk, talking(desk) as talker:
        await talker.ask("open_session", body={"session": "trip"})
        journal.go = trio.Event()
        for number in range(3):
            await talker.say(id=f"{number}", call="list_sessions")
        assert await talker.ask("abort", session="trip") == {"status": 204}  # it waits for none of them
        await trio.testing.wait_all_tasks_blocked()
        assert journal.lists == 1
        journal.go.set()
        assert [str((await talker.heard())["id"]) for _ in range(3)] == ["0", "1", "2"]


async def test_rate_limits_of_the_tenant_hold_for_each_call() -> None:
    limits = HostLimits(requests_per_second=0.001, burst=4)
    async with open_desk(scripted("one"), limits=limits) as desk, talking(desk) as talker:  # the handshake is one
        assert [(await talker.ask("commands"))["status"] for _ in range(5)] == [200, 200, 200, 429, 429]
        message = await talker.ask("commands")
        assert problem(message) == "too-many-requests"
        assert isinstance(message["problem"], dict)
        assert message["problem"]["retry_after"] > 100
        assert (await desk.clients["bob"].get("/v1/commands")).status_code == 429


async def test_each_call_has_a_line_in_the_log_and_so_has_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.access")
    async with open_desk(scripted("one")) as desk:
        async with talking(desk) as talker:
            await talker.ask("commands")
        with trio.fail_after(SECONDS):
            while len(caplog.messages) < 2:  # noqa: ASYNC110 - a line in a log tells nobody
                await trio.sleep(0.01)
    call, connection = caplog.messages
    assert call.startswith("127.0.0.1 WS /v1/ws/commands 200 24 bytes ")
    assert connection.startswith("127.0.0.1 GET /v1/ws 101 ")


async def test_a_fault_of_a_call_is_its_answer_and_tells_nothing() -> None:
    class Faulty(HostPlugin):
        name = "faulty"
        critical = True

        def intercept(self, request: Request) -> HandledResponse | None:
            raise ValueError("secret")

    async with open_desk(scripted("one"), [Faulty()]) as desk, talking(desk) as talker:
        message = await talker.ask("chat", body={"message": "hi"})
        assert (message["status"], problem(message)) == (503, "plugin-failed")
        assert "secret" not in json.dumps(message)
        assert (await talker.ask("commands"))["status"] == 200
