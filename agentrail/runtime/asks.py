"""Carrying out what plugins ask for: a model, a tool, a file, a service."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from agentrail.core.inputs import AnyInput, AskSettled
from agentrail.errors import NotReadable
from agentrail.hooks.asks import AskAnswer, AskRequest, CallModel, CallService, Failed, Ok, ReadFile, RunTool
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.sandbox import KIB, Sandbox
from agentrail.ports.tool import Service, Tool, ToolContext
from agentrail.runtime.border import contained, described, traced
from agentrail.runtime.calls import execute
from agentrail.values.content import Text, text_of
from agentrail.values.json import JsonObject, freeze, thaw
from agentrail.values.messages import UserMessage
from agentrail.values.stream import ModelRequest, Response
from agentrail.values.tools import Err, result_text
from agentrail.values.tools import Ok as ToolOk
from agentrail.values.usage import NOTHING_USED, Usage

log = logging.getLogger("agentrail.ask")

MAX_READ: Final = 1024 * KIB
"""Bytes of the largest file that a plugin may ask for."""


class World:
    """What a session's plugins can reach through `Ask`."""

    __slots__ = ("ask_model", "options", "sandbox", "services", "tool")

    def __init__(
        self,
        ask_model: Callable[[ModelRequest], Awaitable[Response]],
        options: Callable[[str], JsonObject],
        tool: Callable[[str], Tool],
        sandbox: Sandbox,
        services: Mapping[str, Service],
    ) -> None:
        self.ask_model = ask_model
        self.options = options
        self.tool = tool
        self.sandbox = sandbox
        self.services = services


class RunningAsk:
    """A plugin's question that is being answered."""

    __slots__ = ("ask_id", "scope")

    def __init__(self, ask_id: str) -> None:
        self.ask_id = ask_id
        self.scope = trio.CancelScope()

    async def run(
        self, request: AskRequest, model: str, world: World, ctx: ToolContext, post: Callable[[AnyInput], None]
    ) -> None:
        """Do it, and post the one answer."""
        reach(Failpoint.ASK_SPAWNED)
        settled: tuple[AskAnswer, Usage] = (Failed("cancelled"), NOTHING_USED)

        def failed(error: BaseException) -> None:
            nonlocal settled
            log.warning("ask %s failed: %s", self.ask_id, traced(error))
            settled = (Failed(described(error)), NOTHING_USED)

        try:
            with contained(failed), self.scope:
                settled = await _answer(request, model, world, ctx)
        finally:
            reach(Failpoint.ASK_SETTLED)
            post(AskSettled(self.ask_id, *settled))


async def _answer(request: AskRequest, model: str, world: World, ctx: ToolContext) -> tuple[AskAnswer, Usage]:
    match request:
        case CallModel():
            name = request.model or model
            prompt = (UserMessage((Text(request.prompt),)),)
            asked = ModelRequest(name, prompt, request.system, may_call=False, options=world.options(name))
            response = await world.ask_model(asked)
            return Ok(text_of(response.parts)), response.usage
        case RunTool():
            result = await execute(world.tool(request.name), request.args, ctx)
            if isinstance(result, ToolOk):
                return Ok(result_text(result)), NOTHING_USED
            said = result_text(result) if isinstance(result, Err) else "a tool with an effect cannot be asked for"
            return Failed(said), NOTHING_USED
        case ReadFile():
            return Ok(await _text_of_file(world.sandbox, request.path)), NOTHING_USED
        case CallService():
            service = world.services.get(request.name)
            if service is None:
                known = ", ".join(sorted(world.services)) or "none"
                return Failed(f"there is no service `{request.name}` (there are: {known})"), NOTHING_USED
            return Ok(freeze(await service(freeze(thaw(request.payload))))), NOTHING_USED


async def _text_of_file(sandbox: Sandbox, path: str) -> str:
    content = await sandbox.read(path, 0, MAX_READ)
    if content.size > MAX_READ:
        raise NotReadable(path, f"it is larger than {MAX_READ} bytes")
    return content.data.decode()
