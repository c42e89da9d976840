"""A2A at a host, by plain HTTP: messages, tasks, decisions by data alone, replay by the journal's numbers, tenants."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

import httpx
import pytest

from agentrail import SessionSpec, tool
from agentrail.a2a import A2aFace
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.journals import Journal, SqliteJournal
from agentrail.models import ModelRequest
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say, stall
from tests.host.hosted import LIMITS, LINES, Desk, desk_of, frames
from tests.kit import Element

RPC: Final = "/v1/a2a"
QUICK: Final = LIMITS.but(requests_per_second=10_000.0, burst=10_000)


@tool
async def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def answer(request: ModelRequest) -> Element:
    """Answer as the last message says: a tool runs, or its words come back."""
    text = request.messages[-1].text
    if type(request.messages[-1]).__name__ == "ToolMessage":
        return f"It {text}."
    return say("I run.", calls=[call("shell", {"command": text[4:]})]) if text.startswith("run ") else f"Said {text}"


@asynccontextmanager
async def served(
    journal: Journal | None = None,
    face: A2aFace | None = None,
    keys: ApiKeys | None = None,
    limits: HostLimits = QUICK,
) -> AsyncGenerator[Desk]:
    spec = SessionSpec(model=ScriptedModel([answer], repeat_last=True), tools=[shell], plugins=[HumanApproval()])
    faces = [face or A2aFace(about={"desk": "Runs things."})]
    slow = SessionSpec(model=ScriptedModel([stall()], repeat_last=True))
    profiles = [Profile("desk", spec), Profile("a b", spec), Profile("slow", slow)]
    authenticator = keys or ApiKeys(lines=LINES)
    host = Host(profiles, authenticator=authenticator, limits=limits, journal=journal, faces=faces)
    async with desk_of(host) as desk:
        yield desk


Answer = Mapping[str, object]


async def rpc(client: httpx.AsyncClient, method: str, params: object, path: str = RPC) -> Answer:
    """Return the answer to a call, or the code of its error."""
    response = await client.post(path, json={"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
    assert response.status_code == 200, response.text
    body = response.json()
    assert body["id"] == 7
    return cast("Answer", body["result"] if "result" in body else body["error"])


def message(*parts: object, id: str = "m1", **more: object) -> dict[str, object]:  # noqa: A002 - the protocol's word
    shown = [{"text": part} if isinstance(part, str) else {"data": part} for part in parts]
    return {"message": {"messageId": id, "role": "ROLE_USER", "parts": shown, **more}}


async def task(client: httpx.AsyncClient, *parts: object, id: str = "m1", **more: object) -> Answer:  # noqa: A002 - as above
    return cast("Answer", (await rpc(client, "SendMessage", message(*parts, id=id, **more)))["task"])


def state(shape: Answer) -> str:
    return str(cast("Answer", shape["status"])["state"]).removeprefix("TASK_STATE_")


def text(shape: Answer) -> list[object]:
    artifacts = cast("Sequence[Mapping[str, Sequence[Answer]]]", shape.get("artifacts", ()))
    return [part.get("text") for artifact in artifacts for part in artifact["parts"]]


def ids(answer: Answer) -> list[object]:
    """Return the ids of the tasks that are listed."""
    return [shape["id"] for shape in cast("list[Answer]", answer["tasks"])]


def facts(shape: Answer) -> Answer:
    """Return the facts of the call that waits."""
    status = cast("Mapping[str, Mapping[str, Sequence[Mapping[str, Answer]]]]", shape["status"])
    return status["message"]["parts"][1]["data"]


async def streamed(
    client: httpx.AsyncClient, method: str, params: object, last: str = ""
) -> list[tuple[str, Mapping[str, Answer]]]:
    """Return the frames of a stream: their ids and results."""
    headers = {"last-event-id": last} if last else {}
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    response = await client.post(RPC, json=body, headers=headers)
    assert response.headers["content-type"] == "text/event-stream", response.text
    return [(frame.get("id", ""), json.loads(frame["data"])["result"]) for frame in frames(response.text)]


async def test_a_task_is_a_turn_and_a_message_that_comes_twice_is_one() -> None:
    async with served() as desk:
        first = await task(desk.ann, "hello")
        assert (state(first), text(first)) == ("COMPLETED", ["Said hello"])
        assert await task(desk.ann, "hello") == first
        second = await task(desk.ann, "again", id="m2", contextId=first["contextId"])
        assert (second["contextId"], second["id"] != first["id"]) == (first["contextId"], True)
        assert (await rpc(desk.ann, "GetTask", {"id": first["id"]}))["status"] == first["status"]
        assert (await rpc(desk.ann, "SendMessage", message("other")))["code"] == -32602
        own = await task(desk.ann, "hello", id="m3", contextId="my-own-context")
        assert own["contextId"] == "my-own-context"
        listed = await rpc(desk.ann, "ListTasks", {"contextId": first["contextId"], "pageSize": 1})
        assert (ids(listed), listed["totalSize"]) == (
            [second["id"]],
            2,
        )
        page = {"contextId": first["contextId"], "pageSize": 1, "pageToken": listed["nextPageToken"]}
        assert [item["id"] for item in cast("list[Answer]", (await rpc(desk.ann, "ListTasks", page))["tasks"])] == [
            first["id"]
        ]
        newest = cast("list[Answer]", (await rpc(desk.ann, "ListTasks", {}))["tasks"])
        assert {item["id"] for item in newest} == {second["id"], own["id"]}


async def test_only_data_that_names_the_call_approves_it() -> None:
    async with served() as desk:
        waiting = await task(desk.ann, "run x", contextId="trip")
        assert state(waiting) == "INPUT_REQUIRED"
        unfit: list[object] = [
            {"decision": "approve"},
            {"decision": "yes"},
            {"decision": "approve", "approval": "x"},
            7,
            {},
        ]
        for number, part in enumerate(unfit):
            body = message(part, id=f"no{number}", taskId=waiting["id"])
            assert (await rpc(desk.ann, "SendMessage", body))["code"] == -32602
        changed = {**facts(waiting), "args": {"command": "y"}, "decision": "approve"}
        assert (await rpc(desk.ann, "SendMessage", message(changed, id="no9", taskId=waiting["id"])))["code"] == -32602
        bob = await rpc(desk.clients["bob"], "SendMessage", message("hi", taskId=waiting["id"]))
        assert bob["code"] == -32001
        approval = {**facts(waiting), "decision": "approve"}
        ran = await task(desk.ann, approval, id="yes", taskId=waiting["id"], contextId="trip")
        assert (ran["id"], state(ran), text(ran)) == (waiting["id"], "COMPLETED", ["It ran x."])
        assert await task(desk.ann, approval, id="yes", taskId=waiting["id"]) == ran
        second = await task(desk.ann, "run y", id="m2", contextId="trip")
        refused = await task(desk.ann, "ok", id="m3", taskId=second["id"])
        assert text(refused) == ["It rejected by the user: ok."]
        assert (await rpc(desk.ann, "SendMessage", message("ok", id="m4", taskId=second["id"])))["code"] == -32004


async def test_a_stream_goes_on_after_each_number_without_gap_or_double() -> None:
    async with served() as desk:
        whole = await streamed(desk.ann, "SendStreamingMessage", message("run x", contextId="trip"))
        waiting = whole[0][1]["task"]
        assert (whole[0][0], state(waiting), state(whole[-1][1]["statusUpdate"])) == ("", "WORKING", "INPUT_REQUIRED")
        decision = {**facts(whole[-1][1]["statusUpdate"]), "decision": "approve"}
        whole += await streamed(desk.ann, "SendStreamingMessage", message(decision, id="m2", taskId=waiting["id"]))
        durable = [(number, result) for number, result in whole if number.endswith(".0")]
        assert state(durable[-1][1]["statusUpdate"]) == "COMPLETED"
        await task(desk.ann, "another turn", id="m3", contextId="trip")
        for since in range(int(durable[-1][0][:-2])):
            again = await streamed(desk.ann, "SubscribeToTask", {"id": waiting["id"]}, f"{since}.0")
            assert [pair for pair in again if pair[0].endswith(".0")] == [
                pair for pair in durable if int(pair[0][:-2]) > since
            ]
        assert (await rpc(desk.ann, "SubscribeToTask", {"id": waiting["id"]}))["code"] == -32004


async def test_a_cancelled_task_is_cancelled_once() -> None:
    async with served() as desk:
        waiting = await task(desk.ann, "run x", contextId="trip")
        assert state(await rpc(desk.ann, "CancelTask", {"id": waiting["id"]})) == "CANCELED"
        assert (await rpc(desk.ann, "tasks/cancel", {"id": waiting["id"]}))["code"] == -32002
        older = await rpc(desk.ann, "tasks/get", {"id": waiting["id"]})
        assert (older["kind"], cast("Answer", older["status"])["state"]) == ("task", "canceled")


@pytest.mark.long
async def test_tasks_of_sessions_that_do_not_run_are_listed_without_starting_one(tmp_path: Path) -> None:
    async with served(SqliteJournal(tmp_path / "a.db")) as desk:
        first = await task(desk.ann, "hello", contextId="first")
        waiting = await task(desk.ann, "run x", id="m2", contextId="second")
        aborted = await task(desk.ann, "run y", id="m3", contextId="third")
        await rpc(desk.ann, "CancelTask", {"id": aborted["id"]})
        await desk.ann.post("/v1/sessions", json={"session": "empty"})
    async with served(SqliteJournal(tmp_path / "a.db")) as desk:
        supervisor = desk.serving.supervisor
        listed = cast("list[Answer]", (await rpc(desk.ann, "ListTasks", {"includeArtifacts": True}))["tasks"])
        states = {(shape["id"], state(shape)) for shape in listed}
        assert states == {
            (first["id"], "COMPLETED"),
            (waiting["id"], "INPUT_REQUIRED"),
            (aborted["id"], "CANCELED"),
        }
        got = await rpc(desk.ann, "GetTask", {"id": first["id"]})
        assert (got["status"], text(got)) == (first["status"], ["Said hello"])
        assert (await rpc(desk.ann, "GetTask", {"id": "first:p99"}))["code"] == -32001
        names = [child.id.rpartition(".")[2] for child in supervisor.sessions()]
        assert sorted(names) == ["second"], "it has a turn that is open"
