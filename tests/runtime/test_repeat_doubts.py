"""Unsafe calls that were cut: each is in doubt until a person decides, and the tool itself is never locked."""

from __future__ import annotations

from typing import Final

import pytest
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.core.machine.in_doubt_calls import HOLDER, MOST
from agentrail.errors import RefusedError
from agentrail.events import ApprovalRequired, ApprovalResolved
from agentrail.journals import MemoryJournal, audit
from agentrail.testing import ScriptedModel
from tests.coded import coded
from tests.runtime.deploying import Deploys
from tests.runtime.families import task

PROCESSES: Final = 5
CUT: Final = 8
"""How many calls are cut in each process; in all, more than are remembered."""


@pytest.mark.long
async def test_after_many_cut_calls_and_kills_calls_of_the_tool_still_run_after_one_decision() -> None:
    journal, deploys = MemoryJournal(encode=True), Deploys()
    for number in range(PROCESSES):
        with trio.CancelScope() as process:  # cancelled from outside, it ends without a farewell, as one that is killed
            async with open_supervisor(journal=journal) as supervisor:
                spec = deploys.spec()
                session = await (supervisor.resume("s", spec) if number else supervisor.spawn(spec, "s"))
                *aborted, killed = [f"v{number * CUT + index}" for index in range(CUT)]
                for version in aborted:
                    await deploys.cut(session, version)
                await deploys.begin(session, killed)
                process.cancel()
    deploys.hangs, deploys.runs = False, []
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", deploys.spec())
        assert len(session.inspect().in_doubt_calls) == MOST
        assert (await session.ask("new")).stop_reason == "end"
        (held,) = (await session.ask("v39")).held
        assert (held.tool, held.args) == ("deploy", {"version": "v39"})
        await session.approve(held.id)
        for version in ("v39", "newer"):
            assert (await session.ask(version)).held == ()
        assert deploys.runs == ["new", "v39", "v39", "newer"]
    assert await audit(journal, "s") == ()


async def test_the_parent_ends_the_doubt_of_a_sub_agent() -> None:
    deploys = Deploys(again=1)
    parent = SessionSpec(
        model=ScriptedModel([task("helper", "v1"), "well", "yes"]),
        agents={"helper": deploys.spec().but(description="Ships.")},
    )
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(parent, "s")
        async with session.subscribe(types=[ApprovalRequired, ApprovalResolved]) as events:
            (held,) = (await session.ask("ship it")).held  # the first call has run into its time limit
            required = (await anext(events)).event
            assert isinstance(required, ApprovalRequired)
            assert required.plugin == HOLDER
            child = held.id.rpartition(":")[0]
            stopped = held.hint.split("`")[1]
            deploys.hangs = False
            await session.approve(f"{child}:{stopped}")
            resolved = (await anext(events)).event
            await session.approve(held.id)
            assert (await session.ask("more")).stop_reason == "end"
        call_id, _, _ = stopped.partition("-")
        assert resolved == ApprovalResolved(f"{child}:{stopped}", call_id, "deploy", "cleared")
    assert deploys.runs == ["v1", "v1"]


async def test_with_four_eyes_a_doubt_ends_only_with_the_call_that_is_held_for_it() -> None:
    deploys = Deploys()
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(deploys.spec(), "s")
        doubt = await deploys.doubt(session.by("ann"), "v1")
        deploys.hangs = False
        for who in ("ann", "bob"):
            with pytest.raises(RefusedError, check=coded("four-eyes-wanted")):
                await session.by(who, four_eyes=True).approve(doubt)
        (held,) = (await session.by("ann").ask("v1")).held
        await session.by("bob", four_eyes=True).approve(held.id)
        assert session.inspect().in_doubt_calls == ()


async def test_a_session_that_has_fallen_asleep_ends_a_doubt_too() -> None:
    deploys = Deploys()
    async with open_supervisor(journal=MemoryJournal(encode=True)) as supervisor:
        session = await supervisor.spawn(deploys.spec().but(hibernate_after=5.0), "s")
        doubt = await deploys.doubt(session, "v1")
        deploys.hangs = False
        await trio.sleep(60)
        assert supervisor.tree().children[0].state == "asleep"
        await session.approve(doubt)
        assert (await session.ask("v1")).held == ()
        assert deploys.runs == ["v1", "v1"]
