"""The ways of a prompt and of a tool result, as the contributor's page tells them, are gone in that order."""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

import agentrail
from agentrail import Context, Continue, Plugin, SessionSpec, open_supervisor
from agentrail.events import AgentEnd
from agentrail.plugins import BeforePrompt
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import tool
from tests.parsed import ROOT

PACKAGE: Final = Path(agentrail.__file__).parent
NAME: Final = re.compile(r"`((?:core|hooks|runtime)\.[\w.]+)`")


class Redacts(Plugin[int]):
    """Has something to do at each prompt."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int]:
        return Continue(state + 1)

    def screen(self, text: str) -> str:
        return text


@tool(effect="pure")
async def look(at: str) -> str:
    """Look at something."""
    return at


def told(title: str) -> Iterator[str]:
    """Yield the names of the package that a section of the page has, in order."""
    page = (ROOT / "docs/contributing.md").read_text("utf-8")
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    yield from NAME.findall(section)


def first_missing(names: Sequence[str], called: Sequence[str]) -> str | None:
    """Return the first of *names* that was not called after those before it; `None` if there is none."""
    rest = iter(called)
    for name in names:
        if not any(each == name or each.startswith(f"{name}.") for each in rest):
            return name
    return None


async def trace() -> list[str]:
    """Return the functions of the package that a turn with calls of a tool goes through, in order."""
    called: list[str] = []

    def note(frame: FrameType, what: str, _: object) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if what == "call" and path.is_relative_to(PACKAGE):
            called.append(".".join((*path.relative_to(PACKAGE).with_suffix("").parts, code.co_qualname)))

    script = [say(calls=[call("look", {"at": "a"}), call("look", {"at": "b"})]), say("done")]
    spec = SessionSpec(model=ScriptedModel(script), tools=[look], plugins=[Redacts()])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        async with session.subscribe() as events:
            sys.setprofile(note)
            try:
                await session.ask("look around")
                async for envelope in events:
                    if isinstance(envelope.event, AgentEnd):
                        break
            finally:
                sys.setprofile(None)
    return called


@pytest.mark.parametrize("title", ["The way of a prompt", "The way of a tool result"])
async def test_a_way_is_gone_in_the_order_in_which_it_is_told(title: str) -> None:
    names = tuple(told(title))
    assert len(names) > 8
    assert first_missing(names, await trace()) is None
