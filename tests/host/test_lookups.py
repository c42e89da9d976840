"""What a host asks of its journal to find one session: never a list, which grows with the journal."""

from __future__ import annotations

from collections import Counter
from typing import Final

import pytest

from agentrail import open_supervisor
from agentrail.host import HandledResponse, HostLimits, HostPlugin, PluginHost, Request
from agentrail.journals import ALL_SESSIONS, MemoryJournal, SessionFilter, StoredSession
from tests.host.hosted import LIMITS, open_desk, scripted
from tests.host.test_host import chat

LIVING: Final = SessionFilter(tenant="acme", ended=False)
"""What is listed once a second at most, to count the sessions of a tenant."""


class Counting(MemoryJournal):
    """Counts how often sessions are listed, but for the count of a tenant's, and how often one is looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter[str]()

    async def sessions(
        self, session_filter: SessionFilter = ALL_SESSIONS, after: StoredSession | None = None, limit: int = 1000
    ) -> tuple[StoredSession, ...]:
        if session_filter != LIVING:
            self.calls["sessions"] += 1
        return await super().sessions(session_filter, after, limit)

    async def summary(self, session_id: str) -> StoredSession | None:
        self.calls["summary"] += 1
        return await super().summary(session_id)


async def test_a_new_session_is_looked_up_once_by_its_name() -> None:
    journal = Counting()
    async with open_desk(scripted(*["well"] * 9), journal=journal) as desk:
        await desk.ann.get("/readyz")  # on some servers, the host looks at its journal once more when it has begun
        journal.calls.clear()
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
        assert journal.calls == {"summary": 1}
        journal.calls.clear()
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 200
        assert (await chat(desk.ann, "hi")).status_code == 200  # its id was made for it
        assert (await desk.ann.post("/v1/sessions", json={"session": "other"})).status_code == 201
        assert journal.calls == {}


@pytest.mark.parametrize(
    ("method", "path", "body", "lookups"),
    [
        ("GET", "", None, 1),
        ("GET", "/messages", None, 1),
        ("GET", "/events", None, 1),
        ("POST", "/abort", {}, 1),
        ("POST", "/prompt", {"message": "hi"}, 2),  # a plugin may have opened it between
    ],
)
async def test_one_that_is_not_there_is_never_listed(method: str, path: str, body: object, lookups: int) -> None:
    journal = Counting()
    async with open_desk(scripted(), journal=journal) as desk:
        await desk.ann.get("/readyz")  # as above
        journal.calls.clear()
        missing = await desk.ann.request(method, f"/v1/sessions/none{path}", json=body)
        assert (missing.status_code, journal.calls) == (404, {"summary": lookups})


async def test_one_that_a_program_has_begun_with_the_id_of_a_tenants_is_not_the_tenants() -> None:
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        await supervisor.spawn(scripted("well"), "h.acme.ann.trip", tenant="evil", owner="ann")
    async with open_desk(scripted("well"), journal=journal) as desk:
        missing = await desk.ann.get("/v1/sessions/none")
        response = await desk.ann.get("/v1/sessions/trip")
        assert (response.status_code, response.json()["type"]) == (404, missing.json()["type"])
        assert (await chat(desk.ann, "hi", session="trip")).status_code == 404


class Opens(HostPlugin):
    """Opens the session of a request before the request does."""

    def start(self, host: PluginHost) -> None:
        self.host = host

    async def intercept(self, request: Request) -> HandledResponse | None:
        if request.message == "open":
            body = {"session": "trip", "title": "opened"}
            assert (await self.host.call("open_session", request, body)).status == 201
        return None


async def test_one_that_a_plugin_has_opened_meanwhile_is_used() -> None:
    limits: HostLimits = LIMITS.but(sessions=1)
    async with open_desk(scripted("well"), [Opens()], limits=limits) as desk:
        assert (await chat(desk.ann, "open", session="trip")).json()["text"] == "well"
        assert (await desk.ann.get("/v1/sessions/trip")).json()["title"] == "opened"
