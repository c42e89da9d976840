"""The tools for messages between sub-agents: `message_send` and `message_wait`, given to agents that are to talk."""

from __future__ import annotations

from typing import Annotated, Final

from agentrail.ports.agents import Peers
from agentrail.ports.tool import Tool, ToolContext
from agentrail.tools.bounds import Length, Range
from agentrail.tools.builtin.workspace import refuse, told
from agentrail.tools.function import tool

MAX_MESSAGE: Final = 20_000
"""The most characters of a message; a longer one is refused."""

MAX_WAIT: Final = 600
"""The most seconds that a call waits for messages or tasks."""

GRACE: Final = 60.0
"""Seconds between the end of the longest wait and the time limit of its tool, in which the call can answer."""


def peers_of(ctx: ToolContext) -> Peers:
    """Return the port for the messages of the call's session; raise `ToolError` if it has none."""
    return refuse("nobody has a message for this call") if ctx.peers is None else ctx.peers


@tool(timeout=30, effect="idempotent")
async def message_send(  # noqa: D417 - the model does not see `ctx`
    to: Annotated[str, Length(min=1, max=200)],
    message: Annotated[str, Length(min=1, max=MAX_MESSAGE)],
    ctx: ToolContext,
) -> str:
    """Send a message to an agent that works beside you; it reads it before its next step, and its work goes on.

    Args:
        to: The id of the agent.
        message: The message, with all that the agent must know.
    """
    with told():
        await peers_of(ctx).send(ctx.call_id, to, message)
    return f"sent to `{to}`"


@tool(timeout=MAX_WAIT + GRACE, effect="pure")
async def message_wait(ctx: ToolContext, seconds: Annotated[int, Range(ge=1, le=MAX_WAIT)] = 60) -> str:  # noqa: D417 - `ctx` is not shown
    """Wait until a message for you has come, if you can do nothing without it.

    Args:
        seconds: How long to wait at most.
    """
    came = await peers_of(ctx).arrived(ctx.call_id, seconds)
    return "a message has come; it follows" if came else f"no message has come within {seconds} s"


def message_tools() -> tuple[Tool, ...]:
    """Return `message_send` and `message_wait`, for the `tools` of agents that are to exchange messages.

    An agent can only write to those of which the session that started it has given the address.
    """
    return (message_send, message_wait)
