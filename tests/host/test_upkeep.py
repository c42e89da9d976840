"""What a program does with a session of a host as with one of its own: ask, label, queue, rest, end, sub-agents."""

from __future__ import annotations

from typing import cast

import httpx
import trio

from agentrail import Secret, SessionSpec, tool
from agentrail.host import Profile
from agentrail.journals import MemoryJournal
from agentrail.models import ToolCall
from agentrail.plugins import BudgetGuard, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import CERTIFICATES, open_desk, scripted
from tests.patience import PATIENCE

TRIP = "/v1/sessions/trip"


def task(agent: str) -> ToolCall:
    """Return a call that starts a sub-agent."""
    return call("task", {"agent": agent, "description": "look", "prompt": "go", "background": True})


async def opened(client: httpx.AsyncClient) -> None:
    assert (await client.post("/v1/sessions", json={"session": "trip"})).status_code == 201


async def sent(client: httpx.AsyncClient, what: str, **body: object) -> tuple[int, str]:
    response = await client.post(f"{TRIP}/{what}", json=body)
    return response.status_code, response.json().get("type", "").rpartition(":")[2] if response.content else ""


async def test_a_reply_has_all_that_was_said_in_its_turn() -> None:
    async with open_desk(scripted("hello")) as desk:
        missing = await desk.ann.post(f"{TRIP}/ask", json={"message": "hi"})
        assert missing.status_code == 404
        await opened(desk.ann)
        body = (await desk.ann.post(f"{TRIP}/ask", json={"message": "hi"})).json()
        assert (body["ref"], body["stop_reason"], body["fits"], body["text"]) == ("p1", "end", False, "hello")
        assert [(message["$"], message["parts"][0]["text"]) for message in body["messages"]] == [
            ("UserMessage", "hi"),
            ("AssistantMessage", "hello"),
        ]


async def test_an_answer_fits_the_schema_that_was_asked_for() -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    async with open_desk(scripted("Paris, I think", '{"city": "Paris"}', '{"city": "Rome"}')) as desk:
        await opened(desk.ann)
        body = (await desk.ann.post(f"{TRIP}/ask", json={"message": "where?", "returns": schema})).json()
        assert (body["answer"], body["fits"]) == ({"city": "Paris"}, True)
        chat = {"message": "and then?", "session": "trip", "returns": schema}
        assert (await desk.ann.post("/v1/chat", json=chat)).json()["answer"] == {"city": "Rome"}
        assert await sent(desk.ann, "ask", message="hi", returns={"type": "nothing"}) == (422, "bad-returns")


async def test_a_session_is_labelled_and_found_by_its_label() -> None:
    async with open_desk(scripted()) as desk:
        await opened(desk.ann)
        assert await sent(desk.ann, "label", add=["work", "old"], title="A trip") == (204, "")
        assert await sent(desk.ann, "label", remove=["old"]) == (204, "")
        (session,) = (await desk.ann.get("/v1/sessions", params={"label": "work"})).json()["items"]
        assert (session["title"], session["labels"], session["due"]) == ("A trip", ["work"], None)
        assert session["records"] >= 3
        assert await sent(desk.ann, "label", add=[str(index) for index in range(100)]) == (422, "too-many-labels")


async def test_prompts_of_a_suspended_session_wait_and_can_be_withdrawn() -> None:
    model = ScriptedModel([say(calls=[call("wait")]), "done", "second", "third"])
    going = trio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await going.wait()
        return "waited"

    async with open_desk(SessionSpec(model=model, tools=[wait])) as desk:
        await opened(desk.ann)
        await sent(desk.ann, "prompt", message="one")
        await sent(desk.ann, "prompt", message="two")
        await sent(desk.ann, "prompt", message="three")
        queue = (await desk.ann.get(f"{TRIP}/queue")).json()["items"]
        assert [(prompt["parts"], prompt["returns"]) for prompt in queue] == [
            ([{"$": "Text", "text": "two"}], {}),
            ([{"$": "Text", "text": "three"}], {}),
        ]
        two = queue[0]["ref"]
        assert await sent(desk.ann, "withdraw", ref=two) == (204, "")
        assert await sent(desk.ann, "withdraw", ref=two) == (404, "unknown-prompt")
        assert (await desk.ann.post(f"{TRIP}/suspend")).status_code == 204
        assert (await desk.ann.post(f"{TRIP}/resume")).status_code == 204
        going.set()
        assert (await desk.ann.post(f"{TRIP}/ask", json={"message": "four"})).json()["text"] == "third"


async def test_a_session_that_is_stopped_has_ended() -> None:
    async with open_desk(scripted("hello")) as desk:
        await opened(desk.ann)
        assert await sent(desk.ann, "stop", reason="enough") == (204, "")
        assert (await desk.ann.get(TRIP)).json()["ended"] is True
        assert await sent(desk.ann, "prompt", message="hi") == (409, "session-not-alive")


async def test_what_a_session_may_be_given_is_told() -> None:
    spec = SessionSpec(model=ScriptedModel(["one"], name="small"))
    desks = [Profile("desk", spec, models=["big"], plugins=[BudgetGuard()]), Profile("other", spec)]
    async with open_desk(desks) as desk:
        await opened(desk.ann)
        body = (await desk.ann.get(f"{TRIP}/offered")).json()
        assert body == {"models": ["big", "small"], "tools": [], "plugins": ["BudgetGuard"], "options": []}
        assert (await desk.ann.get("/v1/agents")).json() == {"items": ["desk", "other"], "next": None}


async def test_options_that_may_be_changed_are_told_with_their_values() -> None:
    spec = SessionSpec(
        model=ScriptedModel(["one"], name="small"),
        model_options={"temperature": 0.5, "api_key": Secret("KEY"), "extra": {"base_url": "https://example.org"}},
        plugins=[HumanApproval(tools=["pay*"], timeout=7.0)],
    )
    profile = Profile("desk", spec, plugin_options={"HumanApproval": ["timeout"], "BudgetGuard": ["usd"]})
    async with open_desk([profile]) as desk:
        boss = desk.clients["boss"]
        await opened(boss)
        body = (await boss.get(f"{TRIP}/offered")).json()
        timeout = {"plugin": "HumanApproval", "name": "timeout", "data": 7.0}
        assert body["options"] == [timeout, {"plugin": "", "name": "temperature", "data": 0.5}]
        assert await sent(boss, "plugins", do="update", plugin="HumanApproval", options={"timeout": 9}) == (204, "")
        assert (await boss.get(f"{TRIP}/offered")).json()["options"][0] == {**timeout, "data": 9}


async def test_a_part_of_the_records_is_blotted_out() -> None:
    async with open_desk(scripted("one", "two"), journal=MemoryJournal()) as desk:
        boss = desk.clients["boss"]
        await opened(boss)
        for message in ("first", "second"):
            await boss.post("/v1/chat", json={"message": message, "session": "trip"})
        (listed,) = (await boss.get("/v1/sessions")).json()["items"]
        last = {"redact": "true", "first": listed["records"]}
        assert (await boss.delete(TRIP, params=last)).json()["session"] == "boss.trip"
        items = (await boss.get(f"{TRIP}/messages")).json()["items"]
        assert items[0]["parts"][0]["text"] == "first"
        assert (await boss.delete(TRIP, params={"first": 2})).status_code == 400


async def test_a_sub_agent_is_listed_written_to_awaited_and_stopped() -> None:
    parent = ScriptedModel(
        [
            say(calls=[task("helper"), task("slow")]),
            "started",
        ]
    )
    never = trio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await never.wait()
        return "never"

    helper = SessionSpec(description="Finds.", model=ScriptedModel(["found it"]))
    slow = SessionSpec(description="Waits.", model=ScriptedModel([say(calls=[call("wait")])]), tools=[wait])
    async with open_desk(SessionSpec(model=parent, agents={"helper": helper, "slow": slow})) as desk:
        await opened(desk.ann)
        assert (await desk.ann.post(f"{TRIP}/ask", json={"message": "go"})).json()["text"] == "started"
        tasks = (await desk.ann.get(f"{TRIP}/tasks")).json()["items"]
        children = {task["agent"]: cast("str", task["child"]) for task in tasks}  # calls of a batch start in any order
        assert sorted(children) == ["helper", "slow"]
        first, second = children["helper"], children["slow"]
        assert first.startswith("ann.trip.")
        identities = (await desk.ann.get(f"{TRIP}/tasks/result", params={"child": first})).json()
        assert (identities["child"], identities["result"]["$"]) == (first, "Ok")
        assert identities["result"]["content"] == [{"$": "Text", "text": "found it"}]
        some = {"children": f"{first},{second}", "every": "false"}
        (ended,) = (await desk.ann.get(f"{TRIP}/tasks/results", params=some)).json()["items"]
        assert ended == identities
        none = {"children": second, "milliseconds": "0"}
        assert (await desk.ann.get(f"{TRIP}/tasks/results", params=none)).json()["items"] == []
        assert await sent(desk.ann, "tasks", child=second, text="hurry") == (204, "")
        assert await sent(desk.ann, "tasks", child=first, text="hurry") == (409, "task-done")
        assert (await desk.ann.delete(f"{TRIP}/tasks", params={"child": second})).status_code == 204
        for wrong in ("ann.trip", "bob.trip.1", "../x", "ann.trip.none"):
            identities = (await desk.ann.get(f"{TRIP}/tasks/result", params={"child": wrong})).json()
            assert identities["type"].rpartition(":")[2] == "unknown-task"
            assert f"no sub-agent `{wrong}` is known" in identities["detail"]


async def test_a_key_may_ask_whose_it_is() -> None:
    async with open_desk(scripted("one")) as desk:
        identities = [(await desk.clients[user].get("/v1/identity")).json() for user in ("ann", "root")]
        assert identities == [
            {"tenant": "acme", "user": "ann", "scopes": ["decide", "talk"]},
            {"tenant": "ops", "user": "root", "scopes": ["observe", "operate"]},
        ]
        async with httpx.AsyncClient(
            base_url=desk.serving.url, trust_env=False, verify=CERTIFICATES, timeout=PATIENCE
        ) as client:
            assert (await client.get("/v1/identity")).status_code == 401
