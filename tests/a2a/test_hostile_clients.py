"""Clients of A2A that send what does not fit, ask for what is not theirs, leave, or come back elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, cast

import pytest
import trio

from agentrail import SessionSpec
from agentrail.a2a import A2aFace
from agentrail.errors import BadChoice
from agentrail.host import ApiKeys, Host, Profile
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel, stall
from tests.a2a.test_turns import QUICK, Answer, facts, message, rpc, served, state, streamed, task, text
from tests.each_case import each_case
from tests.host.hosted import KEYS, LIMITS, LINES, Listener, desk_of
from tests.patience import within

ODD_IDS: Final[list[object]] = [
    *("", "\0", "x" * 10_000, "../../etc", "a/b", "ann.trip\n", "h.acme.ann.trip", "é", "a b", ":"),
    *("trip:", ":p1", "trip:p99", "trip:\0", 7, None, [], {}),
]
WRONG: Final[list[dict[str, object]]] = [
    {"jsonrpc": "1.0"},
    {"id": None},
    {"id": 1.5},
    {"id": True},
    {"id": "x" * 2000},
    {"id": []},
]
ODD_LISTS: Final[list[object]] = [[], {}, None, "x", [{"text": "a"}] * 101]
ODD_FIELDS: Final[list[dict[str, object]]] = [
    {"role": "agent"},
    {"messageId": ""},
    {"messageId": 3},
    {"messageId": "x" * 2000},
]
ODD_QUERIES: Final[list[dict[str, object]]] = [
    {"pageSize": 0},
    {"pageSize": 1000},
    {"pageSize": "x"},
    {"statusTimestampAfter": "now"},
]


async def code(client: object, method: str, params: object) -> object:
    return (await rpc(client, method, params)).get("code")  # type: ignore[arg-type]


@pytest.mark.long
async def test_odd_ids_name_nothing_and_make_nothing() -> None:
    async with served() as desk:
        await task(desk.ann, "hello", contextId="trip")
        for number, odd in enumerate(ODD_IDS):
            for method in ("GetTask", "CancelTask", "SubscribeToTask"):
                assert await code(desk.ann, method, {"id": odd}) in {-32001, -32602}, odd
            if odd is not None and odd != "":
                sent = message("hi", id=f"c{number}", contextId=odd)
                assert await code(desk.ann, "SendMessage", sent) == -32602, odd
                assert await code(desk.ann, "SendMessage", message("hi", id=f"t{number}", taskId=odd)) in {
                    -32001,
                    -32602,
                }
                assert await code(desk.ann, "ListTasks", {"contextId": odd}) in {-32001, -32602}, odd
        sessions = (await desk.ann.get("/v1/sessions")).json()["items"]
        assert [row["session"] for row in sessions] == ["ann.trip"]


async def test_tasks_and_contexts_of_others_are_unknown() -> None:
    async with served() as desk:
        waiting = await task(desk.ann, "run x", contextId="trip")
        whole = f"ann.{waiting['id']}"
        eve, bob = desk.clients["eve"], desk.clients["bob"]
        for client in (eve, bob):
            for name in (waiting["id"], whole):
                assert await code(client, "GetTask", {"id": name}) == -32001
                assert await code(client, "CancelTask", {"id": name}) == -32001
                assert await code(client, "SubscribeToTask", {"id": name}) == -32001
                assert await code(client, "SendMessage", message("ok", taskId=name)) == -32001
        assert await code(bob, "SendMessage", message("hi", contextId="ann.trip")) == -32602
        own = await task(bob, "hello", contextId="trip")
        assert own["contextId"] == "trip", "the same name is another session for another user"
        approval = {**facts(waiting), "decision": "approve"}
        assert await code(bob, "SendMessage", message(approval, id="x", taskId=own["id"])) != 0
        assert state(await rpc(desk.ann, "GetTask", {"id": whole})) == "INPUT_REQUIRED"
        other = await desk.ann.post(
            "/v1/a2a/a%20b", json=request("SendMessage", message("hi", id="y", contextId="trip"))
        )
        assert other.json()["error"]["code"] == -32602, "the context is of another agent"


def request(method: object, params: object, **more: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}


async def test_what_is_no_request_is_refused_by_its_code() -> None:
    async with served() as desk:
        bodies: list[tuple[bytes, int]] = [
            (b"", -32700),
            (b"{", -32700),
            (b"[" * 500, -32700),
            (b"[]", -32600),
            (b"3", -32600),
            (json.dumps([request("GetTask", {})]).encode(), -32600),
            *[(json.dumps({**request("GetTask", {"id": "trip:p1"}), **odd}).encode(), -32600) for odd in WRONG],
            (json.dumps(request(7, {})).encode(), -32600),
            (json.dumps(request("Nothing", {})).encode(), -32601),
            (json.dumps(request("GetTask", [])).encode(), -32602),
            (json.dumps(request("GetTask", {})).encode(), -32602),
            (json.dumps(request("CreateTaskPushNotificationConfig", {})).encode(), -32003),
            (json.dumps(request("GetExtendedAgentCard", {})).encode(), -32007),
        ]
        for body, expected in bodies:
            assert (await desk.ann.post("/v1/a2a", content=body)).json()["error"]["code"] == expected, body[:100]
        for version, refused in (("2.0", True), ("1.0", False), ("0.3", False), ("x", True), ("1.0.3", False)):
            answer = await desk.ann.post(
                "/v1/a2a", json=request("GetTask", {"id": "trip:p1"}), headers={"a2a-version": version}
            )
            assert (answer.json()["error"]["code"] == -32009) is refused
        assert (await desk.ann.post("/v1/a2a", content=b"x" * (LIMITS.body_bytes + 1))).status_code == 413
        assert (await desk.ann.get("/v1/a2a")).status_code == 405
        assert (await desk.ann.post("/v1/a2a/nobody", json=request("GetTask", {}))).status_code == 404
        push = {**message("hi"), "configuration": {"taskPushNotificationConfig": {"url": "http://169.254.169.254/"}}}
        assert await code(desk.ann, "SendMessage", push) == -32003


async def test_odd_parts_are_refused_before_anything_is_said() -> None:
    async with served() as desk:
        parts: list[object] = [
            {}, 3, None, "text", {"text": ""}, {"text": 3}, {"kind": "text"}, {"video": "x"}, {"text": "a", "data": 1},
            {"raw": "eA=="}, {"raw": 3, "mediaType": "image/png"}, {"url": "file:///etc/passwd", "mediaType": "x"},
            {"file": {}}, {"kind": "file", "file": {"bytes": 1}}, {"data": None}, {"raw": "!", "mediaType": "a/b"},
        ]  # fmt: skip
        for number, part in enumerate(parts):
            fields = {"messageId": f"m{number}", "role": "user", "parts": [part], "contextId": "trip"}
            sent: dict[str, object] = {"message": fields}
            assert await code(desk.ann, "message/send", sent) in {-32602, -32005, -32000}, part
        for odd in ODD_LISTS:
            sent = {"message": cast("object", {"messageId": "m", "role": "user", "parts": odd})}
            assert await code(desk.ann, "message/send", sent) == -32602
        for odd_fields in ODD_FIELDS:
            sent = {
                "message": cast("object", {"messageId": "m", "role": "user", "parts": [{"text": "a"}], **odd_fields})
            }
            assert await code(desk.ann, "message/send", sent) == -32602
        assert await code(desk.ann, "message/send", {"message": 3}) == -32602
        assert await code(desk.ann, "SendMessage", {**message("hi"), "configuration": 3}) == -32602
        assert await code(desk.ann, "SendMessage", {**message("hi"), "configuration": {"historyLength": -1}}) == -32602
        for query in ODD_QUERIES:
            assert await code(desk.ann, "ListTasks", query) == -32602


async def test_a_task_goes_on_at_another_host_on_the_same_journal(tmp_path: Path) -> None:
    async with served(SqliteJournal(tmp_path / "a.db")) as desk:
        first = await streamed(desk.ann, "SendStreamingMessage", message("run x", contextId="trip"))
        waiting = first[0][1]["task"]
        last = [number for number, _ in first if number][-1]
    async with served(SqliteJournal(tmp_path / "a.db")) as desk:
        again = await streamed(desk.ann, "SubscribeToTask", {"id": waiting["id"]}, last)
        assert [state(frame["statusUpdate"]) for _, frame in again] == ["INPUT_REQUIRED"]
        approval = {**facts(again[-1][1]["statusUpdate"]), "decision": "approve"}
        ran = await task(desk.ann, approval, id="yes", taskId=waiting["id"])
        assert (state(ran), text(ran)) == ("COMPLETED", ["It ran x."])
        rest = await streamed(desk.ann, "SubscribeToTask", {"id": waiting["id"]}, last)
        numbers = [tuple(map(int, number.split("."))) for number, _ in rest if number]
        assert numbers == sorted(set(numbers)), "no number comes twice"
        assert min(numbers) > tuple(map(int, last.split(".")))
        assert state(rest[-1][1]["statusUpdate"]) == "COMPLETED"


@pytest.mark.long
async def test_clients_that_leave_or_never_read_hold_nothing() -> None:
    spec = SessionSpec(model=ScriptedModel([stall(text="word " * 50, after=50)], repeat_last=True))
    limits = QUICK.but(streams=3)
    host = Host([Profile("desk", spec)], authenticator=ApiKeys(lines=LINES), limits=limits, faces=[A2aFace()])
    async with desk_of(host) as desk:
        name, _, port = desk.serving.url.removeprefix("http://").partition(":")
        headers = [("authorization", f"Bearer {KEYS['ann']}"), ("content-type", "application/json")]
        immediate = {**message("hi", contextId="trip"), "configuration": {"returnImmediately": True}}
        waiting = cast("Answer", (await rpc(desk.ann, "SendMessage", immediate))["task"])
        body = json.dumps(request("SubscribeToTask", {"id": waiting["id"]})).encode()
        served_count = 0
        with trio.fail_after(within(30)):
            while served_count < 12:  # four times as many as may be open at once
                async with await trio.open_tcp_stream(name, int(port)) as stream:
                    listener = Listener(stream)
                    await listener.ask("POST", "/v1/a2a", headers, body)
                    served_count += "WORKING" in await listener.until(bool)
        assert state(await rpc(desk.ann, "CancelTask", {"id": waiting["id"]})) == "CANCELED"


ODD_ADDRESSES: Final[list[object]] = ["agents.example", "ftp://a", "https://a/b", "https://a?b", "https://a b", 3, None]
ODD_TEXTS: Final[list[object]] = [None, 3, "desk", ["desk"], {"desk": 3}, {3: "x"}]


@each_case([("url", odd) for odd in ODD_ADDRESSES] + [("about", odd) for odd in ODD_TEXTS])
def test_odd_options_of_the_face_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadChoice):
        A2aFace(**cast("dict[str, str]", {name: value}))  # type: ignore[arg-type]
