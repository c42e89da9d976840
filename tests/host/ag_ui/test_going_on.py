"""A connection that is cut anywhere: the client goes on from the last frame that it has, and nothing comes twice."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail import SessionSpec
from agentrail.host import HostLimits
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.testing import ScriptedModel, call, say, stall, transient
from tests.host.ag_ui.front_end import Frame, FrontEnd, apply, check_run, kinds, parsed
from tests.host.hosted import KEYS, Desk, Listener, open_desk
from tests.host.test_decisions import pay, payer, with_helper
from tests.kit import Element
from tests.patience import within

IMPATIENT: Final = HostLimits(drain_seconds=0.05)

BUSY: Final[list[Element]] = [
    say("I look.", calls=[call("pay", {"to": "a"}), call("pay", {"to": "b"})]),
    "Both are paid.",
]
SAID: Final = [{"id": "u1", "role": "user", "content": "go"}]


def busy() -> SessionSpec:
    return SessionSpec(model=ScriptedModel(BUSY, repeat_last=True), tools=[pay])


def retried() -> SessionSpec:
    return SessionSpec(model=ScriptedModel([transient(after=2, retry_after=0.0), "Here at last."]))


def thinking() -> SessionSpec:
    return SessionSpec(model=ScriptedModel([say("I know.", thinking="Let me think about it.")]))


def lost() -> SessionSpec:
    """Return an agent that calls a tool which is not there, so that no event has the result."""
    return SessionSpec(
        model=ScriptedModel([say(calls=[call("nowhere"), call("pay", {"to": "a"})]), "Oh."]), tools=[pay]
    )


SPECS: Final = {
    "calls": busy,
    "held": payer,
    "sub-agent": with_helper,
    "retried": retried,
    "thinking": thinking,
    "no such tool": lost,
}


async def follow(desk: Desk, since: str) -> list[tuple[str, Frame]]:
    response = await desk.ann.get("/v1/sessions/trip/ag-ui", params={"run": "run-1"}, headers={"last-event-id": since})
    assert response.status_code == 200, response.text
    return parsed(response.text)


def view(frames: list[Frame]) -> list[tuple[str, object]]:
    """Return what a client shows after *frames*, without what sub-agents have said: no snapshot has that."""
    messages = copy.deepcopy(SAID)
    for frame in frames:
        if "subagentRunId" not in frame:
            apply(frame, messages)
    return sorted([(message["role"], str(message.get("content", ""))) for message in messages])


def start() -> Frame:
    return {"threadId": "trip", "runId": "run-1", "messages": SAID}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_a_run_that_is_cut_after_any_frame_is_whole_in_the_end(spec: Callable[[], SessionSpec]) -> None:
    async with open_desk(spec()) as desk:
        pairs = parsed((await desk.ann.post("/v1/ag-ui", json=start())).text)
        full_view = view([frame for _, frame in pairs])
        for index in range(1, len(pairs)):
            rest = await follow(desk, pairs[index - 1][0])
            frames = [frame for _, frame in [*pairs[:index], *rest]]
            check_run(frames)
            assert view(frames) == full_view, pairs[index - 1]
            assert frames[-1]["outcome"] == pairs[-1][1]["outcome"]


async def cut(desk: Desk, frames: int) -> list[tuple[str, Frame]]:
    """Begin a run, go away when so many frames have come, and return these."""
    host, _, port = desk.serving.url.removeprefix("http://").partition(":")
    headers = [("authorization", f"Bearer {KEYS['ann']}"), ("content-type", "application/json")]
    with trio.fail_after(within(20)):
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            listener = Listener(stream)
            await listener.ask("POST", "/v1/ag-ui", headers, json.dumps(start()).encode())
            text = await listener.until(lambda text: text.count("data: ") >= frames)
    return parsed(text)[:frames]


WORDS: Final = " ".join(f"word{number}" for number in range(40))


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 11, 30])
async def test_a_run_that_is_cut_while_the_model_speaks_goes_on_with_the_next_word(frames: int) -> None:
    async with open_desk(SessionSpec(model=ScriptedModel([say(WORDS, delay=0.002)]))) as desk:
        first = await cut(desk, frames)
        rest = await follow(desk, first[-1][0])
        all_frames = [frame for _, frame in [*first, *rest]]
        check_run(all_frames)
        assert view(all_frames) == [("assistant", WORDS), ("user", "go")]
        assert kinds(all_frames).count("MESSAGES_SNAPSHOT") == 1


@pytest.mark.parametrize("frames", [5, 6])
async def test_a_run_that_is_cut_between_thoughts_and_words_closes_each_message_once(frames: int) -> None:
    async with open_desk(SessionSpec(model=ScriptedModel([say(WORDS, thinking="Hm.", delay=0.01)]))) as desk:
        first = await cut(desk, frames)
        all_frames = [frame for _, frame in [*first, *await follow(desk, first[-1][0])]]
        check_run(all_frames)
        assert ("assistant", WORDS) in view(all_frames)


@pytest.mark.parametrize("frames", [1, 2, 3, 4, 11, 30])
async def test_a_run_that_is_cut_by_another_process_says_nothing_twice(tmp_path: Path, frames: int) -> None:
    slow = SessionSpec(model=ScriptedModel([stall(after=35, text=WORDS)]))
    quick = SessionSpec(model=ScriptedModel([say(f"Again: {WORDS}")]))
    async with open_desk(slow, journal=SqliteJournal(tmp_path / "kept.db"), limits=IMPATIENT) as desk:
        first = await cut(desk, frames)
    async with open_desk(quick, journal=SqliteJournal(tmp_path / "kept.db"), limits=IMPATIENT) as desk:
        rest = await follow(desk, first[-1][0])
        all_frames = [frame for _, frame in [*first, *rest]]
        check_run(all_frames)
        assert view(all_frames) == [("assistant", f"Again: {WORDS}"), ("user", "go")]


async def test_thoughts_that_are_no_longer_kept_in_pieces_come_as_a_whole() -> None:
    journal = MemoryJournal()
    async with open_desk(thinking(), journal=journal) as desk:
        _, (thoughts, _), *_ = parsed((await desk.ann.post("/v1/ag-ui", json=start())).text)
    async with open_desk(thinking(), journal=journal) as desk:
        rest = [frame for _, frame in await follow(desk, thoughts)]
        assert [frame["delta"] for frame in rest if frame["type"] == "REASONING_MESSAGE_CONTENT"] == [
            "Let me think about it."
        ]


async def test_a_second_window_joins_in_the_middle_of_a_word() -> None:
    async with open_desk(SessionSpec(model=ScriptedModel([say(WORDS, delay=0.002)]))) as desk:
        await cut(desk, 12)
        front = FrontEnd(desk.ann, "trip")
        frames = await front.join()
        assert kinds(frames)[:4] == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT"]
        assert front.texts() == [("user", "go"), ("assistant", WORDS)]


async def test_the_request_that_began_a_run_goes_on_with_it() -> None:
    model = ScriptedModel([say(WORDS, delay=0.002)])
    async with open_desk(SessionSpec(model=model)) as desk:
        first = await cut(desk, 12)
        response = await desk.ann.post("/v1/ag-ui", json=start(), headers={"last-event-id": first[-1][0]})
        all_frames = [frame for _, frame in [*first, *parsed(response.text)]]
        check_run(all_frames)
        assert view(all_frames) == [("assistant", WORDS), ("user", "go")]
        assert len(model.requests) == 1
        response = await desk.ann.post("/v1/ag-ui", json=start(), headers={"last-event-id": "nonsense"})
        assert response.status_code == 400
