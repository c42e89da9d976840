"""A host makes what tools depend on for the tenant and owner of each session, and anew for one that comes back."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

from agentrail import DepsWanted, SessionSpec, tool
from agentrail.host import Profile, RequestContext
from agentrail.journals import SqliteJournal
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext
from tests.host.hosted import Desk, open_desk


@frozen
class Client:
    """Stands for a client of one customer, on one host."""

    customer: str
    host: int


@tool
async def look(ctx: ToolContext[Client]) -> str:  # noqa: ASYNC124 - a tool is async
    """Tell of the client."""
    return f"{ctx.deps.customer} on host {ctx.deps.host}"


def profile(host: int, wanted_specs: list[DepsWanted]) -> Profile:
    """Return the profile of host number *host*, which notes in *wanted_specs* for which sessions clients are made."""

    def connect(session: DepsWanted) -> Client:
        wanted_specs.append(session)
        return Client(f"{session.tenant}/{session.owner}", host)

    def build(_: RequestContext) -> SessionSpec:
        return SessionSpec(model=ScriptedModel([say(calls=[call("look")]), "Done."]), tools=[look], deps=connect)

    return Profile("desk", build)


async def messages_after_ask(desk: Desk, user: str) -> str:
    """Ask in the session of *user*, and return the messages of the session."""
    client = desk.clients[user]
    assert (await client.post("/v1/sessions/trip/ask", json={"message": "Go."})).status_code == 200
    return (await client.get("/v1/sessions/trip/messages")).text


async def test_each_session_gets_its_own_and_gets_it_anew_on_another_host(tmp_path: Path) -> None:
    wanted_specs: list[DepsWanted] = []
    for host in (1, 2):
        async with open_desk([profile(host, wanted_specs)], journal=SqliteJournal(tmp_path / "kept.db")) as desk:
            for user, customer in (("ann", "acme/ann"), ("eve", "evil/ann")):
                if host == 1:
                    created = await desk.clients[user].post("/v1/sessions", json={"session": "trip"})
                    assert created.status_code == 201
                assert f"{customer} on host {host}" in await messages_after_ask(desk, user)
    assert [session.name for session in wanted_specs] == ["desk"] * 4
