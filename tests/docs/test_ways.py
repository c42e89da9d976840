"""The ways that the contributor's page tells are gone in the order in which they are told."""

from __future__ import annotations

import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
import trio

from agentrail import Context, Continue, Plugin, SessionHandle, SessionSpec, Supervisor, open_supervisor
from agentrail.events import AgentEnd
from agentrail.insight import why
from agentrail.journals import MemoryJournal, SqliteJournal
from agentrail.plugins import BeforePrompt, BeforeTool, BlockTool, HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import tool
from tests.docs.traces import PACKAGE, TracedCall, first_missing, traced
from tests.host.hosted import KEYS, open_desk
from tests.parsed import ROOT

PACKAGES: Final = "|".join(sorted(path.stem for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()))
NAME: Final = re.compile(rf"`((?:{PACKAGES})\.[\w.]+)`")
PAGE: Final = (ROOT / "docs/contributing.md").read_text("utf-8")


class Redacts(Plugin[int]):
    """Has something to do at each prompt."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + 1)

    def screen(self, text: str) -> str:
        return text


class Blocks(Plugin[None]):
    """Blocks each call."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> BlockTool[None]:
        return BlockTool("not today")


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at something."""
    return at


def names_of(title: str) -> list[str]:
    """Return the names of the package that a section of the page has, in order."""
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return NAME.findall(section)


def looking(*things: str) -> ScriptedModel:
    """Return a model that looks at *things* at the same time, and then answers."""
    return ScriptedModel([say(calls=[call("look", {"at": thing}) for thing in things]), "done"])


async def wait_for_end(session: SessionHandle) -> None:
    """Wait until a turn of *session* has ended, now or earlier."""
    async with session.subscribe(since=0, types=[AgentEnd]) as events:
        await anext(events)


async def turn_with_calls(_: Path) -> list[TracedCall]:
    """Trace a turn with two calls."""
    spec = SessionSpec(model=looking("a", "b"), tools=[look], plugins=[Redacts()])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        with traced() as calls:
            await session.ask("look around")
            await wait_for_end(session)
    return calls


async def plugin_that_blocks(_: Path) -> list[TracedCall]:
    """Trace a plugin that is attached and blocks a call, and the account of that."""
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=looking("a"), tools=[look]))
        with traced() as calls:
            await session.attach_plugin(Blocks())
            await session.ask("look around")
            records = await journal.read(session.id)
            assert "not today" in why(records, "c3").sentence
    return calls


async def return_from_a_file(folder: Path) -> list[TracedCall]:
    """Trace a session in a file: its turn, and its return in another supervisor."""
    spec, path = SessionSpec(model=ScriptedModel(["hello"])), folder / "journal.db"
    with traced() as calls:
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            session = await supervisor.spawn(spec)
            await session.ask("hi")
        async with open_supervisor(journal=SqliteJournal(path)) as supervisor:
            await supervisor.resume(session.id, spec)
    return calls


async def chat_at_a_host(_: Path) -> list[TracedCall]:
    """Trace a request that opens a session at a host."""
    with traced() as calls:
        async with open_desk(SessionSpec(model=ScriptedModel(["hello"]))) as desk:
            answer = await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
    assert answer.json()["text"] == "hello"
    return calls


async def approval_from_elsewhere(_: Path) -> list[TracedCall]:
    """Trace a held call at a host, and the process of the person who approves it."""
    person_is_gone = trio.Event()

    @tool
    async def pay(amount: int) -> str:
        """Pay, once the answer to the approval is on the other side."""
        await person_is_gone.wait()
        return f"paid {amount}"

    model = ScriptedModel([say(calls=[call("pay", {"amount": 5})]), "done"])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval("pay")])
    with traced() as calls:
        async with open_desk(spec) as desk:
            held = await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
            assert held.status_code == 202
            program = [sys.executable, "-m", "tests.docs.approving_person", desk.serving.url, KEYS["ann"]]
            person = await trio.run_process(program, capture_stdout=True, cwd=ROOT)
            person_is_gone.set()
            await wait_for_end(session_of(desk.serving.supervisor))
    lines = [line.split() for line in person.stdout.decode().splitlines()]
    return sorted(calls + [TracedCall(int(at_ns), function) for at_ns, function in lines])


def session_of(supervisor: Supervisor) -> SessionHandle:
    """Return the one session of *supervisor*."""
    (session,) = supervisor.sessions()
    return session


WAYS: Final[dict[str, Callable[[Path], Awaitable[list[TracedCall]]]]] = {
    "The way of a prompt": turn_with_calls,
    "The way of a tool result": turn_with_calls,
    "The way of a request through a host": chat_at_a_host,
    "The way of a record to SQLite and back": return_from_a_file,
    "The way of a held call": approval_from_elsewhere,
    "The way of a plugin": plugin_that_blocks,
}
LONG: Final = {"The way of a held call"}


@pytest.mark.parametrize(
    "title", [pytest.param(title, marks=[pytest.mark.long] if title in LONG else []) for title in WAYS]
)
async def test_a_way_is_gone_in_the_order_in_which_it_is_told(title: str, tmp_path: Path) -> None:
    names = names_of(title)
    assert len(names) > 8
    calls = await WAYS[title](tmp_path)
    assert first_missing(names, calls) is None
    assert first_missing(names[::-1], calls) is not None


def test_each_way_of_the_page_is_followed() -> None:
    assert re.findall(r"^## (The way of .+)$", PAGE, re.MULTILINE) == list(WAYS)
