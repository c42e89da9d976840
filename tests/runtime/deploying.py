"""A tool that is `unsafe` to repeat and can be cut while it runs, for tests of doubts."""

from __future__ import annotations

import re

import pytest
import trio

from agentrail import AnySession, SessionSpec, tool
from agentrail.errors import UnknownApproval
from agentrail.events import ToolExecutionStart
from agentrail.models import ModelRequest, ToolMessage, UserMessage
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element


class Deploys:
    """A tool that hangs until it is let go, and the model that calls it with what the last prompt says."""

    def __init__(self, again: int = 0) -> None:
        """Make the tool; the model makes the same call *again* so many times in a turn."""
        self._again = again
        self.hangs = True
        self.runs: list[str] = []
        self._began = trio.Event()

        @tool
        async def deploy(version: str) -> str:
            """Deploy a version."""
            self.runs.append(version)
            self._began.set()
            if self.hangs:
                await trio.sleep_forever()
            return f"deployed {version}"

        self.tool = deploy

    def spec(self) -> SessionSpec:
        return SessionSpec(model=ScriptedModel([self._answers], repeat_last=True), tools=[self.tool])

    def _answers(self, request: ModelRequest) -> Element:
        asked_number = [number for number, message in enumerate(request.messages) if isinstance(message, UserMessage)][
            -1
        ]
        results = len([message for message in request.messages[asked_number:] if isinstance(message, ToolMessage)])
        if results > self._again:
            return "done"
        return say(calls=[call("deploy", {"version": request.messages[asked_number].text})])

    async def begin(self, session: AnySession, version: str) -> str:
        """Ask for a deployment, and return the id of its call as soon as it runs."""
        self._began = trio.Event()
        async with session.subscribe(types=[ToolExecutionStart]) as events:
            await session.prompt(version)
            started = (await anext(events)).event
        assert isinstance(started, ToolExecutionStart)
        await self._began.wait()
        return started.call_id

    async def doubt(self, session: AnySession, version: str) -> str:
        """Abort a deployment while it runs, and return the id by which the doubt about it ends.

        The refusal of the id without its end names the whole one.
        """
        bare = f"{session.id}:{await self.cut(session, version)}"
        with pytest.raises(UnknownApproval) as refused:
            await session.approve(bare)
        (full,) = re.findall(rf"{re.escape(bare)}-[0-9a-f]{{12}}", str(refused.value))
        return str(full)

    async def cut(self, session: AnySession, version: str) -> str:
        """Abort a deployment while it runs, and return the id of its call."""
        call_id = await self.begin(session, version)
        await session.abort(kill_tools="all")
        return call_id
