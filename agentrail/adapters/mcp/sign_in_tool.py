"""The tool that a session has in place of a server's tools while a person has to sign in: it asks them."""

from __future__ import annotations

from typing import Final

import trio

from agentrail.adapters.mcp.asked_back import AskedBack
from agentrail.adapters.mcp.server import McpServer
from agentrail.ports.tool import ToolContext
from agentrail.tools import EffectClass, ToolResult, ToolSpec, make_spec
from agentrail.values.json import EMPTY, JsonObject
from agentrail.values.tools import ok

NAME: Final = "sign_in"
"""What comes after the name of the server in the name of the tool."""


class SignInTool:
    """Asks a person to sign in at a server; `signed_in` is set when they say that they have."""

    __slots__ = ("_server", "signed_in", "spec")

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self.signed_in = trio.Event()
        """Set when the connection is to be tried again."""
        self.spec: ToolSpec = make_spec(
            f"{server.name}__{NAME}",
            f"Ask the person to sign in at the server `{server.name}`: without that, it has no other tools.",
            EMPTY,
            requires=server.requires,
            effect=EffectClass.IDEMPOTENT,
        )

    async def execute(self, args: JsonObject, ctx: ToolContext) -> ToolResult:  # noqa: ARG002, ASYNC124 - it is a tool
        """Ask the person; once they have signed in, have the connection tried again."""
        questions = AskedBack.sign_in(self._server.url)
        if ctx.person_answer is not None:
            questions = AskedBack.stored(ctx.person_answer.state).answered(ctx.person_answer.answer)
        if questions.is_open:
            return questions.effect(self._server.name, NAME)
        self.signed_in.set()
        return ok(f"The person has signed in; the tools of `{self._server.name}` are there soon.")
