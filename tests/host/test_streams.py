"""Streams of clients: how many a tenant may have open, and when one ends before its turn or session does."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from agentrail import SessionSpec, Subscription
from agentrail.api.operation_table import CALLS
from agentrail.host import ApiKeys, HostLimits, Identity
from agentrail.host.authentication.api_keys import ApiKey, KeyFile, render_keys
from agentrail.host.authentication.key_watch import KeyWatch
from agentrail.host.delayed_tasks import DelayedTasks
from agentrail.host.operations.call import OperationCall, Streamed
from agentrail.host.operations.event_frames import ClientStreams
from agentrail.host.operations.talk_calls import PendingAnswer
from agentrail.host.requests.access_log import RequestNote
from agentrail.host.requests.exchange import AnswerWriter, StreamedAnswer
from agentrail.host.requests.http_messages import EndableSend, Send
from agentrail.testing import ScriptedModel, stall
from tests.host.hosted import LIMITS, LINES, MADE, Desk, frames, listening, open_desk, scripted
from tests.host.test_host import until
from tests.host.test_leaving import Ends

EVENTS = "/v1/sessions/trip/events"


async def refused(desk: Desk, user: str = "ann") -> tuple[int, str, str | None]:
    """Ask for one more stream of a user's session; return why it is refused."""
    response = await desk.clients[user].get(EVENTS)
    return response.status_code, response.json()["type"], response.headers.get("retry-after")


async def freed(desk: Desk) -> None:
    """Wait until the host has seen that a client has gone."""
    with trio.fail_after(20):
        while (await desk.ann.head(EVENTS)).status_code == FULL[0]:  # noqa: ASYNC110 - by HTTP
            await trio.sleep(0.05)


def write_keys(file: Path, rows: dict[str, ApiKey]) -> None:
    """Replace the keys at once, as an operator does who edits their file."""
    new = file.with_suffix(".new")
    new.write_text(render_keys(rows.values()))
    new.chmod(0o600)
    new.replace(file)


FULL = (429, "urn:agentrail:problem:too-many-streams", "5")


@pytest.mark.parametrize("most", [1, 3])
async def test_a_tenant_has_so_many_streams_and_no_more(most: int) -> None:
    async with open_desk(scripted("one"), limits=HostLimits(streams=most)) as desk, AsyncExitStack() as stack:
        for user in ("ann", "bob", "eve"):
            await desk.clients[user].post("/v1/sessions", json={"session": "trip"})
        for _ in range(most - 1):
            await stack.enter_async_context(listening(desk, "GET", EVENTS))
        async with listening(desk, "GET", EVENTS) as last:
            assert last.status == 200
            await last.until(lambda text: text == ":\n\n")
            assert await refused(desk) == FULL
            assert await refused(desk, "bob") == FULL  # another user of the tenant
            response = await desk.ann.post("/v1/stream", json={"message": "hi", "session": "trip"})
            assert response.json()["type"] == FULL[1]
            assert (await desk.ann.get("/v1/sessions/trip/messages")).json()["items"] == []
            async with listening(desk, "GET", EVENTS, user="eve") as foreign:
                assert foreign.status == 200
        await freed(desk)
        async with listening(desk, "GET", EVENTS) as another:
            assert another.status == 200


async def test_the_stream_of_a_turn_counts_until_its_client_goes() -> None:
    async with open_desk(scripted(stall(after=1)), limits=HostLimits(streams=1)) as desk:
        async with listening(desk, "POST", "/v1/stream", message="stay") as listener:
            await listener.until(lambda text: "AgentStart" in text)
            assert await refused(desk) == FULL
        await freed(desk)
        assert (await desk.ann.get("/v1/sessions/trip")).json()["status"]["turn_open"] is True
        assert (await desk.ann.post("/v1/sessions/trip/abort", json={})).status_code == 204


async def test_a_stream_that_is_refused_leaves_no_subscription() -> None:
    async with open_desk(scripted("one")) as desk:
        body, key = {"message": "hi", "session": "trip"}, {"idempotency-key": "k1"}
        assert (await desk.ann.post("/v1/stream", json=body, headers=key)).status_code == 200
        old_subscriptions = open_subscriptions()
        for _ in range(3):
            response = await desk.ann.post("/v1/stream", json={**body, "message": "other"}, headers=key)
            assert response.json()["type"] == "urn:agentrail:problem:command-conflict"
        assert [item for item in open_subscriptions() if item not in old_subscriptions] == []


def open_subscriptions() -> list[Subscription]:
    """Return the subscriptions that were not left. The collector may take those of other tests at any time."""
    return [item for item in gc.get_objects() if isinstance(item, Subscription) and "left" not in repr(item)]


async def test_of_streams_that_are_opened_at_once_no_more_stay_than_may() -> None:
    most, tries = 2, 8
    async with open_desk(scripted("one"), limits=HostLimits(streams=most)) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        stayed, texts, done = list[str](), list[str](), trio.Event()

        async def listen() -> None:
            async with listening(desk, "GET", EVENTS) as listener:
                await listener.until(bool)
                (stayed if listener.text == ":\n\n" else texts).append(listener.text)
                if len(stayed) + len(texts) == tries:
                    done.set()
                await done.wait()

        async with trio.open_nursery() as nursery:
            for _ in range(tries):
                nursery.start_soon(listen)
        assert (len(stayed), len(texts)) == (most, tries - most)
        assert all("too-many-streams" in text for text in texts)


async def test_a_key_that_is_withdrawn_ends_the_stream_of_a_turn_and_not_the_turn(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys")
    for row, _ in MADE.values():
        file.add(row)
    limits = HostLimits(heartbeat_seconds=0.2)
    async with open_desk(scripted(stall(after=1)), keys=ApiKeys(file.path), limits=limits) as desk:
        async with listening(desk, "POST", "/v1/stream", message="stay") as listener:
            await listener.until(lambda text: "AgentStart" in text)
            file.withdraw(MADE["ann"][0].id)
            last = frames(await listener.until(lambda text: "event: problem" in text))[-1]
            assert '"status":401' in last["data"]
            await listener.until(lambda _: False)
            assert listener.over
        boss = desk.clients["boss"]
        assert (await boss.get("/v1/sessions/ann.trip")).json()["status"]["turn_open"] is True
        assert (await boss.post("/v1/sessions/ann.trip/abort", json={})).status_code == 204
        await until(lambda: not desk.serving.supervisor.session("h.acme.ann.trip").status().turn_open)


@pytest.mark.parametrize(
    "now", [Identity("acme", "boss", frozenset({"talk"})), Identity("evil", "boss", frozenset({"observe", "admin"}))]
)
async def test_a_stream_ends_when_its_key_no_longer_allows_it(tmp_path: Path, now: Identity) -> None:
    file, rows = tmp_path / "keys", {name: row for name, (row, _) in MADE.items()}
    write_keys(file, rows)
    limits = HostLimits(heartbeat_seconds=0.2, drain_seconds=0.5)
    async with open_desk(scripted("one"), keys=ApiKeys(file), limits=limits) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        async with listening(desk, "GET", "/v1/sessions/ann.trip/events", user="boss") as listener:
            await listener.until(lambda text: ":\n\n" in text)
            write_keys(file, {**rows, "boss": rows["boss"].but(identity=now)})
            last = frames(await listener.until(lambda text: "event: problem" in text))[-1]
            assert '"status":401' in last["data"]
            await listener.until(lambda _: False)
            assert listener.over


class Sent(AnswerWriter):
    def __init__(self) -> None:
        super().__init__()
        self.pieces = list[bytes]()
        self.in_piece: Callable[[], None] = lambda: None

    async def piece(self, data: bytes) -> None:
        self.in_piece()
        await trio.lowlevel.checkpoint()
        self.pieces.append(data)

    async def break_off(self) -> None:
        raise AssertionError


@pytest.mark.parametrize("is_in_piece", [True, False])
async def test_a_stream_ends_between_two_pieces(autojump_clock: MockClock, *, is_in_piece: bool) -> None:
    assert autojump_clock.autojump_threshold == 0
    writer = Sent()
    answer = StreamedAnswer(writer, trio.sleep_forever, DelayedTasks(), RequestNote())
    if is_in_piece:
        writer.in_piece = partial(answer.end, b"last")

    async def write(send: EndableSend) -> None:
        await send(b"one")
        send.end(b"last")
        await trio.sleep_forever()

    with trio.fail_after(20):
        assert await answer.run(write) == b"last"
    assert writer.pieces == [b"one"]


async def test_a_stream_of_a_session_that_is_opened_while_the_host_closes_ends_at_once(
    autojump_clock: MockClock,
) -> None:
    assert autojump_clock.autojump_threshold == 0
    late, who = DelayedTasks(), Identity("acme", "ann", frozenset({"talk"}))
    streams = ClientStreams(KeyWatch(ApiKeys(lines=LINES), LIMITS), late, LIMITS)

    async def write(_: EndableSend) -> None:
        await trio.sleep_forever()

    for is_over in (False, True):
        if is_over:
            streams.end_sessions()
        stream, writer = streams.session(OperationCall(CALLS["events"], who, "trip", LIMITS), write), Sent()
        with trio.move_on_after(1000) as scope:
            assert await StreamedAnswer(writer, trio.sleep_forever, late, RequestNote()).run(stream.write) == b""
        assert scope.cancelled_caught is not is_over


async def test_a_request_whose_answer_is_never_written_ends_with_its_turn() -> None:
    tries, most, ends = 4, 1, Ends()
    model = ScriptedModel([stall(after=1)] * tries)
    async with open_desk(SessionSpec(model=model), [ends], limits=HostLimits(streams=most)) as desk:
        texts, done = list[str](), trio.Event()

        async def prompt(number: int) -> None:
            async with listening(desk, "POST", "/v1/stream", message="stay", session=f"s{number}") as listener:
                await listener.until(lambda text: "AgentStart" in text or "event: problem" in text)
                texts.append(listener.text)
                if len(texts) == tries:
                    done.set()
                await done.wait()

        async with trio.open_nursery() as nursery:
            for number in range(tries):
                nursery.start_soon(prompt, number)
        assert sum("too-many-streams" in text for text in texts) == tries - most
        assert ends.heard == []  # their turns go on
        for number in range(tries):
            assert (await desk.ann.post(f"/v1/sessions/s{number}/abort", json={})).status_code == 204
        await until(lambda: len(ends.heard) == tries)
    assert ends.heard == ["stream aborted"] * tries


async def never_written(_: Send) -> None:  # noqa: ASYNC124 - async as `Streaming` wants it
    raise AssertionError


async def test_an_answer_for_which_nobody_waits_any_more_is_abandoned(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    answer, abandoned = PendingAnswer(), list[bool]()
    response = Streamed(never_written, lambda: abandoned.append(True))
    with trio.move_on_after(1):
        await answer.wait()
    with trio.move_on_after(1):  # as `while_here` does, which waits again
        await answer.wait()
    answer.settle(response)
    assert abandoned == [True]
    pending_answer = PendingAnswer()
    pending_answer.settle(response)
    assert await pending_answer.wait() is response
    assert abandoned == [True]
