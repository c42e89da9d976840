"""What holds for each stream of a host holds for runs: how many there are, whose key it is, who reads too slowly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, HostLimits, SlashCommand, SlashCommands
from agentrail.host.authentication.api_keys import KeyFile
from agentrail.testing import ScriptedModel, say
from tests.host.ag_ui.front_end import Frame, FrontEnd, apply, check_run, parsed
from tests.host.hosted import KEYS, LIMITS, MADE, Desk, Listener, open_desk, scripted
from tests.host.test_bad_input import outcome
from tests.host.test_decisions import payer
from tests.host.test_slow_readers import connections
from tests.patience import within

SLOW: Final = say("so it is " * 2_000, delay=0.1)
"""An answer that goes on for minutes, so that its run is open however late a test comes to it."""
BODY: Final = json.dumps(
    {"threadId": "trip", "runId": "run", "messages": [{"id": "u1", "role": "user", "content": "go"}]}
).encode()


async def begin(stream: trio.SocketStream) -> Listener:
    """Begin a run on a connection, and wait until the model speaks."""
    headers = [("authorization", f"Bearer {KEYS['ann']}"), ("content-type", "application/json")]
    listener = Listener(stream)
    await listener.ask("POST", "/v1/ag-ui", headers, BODY)
    await listener.until(lambda text: "TEXT_MESSAGE_CONTENT" in text)
    return listener


async def connected(desk: Desk) -> trio.SocketStream:
    host, _, port = desk.serving.url.removeprefix("http://").partition(":")
    return await trio.open_tcp_stream(host, int(port))


async def test_a_run_is_one_of_the_streams_of_its_tenant() -> None:
    limits = HostLimits(streams=1, drain_seconds=0.5)
    async with open_desk(scripted(SLOW), limits=limits) as desk, await connected(desk) as stream:
        await begin(stream)
        for path in ("/v1/sessions/trip/ag-ui", "/v1/sessions/trip/events"):
            assert outcome(await desk.ann.get(path)) == (429, "too-many-streams")
        again = await desk.ann.post("/v1/ag-ui", content=BODY, headers={"content-type": "application/json"})
        assert outcome(again) == (429, "too-many-streams")


async def test_a_key_that_is_withdrawn_ends_its_runs_and_not_their_turns(tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir(mode=0o700)
    file = KeyFile(tmp_path / "keys" / "keys")
    for row, _ in MADE.values():
        file.add(row)
    limits = LIMITS.but(heartbeat_seconds=0.2)
    slow = scripted(say("one two three four", delay=1.0))
    async with open_desk(slow, keys=ApiKeys(file.path), limits=limits) as desk:
        async with await connected(desk) as stream:
            listener = await begin(stream)
            file.withdraw(MADE["ann"][0].id)
            with trio.fail_after(within(20)):
                await listener.until(lambda _: False)
        frames = [frame for _, frame in parsed(listener.text)]
        check_run(frames)
        assert (frames[-1]["type"], frames[-1]["code"]) == ("RUN_ERROR", "NotAuthenticated")
        status = (await desk.clients["boss"].get("/v1/sessions/ann.trip")).json()["status"]
        assert status["turn_open"]


async def test_four_eyes_hold_for_interrupts() -> None:
    async with open_desk(payer(), four_eyes=True) as desk:
        front = FrontEnd(desk.ann, "trip")
        await front.say("pay")
        entry = {"interruptId": front.interrupts[0]["id"], "status": "resolved", "payload": {"approved": True}}
        response = await desk.ann.post("/v1/ag-ui", json=front.input(resume=[entry]))
        assert outcome(response) == (403, "own-decision")


async def test_a_command_is_answered_in_the_words_of_its_plugin() -> None:
    ping = SlashCommand("/ping", "say pong", lambda message: f"pong {message.arguments}")
    async with open_desk(scripted(), [SlashCommands([ping])]) as desk:
        body = BODY.replace(b'"go"', b'"/ping twice"')
        answered = await desk.ann.post("/v1/ag-ui", content=body, headers={"content-type": "application/json"})
    frames = [frame for _, frame in parsed(answered.text)]
    check_run(frames)
    assert [frame["delta"] for frame in frames if frame["type"] == "TEXT_MESSAGE_CONTENT"] == ["pong twice"]


@pytest.mark.long
async def test_who_reads_too_slowly_is_cut_and_goes_on() -> None:
    words = "so much text in each of them " * 80
    spec = SessionSpec(model=ScriptedModel([say(chunks=[words] * 300)]))
    async with open_desk(spec, limits=HostLimits(write_seconds=2.0, drain_seconds=0.5)) as desk:
        async with await connected(desk) as stream:
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
            listener = await begin(stream)
            connected_before = await connections(desk)
            with trio.fail_after(within(20)):
                while await connections(desk) >= connected_before:  # noqa: ASYNC110 - the host sees it
                    await trio.sleep(0.05)
        pairs = parsed(listener.text)
        with trio.fail_after(within(20)):
            response = await desk.ann.get(
                "/v1/sessions/trip/ag-ui", params={"run": "run"}, headers={"last-event-id": pairs[-1][0]}
            )
        frames = [frame for _, frame in [*pairs, *parsed(response.text)]]
        check_run(frames)
        messages: list[Frame] = []
        for frame in frames:
            apply(frame, messages)
        assert [message["content"] for message in messages] == ["go", words * 300]
