"""The conformance suite gives a tool what it depends on."""

import pytest
from attrs import frozen

from agentrail.testing import ToolConformance
from agentrail.tools import Tool, ToolContext, tool


@frozen
class Client:
    """What the tool needs."""

    customer: str


@tool(effect="pure")
async def look(times: int, ctx: ToolContext[Client]) -> str:  # noqa: ASYNC124 - a tool is async
    """Tell of the client."""
    return f"{ctx.deps.customer} {times}"


class TestLook(ToolConformance):
    @pytest.fixture
    def tool(self) -> Tool:
        return look

    def surroundings(self) -> ToolContext[Client]:
        return ToolContext(deps=Client("ann"))
