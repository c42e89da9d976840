"""The tools that only the demo model has in a conversation: a slow one, and one that remembers facts."""

from __future__ import annotations

from typing import Annotated

import trio

from agentrail.ports.tool import Tool, ToolContext
from agentrail.tools import EffectClass, Range, tool


@tool(effect=EffectClass.PURE, timeout=3700)
async def count(to: Annotated[int, Range(ge=1, le=3600)], ctx: ToolContext) -> str:  # noqa: D417 - the model does not see `ctx`
    """Count, one number a second.

    Args:
        to: How far.
    """
    for number in range(1, to + 1):
        ctx.report(f"{number} of {to}")
        await trio.sleep(1)
    return f"counted to {to}"


def remembering() -> Tool:
    """Return a new tool `remember`; its facts are in memory, and lost with the tool."""
    facts: list[str] = []

    @tool
    async def remember(fact: str) -> str:
        """Remember a fact for the rest of the conversation.

        Args:
            fact: What to remember.
        """
        await trio.lowlevel.checkpoint()
        if fact not in facts:
            facts.append(fact)
        return f"remembered ({len(facts)} in all): {'; '.join(facts)}"

    return remember


def demo_tools() -> tuple[Tool, ...]:
    """Return the tools of the demo model beside the built-in ones: `count`, and a new `remember`."""
    return (count, remembering())
