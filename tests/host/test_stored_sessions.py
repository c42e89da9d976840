"""Sessions that do not run: what is read of them, listed and counted; and what is sent twice."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.host import HostLimits, Profile
from agentrail.journals import MemoryJournal
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import open_desk, scripted
from tests.runtime.families import agent, tasks


async def talk(client: httpx.AsyncClient, session: str, message: str = "hi", key: str = "") -> httpx.Response:
    headers = {"idempotency-key": key} if key else {}
    return await client.post("/v1/chat", json={"message": message, "session": session}, headers=headers)


async def texts_of(client: httpx.AsyncClient, session: str) -> list[str]:
    response = await client.get(f"/v1/sessions/{session}/messages")
    assert response.status_code == 200, response.text
    return [item["parts"][0]["text"] for item in response.json()["items"]]


async def test_what_an_ended_session_said_can_be_read() -> None:
    async with open_desk(scripted("one")) as desk:
        await talk(desk.ann, "trip")
        await desk.serving.supervisor.session("h.acme.ann.trip").stop()
        assert await texts_of(desk.ann, "trip") == ["hi", "one"]
        missing = await desk.ann.get("/v1/sessions/gone/messages")
        foreign = await desk.clients["eve"].get("/v1/sessions/gone/messages")
        assert (missing.status_code, missing.content) == (404, foreign.content)


async def test_what_a_session_said_whose_profile_is_gone_can_be_read() -> None:
    journal = MemoryJournal()
    async with open_desk([Profile("old", scripted("one"))], journal=journal) as desk:
        await talk(desk.ann, "trip")
    async with open_desk([Profile("new", scripted("two"))], journal=journal) as desk:
        assert await texts_of(desk.ann, "trip") == ["hi", "one"]
        assert desk.serving.supervisor.sessions() == ()
        assert (await talk(desk.ann, "trip")).json()["type"] == "urn:agentrail:problem:spec-missing"


async def test_sub_agents_are_not_sessions_of_the_tenant() -> None:
    here, go_on = trio.Event(), trio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        here.set()
        await go_on.wait()
        return "well"

    helper = agent([say(calls=[call("wait", {})]), "done", say(calls=[call("wait", {})]), "done"], tools=[wait])
    spec = SessionSpec(model=ScriptedModel([tasks("helper", "helper"), "well"]), agents={"helper": helper})
    async with open_desk(spec, limits=HostLimits(sessions=2)) as desk:
        accepted = await desk.ann.post("/v1/sessions", json={"session": "trip"})
        assert accepted.status_code == 201
        await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "go"})
        await here.wait()
        assert (await desk.ann.post("/v1/sessions", json={"session": "other"})).status_code == 201
        refused = await desk.ann.post("/v1/sessions", json={"session": "third"})
        assert (refused.status_code, refused.json()["type"]) == (429, "urn:agentrail:problem:too-many-sessions")
        listed = (await desk.ann.get("/v1/sessions")).json()["items"]
        assert [row["session"] for row in listed] == ["ann.other", "ann.trip"]
        go_on.set()


async def test_sessions_of_others_in_the_journal_are_passed_over() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        for name in (
            "a",
            "h.acme",
            "h.acme.ann",
            "h.acme.ann.b.c",
            "h.acme.anna.x",
            "h.acme.b",
            "h.acmf.ann.x",
            "h0",
            "z",
        ):
            await supervisor.spawn(scripted("one"), name, tenant="acme", owner="ann")
    names = ["a", "b", "c", "d", "e"]
    async with open_desk(scripted("one"), journal=journal) as desk:
        for name in names:
            assert (await desk.ann.post("/v1/sessions", json={"session": name})).status_code == 201
        for limit in ("1", "2", "5", "100"):
            texts: list[str] = []
            page: dict[str, Any] = {"next": ""}
            while page["next"] is not None:
                params = {"limit": limit, **({"after": page["next"]} if page["next"] else {})}
                page = (await desk.ann.get("/v1/sessions", params=params)).json()
                texts += [item["session"] for item in page["items"]]
            assert texts == [f"ann.{name}" for name in names]


# What is sent twice


async def test_a_session_that_is_opened_twice_by_one_key_is_there_once() -> None:
    journal = MemoryJournal()
    body = {"session": "trip", "title": "Trip", "labels": ["b", "a"]}
    for _ in range(2):
        async with open_desk(scripted("one"), journal=journal) as desk:
            for _ in range(2):
                responses = await desk.ann.post("/v1/sessions", json=body, headers={"idempotency-key": "k1"})
                assert (responses.status_code, responses.json()) == (201, {"session": "ann.trip"})
                assert responses.headers["location"] == "/v1/sessions/ann.trip"
            others = [({**body, "title": "Other"}, "k1"), (body, "k2")]
            for other, key in others:
                refused = await desk.ann.post("/v1/sessions", json=other, headers={"idempotency-key": key})
                assert refused.status_code == 409
            unnamed = [await desk.ann.post("/v1/sessions", json={}, headers={"idempotency-key": "k3"}) for _ in "ab"]
            assert unnamed[0].json() == unnamed[1].json()
            assert {response.status_code for response in unnamed} == {201}


async def test_a_fork_that_is_made_twice_by_one_key_is_there_once() -> None:
    async with open_desk(scripted("one")) as desk:
        await talk(desk.ann, "trip")
        for _ in range(2):
            response = await desk.ann.post(
                "/v1/sessions/trip/fork", json={"session": "copy"}, headers={"idempotency-key": "k1"}
            )
            assert (response.status_code, response.json()) == (201, {"session": "ann.copy"})
        assert await texts_of(desk.ann, "copy") == ["hi", "one"]
        refused = await desk.ann.post("/v1/sessions/trip/fork", json={"session": "copy"})
        assert refused.status_code == 409


async def test_with_a_session_its_keys_are_erased() -> None:
    """What is deleted leaves nothing behind, so a key that was used in it is new: what it is sent with runs again."""
    async with open_desk(scripted("one", "two")) as desk:
        eve = desk.clients["eve"]
        first = [(await talk(eve, "trip", key="k1")).json() for _ in range(2)]
        assert [message["text"] for message in first] == ["one", "one"]
        assert (await eve.delete("/v1/sessions/trip")).status_code == 200
        assert (await talk(eve, "trip", key="k1")).json()["text"] == "two"


async def test_who_erases_is_told_to_the_audit_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "agentrail.audit")
    async with open_desk(scripted("one")) as desk:
        boss = desk.clients["boss"]
        await talk(desk.ann, "trip")
        assert (await boss.delete("/v1/sessions/ann.trip", params={"redact": ""})).json()["records"] == 4
        assert (await boss.delete("/v1/sessions/ann.trip")).status_code == 200
        assert (await boss.delete("/v1/sessions/ann.trip")).status_code == 404
        assert (await desk.ann.delete("/v1/sessions/ann.trip")).status_code == 403
    assert [record.getMessage() for record in caplog.records if record.name == "agentrail.audit"] == [
        "the session `h.acme.ann.trip` was redacted (4 records) by `boss`",
        "the session `h.acme.ann.trip` was deleted by `boss`",
    ]
