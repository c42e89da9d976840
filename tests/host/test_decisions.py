"""Held calls over HTTP: what waits is listed, and decided about by those who may."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import trio

from agentrail import SessionHandle, SessionSpec, tool
from agentrail.errors import BadChoice
from agentrail.host import ApiKeys, Host, Profile
from agentrail.host.operations import session_calls
from agentrail.journals import Latest, MemoryJournal
from agentrail.models import ModelRequest, ToolMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import LINES, Desk, listening, open_desk
from tests.kit import Element
from tests.runtime.families import agent, task


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


def paying(to: str) -> Element:
    return say(calls=[call("pay", {"to": to})])


def pays(request: ModelRequest) -> Element:
    return "done" if isinstance(request.messages[-1], ToolMessage) else paying("eve")


def payer(hibernate_after: float | None = None) -> SessionSpec:
    """Return an agent that pays for each prompt, and says that it is done after each payment."""
    model = ScriptedModel([pays], repeat_last=True)
    return SessionSpec(
        model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])], hibernate_after=hibernate_after
    )


def with_helper() -> SessionSpec:
    """Return an agent whose sub-agent pays."""
    helper = agent([paying("eve"), "done"], tools=[pay], plugins=[HumanApproval(["pay"])])
    return SessionSpec(model=ScriptedModel([task("helper"), "well", "more"]), agents={"helper": helper})


async def held(client: httpx.AsyncClient, session: str) -> dict[str, Any]:
    response = await client.post("/v1/chat", json={"message": "pay", "session": session})
    assert response.status_code == 202, response.text
    (item,) = response.json()["held"]
    return dict(item)


async def waiting(client: httpx.AsyncClient, **params: str) -> dict[str, Any]:
    response = await client.get("/v1/approvals", params=params)
    assert response.status_code == 200, response.text
    return dict(response.json())


async def decide(client: httpx.AsyncClient, session: str, how: str, approval: str, key: str = "") -> httpx.Response:
    headers = {"idempotency-key": key} if key else {}
    return await client.post(f"/v1/sessions/{session}/{how}", json={"approval": approval}, headers=headers)


async def test_what_waits_is_listed_oldest_first() -> None:
    async with open_desk(payer()) as desk:
        assert await waiting(desk.ann) == {"items": [], "next": None}
        first = [await held(desk.ann, "c"), await held(desk.clients["bob"], "a"), await held(desk.ann, "b")]
        await held(desk.clients["eve"], "theirs")
        assert await waiting(desk.ann) == {"items": first, "next": None}
        assert [item["session"] for item in first] == ["ann.c", "bob.a", "ann.b"]
        assert [item["asked_by"] for item in first] == [["ann"], ["bob"], ["ann"]]
        assert [item["id"].partition(":")[0] for item in first] == ["ann.c", "bob.a", "ann.b"]
        paged: list[object] = []
        page: dict[str, Any] = {"next": ""}
        while page["next"] is not None:
            page = await waiting(desk.ann, limit="2", **({"after": page["next"]} if page["next"] else {}))
            paged += page["items"]
        assert paged == first
        assert (await decide(desk.ann, "bob.a", "reject", first[1]["id"])).status_code == 204
        assert (await waiting(desk.ann))["items"] == [first[0], first[2]]
        refused = await desk.clients["bob"].get("/v1/approvals")
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:agentrail:problem:scope-missing")
        wrong = await desk.ann.get("/v1/approvals", params={"after": "x"})
        assert (wrong.status_code, wrong.json()["type"]) == (400, "urn:agentrail:problem:bad-query")


async def test_what_waits_in_stored_sessions_is_listed_and_none_is_started() -> None:
    journal = MemoryJournal()
    async with open_desk(payer(), journal=journal) as desk:
        result = [await held(desk.ann, name) for name in ("a", "b")]
    async with open_desk(payer(), journal=journal) as desk:
        assert desk.serving.supervisor.sessions() == ()
        assert (await waiting(desk.ann))["items"] == result
        assert desk.serving.supervisor.sessions() == ()
        assert (await decide(desk.ann, "a", "approve", result[0]["id"])).status_code == 204
        assert (await waiting(desk.ann))["items"] == result[1:]


class Counting(MemoryJournal):
    """Counts how often the end of a session is read."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    async def latest(self, session_id: str, upto: int | None = None, limit: int = 1000) -> Latest:
        self.looks += 1
        return await super().latest(session_id, upto, limit)


async def test_what_waits_is_read_once_for_the_last_tenants_that_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_calls, "TENANTS", 1)
    journal = Counting()
    async with open_desk(payer(), journal=journal) as desk:
        for user in ("ann", "eve"):
            await held(desk.clients[user], "a")
    async with open_desk(payer(), journal=journal) as desk:
        reads: list[int] = []
        for user in ("ann", "ann", "eve", "eve", "ann"):
            looked = journal.looks
            assert len((await waiting(desk.clients[user]))["items"]) == 1
            reads.append(journal.looks - looked)
    assert reads == [1, 0, 1, 0, 1]


async def test_a_session_that_sleeps_stays_asleep() -> None:
    async with open_desk(payer(hibernate_after=0.01)) as desk:
        result = await held(desk.ann, "a")
        (session,) = desk.serving.supervisor.sessions()
        body = (await desk.ann.get("/v1/sessions/a")).json()
        await asleep(session)
        assert (await waiting(desk.ann))["items"] == [result]
        output = (await desk.ann.get("/v1/sessions/a")).json()
        assert (output["tools"], output["plugins"]) == (["pay"], ["HumanApproval"])
        slept = {"active": output["active"], "records": 4}  # three until the call is held, and that it sleeps
        assert output == {**body, **slept}
        items = (await desk.ann.get("/v1/sessions/a/messages")).json()["items"]
        assert [item["$"] for item in items] == ["UserMessage", "AssistantMessage"]
        assert [item["session"] for item in (await desk.ann.get("/v1/sessions")).json()["items"]] == ["ann.a"]
        assert "asleep" in repr(session)
        assert (await decide(desk.ann, "a", "approve", result["id"])).status_code == 204


async def asleep(session: SessionHandle) -> None:
    with trio.fail_after(20):
        while "asleep" not in repr(session):  # noqa: ASYNC110 - it is the session that falls asleep
            await trio.sleep(0.01)


async def test_a_call_of_a_sub_agent_is_decided_by_the_id_that_is_shown() -> None:
    async with open_desk(with_helper()) as desk:
        item = await held(desk.ann, "trip")
        assert (item["session"], item["path"][0], item["id"].startswith("ann.trip.")) == ("ann.trip", "ann.trip", True)
        assert (await waiting(desk.ann))["items"] == [item]
        async with listening(desk, "GET", "/v1/sessions/trip/events?since=0") as stream:
            text = await stream.until(lambda text: "ApprovalRequired" in text)
        assert item["id"] in text
        assert "h.acme" not in text
        for wrong in (f"h.acme.{item['id']}", "ann.other:a1", "a1", "ann.trip:"):
            refused = await decide(desk.ann, "trip", "approve", wrong)
            assert (refused.status_code, refused.json()["type"]) == (404, "urn:agentrail:problem:unknown-approval")
            assert "h.acme" not in refused.text.replace(wrong, "")
        assert (await decide(desk.ann, "trip", "approve", item["id"])).status_code == 204
        replied = await desk.ann.post("/v1/chat", json={"message": "and?", "session": "trip"})
        assert replied.json()["text"] == "more"


async def test_a_decision_about_something_else_than_what_is_held_is_refused() -> None:
    async with open_desk(payer()) as desk:
        item = await held(desk.ann, "trip")
        for how in ("approve", "reject"):
            body = {"approval": item["id"], "digest": "0" * 32}
            refused = await desk.ann.post(f"/v1/sessions/trip/{how}", json=body)
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:agentrail:problem:not-as-shown")
            assert "`pay`" in refused.json()["detail"]
        assert (await waiting(desk.ann))["items"] == [item]
        async with listening(desk, "GET", "/v1/sessions/trip/events?since=0") as stream:
            text = await stream.until(lambda text: "ApprovalRequired" in text)
        assert item["digest"] in text
        body = {"approval": item["id"], "digest": item["digest"]}
        assert (await desk.ann.post("/v1/sessions/trip/approve", json=body)).status_code == 204


async def test_an_old_item_decides_nothing_in_a_host_that_was_started_again() -> None:
    """The default: a host without a journal."""
    async with open_desk(payer()) as desk:
        old = await held(desk.ann, "trip")
    async with open_desk(payer()) as desk:
        new = await held(desk.ann, "trip")
        for how in ("approve", "reject"):
            refused = await decide(desk.ann, "trip", how, old["id"])
            assert (refused.status_code, refused.json()["type"]) == (404, "urn:agentrail:problem:unknown-approval")
        assert (await waiting(desk.ann))["items"] == [new]


# Four eyes


async def other_eyes(desk: Desk, waits: dict[str, Any], session: str = "trip", times: int = 2) -> None:
    """Check that ann, who asked, may not decide, and that boss may."""
    for how in ("approve", "reject"):
        refused = await decide(desk.ann, session, how, waits["id"])
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:agentrail:problem:own-decision")
        assert "h.acme" not in refused.text
    assert await waiting(desk.ann) == {"items": [], "next": None}
    assert await waiting(desk.clients["boss"]) == {"items": [waits], "next": None}
    for _ in range(times):
        done = await decide(desk.clients["boss"], f"ann.{session}", "approve", waits["id"], "k")
        assert done.status_code == 204, done.text
    assert await waiting(desk.clients["boss"]) == {"items": [], "next": None}


async def test_with_four_eyes_nobody_decides_about_what_they_asked_for() -> None:
    async with open_desk(payer(), four_eyes=True) as desk:
        await other_eyes(desk, await held(desk.ann, "trip"))


async def test_four_eyes_are_wanted_after_a_restart_too() -> None:
    journal = MemoryJournal()
    async with open_desk(payer(), journal=journal) as desk:
        waits = await held(desk.ann, "trip")
    async with open_desk(payer(), journal=journal, four_eyes=True) as desk:
        await other_eyes(desk, waits)


async def test_four_eyes_see_the_calls_of_sub_agents() -> None:
    async with open_desk(with_helper(), four_eyes=True) as desk:
        await other_eyes(desk, await held(desk.ann, "trip"), times=1)


async def test_with_four_eyes_nobody_takes_away_or_changes_what_holds_calls() -> None:
    for four_eyes, expected in ((True, (403, "four-eyes-wanted")), (False, (204, ""))):
        profile = Profile("desk", payer(), plugin_options={"HumanApproval": ["timeout"]})
        async with open_desk([profile], four_eyes=four_eyes) as desk:
            waits = await held(desk.ann, "trip")
            always = {"approval": waits["id"], "always": True}
            boss, plugins = desk.clients["boss"], "/v1/sessions/ann.trip/plugins"
            result = [
                await boss.post("/v1/sessions/ann.trip/approve", json=always),
                await boss.post(plugins, json={"do": "update", "plugin": "HumanApproval", "options": {"timeout": 5}}),
                await boss.post(plugins, json={"do": "detach", "plugin": "HumanApproval"}),
            ]
            report = [
                (item.status_code, item.json()["type"].rpartition(":")[2] if item.content else "") for item in result
            ]
            assert report == [expected] * 3
            assert "attach another plugin" in result[2].text or not four_eyes


def test_one_person_has_no_four_eyes() -> None:
    with pytest.raises(BadChoice, match="there is only one user"):
        Host([Profile("desk", payer())], four_eyes=True)
    Host([Profile("desk", payer())], four_eyes=True, authenticator=ApiKeys(lines=LINES))
