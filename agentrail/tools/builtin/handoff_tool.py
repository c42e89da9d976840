"""The tool `transfer_to_NAME`, by which the model hands the conversation over to another agent."""

from __future__ import annotations

from agentrail.ports.tool import ToolContext
from agentrail.values.json import JsonObject, freeze_object
from agentrail.values.tools import Effect, EffectClass, HandOver, ToolResult, ToolSpec


def transfer_name(agent: str) -> str:
    """Return the name of the tool that hands over to *agent*."""
    return f"transfer_to_{agent}"


def handoff_spec(agent: str, description: str) -> ToolSpec:
    """Return the description of the tool that hands over to *agent*, which its *description* tells the model of."""
    return ToolSpec(
        transfer_name(agent),
        f"Hand the conversation over to the agent `{agent}`, which goes on in your place: {description}",
        freeze_object({"type": "object", "properties": {}, "additionalProperties": False}),
        timeout=10,
        effect=EffectClass.PURE,
    )


class HandoffTool:
    """Hands the session over to one agent; the session does so once all calls of the response have results."""

    def __init__(self, spec: ToolSpec, handoff: HandOver) -> None:
        self.spec = spec
        self._effect = Effect(handoff)

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:  # noqa: ARG002, ASYNC124 - as `Tool` wants it
        """Return the effect, which names the agent and all that the session takes from it."""
        return self._effect
