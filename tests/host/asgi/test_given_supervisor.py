"""An app in a supervisor that the program has opened."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from fastapi import FastAPI
from trio.testing import MockClock

from agentrail import SessionSpec, aio, open_supervisor
from agentrail.errors import BadChoice, WrongType
from agentrail.host import ApiKeys, AsgiApp, Host, HostLimits, HostPlugin, Profile, TurnEnd
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.testing import say, stall
from tests.bridge.loops import Run, on_each_loop
from tests.host.asgi import test_asyncio_servers as on_asyncio
from tests.host.asgi.calling import ask, called, scope_of
from tests.host.asgi.servers import on_uvicorn
from tests.host.asgi.test_asgi_app import host_of
from tests.host.asgi.test_on_servers import client_of
from tests.host.hosted import LINES, scripted
from tests.host.test_host import until

HI = {"message": "hi", "session": "trip"}
BODY = json.dumps(HI).encode()


async def test_sessions_live_in_the_supervisor_of_the_program() -> None:
    async with open_supervisor() as supervisor:
        mine = await supervisor.spawn(scripted("mine"), "mine")
        async with host_of().asgi(supervisor) as app:
            assert (await ask(app, "POST", "/v1/chat", HI))[0] == 200
            assert (await ask(app, "GET", "/readyz"))[0] == 200
            listed = json.loads((await ask(app, "GET", "/v1/sessions"))[2])["items"]
            assert [session["session"] for session in listed] == ["ann.trip"]  # and not `mine`
            assert {session.id for session in supervisor.sessions()} == {"mine", "h.acme.ann.trip"}
        assert {session.id for session in supervisor.sessions()} == {"mine", "h.acme.ann.trip"}
        assert (await mine.ask("hi")).text == "mine"
        async with host_of().asgi(supervisor) as app:
            content = (await ask(app, "GET", "/v1/sessions/trip/messages"))[2]
            assert len(json.loads(content)["items"]) == 2


async def test_work_under_way_goes_on_in_the_next_supervisor(tmp_path: Path) -> None:
    path = tmp_path / "desk.db"
    app = host_of(scripted(stall(after=1, text="one two")))
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor, app.asgi(supervisor) as first:
        mine = await supervisor.spawn(scripted(stall(after=1, text="mine")), "mine")
        await mine.prompt("hi")
        talk = called(first, scope_of("POST", "/v1/chat"))
        async with talk as call:
            call.put_body(BODY)
            await until(lambda: [session.status().phase for session in supervisor.sessions()] == ["streaming"] * 2)
    app = host_of(scripted("three four"))
    async with open_supervisor(journal=SqliteJournal(path)) as supervisor, app.asgi(supervisor):
        await until(lambda: [session.status().phase for session in supervisor.sessions()] == ["idle"])
        assert [session.id for session in supervisor.sessions()] == ["h.acme.ann.trip"]  # `mine` is not the host's
        assert "three four" in str(supervisor.sessions()[0].messages()[-1])


@on_each_loop
def test_on_asyncio_the_host_runs_in_the_thread_of_the_supervisor(run: Run) -> None:
    async def main() -> None:
        async with aio.open_supervisor() as supervisor:
            async with host_of(scripted("one", "two")).asgi(supervisor) as app:
                assert len(on_asyncio.threads()) == 1
                assert (await on_asyncio.ask(app, "POST", "/v1/chat", BODY)).is_whole
                assert (await supervisor.session("h.acme.ann.trip").ask("and?")).text == "two"
            assert [session.id for session in supervisor.sessions()] == ["h.acme.ann.trip"]
        assert on_asyncio.threads() == []

    run(main)


class Hearing(HostPlugin):
    """Takes a while to hear of a turn, and notes it."""

    name = "hearing"
    version = "1"

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def on_turn_persisted(self, context: TurnEnd) -> None:
        await trio.sleep(0.5)
        self.heard.append(context.session_id)


async def test_it_ends_at_once_when_no_turn_is_open_and_plugins_have_heard_of_all(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    plugin, limits = Hearing(), HostLimits()
    host = Host([Profile("desk", scripted("fine"))], [plugin], authenticator=ApiKeys(lines=LINES), limits=limits)
    async with open_supervisor() as supervisor:
        async with host.asgi(supervisor) as app:
            assert (await ask(app, "POST", "/v1/chat", HI))[0] == 200
            began = trio.current_time()
        assert trio.current_time() - began < 1 < limits.drain_seconds
        assert plugin.heard == ["ann.trip"]
        assert [session.status().phase for session in supervisor.sessions()] == ["idle"]


async def test_plugins_hear_of_the_turns_of_a_session_that_has_ended_before_the_app(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    plugin = Hearing()
    host = Host([Profile("desk", scripted("fine"))], [plugin], authenticator=ApiKeys(lines=LINES))
    async with open_supervisor() as supervisor:
        async with host.asgi(supervisor) as app:
            assert (await ask(app, "POST", "/v1/sessions", {"session": "trip"}))[0] == 201
            assert (await ask(app, "POST", "/v1/sessions/trip/prompt", {"message": "hi"}))[0] == 202
            await until(lambda: supervisor.session("h.acme.ann.trip").inspect().turn_count == 1)
            await until(lambda: supervisor.session("h.acme.ann.trip").inspect().turn is None)
            assert (await ask(app, "POST", "/v1/sessions/trip/stop", {}))[0] == 204
        assert plugin.heard == ["ann.trip"]


async def test_a_turn_that_is_open_has_the_time_of_a_drain_to_end(autojump_clock: MockClock) -> None:
    assert autojump_clock.autojump_threshold == 0
    plugin = Hearing()
    host = Host([Profile("desk", scripted(say("fine", delay=5.0)))], [plugin], authenticator=ApiKeys(lines=LINES))
    async with open_supervisor() as supervisor:
        async with host.asgi(supervisor) as app:
            assert (await ask(app, "POST", "/v1/sessions", {"session": "trip"}))[0] == 201
            assert (await ask(app, "POST", "/v1/sessions/trip/prompt", {"message": "hi"}))[0] == 202
            began = trio.current_time()
        assert 5 < trio.current_time() - began < 7
        assert plugin.heard == ["ann.trip"]


def test_a_supervisor_that_ends_first_takes_the_host_with_it() -> None:
    async def main() -> None:
        supervisor = await aio.open_supervisor()
        async with host_of().asgi(supervisor) as app:
            assert (await on_asyncio.ask(app, "GET", "/healthz")).is_whole
            await supervisor.close()

    asyncio.run(main())


async def test_in_fastapi_it_is_opened_in_the_lifespan() -> None:
    @asynccontextmanager
    async def lifespan(service: FastAPI) -> AsyncGenerator[None]:
        async with aio.open_supervisor() as supervisor, host_of().asgi(supervisor) as agents:
            service.mount("/agents", agents)
            yield

    async with on_uvicorn(FastAPI(lifespan=lifespan)) as url, client_of(url) as client:
        assert (await client.post("/agents/v1/chat", json=HI)).json()["text"] == "one two three"


async def test_a_supervisor_of_the_wrong_loop_or_a_second_journal_is_refused() -> None:
    host = Host(
        [Profile("desk", SessionSpec(model="demo"))], authenticator=ApiKeys(lines=LINES), journal=MemoryJournal()
    )
    elsewhere: list[AsgiApp] = []
    async with open_supervisor() as supervisor:
        with pytest.raises(BadChoice, match="journal"):
            host.asgi(supervisor)

        async def main() -> None:
            with pytest.raises(WrongType, match=r"aio\.open_supervisor"):
                async with host_of().asgi(supervisor):
                    pass
            async with aio.open_supervisor() as theirs:
                elsewhere.append(host_of().asgi(theirs))

        await trio.to_thread.run_sync(asyncio.run, main())
        with pytest.raises(WrongType, match="on Trio"):
            async with elsewhere[0]:
                pass
