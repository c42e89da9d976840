"""Runs of AG-UI: each frame is valid by the models, each stream by the validator, and the conversation is whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from agentrail import HeldCall, SessionSpec, tool
from agentrail.host import SlashCommands
from agentrail.host.ag_ui.run_frames import interrupt
from agentrail.journals import Claim, MemoryJournal, Record
from agentrail.testing import ScriptedModel, call, permanent, say
from agentrail.tools.builtin import ask_user
from tests.host.ag_ui.front_end import Frame, FrontEnd, kinds
from tests.host.hosted import Desk, open_desk, scripted
from tests.host.test_decisions import pay, payer, with_helper
from tests.kit import Element, freeze_object
from tests.patience import within


@tool
async def wait() -> str:
    """Wait."""
    await trio.sleep_forever()
    raise AssertionError


ENDLESS = say("so it is " * 2_000, delay=0.05)
"""An answer that goes on for minutes, so that a turn is open however late a test comes to it."""


async def test_a_message_is_a_run() -> None:
    async with open_desk(scripted("Hello, Ann.", "Yes.")) as desk:
        front = FrontEnd(desk.ann, "trip")
        frames = await front.say("hello")
        assert kinds(frames) == [
            "RUN_STARTED",
            "MESSAGES_SNAPSHOT",
            "TEXT_MESSAGE_START",
            "TEXT_MESSAGE_CONTENT",
            "TEXT_MESSAGE_END",
            "RUN_FINISHED",
        ]
        assert frames[0]["runId"] == frames[-1]["runId"] == "trip-run-1"
        assert front.texts() == [("user", "hello"), ("assistant", "Hello, Ann.")]
        await front.say("really?")
        assert front.texts()[2:] == [("user", "really?"), ("assistant", "Yes.")]
        reloaded = FrontEnd(desk.ann, "trip")
        assert kinds(await reloaded.join()) == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
        assert reloaded.texts() == front.texts()


async def test_an_id_of_the_host_in_a_session_that_is_not_there_is_refused_by_name() -> None:
    async with open_desk(scripted("Hello.")) as desk:
        front = FrontEnd(desk.ann, "trip", [{"id": "m1", "role": "user", "content": "hello"}])
        response = await desk.ann.post("/v1/ag-ui", json=front.input())
        assert response.status_code == 422
        assert "$.messages[0].id is an id that a host gives its own messages" in response.json()["detail"]
        following = await desk.ann.post("/v1/ag-ui", json=front.input(messages=[]))
        assert (following.status_code, following.json()["error"]) == (404, "UnknownSession")


async def test_a_held_call_is_an_interrupt_and_its_answer_a_run() -> None:
    async with open_desk(payer()) as desk:
        front = FrontEnd(desk.ann, "trip")
        frames = await front.say("pay")
        (interrupt,) = front.interrupts
        (start,) = [frame for frame in frames if frame["type"] == "TOOL_CALL_START"]
        assert interrupt["toolCallId"] == start["toolCallId"]
        assert interrupt["reason"] == "tool_call"
        frames = await front.answer({"approved": True})
        assert "TOOL_CALL_RESULT" in kinds(frames)
        assert front.texts() == [("user", "pay"), ("assistant", ""), ("tool", "paid eve"), ("assistant", "done")]
        assert frames[-1]["outcome"] == {"type": "success"}


async def test_a_rejected_call_has_its_reason_as_result() -> None:
    async with open_desk(payer()) as desk:
        front = FrontEnd(desk.ann, "trip")
        await front.say("pay")
        await front.answer({"approved": False, "reason": "too dear"})
        assert front.texts()[2:] == [("tool", "rejected by the user: too dear"), ("assistant", "done")]


@tool(elsewhere=True)
async def pick(what: str) -> str:
    """Have the person pick one in the page."""
    raise AssertionError(what)


async def test_a_tool_of_the_front_end_gets_its_result_by_the_next_run() -> None:
    calls = say(calls=[call("pick", {"what": "a colour"}), call("pick", {"what": "a size"})])
    async with open_desk(SessionSpec(model=ScriptedModel([calls, "So be it."]), tools=[pick])) as desk:
        front = FrontEnd(desk.ann, "trip")
        frames = await front.say("paint")
        assert (frames[-1]["outcome"], front.interrupts) == ({"type": "success"}, [])
        ids = [frame["toolCallId"] for frame in frames if frame["type"] == "TOOL_CALL_START"]
        results: list[Frame] = [
            {"id": f"front-{call_id}", "role": "tool", "toolCallId": call_id, "content": f"for {call_id}"}
            for call_id in ids
        ]
        wrong = {"id": "front", "role": "tool", "toolCallId": "c99", "content": "?"}
        response = await desk.ann.post("/v1/ag-ui", json=front.input(messages=[*front.messages, *results, wrong]))
        assert (response.status_code, response.json()["error"]) == (422, "BadBody")
        sent = [*front.messages, *results]
        frames = await front.run(messages=sent)
        assert front.texts()[2:] == [*[("tool", f"for {call_id}") for call_id in ids], ("assistant", "So be it.")]
        again = await desk.ann.post("/v1/ag-ui", json=front.input(messages=sent))  # lost, and sent once more
        assert again.status_code == 200
        assert [text for role, text in front.texts() if role == "tool"] == [f"for {call_id}" for call_id in ids]


async def test_a_tool_of_the_front_end_may_say_that_it_has_failed() -> None:
    calls = say(calls=[call("pick", {"what": "a colour"})])
    async with open_desk(SessionSpec(model=ScriptedModel([calls, "Sorry."]), tools=[pick])) as desk:
        front = FrontEnd(desk.ann, "trip")
        (call_id,) = [frame["toolCallId"] for frame in await front.say("paint") if frame["type"] == "TOOL_CALL_START"]
        failed = {"id": "front", "role": "tool", "toolCallId": call_id, "content": "", "error": "nobody is there"}
        await front.run(messages=[*front.messages, failed])
        assert front.texts()[2:] == [("tool", "nobody is there"), ("assistant", "Sorry.")]


def test_a_call_that_expires_after_all_times_is_an_interrupt() -> None:
    held = interrupt(HeldCall("a1", "approval", "c1", "pay", freeze_object({}), "pay?", expires_at=10**18))
    assert isinstance(held, Mapping)
    assert held["expiresAt"] == "5138-11-16T09:46:40+00:00"


async def test_a_sub_agent_is_heard_and_its_held_call_interrupts_the_run() -> None:
    async with open_desk(with_helper()) as desk:
        front = FrontEnd(desk.ann, "trip")
        frames = await front.say("go")
        (started,) = [frame for frame in frames if frame["type"] == "SUBAGENT_STARTED"]
        child = started["subagentRunId"]
        (interrupt,) = front.interrupts
        assert (interrupt["subagentRunId"], interrupt["id"].startswith(f"{child}:")) == (child, True)
        (ended,) = [frame for frame in frames if frame["type"] == "SUBAGENT_FINISHED"]
        assert ended["outcome"] == {"type": "suspended", "interruptIds": [interrupt["id"]]}
        frames = await front.answer({"approved": True})
        (ended,) = [frame for frame in frames if frame["type"] == "SUBAGENT_FINISHED"]
        assert (ended["outcome"]["type"], ended["result"]) == ("success", "done")
        assert front.texts()[-1] == ("assistant", "well")


class LateParent(MemoryJournal):
    """Writes for the session `trip` only when its sub-agent has nothing more to do."""

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        if claim.session_id.endswith(".trip"):
            await trio.testing.wait_all_tasks_blocked(0.01)
        return await super().append(claim, expected, records)


async def test_a_run_goes_on_before_the_parent_hears_of_the_answer() -> None:
    async with open_desk(with_helper(), journal=LateParent()) as desk:
        front = FrontEnd(desk.ann, "trip")
        await front.say("go")
        await front.answer({"approved": True})
        assert front.texts()[-1] == ("assistant", "well")


async def test_calls_and_results_keep_their_order() -> None:
    script: list[Element] = [
        say("I look.", calls=[call("pay", {"to": "a"}), call("pay", {"to": "b"})]),
        "Both are paid.",
    ]
    async with open_desk(SessionSpec(model=ScriptedModel(script), tools=[pay])) as desk:
        front = FrontEnd(desk.ann, "trip")
        frames = await front.say("pay both")
        results = [frame["content"] for frame in frames if frame["type"] == "TOOL_CALL_RESULT"]
        assert sorted(results) == ["paid a", "paid b"]
        reloaded = FrontEnd(desk.ann, "trip")
        await reloaded.join()
        assert sorted(reloaded.texts()) == sorted(front.texts())


async def test_a_question_is_an_interrupt_with_its_answers() -> None:
    asking = say(calls=[call("ask_user", {"question": "Which?", "options": ["red", "blue"]})])
    async with open_desk(SessionSpec(model=ScriptedModel([asking, "Fine."]), tools=[ask_user])) as desk:
        front = FrontEnd(desk.ann, "trip")
        await front.say("choose")
        (interrupt,) = front.interrupts
        assert (interrupt["reason"], interrupt["message"]) == ("input_required", "Which?")
        assert interrupt["responseSchema"]["properties"]["answer"]["enum"] == ["red", "blue"]
        await front.answer({"answer": "blue"})
        assert front.texts()[2:] == [("tool", "blue"), ("assistant", "Fine.")]


async def test_the_turn_of_another_client_is_shown_before_ones_own() -> None:
    gate = threading.Event()

    @tool
    def look() -> str:
        """Look."""
        gate.wait(within(20))
        return "seen"

    script: list[Element] = [say(calls=[call("look")]), "one two three", "mine"]
    async with open_desk(SessionSpec(model=ScriptedModel(script), tools=[look])) as desk:
        other = FrontEnd(desk.ann, "trip")
        front = FrontEnd(desk.ann, "trip")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other.say, "theirs")
            await until(desk, lambda status: status["phase"] == "executing_tools")
            nursery.start_soon(front.say, "ours")
            await until(desk, lambda status: status["queued"] == 1)
            gate.set()
        texts = [("assistant", ""), ("tool", "seen"), ("assistant", "one two three")]
        assert front.texts() == [
            ("user", "theirs"),
            *texts[:1],
            ("tool", "seen"),
            ("user", "ours"),
            *texts[2:],
            ("assistant", "mine"),
        ]
        assert other.texts() == [("user", "theirs"), *texts]


async def test_what_others_say_in_the_middle_of_a_run_is_shown() -> None:
    script: list[Element] = [say(calls=[call("wait")]), "Blue, then."]
    async with open_desk(SessionSpec(model=ScriptedModel(script), tools=[wait])) as desk:
        front = FrontEnd(desk.ann, "trip")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(front.say, "paint")
            await until(desk, lambda status: status["phase"] in {"streaming", "executing_tools"})
            assert (await desk.ann.post("/v1/sessions/trip/steer", json={"text": "in blue"})).status_code == 202
        assert ("user", "in blue") in front.texts()
        assert front.texts()[-1] == ("assistant", "Blue, then.")
        assert [role for role, _ in front.texts()].count("tool") == 1


async def test_a_turn_that_is_stopped_is_cancelled_and_a_failed_one_an_error() -> None:
    async with open_desk(scripted(ENDLESS, permanent("no such model"))) as desk:
        front = FrontEnd(desk.ann, "trip")
        heard = list[list[Frame]]()

        async def listen() -> None:
            heard.append(await front.say("go"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await until(desk, lambda status: status["phase"] in {"streaming", "executing_tools"})
            assert (await desk.ann.post("/v1/sessions/trip/abort", json={})).status_code == 204
        assert heard[0][-1]["outcome"] == {"type": "cancelled"}
        frames = await front.say("again")
        assert frames[-1]["type"] == "RUN_ERROR"
        assert (frames[-1]["code"], "no such model" in frames[-1]["message"]) == ("provider_error", True)


@pytest.mark.parametrize("way", ["stop", "delete"])
async def test_a_session_that_ends_ends_the_run(way: str) -> None:
    async with open_desk(scripted(ENDLESS)) as desk:
        front = FrontEnd(desk.ann, "trip")
        heard = list[list[Frame]]()

        async def listen() -> None:
            heard.append(await front.say("go"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            await until(desk, lambda status: status["phase"] in {"streaming", "executing_tools"})
            if way == "stop":
                await desk.ann.post("/v1/sessions/trip/stop", json={})
            else:
                assert (await desk.clients["boss"].delete("/v1/sessions/ann.trip")).is_success
        last = heard[0][-1]
        # of a session that is deleted, the records with the end of its turn may be gone already
        assert last.get("outcome") == {"type": "cancelled"} or (way, last.get("code")) == ("delete", "UnknownSession")


async def test_a_command_is_answered_as_a_run() -> None:
    async with open_desk(scripted("Yes."), [SlashCommands()]) as desk:
        front = FrontEnd(desk.ann, "trip")
        await front.say("hello")
        frames = await front.say("/help")
        assert kinds(frames)[-1] == "RUN_FINISHED"
        assert "/status" in front.texts()[-1][1]
        response = await desk.ann.post(
            "/v1/ag-ui", json=front.input(messages=[{**front.messages[0], "id": "x", "content": "/nothing"}])
        )
        assert response.status_code == 404


async def until(desk: Desk, is_so: Callable[[dict[str, Any]], bool]) -> None:
    """Wait until *is_so* is true of the status of the session."""
    with trio.fail_after(within(20)):
        while True:
            response = await desk.ann.get("/v1/sessions/trip")
            if response.is_success and response.json()["status"] and is_so(response.json()["status"]):
                return
            await trio.sleep(0.005)
