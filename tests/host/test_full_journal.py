"""While the journal has no space, each request is answered, also those whose command a session has taken by then."""

from __future__ import annotations

import json
import sqlite3
import weakref
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest
import trio
from attrs import frozen

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.errors import JournalUnavailable
from agentrail.host import ApiKeys, Host, HostPlugin, Profile
from agentrail.host.host_server import Opened
from agentrail.host.hosted_sessions import JournalWatch
from agentrail.journals import SqliteJournal
from agentrail.models import ModelRequest
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.testing.simulator.virtual import ClockWatch, run
from agentrail.tools import Tool
from tests.host.hosted import Desk, open_desk, scripted
from tests.host.model.in_process import DrawnRequest, ask, opened
from tests.host.model.people import LINES as PEOPLE_LINES
from tests.host.model.people import PEOPLE
from tests.host.test_bad_input import outcome
from tests.host.test_host import Witness, chat, until
from tests.host.test_readiness import Connections
from tests.kit import Element
from tests.runtime.journals import TestJournal

LONG: Final = "word " * 20_000
"""Words for which a full file has no space; a short record may fit into a page that is there."""

KEY: Final = {"idempotency-key": "k1"}
ROOM: Final = "PRAGMA max_page_count = 1000000"


@frozen
class FullFile:
    """A host with a journal in a real file of SQLite, which can be made full."""

    desk: Desk
    model: ScriptedModel
    writer: sqlite3.Connection

    @property
    def model_calls(self) -> int:
        """How often the model was asked."""
        return len(self.model.requests)

    def fill(self) -> None:
        (pages,) = self.writer.execute("PRAGMA page_count").fetchone()
        self.writer.execute(f"PRAGMA max_page_count = {pages}")

    async def make_room(self) -> None:
        """Make room, and wait until the session has noticed."""
        self.writer.execute(ROOM)
        await until(lambda: not self.desk.serving.supervisor.figures().is_failing)

    async def post(self, path: str, body: object) -> httpx.Response:
        with trio.fail_after(20):
            return await self.desk.ann.post(path, json=body, headers=KEY)

    async def first_words(self) -> list[str]:
        """Return the conversation, each message by its first word."""
        items = (await self.desk.ann.get("/v1/sessions/trip/messages")).json()["items"]
        return [message["parts"][0]["text"].split()[0] for message in items]


@asynccontextmanager
async def open_file(
    path: Path,
    *script: Element,
    tools: Sequence[Tool] = (),
    plugins: Sequence[HostPlugin] = (),
    hibernate_after: float | None = None,
) -> AsyncGenerator[FullFile]:
    """Open a host whose model answers from *script*, first in the session `trip`."""
    connections, model = Connections(), ScriptedModel(script)
    held = [HumanApproval(tools=[tool.spec.name for tool in tools])] if tools else []
    spec = SessionSpec(model=model, tools=tools, plugins=held, hibernate_after=hibernate_after)
    journal = SqliteJournal(path / "agentrail.db", connect=connections)
    async with open_desk(spec, plugins, journal=journal) as desk:
        assert (await chat(desk.ann, "hi", session="trip")).status_code in {200, 202}
        try:
            yield FullFile(desk, model, connections.opened[0])
        finally:
            connections.opened[0].execute(ROOM)


def promised(answer: httpx.Response) -> None:
    """Check the answer to a request whose command the session has taken."""
    assert (outcome(answer), answer.headers["retry-after"]) == ((507, "journal-full"), "30")
    assert answer.json()["to_do"].startswith(
        "this may still be carried out when there is space: send it again later with the same `Idempotency-Key`"
    )


def refused(answer: httpx.Response) -> None:
    """Check the answer to a request that the session has not taken."""
    assert outcome(answer) == (507, "journal-full")
    assert answer.json()["found"] == "the journal of the host has no space; nothing was accepted"


@pytest.mark.parametrize("path", ["/v1/chat", "/v1/stream", "/v1/sessions/trip/prompt"])
async def test_the_first_prompt_is_answered_and_carried_out_once(tmp_path: Path, path: str) -> None:
    body = {"message": LONG} if path.endswith("prompt") else {"message": LONG, "session": "trip"}
    async with open_file(tmp_path, "one", "two", "three") as file:
        file.fill()
        promised(await file.post(path, body))
        refused(await file.post(path, body))
        refused(await file.desk.ann.post("/v1/sessions/trip/prompt", json={"message": "another"}))
        assert file.model_calls == 1
        await file.make_room()
        await until(lambda: file.model_calls == 2)  # nobody had to send it again
        again = await file.post("/v1/chat", {"message": LONG, "session": "trip"})
        assert (again.status_code, again.json()["text"]) == (200, "two")
        first = await file.post("/v1/sessions/trip/prompt", {"message": LONG})
        assert (first.status_code, first.json()["ref"]) == (202, again.json()["ref"])
        assert await file.first_words() == ["hi", "one", "word", "two"]
        assert (await chat(file.desk.ann, "and?", session="trip")).json()["text"] == "three"


@pytest.mark.long
async def test_a_chat_whose_turn_meets_it_is_answered(tmp_path: Path) -> None:
    files = list[FullFile]()

    def fills(_: ModelRequest) -> Element:
        files[0].fill()  # the prompt is written, and the response has no space
        return LONG

    async with open_file(tmp_path, "one", fills) as file:
        files.append(file)
        promised(await file.post("/v1/chat", {"message": "hi", "session": "trip"}))
        await file.make_room()
        again = await file.post("/v1/chat", {"message": "hi", "session": "trip"})
        assert (again.status_code, again.json()["text"], file.model_calls) == (200, LONG, 2)
        assert await file.first_words() == ["hi", "one", "hi", "word"]


async def test_plugins_hear_of_a_turn_whose_request_was_answered_before(tmp_path: Path) -> None:
    witness = Witness()
    async with open_file(tmp_path, "one", "two", plugins=[witness]) as file:
        file.fill()
        promised(await file.post("/v1/chat", {"message": LONG, "session": "trip"}))
        assert witness.heard[4:] == ["start chat ann.trip acme/ann", f"intercept {LONG}"]
        await file.make_room()
        await until(lambda: len(witness.heard) == 8)
        assert witness.heard[6:] == ["persisted chat ann.trip", "end finished None"]


async def test_a_decision_is_answered_and_carried_out_once(tmp_path: Path) -> None:
    ran = list[str]()

    @tool
    async def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    script: list[Element] = [say(calls=[call("pay", {"to": "eve"})]), "done"]
    async with open_file(tmp_path, *script, tools=[pay]) as file:
        (held,) = (await file.desk.ann.get("/v1/approvals")).json()["items"]
        decision = {"approval": held["id"], "args": {"to": LONG}}
        file.fill()
        promised(await file.post("/v1/sessions/trip/approve", decision))
        assert ran == []
        await file.make_room()
        assert (await file.post("/v1/sessions/trip/approve", decision)).status_code == 204
        await until(lambda: file.model_calls == 2)
        assert ran == [LONG]


async def test_a_session_that_sleeps_is_not_waited_for(tmp_path: Path) -> None:
    async with open_file(tmp_path, "one", "two", hibernate_after=0.01) as file:
        supervisor = file.desk.serving.supervisor
        await until(lambda: "asleep" in repr(supervisor.session("h.acme.ann.trip")))
        file.fill()
        promised(await file.post("/v1/sessions/trip/prompt", {"message": LONG}))
        await file.make_room()
        again = await file.post("/v1/chat", {"message": LONG, "session": "trip"})
        assert (again.status_code, again.json()["text"]) == (200, "two")
        assert await file.first_words() == ["hi", "one", "word", "two"]


# Other outages, on a virtual clock


async def said_to(opened_host: Opened, message: str) -> tuple[int, str, float]:
    """Talk to the session `trip`; return the status, the text or kind of problem, and how many seconds it took."""
    headers = (("authorization", f"Bearer {PEOPLE[0].key}"), ("content-type", "application/json"))
    body = json.dumps({"message": message, "session": "trip"}).encode()
    began = trio.current_time()
    request = DrawnRequest("POST", "/v1/chat", (*headers, ("idempotency-key", message)), body)
    answer = await ask(opened_host.application, request, lambda _: None)
    content = json.loads(answer.content)
    kind = content["text"] if "text" in content else content["type"].rpartition(":")[2]
    return answer.status, kind, trio.current_time() - began


def test_a_journal_that_is_away_is_waited_for_a_while() -> None:
    journal, outcomes = TestJournal(), list[tuple[int, str, bool]]()

    async def live(_: object) -> None:
        host = Host([Profile("desk", scripted("one", "two", "three"))], journal=journal)
        async with opened(host, ApiKeys(lines=PEOPLE_LINES)) as opened_host, trio.open_nursery() as nursery:
            for message, away in (("a", 0.0), ("b", 3.0), ("c", 60.0)):
                if away:
                    journal.failing = lambda _: JournalUnavailable("away")
                    nursery.start_soon(back_after, away)
                status, kind, lasted = await said_to(opened_host, message)
                outcomes.append((status, kind, lasted < 10))
            await trio.sleep(90)
            status, kind, _ = await said_to(opened_host, "c")
            outcomes.append((status, kind, True))

    async def back_after(seconds: float) -> None:
        await trio.sleep(seconds)
        journal.failing = None

    run(1, ClockWatch(), live)
    assert outcomes == [
        (200, "one", True),
        (200, "two", True),
        (503, "journal-unavailable", True),
        (200, "three", True),
    ]


async def test_a_session_keeps_nothing_of_a_request_that_asks_for_it_after_its_answer() -> None:
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(scripted("one"), "trip")
        watch = JournalWatch()
        await watch.answered(trio.lowlevel.checkpoint)
        watch.follow(session)
        reference = weakref.ref(watch)
        del watch
        assert reference() is None
