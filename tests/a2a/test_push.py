"""Push notifications of A2A: a receiver is told how a task stands, by both protocols, signed, and for nobody else."""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Final, cast

import httpx
import pytest
import trio

from agentrail.a2a import A2aFace, client_pushes, task_push
from agentrail.adapters.web import HttpxWeb
from agentrail.host import ApiKeys, Webhooks
from agentrail.host.authentication.api_keys import KeyFile, new_key
from tests.a2a.receiver import Notification, answer, receiving
from tests.a2a.test_turns import QUICK, Answer, facts, message, rpc, served, state, streamed, task
from tests.host.hosted import LIMITS, MADE
from tests.patience import within

pytestmark = pytest.mark.long

KEY: Final = "a-key-of-thirty-two-characters-or-more"
LOOPBACK: Final = ("127.0.0.1",)


def is_signed(notification: Notification, secret: str) -> bool:
    """Whether a notification has the signature that the Standard Webhooks want."""
    headers = notification.headers
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + notification.body
    digest = hmac.digest(b64decode(secret.removeprefix("whsec_")), content, "sha256")
    return headers["webhook-signature"] == f"v1,{b64encode(digest).decode()}"


async def test_a_receiver_is_told_of_each_state_by_the_configuration_of_a_message() -> None:
    webhooks = Webhooks(KEY, allowed=LOOPBACK)
    async with receiving() as receiver, served(face=A2aFace(push=webhooks)) as desk:
        card = (await desk.ann.get("/.well-known/agent-card.json")).json()
        assert card["capabilities"]["pushNotifications"] is True
        config = {
            "url": receiver.url,
            "token": "own token",
            "authentication": {"scheme": "Bearer", "credentials": "jwt" * 1000},
        }
        sent = {**message("run x", contextId="trip"), "configuration": {"taskPushNotificationConfig": config}}
        waiting = cast("Answer", (await rpc(desk.ann, "SendMessage", sent))["task"])
        (first,) = await receiver.until(1)
        assert (first.target, first.state, first.task["status"]) == ("/hook", "INPUT_REQUIRED", waiting["status"])
        assert first.headers["x-a2a-notification-token"] == "own token"
        assert first.headers["authorization"] == f"Bearer {'jwt' * 1000}"
        assert first.headers["content-type"] == "application/a2a+json"
        assert is_signed(first, webhooks.secret_of("acme"))
        assert not is_signed(first, webhooks.secret_of("evil"))
        own = await rpc(desk.ann, "ListTaskPushNotificationConfigs", {"taskId": waiting["id"]})
        assert own["configs"] == [
            {
                "id": waiting["id"],
                "taskId": waiting["id"],
                "url": receiver.url,
                "authentication": {"scheme": "Bearer"},
            }
        ]
        ran = await task(desk.ann, {**facts(waiting), "decision": "approve"}, id="yes", taskId=waiting["id"])
        assert state(ran) == "COMPLETED"
        while (requests := await receiver.until(2))[-1].state != "COMPLETED":
            await receiver.until(len(requests) + 1)
        last = requests[-1].task
        assert (last["id"], last["artifacts"]) == (ran["id"], ran["artifacts"])
        assert [request.state for request in requests[1:-1]] in ([], ["WORKING"])
        again = await rpc(desk.ann, "GetTaskPushNotificationConfig", {"taskId": waiting["id"], "id": waiting["id"]})
        assert again["code"] == -32001, "it has ended with its task"


def pushing() -> A2aFace:
    return A2aFace(push=Webhooks(KEY, allowed=LOOPBACK))


def table(face: A2aFace) -> object:
    """Return all configurations of a face, as the ids of each user's."""
    pushes = face._push_table  # noqa: SLF001
    assert pushes is not None
    return {user: sorted(name[1] for name in own) for user, own in pushes.by_user.items()}


async def until_empty(face: A2aFace) -> None:
    with trio.fail_after(within(30)):
        while table(face) != {}:  # noqa: ASYNC110 - the tasks of the face end by themselves
            await trio.sleep(0.01)


def with_push(config: object, *parts: object, **more: object) -> dict[str, object]:
    return {**message(*parts, **more), "configuration": {"taskPushNotificationConfig": config}}  # type: ignore[arg-type]


async def code(client: httpx.AsyncClient, method: str, params: object) -> object:
    return (await rpc(client, method, params)).get("code")


GOOD: Final = "https://93.184.216.34/"
ODD_TEXTS: Final[list[object]] = [3, [], {}, "a\r\nx: y", "a\0", "é", " a", "x" * 5000]
ODD_URLS: Final[list[object]] = [
    *(3, None, "", [], "http://93.184.216.34/", "http://127.0.0.2:9/", "http://0.0.0.0:9/", "file:///etc/passwd"),
    *("http://[::ffff:127.0.0.2]/", "http://169.254.169.254/latest/meta-data/", "https://10.0.0.1/"),
    *("https://user:secret@93.184.216.34/", "https://93.184.216.34/" + "x" * 5000),
]
ODD_AUTHENTICATIONS: Final[list[object]] = [
    *(3, "Bearer", {"credentials": "x"}, {"scheme": "a b", "credentials": "x"}, {"scheme": 3}, {"schemes": [3]}),
    *({"schemes": ["a:b"]}, {"schemes": [[]]}, {"schemes": [], "credentials": "x"}),
]
ODD: Final[list[object]] = [
    *(3, GOOD, ["x"], {"token": "t"}),
    *({"url": odd} for odd in ODD_URLS),
    *({"url": GOOD, "token": odd} for odd in ODD_TEXTS if odd),
    *({"url": GOOD, "id": odd} for odd in ODD_TEXTS[:1]),
    *({"url": GOOD, "authentication": odd} for odd in ODD_AUTHENTICATIONS),
    *({"url": GOOD, "authentication": {"scheme": "Bearer", "credentials": odd}} for odd in ODD_TEXTS if odd),
]


async def test_odd_configurations_are_refused_before_anything_is_said(caplog: pytest.LogCaptureFixture) -> None:
    face = pushing()
    async with served(face=face) as desk:
        for number, odd in enumerate(ODD):
            sent = with_push(odd, "hi", id=f"m{number}", contextId="odd")
            assert await code(desk.ann, "SendMessage", sent) == -32602, odd
            assert await code(desk.ann, "SendStreamingMessage", sent) == -32602, odd
        assert (await desk.ann.get("/v1/sessions")).json()["items"] == []
        waiting = await task(desk.ann, "run x", contextId="trip")
        for odd in ODD:
            create = {"taskId": waiting["id"], **odd} if isinstance(odd, dict) else odd
            assert await code(desk.ann, "CreateTaskPushNotificationConfig", create) == -32602, odd
            older = {"taskId": waiting["id"], "pushNotificationConfig": odd}
            assert await code(desk.ann, "tasks/pushNotificationConfig/set", older) == -32602, odd
        for method in ("Create", "Get", "List", "Delete"):
            name = f"{method}TaskPushNotificationConfig{'s' if method == 'List' else ''}"
            for odd in (*ODD_TEXTS, "", None, "nothing:p1", "trip:p99"):
                params = {"taskId": odd, "id": "x", "url": GOOD}
                assert await code(desk.ann, name, params) in {-32602, -32001}, (name, odd)
        assert table(face) == {}
        over = await task(desk.ann, "hello", id="over", contextId="over")
        late = {"taskId": over["id"], "url": GOOD}
        assert await code(desk.ann, "CreateTaskPushNotificationConfig", late) == -32004
    assert "Traceback" not in caplog.text


async def test_there_are_so_many_configurations_and_no_more() -> None:
    face = pushing()
    async with receiving() as receiver, served(face=face) as desk:
        create = "CreateTaskPushNotificationConfig"
        tasks = [await task(desk.ann, "run x", id=f"m{number}", contextId=f"c{number}") for number in range(5)]
        for held in tasks:
            for number in range(6):
                params = {"taskId": held["id"], "id": str(number), "url": receiver.url}
                expected = None if number < 5 and held is not tasks[4] else -32000
                assert await code(desk.ann, create, params) == expected, (held["id"], number)
        again = {"taskId": tasks[0]["id"], "id": "0", "url": receiver.url}
        assert await code(desk.ann, create, again) is None, "it takes the place of the one with its id"
        more = with_push({"url": receiver.url}, "hi", id="more", contextId="more")
        refused = await rpc(desk.ann, "SendMessage", more)
        data = cast("list[Answer]", refused["data"])
        assert (refused["code"], data[0]["reason"]) == (-32000, "TOO_MANY_PUSH_CONFIGS")
        assert "ann.more" not in (await desk.ann.get("/v1/sessions")).text
        bob = await task(desk.clients["bob"], "run x", contextId="bob")
        assert await code(desk.clients["bob"], create, {"taskId": bob["id"], "url": receiver.url}) is None
        for held in tasks:
            await rpc(desk.ann, "CancelTask", {"id": held["id"]})
        await rpc(desk.clients["bob"], "CancelTask", {"id": bob["id"]})
        await until_empty(face)
        states = {(request.task["id"], request.state) for request in receiver.requests}
        assert {(held["id"], "CANCELED") for held in tasks[:4]} <= states


async def test_one_too_many_is_refused_before_the_message_by_each_name_of_the_task() -> None:
    face = pushing()
    async with receiving() as receiver, served(face=face) as desk:
        held = await task(desk.ann, "run x", contextId="trip")
        for number in range(5):
            params = {"taskId": held["id"], "id": str(number), "url": receiver.url}
            assert await code(desk.ann, "CreateTaskPushNotificationConfig", params) is None
        decision = {**facts(held), "decision": "approve"}
        sixth = {"url": receiver.url, "id": "sixth"}
        for name in (held["id"], f"ann.{held['id']}"):
            assert await code(desk.ann, "SendMessage", with_push(sixth, decision, id="yes", taskId=name)) == -32000
            assert state(await rpc(desk.ann, "GetTask", {"id": held["id"]})) == "INPUT_REQUIRED", name


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
async def test_of_two_messages_at_once_one_alone_takes_the_last_place(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_pushes, "MOST_OF_USER", 1)
    looked_up: list[str] = []
    are_both_here = trio.Event()

    async def resolve(host: str, _port: int) -> tuple[str]:
        looked_up.append(host)
        if len(looked_up) == 2:
            are_both_here.set()
        await are_both_here.wait()
        return ("127.0.0.1",)

    webhooks = Webhooks(KEY, allowed=LOOPBACK)
    webhooks._web = HttpxWeb(allowed=LOOPBACK, resolve=resolve)  # noqa: SLF001 - both wait for their look-ups
    face = A2aFace(push=webhooks)
    answers: list[str] = []
    async with receiving() as receiver, served(face=face) as desk:

        async def send(name: str) -> None:
            config = {"url": receiver.url.replace("127.0.0.1", "receiver.test")}
            params = with_push(config, "hi", id=name, contextId=name)
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answers.append((await desk.ann.post("/v1/a2a/desk", json=body)).text)

        with trio.fail_after(within(30)):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, "one")
                nursery.start_soon(send, "two")
        assert sorted("TOO_MANY_PUSH_CONFIGS" in text for text in answers) == [False, True]
        assert len((await desk.ann.get("/v1/sessions")).json()["items"]) == 1, "the other message was not sent"
        await until_empty(face)
        pushes = face._push_table  # noqa: SLF001
        assert pushes is not None
        assert pushes.reservations == set()


async def test_a_tenant_has_so_many_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_pushes, "MOST_OF_TENANT", 3)
    face = pushing()
    async with receiving() as receiver, served(face=face) as desk:
        create = "CreateTaskPushNotificationConfig"
        for user, expected in (("ann", [None] * 2), ("bob", [None, -32000]), ("eve", [None] * 2)):
            client = desk.clients[user]
            held = await task(client, "run x", contextId="trip")
            fields = [{"taskId": held["id"], "id": str(number), "url": receiver.url} for number in range(2)]
            assert [await code(client, create, params) for params in fields] == expected, user


async def test_a_task_is_told_of_when_there_is_a_stream_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_push, "PAUSE", 0.001)
    monkeypatch.setattr(task_push, "MOST_FAILURES", 2)
    face = pushing()
    async with receiving() as receiver, served(face=face, limits=QUICK.but(streams=1)) as desk:
        waiting = await task(desk.ann, "run x", contextId="trip")
        for number in range(2):
            params = {"taskId": waiting["id"], "id": str(number), "url": receiver.url, "token": str(number)}
            await rpc(desk.ann, "CreateTaskPushNotificationConfig", params)
        await receiver.until(2)
        for _ in range(20):  # meanwhile there are more looks than may fail in a row: each begins with one that does not
            assert state(await rpc(desk.ann, "GetTask", {"id": waiting["id"]})) == "INPUT_REQUIRED"
        await task(desk.ann, {**facts(waiting), "decision": "approve"}, id="yes", taskId=waiting["id"])
        await until_empty(face)
        ends = [request for request in receiver.requests if request.state == "COMPLETED"]
        assert {request.headers["x-a2a-notification-token"] for request in ends} == {"0", "1"}


async def test_nobody_else_sees_or_deletes_a_configuration() -> None:
    face = pushing()
    async with receiving() as receiver, served(face=face) as desk:
        waiting = await task(desk.ann, "run x", contextId="trip")
        name, whole = waiting["id"], f"ann.{waiting['id']}"
        await rpc(desk.ann, "CreateTaskPushNotificationConfig", {"taskId": name, "id": "own", "url": receiver.url})
        await receiver.until(1)
        for user in ("bob", "eve", "boss", "root"):
            client = desk.clients[user]
            for task_id in (name, whole):
                one = {"taskId": task_id, "id": "own"}
                assert await code(client, "GetTaskPushNotificationConfig", one) == -32001
                listed = await rpc(client, "ListTaskPushNotificationConfigs", {"taskId": task_id})
                assert listed.get("code") == -32001 or listed["configs"] == [], (user, listed)
                await rpc(client, "DeleteTaskPushNotificationConfig", one)
        assert table(face) == {("acme", "ann"): ["own"]}
        for user in ("bob", "eve"):
            create = {"taskId": whole, "url": receiver.url}
            assert await code(desk.clients[user], "CreateTaskPushNotificationConfig", create) == -32001
        own = {"taskId": name, "id": "own"}
        for _ in range(2):
            assert await rpc(desk.ann, "DeleteTaskPushNotificationConfig", own) is None, "it may be sent again"
        await until_empty(face)
        await rpc(desk.ann, "CancelTask", {"id": name})
        assert [request.state for request in receiver.requests] == ["INPUT_REQUIRED"]


async def test_a_key_that_is_withdrawn_ends_its_notifications(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    file = KeyFile(tmp_path / "folder" / "keys")
    second, second_key = new_key("acme", "ann", ["talk", "decide"])
    for row in (*[row for row, _ in MADE.values()], second):
        file.add(row)
    face = pushing()
    keys, limits = ApiKeys(file.path), LIMITS.but(heartbeat_seconds=0.2)
    async with receiving() as receiver, served(face=face, keys=keys, limits=limits) as desk:
        waiting = await task(desk.ann, "run x", contextId="trip")
        create = {"taskId": waiting["id"], "url": receiver.url}
        await rpc(desk.ann, "CreateTaskPushNotificationConfig", {**create, "id": "first"})
        async with httpx.AsyncClient(
            base_url=desk.serving.url, headers={"authorization": f"Bearer {second_key}"}, trust_env=False
        ) as other:
            await rpc(other, "CreateTaskPushNotificationConfig", {**create, "id": "second", "token": "second"})
            await receiver.until(2)
            file.withdraw(MADE["ann"][0].id)
            with trio.fail_after(within(30)):
                while table(face) != {("acme", "ann"): ["second"]}:  # noqa: ASYNC110 - the watch ends it
                    await trio.sleep(0.01)
            await rpc(other, "CancelTask", {"id": waiting["id"]})
        await until_empty(face)
        ended = [request for request in receiver.requests if request.state == "CANCELED"]
        assert [request.headers.get("x-a2a-notification-token") for request in ended] == ["second"]


async def test_a_receiver_that_never_answers_holds_up_nothing() -> None:
    face = pushing()
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")  # nobody accepts there, and no more is said
    url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
    async with receiving() as receiver, served(face=face) as desk:
        with trio.fail_after(within(5)):
            for number in range(4):
                sent = with_push({"url": url, "id": "dead"}, "hello", id=f"m{number}", contextId="trip")
                assert state(cast("Answer", (await rpc(desk.ann, "SendMessage", sent))["task"])) == "COMPLETED"
            sent = with_push({"url": receiver.url}, "hello", id="bob", contextId="bob")
            await rpc(desk.clients["eve"], "SendMessage", sent)
            await receiver.until(1)
        assert receiver.requests[0].state == "COMPLETED"
        first = (await rpc(desk.ann, "ListTasks", {"contextId": "trip"}))["tasks"]
        for shape in cast("list[Answer]", first):
            await rpc(desk.ann, "DeleteTaskPushNotificationConfig", {"taskId": shape["id"], "id": "dead"})
        await until_empty(face)
    for listener in listeners:
        await listener.aclose()


async def test_a_receiver_that_was_away_is_told_how_the_task_stands_now() -> None:
    face = pushing()
    async with receiving() as receiver, served(face=face) as desk:
        receiver.answers.extend([answer(503), answer(500)])
        waiting = cast(
            "Answer", (await rpc(desk.ann, "SendMessage", with_push({"url": receiver.url}, "run x")))["task"]
        )
        await receiver.until(1)
        await task(desk.ann, {**facts(waiting), "decision": "approve"}, id="yes", taskId=waiting["id"])
        await until_empty(face)
        states = [request.state for request in receiver.requests]
        assert states == ["INPUT_REQUIRED"] * 3 + ["COMPLETED"], "the state on the way was missed"
        numbers = [request.headers["webhook-id"] for request in receiver.requests]
        assert (len(set(numbers)), numbers[0]) == (2, numbers[2])


async def test_a_stream_and_what_happens_elsewhere_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    face = pushing()
    async with receiving() as receiver, served(face=face) as desk:
        frames = await streamed(desk.ann, "SendStreamingMessage", with_push({"url": receiver.url}, "run x"))
        waiting = frames[0][1]["task"]
        await receiver.until(1)
        held = facts(frames[-1][1]["statusUpdate"])
        session = str(waiting["contextId"])
        body = {"approval": held["approval"], "digest": held["digest"]}
        assert (await desk.ann.post(f"/v1/sessions/{session}/approve", json=body)).status_code < 300
        await until_empty(face)
        assert receiver.requests[-1].state == "COMPLETED"
        older = {**message("run y", id="m2"), "configuration": {"pushNotificationConfig": {"url": receiver.url}}}
        second = await rpc(desk.ann, "message/send", older)
        count = len(receiver.requests)
        last = (await receiver.until(count + 1))[-1]
        shape = json.loads(last.body)
        assert (shape["kind"], shape["id"], shape["status"]) == ("task", second["id"], second["status"])
        assert last.headers["content-type"] == "application/json"
        assert (await desk.ann.post(f"/v1/sessions/{second['contextId']}/stop", json={})).status_code < 300
        await until_empty(face)
        third = await task(desk.ann, "run z", id="m3", contextId="open")
        await rpc(desk.ann, "CreateTaskPushNotificationConfig", {"taskId": third["id"], "url": receiver.url})
        await receiver.until(len(receiver.requests) + 1)
        assert table(face) == {("acme", "ann"): [third["id"]]}
    assert table(face) == {}, "they end with the host"
    assert "failed" not in caplog.text
