"""A server of one form takes the place of another, by its pipes and by HTTP, whatever the session does meanwhile."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal, TypeAlias

import pytest
import trio

from agentrail import SessionHandle, SessionSpec, open_supervisor
from agentrail.errors import RefusedError
from agentrail.mcp import McpServer
from agentrail.plugins import HumanApproval
from agentrail.testing import call, say
from tests.coded import coded
from tests.kit import Element
from tests.mcp.rig import (
    AT_ONCE,
    NO_EXTRA,
    PLAIN_SHOP,
    SHOP,
    Forking,
    Marked,
    asked,
    obedient,
    remote,
    until,
    use,
)
from tests.patience import PATIENCE
from tests.profiles import CAMPAIGN
from tests.runtime.families import agent, task
from tests.runtime.journals import TestJournal
from tests.runtime.world import World

pytestmark = pytest.mark.long

pytest.importorskip("agentrail.adapters.mcp.connection", reason=NO_EXTRA)

Form: TypeAlias = Literal["one", "two"]


class Shops:
    """Servers of both forms, and what they have done."""

    def __init__(self, kind: str, marked: Marked, forking: Forking, notes: Path, stack: AsyncExitStack) -> None:
        self._kind = kind
        self._marked = marked
        self._forking = forking
        self._notes = notes
        self._stack = stack
        notes.touch()

    async def open(self, form: Form) -> McpServer:
        env = {"MARK": self._marked.mark, "FORM": form, "NOTES": str(self._notes)}
        if self._kind != "http":
            return McpServer(PLAIN_SHOP if self._kind == "stdio" else SHOP, name="shop", env=env)
        started = await self._stack.enter_async_context(remote(*SHOP, "{port}", start=self._forking.start, **env))
        return McpServer(url=started.url, name="shop")

    def notes(self) -> list[str]:
        return self._notes.read_text(encoding="utf-8").splitlines()

    def processes(self) -> int:
        """Return how many servers sessions have started; those that are called by HTTP are none of theirs."""
        return len(self._marked.alive()) if self._kind != "http" else 0


KINDS = ("stdio", "http", "stdio of the package") if CAMPAIGN else ("stdio", "http")
"""How the servers are spoken to; one that is started with the package `mcp` takes most of a second to import it."""

BOTH = pytest.mark.parametrize("shops", KINDS, indirect=True)
"""For tests that run by HTTP outside of the campaign too."""


@pytest.fixture(params=KINDS if CAMPAIGN else KINDS[:1])
async def shops(
    request: pytest.FixtureRequest, marked: Marked, forking: Forking, tmp_path: Path
) -> AsyncIterator[Shops]:
    async with AsyncExitStack() as stack:
        yield Shops(request.param, marked, forking, tmp_path / "notes", stack)


def sources() -> list[str]:
    """Return the tasks of sources there are, by their names."""
    root = trio.lowlevel.current_root_task()
    waiting, found = [root], []
    while waiting:
        task = waiting.pop()
        if task is not None:
            found += [task.name] if task.name.startswith("source ") else []
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


async def idle(session: SessionHandle) -> None:
    await until(lambda: not session.status().turn_open, AT_ONCE)


BUY = asked("shop__buy", {"item": "tea"})


@BOTH
@pytest.mark.parametrize("how", ["replaced", "detached", "detached and attached"])
async def test_a_call_that_runs_ends_with_its_server_and_the_next_one_is_the_other_s(
    how: str, world: World, shops: Shops
) -> None:
    session = await world.spawn(obedient(), tools=[await shops.open("one")])
    alone = shops.processes()
    await session.prompt(asked("shop__wait", {}))
    await until(lambda: shops.notes() == ["one waits"])
    two = await shops.open("two")
    with trio.fail_after(PATIENCE):
        if how == "replaced":
            await session.replace_tools(two)
        else:
            await session.detach_tools("shop")
        if how == "detached and attached":
            await session.attach_tools(two)
    await idle(session)
    result = session.messages()[-2]
    assert result.text.startswith("the MCP server `shop` gave no answer to this call")
    assert result.text.endswith("it is not known whether it took effect")
    if how == "detached":
        assert (dict(session.inspect().tools), sources(), shops.processes()) == ({}, [], 0)
        return
    assert (await use(session, "shop__buy", item="tea")).text == "two bought 100 tea"
    assert shops.notes() == ["one waits", "two bought 100 tea"]
    assert (len(sources()), shops.processes()) == (1, alone)


@pytest.mark.parametrize("how", ["replaced", "detached and attached", "of the same form"])
async def test_a_held_call_runs_on_the_server_that_was_asked_about_or_not_at_all(
    how: str, world: World, shops: Shops
) -> None:
    guard = HumanApproval(tools=["shop__buy"])
    session = await world.spawn(obedient(), tools=[await shops.open("one")], plugins=[guard])
    (held,) = (await session.ask(BUY)).held
    new = await shops.open("one" if how == "of the same form" else "two")
    with trio.fail_after(PATIENCE):
        if how == "detached and attached":
            await session.detach_tools("shop")
            await session.attach_tools(new)
        else:
            await session.replace_tools(new)
    with pytest.raises(
        RefusedError,
        check=coded("tool-changed"),
        match="its tool `shop__buy` was detached or redefined since; reject it",
    ):
        await session.approve(held.id)
    await session.reject(held.id, reason="the shop is another one now", auto_resume=True)
    await idle(session)
    assert session.messages()[-2].text == "rejected by the user: the shop is another one now"
    assert shops.notes() == []
    (again,) = (await session.ask(BUY)).held
    await session.approve(again.id)
    await until(lambda: shops.notes() != [])
    assert shops.notes() == ["one bought tea" if how == "of the same form" else "two bought 100 tea"]


async def test_a_held_call_does_not_run_on_the_form_that_its_server_has_taken_since(world: World, shops: Shops) -> None:
    guard = HumanApproval(tools=["shop__buy"])
    script: list[Element] = [say(calls=[call("shop__buy", {"item": "tea"}), call("shop__change", {})]), "a pity"]
    session = await world.spawn(script, tools=[await shops.open("one")], plugins=[guard])
    before = session.inspect().tools["shop__buy"]
    (held,) = (await session.ask("go")).held
    await until(lambda: session.inspect().tools.get("shop__buy") not in (before, None))
    with pytest.raises(RefusedError, check=coded("tool-changed")):
        await session.approve(held.id)
    await session.reject(held.id, auto_resume=True)
    await idle(session)
    assert shops.notes() == ["one changed"]


@BOTH
async def test_while_the_session_is_suspended(world: World, shops: Shops) -> None:
    session = await world.spawn(obedient(), tools=[await shops.open("one")])
    two = await shops.open("two")
    await session.suspend()
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.replace_tools, two)
            await until(lambda: len(sources()) == 2)
            await session.resume()
    await session.ask(BUY)
    assert (shops.notes(), len(sources())) == (["two bought 100 tea"], 1)


async def test_a_sub_agent_keeps_its_own_server(world: World, shops: Shops) -> None:
    buyer = agent([say(calls=[call("shop__wait", {})]), "bought"], tools=[await shops.open("one")])
    delegating = task("buyer", background=True)
    session = await world.spawn([delegating, "fine"], "p", tools=[await shops.open("one")], agents={"buyer": buyer})
    await session.prompt("go")
    await until(lambda: shops.notes() == ["one waits"])
    with trio.fail_after(PATIENCE):
        await session.replace_tools(await shops.open("two"))
    (buying,) = session.tasks()
    assert len(sources()) == 2
    await session.cancel_task(buying.child)
    await until(lambda: len(sources()) == 1)
    assert shops.notes() == ["one waits"]


async def test_a_fork_has_a_server_of_its_own(world: World, shops: Shops) -> None:
    session = await world.spawn(obedient(), tools=[await shops.open("one")])
    alone = shops.processes()
    await use(session, "shop__buy", item="tea")
    fork = await session.fork(id="fork")
    assert (len(sources()), shops.processes()) == (2, 2 * alone)
    with trio.fail_after(PATIENCE):
        await session.replace_tools(await shops.open("two"))
    assert (await use(fork, "shop__buy", item="milk")).text == "one bought milk"
    assert (await use(session, "shop__buy", item="milk")).text == "two bought 100 milk"
    await session.stop()
    assert (await use(fork, "shop__buy", item="bread")).text == "one bought bread"
    await fork.stop()
    await until(lambda: (sources(), shops.processes()) == ([], 0))


@pytest.mark.parametrize("form", ["one", "two"])
async def test_a_call_that_is_held_over_a_restart(form: Form, shops: Shops) -> None:
    journal = TestJournal()

    def spec(server: McpServer) -> SessionSpec:
        return SessionSpec(model=obedient(), tools=[server], plugins=[HumanApproval(tools=["shop__buy"])])

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(await shops.open("one")), "s")
        (held,) = (await session.ask(BUY)).held
    assert (sources(), shops.processes()) == ([], 0)
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", spec(await shops.open(form)))
        if form == "one":
            await session.approve(held.id)
            await until(lambda: shops.notes() == ["one bought tea"])
            await idle(session)
        else:
            with pytest.raises(RefusedError, check=coded("tool-changed")):
                await session.approve(held.id)
    assert (sources(), shops.processes()) == ([], 0)
    assert shops.notes() == (["one bought tea"] if form == "one" else [])
