"""Faces of programs: who is let in, what they may call, how their streams go on, and which are refused."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import httpx
import pytest
import trio

from agentrail import SessionSpec
from agentrail.errors import AgentrailError, BadChoice, WrongType
from agentrail.events import AgentEnd
from agentrail.host import ApiKeys, Face, FaceRequest, FaceResponse, Host, Profile
from agentrail.host.authentication.api_keys import KeyFile
from agentrail.models import JsonObject
from agentrail.testing import ScriptedModel
from tests.each_case import each_case
from tests.host.hosted import LIMITS, LINES, MADE, Desk, desk_of
from tests.patience import within


class Talk(Face):
    """Says a text to a session, and streams its events as lines."""

    path = "/v1/talk"
    open_paths = ("/about", "/v1/talk/*/about")

    async def answer(self, request: FaceRequest) -> FaceResponse:
        if request.path.endswith("/about"):
            return FaceResponse(json.dumps([request.identity.user, request.url, request.agents]).encode())
        body = cast("JsonObject", await request.json())
        session = str(body["session"])
        if "since" in body:
            return FaceResponse(lambda send: self._write(request, session, body, send), "text/plain", heartbeat=b"~\n")
        try:
            answer = await request.calls.call(
                str(body["call"]), session=session, body=cast("JsonObject", body["body"]), command=str(body["call"])
            )
        except AgentrailError as error:
            return FaceResponse(json.dumps({"error": error.code, "text": str(error)}).encode(), status=418)
        return FaceResponse(json.dumps(answer).encode(), headers={"x-own": request.calls.own_name("ann.trip")})

    async def _write(self, request: FaceRequest, session: str, body: JsonObject, send: object) -> None:
        write = cast("trio.abc.SendStream", send)
        async with request.calls.events(session, cast("str | None", body["since"]), (AgentEnd,)) as events:
            await write(f"from {events.position}\n".encode())  # type: ignore[operator]
            async for envelope in events:
                await write(f"{envelope.cursor} {type(envelope.event).__name__}\n".encode())  # type: ignore[operator]
                if str(envelope.cursor) == body["until"]:
                    break


@asynccontextmanager
async def faced() -> AsyncGenerator[Desk]:
    spec = SessionSpec(model=ScriptedModel(["one", "two"]))
    host = Host([Profile("desk", spec)], authenticator=ApiKeys(lines=LINES), limits=LIMITS, faces=[Talk()])
    async with desk_of(host) as desk:
        yield desk


def asked(call: str, body: JsonObject, session: str = "trip") -> dict[str, object]:
    return {"call": call, "session": session, "body": body}


async def test_a_face_makes_calls_as_their_clients_would() -> None:
    async with faced() as desk:
        opened = await desk.ann.post("/v1/talk", json=asked("open_session", {"session": "trip"}, ""))
        assert (opened.json(), opened.headers["x-own"]) == ({"session": "ann.trip"}, "trip")
        ref = (await desk.ann.post("/v1/talk", json=asked("prompt", {"message": "hi"}))).json()["ref"]
        again = (await desk.ann.post("/v1/talk", json=asked("prompt", {"message": "hi"}))).json()["ref"]
        assert ref == again, "the same command is carried out once"
        reply = (await desk.ann.get("/v1/sessions/trip/reply")).json()
        assert (reply["ref"], reply["text"], reply["turn"]) == (ref, "one", 0)
        for user, call, body, code in (
            ("eve", "prompt", {"message": "hi"}, "unknown-session"),
            ("bob", "approve", {"approval": "x"}, "scope-missing"),
            ("ann", "prompt", {"text": "hi"}, "bad-body"),
            ("ann", "nothing", {}, "bad-choice"),
            ("ann", "events", {}, "bad-choice"),
            ("ann", "metrics", {}, "scope-missing"),
        ):
            refused = await desk.clients[user].post("/v1/talk", json=asked(call, cast("JsonObject", body)))
            assert (refused.status_code, refused.json()["error"]) == (418, code)
            assert "acme" not in refused.json()["text"]
            assert "supervisor" not in refused.json()["text"], "it has the words for clients of the host"


async def test_only_the_open_paths_of_a_face_need_no_key() -> None:
    async with faced() as desk, httpx.AsyncClient(base_url=desk.serving.url, trust_env=False) as nobody:
        assert (await nobody.get("/about")).json() == ["", desk.serving.url, ["desk"]]
        assert (await nobody.get("/v1/talk/x/about")).json()[0] == ""
        for path in ("/v1/talk", "/v1/talk/x", "/v1/talk/x/y/about"):
            assert (await nobody.get(path)).status_code == 401
        assert (await nobody.get("/v1/talked")).status_code == 404
        assert (await nobody.get("/about", headers={"host": "evil.example"})).status_code == 403
        broken = await desk.ann.post("/v1/talk", content=b"[" * 1000)
        assert (broken.status_code, broken.json()["error"]) == (400, "BadText")
        large = await desk.ann.post("/v1/talk", content=b"x" * (LIMITS.body_bytes + 1))
        assert large.status_code == 413


async def test_events_go_on_after_the_position_that_the_client_had() -> None:
    async with faced() as desk:
        for message in ("hi", "ho"):
            await desk.ann.post("/v1/chat", json={"message": message, "session": "trip"})
        for since, lines in (("0", "from 0.0\n6.0 AgentEnd\n11.0 AgentEnd\n"), ("6.0", "from 6.0\n11.0 AgentEnd\n")):
            body = {"session": "trip", "since": since, "until": "11.0"}
            assert (await desk.ann.post("/v1/talk", json=body)).text == lines


@each_case(
    [
        ("abc", WrongType),
        (3, WrongType),
        (None, WrongType),
        ([object()], WrongType),
        ([Talk], WrongType),
        ([Talk(), Talk()], BadChoice),
        *[
            ([type("Odd", (Face,), {"path": path})()], BadChoice)
            for path in ("", "/", "v1", "/v1", "/v1/", "/v1/mcp", "/v1/chat", "/v1/sessions/x", "/a//b", "/a*", "/é", 3)
        ],
        *[
            ([type("Odd", (Face,), {"path": "/a", "open_paths": paths})()], BadChoice)
            for paths in ("/b", ("b",), ("/healthz",), (None,), 3)
        ],
    ]
)
def test_what_is_no_face_or_has_no_path_of_its_own_is_refused(faces: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        Host([Profile("desk", SessionSpec(model="demo"))], faces=cast("list[Face]", faces))


ODD: Final[list[object]] = [None, 3, 1.5, True, b"x", [], {}, object(), "\0", "x" * 10_000]


class Odd(Face):
    """Makes calls with odd arguments, and notes what comes of them."""

    path = "/v1/odd"

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    async def answer(self, request: FaceRequest) -> FaceResponse:
        calls: Any = request.calls
        for odd in ODD:
            for make in (
                partial(calls.call, odd),
                partial(calls.call, "show_session", session=odd),
                partial(calls.call, "prompt", session="trip", body=odd),
                partial(calls.call, "reply", session="trip", query=odd),
                partial(calls.call, "prompt", session="trip", body={"message": "x"}, command=odd or 3),
                partial(calls.position, odd),
                partial(self._first, calls, odd),
            ):
                try:
                    await make()
                except (AgentrailError, ValueError) as error:
                    self.outcomes.append(type(error).__name__)
        return FaceResponse(3, heartbeat=3)  # type: ignore[arg-type]

    @staticmethod
    async def _first(calls: Any, odd: object) -> None:  # noqa: ANN401 - it is called wrongly
        async with calls.events("trip", odd if odd is not None else 3.5):
            pass


async def test_odd_arguments_are_refused_in_words(caplog: pytest.LogCaptureFixture) -> None:
    face = Odd()
    spec = SessionSpec(model=ScriptedModel(["one"]))
    host = Host([Profile("desk", spec)], authenticator=ApiKeys(lines=LINES), limits=LIMITS, faces=[face])
    async with desk_of(host) as desk:
        answer = await desk.ann.post("/v1/odd")
    assert (answer.status_code, "TypeError" in caplog.text) == (500, True), caplog.text
    assert len(face.outcomes) > 6 * len(ODD), face.outcomes


class Lasting(Face):
    """Starts a task for each request, which ends when it is cancelled, and one that fails."""

    path = "/v1/lasting"

    def __init__(self) -> None:
        self.ended = {name: trio.Event() for name in MADE}

    async def answer(self, request: FaceRequest) -> FaceResponse:
        request.calls.start_task(self._last, request.identity.user)
        request.calls.start_task(self._fail)
        return FaceResponse(b"{}")

    async def _last(self, user: str) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.ended[user].set()

    async def _fail(self) -> None:
        problem = "not today"
        raise RuntimeError(problem)


@pytest.mark.long
async def test_a_task_of_a_face_ends_with_the_key_or_the_host(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "folder").mkdir()
    file, face = KeyFile(tmp_path / "folder" / "keys"), Lasting()
    for row, _ in MADE.values():
        file.add(row)
    spec, limits = SessionSpec(model=ScriptedModel(["one"])), LIMITS.but(heartbeat_seconds=0.2)
    host = Host([Profile("desk", spec)], authenticator=ApiKeys(file.path), limits=limits, faces=[face])
    with trio.fail_after(within(30)):
        async with desk_of(host) as desk:
            for user in ("ann", "bob"):
                assert (await desk.clients[user].post("/v1/lasting")).status_code == 200
            file.withdraw(MADE["ann"][0].id)
            await face.ended["ann"].wait()
            assert not face.ended["bob"].is_set()
        await face.ended["bob"].wait()
    assert caplog.text.count("a task of a face failed") == 2
