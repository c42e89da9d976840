"""What the protocol asks of every exchange, whatever it is about."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest

from agentrail.cli.acp.rpc_messages import RpcError, RpcId
from tests.cli.acp.editor import OURS, Editor, Message, editor, text, validator

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


async def turn(connected: Editor, session: str, content: str, **params: object) -> None:
    """Send a prompt, approve what it asks for, and wait for the end of its turn."""
    prompt = connected.ask("session/prompt", sessionId=session, prompt=text(content), **params)
    if content.startswith("write"):
        connected.choose(await connected.request(), "allow_once")
    await end_of_turn(connected, prompt)


async def end_of_turn(connected: Editor, prompt: int) -> str:
    return str((await connected.answer(prompt))["stopReason"])


async def test_the_agent_says_who_it_is(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        result = await connected.begin()
        assert result["protocolVersion"] == 1
        who = cast("Message", result["agentInfo"])
        assert who["name"] == "agentrail"
        assert who["version"]


@pytest.mark.parametrize("request_id", [1, 0, -7, 2**53, "a", "1", "ü 🍵", "a\nb", ""])
async def test_an_answer_has_the_id_of_its_request(tmp_path: Path, request_id: RpcId) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        connected.forget()
        for method in ("session/list", "session/jump"):
            connected.send(id=request_id, method=method, params={})
            answer = await connected.wait_for(lambda message: "method" not in message)
            assert answer["id"] == request_id
            assert type(answer["id"]) is type(request_id)
            assert ("result" in answer) == (method == "session/list")
            assert ("error" in answer) == (method == "session/jump")
            error = cast("Message", answer.get("error", {"code": 0, "message": ""}))
            assert isinstance(error["code"], int)
            assert isinstance(error["message"], str)
        connected.forget()


@pytest.mark.long
async def test_a_notification_is_never_answered(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        for method in ("_kit/news", "$/news", "session/jump", "session/list"):
            connected.tell(method, what="tea")
        for params in ({"sessionId": session}, {"sessionId": session, "_meta": TRACE}, {"sessionId": "nobody"}, {}):
            connected.tell("session/cancel", **params)
        await connected.call("session/list")
        answers = [message for message in connected.messages if "method" not in message]
        assert len(answers) == 3  # to `initialize`, `session/new` and `session/list`
        await turn(connected, session, "Who are you?")


async def test_each_session_has_its_own_id_and_is_in_the_list_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        sessions = [await connected.open(tmp_path) for _ in range(2)]
        assert all(sessions)
        assert len(set(sessions)) == 2
        listed = cast("list[Message]", (await connected.call("session/list"))["sessions"])
        assert {row["sessionId"] for row in listed} == set(sessions)
        assert {row["cwd"] for row in listed} == {str(tmp_path)}
        assert await connected.call("session/list", cwd=str(tmp_path / "other")) == {"sessions": []}
        assert await connected.call("session/list", cwd="/nowhere/at/all") == {"sessions": []}


async def test_the_current_value_is_one_of_the_choices(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        result = await connected.call("session/new", cwd=str(tmp_path), mcpServers=[])
        options = cast("list[Message]", result["configOptions"])
        assert {option["type"] for option in options} == {"select"}  # none is a boolean, for which an editor must ask
        for option in options:
            assert option["currentValue"] in [choice["value"] for choice in cast("list[Message]", option["options"])]
        modes = cast("Message", result["modes"])
        assert modes["currentModeId"] in [mode["id"] for mode in cast("list[Message]", modes["availableModes"])]


@pytest.mark.long
async def test_an_editor_that_offers_nothing_is_asked_for_permissions_alone(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        await turn(connected, session, "write hello to a.txt")
        methods = {message["method"] for message in connected.messages if "method" in message}
        assert methods == {"session/update", "session/request_permission"}
        session_ids = {
            cast("Message", message["params"])["sessionId"] for message in connected.messages if "params" in message
        }
        assert session_ids == {session}


@pytest.mark.campaign
@pytest.mark.long
async def test_a_prompt_may_have_metadata(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        await turn(connected, await connected.open(tmp_path), "Who are you?", _meta={**TRACE, "kit": [1]})


@pytest.mark.campaign
@pytest.mark.long
async def test_nothing_of_a_cancelled_turn_comes_after_its_end(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        prompt = connected.prompt(session, "count to 3000")
        await connected.update("tool_call_update", status="in_progress")
        connected.tell("session/cancel", sessionId=session)
        assert await end_of_turn(connected, prompt) == "cancelled"
        await no_more_updates(connected, session)


@pytest.mark.campaign
@pytest.mark.long
async def test_what_is_past_comes_before_the_answer(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        await turn(connected, session, "write hello to a.txt")
        connected.forget()
        where: Message = {"sessionId": session, "cwd": str(tmp_path)}
        result = await connected.call("session/load", **where, mcpServers=[])
        assert result["configOptions"]
        assert any("message" in str(update["sessionUpdate"]) for update in connected.updates)
        await no_more_updates(connected, session)


@pytest.mark.campaign
@pytest.mark.long
async def test_the_past_is_not_told_to_who_resumes_without_it(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        await connected.begin()
        session = await connected.open(tmp_path)
        await turn(connected, session, "write hello to a.txt")
        connected.forget()
        await connected.call("session/resume", sessionId=session, cwd=str(tmp_path))
        kinds = [update["sessionUpdate"] for update in connected.updates]
        assert kinds == ["available_commands_update"]
        await no_more_updates(connected, session)


async def no_more_updates(connected: Editor, session: str) -> None:
    """Check that the next thing that the editor gets of a session is of its next turn."""
    start = len(connected.messages)
    await connected.call("session/list")
    await turn(connected, session, "Who are you?")
    first = next(message for message in connected.messages[start:] if "method" in message)
    update = cast("Message", cast("Message", first["params"])["update"])
    assert update["sessionUpdate"] in {"agent_thought_chunk", "agent_message_chunk"}


@pytest.mark.long
async def test_no_message_has_fields_that_the_protocol_does_not_know(tmp_path: Path) -> None:
    async with editor(tmp_path / "j.db") as connected:
        start = await connected.begin()
        first = await connected.call("session/new", cwd=str(tmp_path), mcpServers=[])
        session = str(first["sessionId"])
        await turn(connected, session, "write hello to a.txt")
        where = {"sessionId": session, "cwd": str(tmp_path)}
        resumed = await connected.call("session/resume", **where)
        listed = await connected.call("session/list")
        results = {
            "InitializeResponse": start,
            "NewSessionResponse": first,
            "ResumeSessionResponse": resumed,
            "ListSessionsResponse": listed,
            "AgentCapabilities": start["agentCapabilities"],
        }
        for name, result in results.items():
            validator(name, is_closed=True).validate(result)
        for message in connected.messages:
            if "method" in message:
                method, params = str(message["method"]), cast("Message", message["params"])
                validator(OURS[method], is_closed=True).validate(params)
                if method == "session/update":
                    validator("SessionUpdate", is_closed=True).validate(params["update"])


def test_an_error_is_told_in_one_line() -> None:
    fields = RpcError(-1, "no tea:\n  it is out\r\n", {"all": "a\nb"}).fields
    assert isinstance(fields, Mapping)
    assert fields == {"code": -1, "message": "no tea: it is out", "data": {"all": "a\nb"}}
