"""One recorded conversation of version 2 in which all of it happens, and what the protocol's test kit wants of it.

The ids are those of the kit; `test_requirements` has all of them.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final, cast

import pytest

from tests.cli.acp.editor import Editor, Message, RefusedError, editor, text, validator

pytestmark = pytest.mark.long

Facts = dict[str, "object"]
Check = Callable[[Facts], bool]


async def failure(connected: Editor, method: str, **params: object) -> Message:
    """Return the error with which a request fails."""
    with pytest.raises(RefusedError) as refused:
        await connected.call(method, **params)
    return cast("Message", refused.value.args[0])


async def recorded(folder: Path) -> Facts:
    """Have a conversation in which all of it happens."""
    facts: Facts = {"folder": str(folder), "other": str(folder / "other")}
    (folder / "other").mkdir()
    async with editor(folder / "j.db") as connected:
        await connect(connected, facts)
        session = str(at(facts, "new", "sessionId"))
        facts["session"] = session
        await take_turns(connected, facts, session)
        await go_on(connected, facts, session)
        facts["all"] = list(connected.messages)
        connected.check()
    return facts


async def connect(connected: Editor, facts: Facts) -> None:
    facts["downgrade"] = await connected.begin(1)
    connected.forget()
    facts["too new"] = await connected.call("initialize", protocolVersion=65535)
    facts["initialize"] = await connected.begin(2)
    connected.write(b"[]")
    facts["empty batch"] = await connected.wait_for(lambda message: "error" in message)
    facts["unknown method"] = await failure(connected, "session/jump")
    facts["extension"] = await failure(connected, "_other/thing")
    facts["new"] = await connected.call("session/new", cwd=facts["folder"])
    facts["new too"] = await connected.call("session/new", cwd=facts["other"], mcpServers=[])


async def take_turns(connected: Editor, facts: Facts, session: str) -> None:
    start = len(connected.messages)
    blocks = [*text("write hello to a.txt"), {"type": "resource_link", "name": "a", "uri": "file:///a"}]
    prompt = connected.ask("session/prompt", sessionId=session, prompt=blocks, _meta={"kit": 1})
    request = await connected.request()
    facts["permission"] = request["params"]
    connected.choose(request, "allow_once")
    await connected.update("state_update", state="idle")
    facts["prompt"], facts["turn"] = await connected.answer(prompt), connected.messages[start:]
    start = len(connected.messages)
    prompt = connected.prompt(session, "write hello to b.txt")
    connected.send(id=(await connected.request())["id"], result={"outcome": {"outcome": "_kit"}})
    await connected.update("state_update", state="idle")
    facts["prompt too"] = await connected.answer(prompt)
    facts["turn with an unknown outcome"] = connected.messages[start:]
    start = len(connected.messages)
    connected.prompt(session, "count to 3000")
    await connected.update("tool_call_update", status="in_progress")
    connected.tell("session/cancel", sessionId=session, _meta={})
    await connected.update("state_update", state="idle")
    choice = {"configId": "mode", "type": "id", "value": "edits"}
    facts["option"] = await connected.call("session/set_config_option", sessionId=session, **choice)
    facts["cancelled"] = connected.messages[start:]


async def go_on(connected: Editor, facts: Facts, session: str) -> None:
    facts["list"] = await connected.call("session/list")
    facts["list of a folder"] = await connected.call("session/list", cwd=facts["other"])
    facts["list of nothing"] = await connected.call("session/list", cwd="/nowhere/at/all")
    where = {"sessionId": session, "cwd": facts["folder"]}
    start = len(connected.messages)
    facts["resume"] = await connected.call("session/resume", **where)
    facts["resumed"] = connected.messages[start:]
    start = len(connected.messages)
    await connected.call("session/resume", **where, replayFrom={"type": "start"})
    facts["replayed"] = connected.messages[start:]
    facts["unknown cursor"] = await failure(connected, "session/resume", **where, replayFrom={"type": "end"})
    start = len(connected.messages)
    connected.prompt(session, "count to 3000")
    await connected.update("tool_call_update", status="in_progress")
    facts["close"] = await connected.call("session/close", sessionId=session)
    facts["closed"] = connected.messages[start:]
    facts["delete"] = [await connected.call("session/delete", sessionId=session) for _ in range(2)]
    facts["list without it"] = await connected.call("session/list")


def updates(facts: Facts, name: str = "all") -> list[Message]:
    messages = cast("list[Message]", facts[name])
    return [
        cast("Message", message["params"])["update"]  # type: ignore[misc]
        for message in messages
        if message.get("method") == "session/update"
    ]


def states(facts: Facts, name: str) -> list[tuple[object, object]]:
    return [
        (update["state"], update.get("stopReason"))
        for update in updates(facts, name)
        if update["sessionUpdate"] == "state_update"
    ]


def at(facts: Facts, *path: str | int) -> object:
    value: object = facts
    for key in path:
        value = value[key]  # type: ignore[index]
    return value


def options(facts: Facts, *path: str) -> dict[object, Message]:
    return {row["configId"]: row for row in cast("list[Message]", at(facts, *path, "configOptions"))}


def is_choice(row: Message) -> bool:
    return row["type"] == "select" and row["currentValue"] in [
        choice["value"] for choice in cast("list[Message]", row["options"])
    ]


def sent_methods(facts: Facts) -> set[object]:
    return {message["method"] for message in cast("list[Message]", facts["all"]) if "method" in message}


def rows(facts: Facts, name: str) -> list[Message]:
    return cast("list[Message]", at(facts, name, "sessions"))


def first_of_each_call(facts: Facts) -> list[Message]:
    calls: dict[object, Message] = {}
    for update in updates(facts):
        if update["sessionUpdate"] == "tool_call_update":
            calls.setdefault(update["toolCallId"], update)
    return list(calls.values())


STATUSES: Final = {"pending", "in_progress", "paused", "completed", "failed", "cancelled", None}
KINDS: Final = {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other", None}

KINDS_OF_UPDATES: Final = {
    *("user_message", "agent_message", "agent_message_chunk", "agent_thought", "agent_thought_chunk"),
    *("state_update", "tool_call_update", "session_info_update", "config_option_update", "usage_update", "notice"),
}

REQUIREMENTS: Final[dict[str, Check]] = {
    "ACP-INIT-001": lambda facts: isinstance(facts["initialize"], dict),
    "ACP-INIT-201": lambda facts: at(facts, "initialize", "protocolVersion") == 2,
    "ACP-INIT-003": lambda facts: at(facts, "too new", "protocolVersion") == 2,
    "ACP-INIT-202": lambda facts: at(facts, "downgrade", "protocolVersion") == 1,
    "ACP-INIT-203": lambda facts: (
        bool(at(facts, "initialize", "info", "name")) and bool(at(facts, "initialize", "info", "version"))
    ),
    "ACP-INIT-204": lambda facts: "true" not in json.dumps(at(facts, "initialize", "capabilities")),
    "ACP-SESSION-001": lambda facts: bool(at(facts, "new", "sessionId")),
    "ACP-SESSION-002": lambda facts: at(facts, "new", "sessionId") != at(facts, "new too", "sessionId"),
    "ACP-SESSION-203": lambda facts: bool(facts["new"]) and bool(facts["new too"]),
    "ACP-PROMPT-201": lambda facts: set(cast("Message", facts["prompt"])) == {"messageId"},
    "ACP-PROMPT-203": lambda facts: (
        at(facts, "prompt", "messageId")
        in [update["messageId"] for update in updates(facts, "turn") if update["sessionUpdate"] == "user_message"]
    ),
    "ACP-PROMPT-205": lambda facts: (
        {
            at(message, "params", "sessionId")
            for message in cast("list[Message]", facts["turn"])
            if message.get("method") == "session/update"
        }
        == {facts["session"]}
    ),
    "ACP-PROMPT-003": lambda facts: states(facts, "turn")[-1] == ("idle", "end_turn"),
    "ACP-STATE-201": lambda facts: states(facts, "turn")[0] == ("running", None),
    "ACP-STATE-202": lambda facts: states(facts, "turn")[-1][0] == "idle",
    "ACP-STATE-203": lambda facts: states(facts, "turn")[-1][1] == "end_turn",
    "ACP-PERM-201": lambda facts: all(
        {"optionId", "name", "kind"} <= set(option)
        for option in cast("list[Message]", at(facts, "permission", "options"))
    ),
    "ACP-CLIENTCAP-201": lambda facts: "elicitation/create" not in sent_methods(facts),
    "ACP-CLIENTCAP-202": lambda facts: (
        sent_methods(facts) <= {"session/update", "session/request_permission", "$/cancel_request"}
    ),
    "ACP-CANCEL-201": lambda facts: states(facts, "cancelled")[-1] == ("idle", "cancelled"),
    "ACP-CANCEL-202": lambda facts: len([state for state in states(facts, "cancelled") if state[0] == "idle"]) == 1,
    "ACP-CANCEL-203": lambda facts: "error" not in json.dumps(facts["cancelled"]),
    "ACP-CANCEL-205": lambda facts: all(
        "method" in message or message["id"] is not None for message in cast("list[Message]", facts["cancelled"])
    ),
    "ACP-CANCEL-208": lambda facts: states(facts, "closed")[-1] == ("idle", "cancelled"),
    "ACP-TRANSPORT-201": lambda facts: (
        {message["jsonrpc"] for message in cast("list[Message]", facts["all"])} == {"2.0"}
    ),
    "ACP-JSONRPC-005": lambda facts: bool(facts["new"]),  # it comes after an empty batch and two unknown methods
    "ACP-JSONRPC-004": lambda facts: at(facts, "unknown method", "code") == -32601,
    "ACP-BATCH-201": lambda facts: (
        at(facts, "empty batch", "error", "code") == -32600 and at(facts, "empty batch", "id") is None
    ),
    "ACP-EXT-001": lambda facts: bool(at(facts, "extension", "code")),
    "ACP-RESUME-201": lambda facts: isinstance(facts["resume"], dict),
    "ACP-RESUME-202": lambda facts: "result" in at(facts, "replayed", -1),  # type: ignore[operator]
    "ACP-RESUME-203": lambda facts: (
        [update["sessionUpdate"] for update in updates(facts, "resumed")] == ["state_update"]
    ),
    "ACP-RESUME-204": lambda facts: (
        at(facts, "prompt", "messageId")
        in [update["messageId"] for update in updates(facts, "replayed") if update["sessionUpdate"] == "user_message"]
    ),
    "ACP-RESUME-205": lambda facts: "chunk" not in json.dumps(facts["replayed"]),
    "replayFrom of another type is refused": lambda facts: at(facts, "unknown cursor", "code") == -32602,
    "ACP-LIST-201": lambda facts: len(cast("list[object]", at(facts, "list", "sessions"))) == 2,
    "ACP-LIST-202": lambda facts: at(facts, "list of nothing") == {"sessions": []},
    "ACP-LIST-203": lambda facts: [row["cwd"] for row in rows(facts, "list of a folder")] == [facts["other"]],
    "ACP-LIST-204": lambda facts: all(Path(str(row["cwd"])).is_absolute() for row in rows(facts, "list")),
    "ACP-CLOSE-201": lambda facts: facts["close"] == {},
    "ACP-CLOSE-202": lambda facts: states(facts, "closed")[-1] == ("idle", "cancelled"),
    "ACP-DELETE-201": lambda facts: at(facts, "delete", 0) == {},
    "ACP-DELETE-202": lambda facts: facts["session"] not in json.dumps(facts["list without it"]),  # type: ignore[operator]
    "ACP-DELETE-203": lambda facts: at(facts, "delete", 1) == {},
    "ACP-CONFIG-201": lambda facts: all(map(is_choice, options(facts, "new").values())),
    "ACP-CONFIG-202": lambda facts: set(options(facts, "option")) == set(options(facts, "new")),
    "ACP-CONFIG-203": lambda facts: all(map(is_choice, options(facts, "resume").values())),
    "ACP-CONFIG-204": lambda facts: options(facts, "resume")["mode"]["currentValue"] == "edits",
    "ACP-CONFIG-206": lambda facts: all(
        {row["configId"] for row in cast("list[Message]", update["configOptions"])} == set(options(facts, "new"))
        for update in updates(facts)
        if update["sessionUpdate"] == "config_option_update"
    ),
    "ACP-AUTH-205": lambda facts: "authMethods" not in cast("Message", facts["initialize"]),
    "ACP-PATCH-201": lambda facts: all(
        update["messageId"] for update in updates(facts) if "message" in str(update["sessionUpdate"])
    ),
    "ACP-PATCH-203": lambda facts: at(facts, "prompt", "messageId") != at(facts, "prompt too", "messageId"),
    "ACP-PATCH-204": lambda facts: all(call["toolCallId"] for call in first_of_each_call(facts)),
    "ACP-PATCH-208": lambda facts: all(call["title"] for call in first_of_each_call(facts)),
    "ACP-PATCH-209": lambda facts: (
        [state for state, _ in states(facts, "turn")] == ["running", "requires_action", "running", "idle"]
    ),
    "ACP-ENUM-201": lambda facts: (
        {update.get("status") for update in updates(facts)} <= STATUSES
        and {update.get("kind") for update in updates(facts)} <= KINDS
    ),
    "ACP-ENUM-202": lambda facts: {update["sessionUpdate"] for update in updates(facts)} <= KINDS_OF_UPDATES,
    "ACP-ENUM-203": lambda facts: states(facts, "turn with an unknown outcome")[-1] == ("idle", "end_turn"),
    "ACP-META-001": lambda facts: bool(facts["prompt"]),
    "ACP-META-201": lambda facts: all(
        isinstance(cast("Message", message["params"]).get("_meta", {}), dict)
        for message in cast("list[Message]", facts["all"])
        if "params" in message
    ),
}


async def test_the_requirements_of_the_kit_are_met(tmp_path: Path) -> None:
    validator(2, "Error")  # skips, if the official schema is not there
    facts = await recorded(tmp_path)
    assert [name for name, is_met in REQUIREMENTS.items() if not is_met(facts)] == []
