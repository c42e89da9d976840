"""What is known of a specification after a spawn is not found out again, unless it may have changed since."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence

import pytest

from agentrail import Plugin, SessionSpec, open_supervisor, tool
from agentrail.errors import BadSpec, BadTool, ToolExists
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


async def test_a_specification_is_free_when_its_sessions_have_ended() -> None:
    def made() -> tuple[SessionSpec, list[weakref.ref[object]]]:
        note: Tool = Note()
        spec = SessionSpec(model=InstantModel(), tools=[note], plugins=[Guard()])
        return spec, [weakref.ref(spec), weakref.ref(note)]

    async with open_supervisor() as supervisor:
        spec, refs = made()
        for _ in range(2):
            await (await supervisor.spawn(spec)).stop()
        del spec
        gc.collect()
        assert [ref() for ref in refs] == [None, None]
