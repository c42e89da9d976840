"""A tool with one checked argument, and the result of its last call."""

import trio

from agentrail import SessionHandle
from agentrail.models import FrozenObject, JsonObject, ToolMessage
from agentrail.tools import ToolContext, ToolResult, ToolSpec, ok
from tests.runtime.tools import Fake
from tests.runtime.world import settle, until

NUMBER: JsonObject = FrozenObject(
    {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ("n",), "additionalProperties": False}
)


def counting() -> Fake:
    ran: list[ToolContext] = []

    async def body(args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return ok(f"n is {args['n']}")

    return Fake(ToolSpec("count", "counts", NUMBER), body, ran)


def result_of(session: SessionHandle) -> str:
    return [message.text for message in session.messages() if isinstance(message, ToolMessage)][-1]


async def over(session: SessionHandle) -> None:
    await until(lambda: session.status().phase == "idle" and not session.status().turn_open)
    await settle()
