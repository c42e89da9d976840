"""What is known of a specification after a spawn is not found out again, unless it may have changed since."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path

import pytest

from agentrail import Plugin, SessionSpec, open_supervisor, tool
from agentrail.errors import BadModelOptions, BadOptions, BadSpec, BadTool, ToolExists
from agentrail.models import JsonObject
from agentrail.tools import Ok, Tool, ToolContext, ToolSpec, ok
from bench.rig import InstantModel, Note


class Guard(Plugin[None]):
    """Does nothing."""


class Named:
    """A tool whose spec the program may replace."""

    def __init__(self, spec: ToolSpec) -> None:
        self.spec = spec

    async def execute(self, args: JsonObject, ctx: ToolContext) -> Ok:
        """Do nothing."""
        return ok("done")


@tool
async def look() -> str:  # noqa: ASYNC124 - it does nothing
    """Look."""
    return "looked"


@pytest.mark.parametrize("stays", [False, True])
async def test_tools_that_are_added_to_the_list_are_in_the_next_session(stays: bool) -> None:
    tools: list[object] = [look]
    spec = SessionSpec(model=InstantModel(), tools=tools)
    async with open_supervisor() as supervisor:
        first = await supervisor.spawn(spec, "first")
        if not stays:
            await first.stop()
        tools.append(Note())
        second = await supervisor.spawn(spec, "second")
        assert set(second.inspect().tools) == {"look", "note"}
        tools.append(Note())
        with pytest.raises(ToolExists):
            await supervisor.spawn(spec, "third")
        tools[:] = [object()]
        with pytest.raises(BadTool):
            await supervisor.spawn(spec, "fourth")


async def test_a_spec_of_a_tool_that_is_replaced_is_checked() -> None:
    named = Named(ToolSpec("first", "Does something.", {}))
    spec = SessionSpec(model=InstantModel(), tools=[named])
    async with open_supervisor() as supervisor:
        await (await supervisor.spawn(spec)).stop()
        named.spec = ToolSpec("second", "Does something.", {})
        session = await supervisor.spawn(spec)
        assert set(session.inspect().tools) == {"second"}
        named.spec = ToolSpec("third", "Does something.", {"type": "array"})
        with pytest.raises(BadTool):
            await supervisor.spawn(spec)


@pytest.mark.parametrize("stays", [False, True])
async def test_what_is_put_into_a_mapping_of_the_spec_is_checked(stays: bool) -> None:
    agents: dict[str, object] = {"scout": SessionSpec(description="Scouts.")}
    user_data: dict[str, object] = {}
    services: dict[str, object] = {}
    spec = SessionSpec(
        model=InstantModel(),
        agents=agents,  # type: ignore[arg-type]
        user_data=user_data,  # type: ignore[arg-type]
        services=services,  # type: ignore[arg-type]
    )
    changes: Sequence[tuple[dict[str, object], object]] = (
        (agents, SessionSpec()),
        (user_data, object()),
        (services, 3),
    )
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        if not stays:
            await session.stop()
        for mapping, value in changes:
            mapping["new"] = value
            with pytest.raises(BadSpec):
                await supervisor.spawn(spec)
            del mapping["new"]
        await supervisor.spawn(spec)


async def test_models_that_are_added_to_a_chain_are_checked() -> None:
    chain: list[object] = [InstantModel()]
    spec = SessionSpec(model=chain)  # type: ignore[arg-type]
    async with open_supervisor() as supervisor:
        await supervisor.spawn(spec)
        chain.append(3)
        with pytest.raises(BadSpec):
            await supervisor.spawn(spec)


async def test_a_specification_that_was_refused_is_refused_again() -> None:
    spec = SessionSpec(model=InstantModel(), max_rounds=0)
    async with open_supervisor() as supervisor:
        for _ in range(2):
            with pytest.raises(BadSpec):
                await supervisor.spawn(spec)


async def test_sessions_of_one_specification_share_what_does_not_change_and_nothing_else() -> None:
    spec = SessionSpec(model=InstantModel(), tools=[look], plugins=[Guard()], max_rounds=7)
    async with open_supervisor() as supervisor:
        first, second, third = [await supervisor.spawn(spec, name) for name in ("first", "second", "third")]
        assert third.inspect().setup is second.inspect().setup
        begun = [session.inspect().but(session_id="", incarnation="") for session in (first, second, third)]
        assert begun[0] == begun[1] == begun[2]
        await second.attach_tools(Note())
        await third.detach_plugin("Guard")
        assert (await second.ask("hi")).text
        fourth = await supervisor.spawn(spec, "fourth")
        states = [session.inspect() for session in (first, second, third, fourth)]
        assert [sorted(state.tools) for state in states] == [["look"], ["look", "note"], ["look"], ["look"]]
        assert [len(state.plugins) for state in states] == [1, 1, 0, 1]
        assert [(await session.ask("hi")).text for session in (first, second, third, fourth)]


async def test_several_specifications_in_turn_are_known_each() -> None:
    specs = [SessionSpec(model=InstantModel(), tools=[look], system=f"{number}") for number in range(3)]
    async with open_supervisor() as supervisor:
        sessions = [[await supervisor.spawn(spec) for spec in specs] for _ in range(3)]
        setups = [[session.inspect().setup for session in row] for row in sessions]
        assert setups[0] == setups[1]
        assert all(one is other for one, other in zip(setups[1], setups[2], strict=True))


class Choosy(InstantModel):
    """A model that takes no options any more once it is told so."""

    closed = False

    def check(self, options: JsonObject) -> None:
        """Raise if it is closed."""
        if self.closed:
            raise BadModelOptions("it is closed")


async def test_what_may_have_changed_outside_of_the_specification_is_looked_at_for_each_session(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    model = Choosy()
    spec = SessionSpec(model=model, working_dir=str(folder))
    async with open_supervisor() as supervisor:
        for _ in range(3):
            assert str(folder) in str((await supervisor.spawn(spec)).inspect().sections[0].text)
        model.closed = True
        with pytest.raises(BadOptions):
            await supervisor.spawn(spec)
        model.closed = False
        folder.rmdir()
        with pytest.raises(BadSpec):
            await supervisor.spawn(spec)


async def test_a_specification_is_free_when_its_sessions_have_ended() -> None:
    def made() -> tuple[SessionSpec, list[weakref.ref[object]]]:
        note: Tool = Note()
        spec = SessionSpec(model=InstantModel(), tools=[note], plugins=[Guard()])
        return spec, [weakref.ref(spec), weakref.ref(note)]

    async with open_supervisor() as supervisor:
        spec, refs = made()
        for _ in range(3):
            await (await supervisor.spawn(spec)).stop()
        del spec
        gc.collect()
        assert [ref() for ref in refs] == [None, None]
