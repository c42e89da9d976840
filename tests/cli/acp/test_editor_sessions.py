"""An editor talks to sessions: turns, cancellations, permissions, replays; over real pipes and a real shared host."""

import json
from pathlib import Path
from random import Random
from typing import cast

import pytest

from agentrail.cli.agents.agent_source import AgentSource
from agentrail.events import AgentStart
from agentrail.journals import SqliteJournal
from tests.cli.acp.editor import Editor, Message, RefusedError, editor, text
from tests.kit import AbortSent

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="  # an image


async def ended(connected: Editor, request_id: int) -> str:
    """Return the stop reason of the turn of a prompt."""
    return str((await connected.answer(request_id))["stopReason"])


@pytest.mark.long
async def test_a_prompt_is_answered(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        assert await ended(connected, connected.prompt(session, "Who are you?")) == "end_turn"
        assert connected.agent_text().startswith("I am the built-in demo model")
        echoes = [update for update in connected.updates if str(update["sessionUpdate"]).startswith("user_message")]
        assert echoes == []  # the editor shows it itself
        connected.check()


@pytest.mark.long
@pytest.mark.parametrize(
    ("option", "is_there", "status"), [("allow_once", True, "completed"), ("reject_once", False, "failed")]
)
async def test_a_held_call_is_asked_about(tmp_path: Path, option: str, is_there: bool, status: str) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "write hello to a.txt")
        request = await connected.request()
        params_text = json.dumps(request["params"])
        assert "`write_file` wants to run with" in params_text  # the rule that asks, in words
        options = request["params"]["options"]  # type: ignore[index]
        assert [option["kind"] for option in options] == ["allow_once", "allow_always", "reject_once"]
        connected.choose(request, option)
        assert await ended(connected, prompt) == "end_turn"
        assert (tmp_path / "a.txt").exists() is is_there
        assert [update["status"] for update in connected.updates if "status" in update][-1] == status


@pytest.mark.long
async def test_what_is_approved_for_always_is_not_asked_again(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "write hello to a.txt")
        connected.choose(await connected.request(), "allow_always")
        await connected.answer(prompt)
        await connected.answer(connected.prompt(session, "write hello to b.txt"))
        assert (tmp_path / "b.txt").exists()


def diffs(request: Message) -> list[tuple[object, object]]:
    """Return the old and new texts that a permission request shows."""
    content = request["params"]["toolCall"]["content"]  # type: ignore[index]
    return [(part["oldText"], part["newText"]) for part in content if part["type"] == "diff"]


@pytest.mark.long
async def test_a_file_that_is_there_is_shown_whole_and_changed_only_as_it_was_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    async with editor(tmp_path.with_suffix(".db")) as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "replace two with 2 in a.txt")
        request = await connected.request()
        assert diffs(request) == [("one\ntwo\n", "one\n2\n")]
        connected.choose(request, "allow_once")
        await connected.answer(prompt)
        prompt = connected.prompt(session, "write hello to a.txt")
        request = await connected.request()
        assert diffs(request) == [("one\n2\n", "hello")]
        file.write_text("three\n")
        connected.choose(request, "allow_once")
        request = await connected.request()
        assert diffs(request) == [("three\n", "hello")]
        assert file.read_text() == "three\n"
        connected.choose(request, "allow_once")
        await connected.answer(prompt)
        assert file.read_text() == "hello"
        assert "The file has changed since it was shown" in connected.agent_text()


@pytest.mark.long
async def test_a_call_that_is_decided_elsewhere_is_not_asked_about_any_more(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "write hello to a.txt")
        request = await connected.request()
        elsewhere = connected.supervisor.session(session)
        (call,) = (await elsewhere.status()).held
        await elsewhere.approve(call.id)
        withdrawn = await connected.wait_for(lambda message: message.get("method") == "$/cancel_request")
        assert withdrawn["params"] == {"requestId": request["id"]}
        connected.send(id=request["id"], error={"code": -32800, "message": "cancelled"})  # as the protocol wants it
        assert await ended(connected, prompt) == "end_turn"
        assert (tmp_path / "a.txt").read_text() == "hello"


@pytest.mark.long
async def test_a_call_whose_question_is_dismissed_is_rejected(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "write hello to a.txt")
        request = await connected.request()
        connected.send(id=request["id"], result={"outcome": {"outcome": "cancelled"}})
        assert await ended(connected, prompt) == "end_turn"
        assert "the person has not decided" in connected.agent_text()


# Cancellation


@pytest.mark.long
async def test_a_cancellation_stops_the_open_turn(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "count to 3000")
        await connected.update("tool_call_update", status="in_progress")
        connected.tell("session/cancel", sessionId=session)
        assert await ended(connected, prompt) == "cancelled"
        assert [update["status"] for update in connected.updates if "status" in update][-1] == "failed"


@pytest.mark.campaign
@pytest.mark.long
async def test_a_late_cancellation_does_not_hit_the_next_prompt(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        assert await ended(connected, connected.prompt(session, "hello")) == "end_turn"
        connected.tell("session/cancel", sessionId=session)
        assert await ended(connected, connected.prompt(session, "hello")) == "end_turn"


@pytest.mark.long
async def test_a_cancellation_names_the_turn_so_that_it_never_hits_one_that_another_client_begins(
    tmp_path: Path,
) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "count to 3000")
        await connected.update("tool_call_update", status="in_progress")
        connected.tell("session/cancel", sessionId=session)
        assert await ended(connected, prompt) == "cancelled"
    journal = SqliteJournal(tmp_path / "j.db")
    (stored,) = await journal.sessions()
    records = await journal.read(stored.session_id)
    await journal.close()
    aborts = [record.arrival.input for record in records if isinstance(record.arrival.input, AbortSent)]
    turns = [
        envelope.event.ref for record in records for envelope in record.events if isinstance(envelope.event, AgentStart)
    ]
    assert [abort.turn for abort in aborts] == turns


@pytest.mark.campaign
@pytest.mark.long
async def test_a_cancellation_counts_for_the_prompts_before_it_alone(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        first, second = connected.prompt(session, "count to 3000"), connected.prompt(session, "count to 3000")
        connected.tell("session/cancel", sessionId=session)
        third = connected.prompt(session, "Who are you?")
        assert [await ended(connected, prompt) for prompt in (first, second, third)] == [
            "cancelled",
            "cancelled",
            "end_turn",
        ]


@pytest.mark.long
async def test_one_prompt_of_two_is_taken_back(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        first = connected.prompt(session, "write hello to a.txt")
        request = await connected.request()
        second = connected.prompt(session, "count to 3000")
        connected.tell("$/cancel_request", requestId=second)
        assert await ended(connected, second) == "cancelled"
        connected.choose(request, "allow_once")
        assert await ended(connected, first) == "end_turn"


@pytest.mark.long
async def test_a_cancellation_while_a_person_is_asked_ends_the_turn(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "write hello to a.txt")
        request = await connected.request()
        connected.tell("session/cancel", sessionId=session)
        connected.send(id=request["id"], result={"outcome": {"outcome": "cancelled"}})
        assert await ended(connected, prompt) == "cancelled"
        assert not (tmp_path / "a.txt").exists()


# Several prompts, steering


@pytest.mark.campaign
@pytest.mark.long
async def test_a_prompt_during_a_turn_waits_for_its_end(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        first, second = connected.prompt(session, "count to 1"), connected.prompt(session, "Who are you?")
        assert await ended(connected, first) == "end_turn"
        assert await ended(connected, second) == "end_turn"
        assert "I am the built-in demo model" in connected.agent_text()


@pytest.mark.campaign
@pytest.mark.long
async def test_steering_reaches_the_open_turn(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "count to 3000")
        await connected.update("tool_call_update", status="in_progress")
        assert "ref" in await connected.call("_agentrail/steer", sessionId=session, text="Who are you?")
        assert await ended(connected, prompt) == "end_turn"
        ends = [update for update in connected.updates if update.get("status") == "failed"]
        assert "the user has said something new" in json.dumps(ends)


async def test_the_context_is_compacted_by_a_command(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        assert await ended(connected, connected.prompt(session, "/compact it is long")) == "end_turn"


# Going on


async def conversation(connected: Editor, folder: Path) -> str:
    session = await connected.open(folder)
    prompt = connected.prompt(session, "write hello to a.txt")
    connected.choose(await connected.request(), "allow_once")
    await ended(connected, prompt)
    return session


@pytest.mark.long
async def test_a_session_is_loaded_with_its_past(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await conversation(connected, tmp_path)
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        listed = (await connected.call("session/list", cwd=str(tmp_path)))["sessions"]
        assert [(row["sessionId"], row["title"]) for row in listed] == [(session, "write hello to a.txt")]  # type: ignore[attr-defined]
        connected.forget()
        request = connected.ask("session/load", sessionId=session, cwd=str(tmp_path), mcpServers=[])
        await connected.answer(request)
        assert [update["sessionUpdate"] for update in connected.updates] == [
            *("user_message_chunk", "session_info_update", "agent_thought_chunk", "agent_message_chunk"),
            *("tool_call", "tool_call_update", "tool_call_update", "tool_call_update", "agent_message_chunk"),
            *("usage_update", "available_commands_update"),
        ]
        replayed = [message["params"]["_meta"]["agentrail"] for message in connected.messages[:-2]]  # type: ignore[index]
        assert all(facts["replay"] for facts in replayed)
        assert await ended(connected, connected.prompt(session, "Who are you?")) == "end_turn"


@pytest.mark.long
async def test_a_session_is_resumed_from_a_place_in_its_events(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await conversation(connected, tmp_path)
        seqs = [
            message["params"]["_meta"]["agentrail"]["seq"]  # type: ignore[index]
            for message in connected.messages
            if message.get("method") == "session/update"
        ]
        middle = next(
            message["params"]["_meta"]["agentrail"]["seq"]  # type: ignore[index]
            for message in connected.messages
            if "completed" in json.dumps(message)
        )
        assert seqs == sorted(seqs)
        connected.forget()
        where = {"agentrail": {"from": middle}}
        await connected.call("session/resume", sessionId=session, cwd=str(tmp_path), _meta=where)
        assert [update["sessionUpdate"] for update in connected.updates] == [
            *("tool_call", "tool_call_update", "agent_message_chunk", "usage_update"),
            "available_commands_update",
        ]


@pytest.mark.long
async def test_a_session_is_resumed_without_its_past_while_a_person_is_asked(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as first:
        await first.begin()
        session = await first.open(tmp_path)
        first.prompt(session, "write hello to a.txt")
        await first.request()
        async with editor(tmp_path / "j.db") as second:
            await second.begin()
            await second.call("session/resume", sessionId=session, cwd=str(tmp_path), mcpServers=[])
            second.choose(await second.request(), "allow_once")
            await first.wait_for(lambda message: message.get("method") == "$/cancel_request")
            await second.update("tool_call_update", status="completed")


@pytest.mark.long
async def test_what_another_client_does_is_seen(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        elsewhere = connected.supervisor.session(session)
        await elsewhere.ask("Who are you?")
        chunk = await connected.update("user_message_chunk")
        assert chunk["content"] == {"type": "text", "text": "Who are you?"}
        await connected.update("agent_message_chunk")


@pytest.mark.long
async def test_a_closed_session_is_stopped_and_kept(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "count to 3000")
        await connected.update("tool_call_update", status="in_progress")
        close = connected.ask("session/close", sessionId=session)
        after = connected.prompt(session, "Who are you?")
        with pytest.raises(RefusedError) as refused:
            await connected.answer(after)
        assert refused.value.code == -32002
        assert await ended(connected, prompt) == "cancelled"
        assert await connected.answer(close) == {}
        await connected.call("session/resume", sessionId=session, cwd=str(tmp_path))


async def test_a_deleted_session_is_gone(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        for _ in range(2):  # what is gone already is gone, as is wanted
            assert await connected.call("session/delete", sessionId=session) == {}
        assert await connected.call("session/list") == {"sessions": []}


@pytest.mark.long
async def test_a_session_that_is_deleted_elsewhere_refuses_what_waits_for_it(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "count to 3000")
        await connected.update("tool_call_update", status="in_progress")
        await connected.supervisor.delete(session)
        assert await ended(connected, prompt) == "cancelled"
        with pytest.raises(RefusedError):
            await connected.answer(connected.prompt(session, "hello"))


def do_something(connected: Editor, chance: Random, session: str, folder: Path) -> int | None:
    """Send something that a chance chooses; return its id if it is a request."""
    where = {"sessionId": session, "cwd": str(folder)}
    match chance.choice(("prompt", "prompt", "prompt", "cancel", "cancel", "option", "steer", "close", "resume")):
        case "prompt":
            prompts = ("hello", "count to 1", "count to 3000", "write hello to a.txt", "/compact")
            return connected.prompt(session, chance.choice(prompts))
        case "cancel":
            connected.tell("session/cancel", sessionId=session)
            return None
        case "option":
            return connected.ask("session/set_config_option", sessionId=session, configId="mode", value="edits")
        case "steer":
            return connected.ask("_agentrail/steer", sessionId=session, text="hello")
        case "close":
            return connected.ask("session/close", sessionId=session)
        case _:
            return connected.ask("session/resume", **where)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
async def test_each_request_is_answered_once_in_whatever_order_they_come(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        old_count = len(connected.messages)
        requests = [do_something(connected, chance, session, tmp_path) for _ in range(chance.randint(5, 20))]
        ids = {request for request in requests if request is not None}

        def is_over(_: Message) -> bool:
            answers = {message["id"] for message in connected.messages[old_count:] if "method" not in message}
            return ids <= answers

        while not is_over({}):
            message = await connected.wait_for(lambda message: is_over(message) or "id" in message)
            if message.get("method") == "session/request_permission":
                connected.choose(message, "reject_once")
            connected.tell("session/cancel", sessionId=session)
        answers = [message["id"] for message in connected.messages[old_count:] if "method" not in message]
        assert sorted(answers, key=str) == sorted(ids, key=str)


# Modes and models


@pytest.mark.long
async def test_a_mode_is_chosen_and_seen_by_others(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as first, editor(tmp_path / "j.db") as second:
        await first.begin()
        await second.begin()
        session = await first.open(tmp_path)
        await second.call("session/resume", sessionId=session, cwd=str(tmp_path))
        await first.call("session/set_mode", sessionId=session, modeId="edits")
        assert (await second.update("current_mode_update"))["currentModeId"] == "edits"
        await first.answer(first.prompt(session, "write hello to a.txt"))
        assert (tmp_path / "a.txt").exists()
    async with editor(tmp_path / "j.db") as third:
        await third.begin()
        result = await third.call("session/resume", sessionId=session, cwd=str(tmp_path))
        assert result["modes"]["currentModeId"] == "edits"  # type: ignore[index]


@pytest.mark.long
async def test_options_are_chosen(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        for option, value in (("mode", "yes"), ("model", "demo")):
            result = await connected.call("session/set_config_option", sessionId=session, configId=option, value=value)
            rows = {row["category"]: row["currentValue"] for row in result["configOptions"]}  # type: ignore[attr-defined]
            assert set(rows) == {"mode", "model"}
            assert rows[option] == value
        with pytest.raises(RefusedError, match="there is no mode 'plan'"):
            await connected.call("session/set_config_option", sessionId=session, configId="mode", value="plan")


# What cannot be done


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
        ("session/new", {"cwd": "/nowhere/at/all", "mcpServers": []}, -32602),
        ("session/new", {"mcpServers": []}, -32602),
        ("session/new", {"cwd": "/", "mcpServers": [], "additionalDirectories": ["/other"]}, -32602),
        ("session/load", {"sessionId": "nobody", "cwd": "/", "mcpServers": []}, -32002),
        ("session/resume", {"sessionId": "nobody", "cwd": "/"}, -32002),
        ("session/prompt", {"sessionId": "nobody", "prompt": []}, -32002),
        ("session/list", {"cursor": "x"}, -32602),
        ("session/list", {"cwd": "x"}, -32602),
        ("authenticate", {"methodId": "x"}, -32602),
        ("logout", {}, -32601),
        ("session/jump", {}, -32601),
        ("_other/thing", {}, -32601),
    ],
)
async def test_what_cannot_be_done_is_told_with_its_code(
    tmp_path: Path, method: str, params: dict[str, object], code: int
) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        with pytest.raises(RefusedError) as refused:
            await connected.call(method, **params)
        assert refused.value.code == code
        assert len(refused.value.message.splitlines()) == 1


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.parametrize(
    "prompt",
    [
        [],
        "text",
        [{"type": "audio", "data": "", "mimeType": "audio/wav"}],
        [{"type": "text"}],
        [{"type": "image", "mimeType": "image/png", "data": "not base64"}],
        [{"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": "application/zip"}}],
    ],
)
async def test_a_prompt_that_no_model_can_read_is_refused_and_the_session_goes_on(
    tmp_path: Path, prompt: object
) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        with pytest.raises(RefusedError) as refused:
            await connected.call("session/prompt", sessionId=session, prompt=prompt)
        assert refused.value.code == -32602
        assert await ended(connected, connected.prompt(session, "Who are you?")) == "end_turn"


@pytest.mark.long
async def test_a_prompt_may_have_files_and_images(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        blocks = [
            *text("Who are you? "),
            {"type": "resource_link", "name": "a.py", "uri": "file:///a.py"},
            {"type": "resource", "resource": {"uri": "file:///b.py", "text": "b = 1", "mimeType": "text/x-python"}},
            {"type": "image", "mimeType": "image/png", "data": PIXEL},
        ]
        prompt = connected.ask("session/prompt", sessionId=session, prompt=blocks)
        assert await ended(connected, prompt) == "end_turn"
        (message, *_) = await connected.supervisor.session(session).messages()
        assert message.text == (
            "Who are you? [a.py](file:///a.py)\n<resource uri='file:///b.py'>\nb = 1\n</resource>\n"
        )
        (row,) = cast("list[Message]", (await connected.call("session/list"))["sessions"])
        assert row["title"] == "Who are you? a.py", "the words of the person alone"


async def test_a_session_of_another_folder_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        await connected.call("session/close", sessionId=session)
        with pytest.raises(RefusedError, match="works in"):
            await connected.call("session/resume", sessionId=session, cwd=str(tmp_path / "other"))


def scripted(folder: Path, script: str) -> AgentSource:
    """Return an agent whose model answers by *script*, and which may ask the person."""
    file = folder / "app.py"
    file.write_text(
        "from agentrail import SessionSpec\n"
        "from agentrail.testing import ScriptedModel, call, permanent, say\n"
        "from agentrail.tools.builtin import ask_user\n"
        "from agentrail.values.messages import StopReason\n"
        f"desk = SessionSpec(model=ScriptedModel([{script}]), tools=[ask_user])\n"
    )
    return AgentSource("", str(file), "desk")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("say('cut', stop=StopReason.LENGTH)", "max_tokens"),
        ("say('no', stop=StopReason.REFUSED)", "refusal"),
        ("say('yes')", "end_turn"),
    ],
)
async def test_the_end_of_a_turn_has_its_reason(tmp_path: Path, script: str, reason: str) -> None:
    async with editor(tmp_path / "j.db", scripted(tmp_path, script)) as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        assert await ended(connected, connected.prompt(session, "hello")) == reason


ELSEWHERE = """
from agentrail import SessionSpec, tool
from agentrail.testing import ScriptedModel, call, say

@tool(elsewhere=True)
async def open_file(path: str) -> str:
    "Open a file in the editor."

calls = say(calls=[call("open_file", {"path": "a.txt"})])
desk = SessionSpec(model=ScriptedModel([calls, lambda request: request.messages[-1].text]), tools=[open_file])
"""


@pytest.mark.long
@pytest.mark.parametrize("is_error", [False, True])
async def test_a_call_that_the_editor_makes_gets_its_result(tmp_path: Path, is_error: bool) -> None:
    file = tmp_path / "app.py"
    file.write_text(ELSEWHERE)
    async with editor(tmp_path / "j.db", AgentSource("", str(file), "desk")) as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "open it")
        update = await connected.update("tool_call_update", status="in_progress")
        call_id = str(update["toolCallId"])
        with pytest.raises(RefusedError):
            await connected.call("_agentrail/result", sessionId=session, toolCallId="c99", text="?")
        result = {"sessionId": session, "toolCallId": call_id, "text": "it is open", "isError": is_error}
        assert await connected.call("_agentrail/result", **result) == {}
        assert await ended(connected, prompt) == "end_turn"
        assert connected.agent_text() == "it is open"


# Questions of tools

ASKS = "say(calls=[call('ask_user', {'question': 'Which tea?'})]), lambda request: request.messages[-1].text"
CHOOSES = (
    "say(calls=[call('ask_user', {'question': 'Which tea?', 'options': ['green', 'black']})]), "
    "lambda request: request.messages[-1].text"
)


@pytest.mark.long
async def test_a_question_with_options_is_asked_as_a_choice(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db", scripted(tmp_path, CHOOSES)) as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "hello")
        request = await connected.request()
        assert "Which tea?" in json.dumps(request["params"])
        assert [option["name"] for option in request["params"]["options"]] == ["green", "black", "None of these"]  # type: ignore[index]
        connected.choose(request, "1")
        assert await ended(connected, prompt) == "end_turn"
        assert "black" in connected.agent_text()


@pytest.mark.long
@pytest.mark.parametrize("script", [ASKS, CHOOSES])
async def test_a_question_is_asked_by_a_form_if_the_editor_has_forms(tmp_path: Path, script: str) -> None:
    async with editor(tmp_path / "j.db", scripted(tmp_path, script)) as connected:
        await connected.begin(elicitation={"form": {}})
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "hello")
        request = await connected.request("elicitation/create")
        assert request["params"]["message"] == "Which tea?"  # type: ignore[index]
        connected.send(id=request["id"], result={"action": "accept", "content": {"answer": "black"}})
        assert await ended(connected, prompt) == "end_turn"
        assert "black" in connected.agent_text()


async def test_a_question_without_options_is_answered_by_the_next_prompt(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db", scripted(tmp_path, ASKS)) as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        assert await ended(connected, connected.prompt(session, "hello")) == "end_turn"
        assert connected.agent_text() == "Which tea?"
        assert await ended(connected, connected.prompt(session, "black")) == "end_turn"
        assert connected.agent_text().startswith("Which tea?black")


async def test_a_turn_that_fails_is_told_with_its_reason(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db", scripted(tmp_path, "permanent('out of tea')")) as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        with pytest.raises(RefusedError) as refused:
            await connected.answer(connected.prompt(session, "hello"))
        assert refused.value.code == -32603
        assert "out of tea" in refused.value.message


@pytest.mark.campaign
@pytest.mark.long
async def test_what_is_allowed_and_cannot_be_read_is_an_answer_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENTRAIL_HOME", str(tmp_path / "home"))
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        server = {"name": "files", "command": "files", "args": [], "env": []}
        result = await connected.call("session/new", cwd=str(tmp_path), mcpServers=[server])
        (tmp_path / "home" / "allowed").mkdir(parents=True)
        with pytest.raises(RefusedError, match="no regular file"):
            await connected.answer(connected.prompt(str(result["sessionId"]), "hello"))
        other = await connected.open(tmp_path)
        assert await ended(connected, connected.prompt(other, "hello")) == "end_turn"


@pytest.mark.long
async def test_skills_of_the_user_are_commands_of_the_editor(tmp_path: Path) -> None:
    for name, front in (("tea", "disable-model-invocation: true"), ("milk", "user-invocable: false"), ("compact", "")):
        folder = tmp_path / ".agents" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Makes {name}.\n{front}\n---\nBoil.\n")
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        offers = await connected.wait_for(lambda message: "available_commands_update" in str(message))
        assert "'name': 'tea', 'description': 'skill: Makes tea.'" in str(offers)
        assert "milk" not in str(offers)
        assert "Makes compact" not in str(offers)
        assert await ended(connected, connected.prompt(session, "/tea green")) == "end_turn"
