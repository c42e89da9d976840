"""Sessions into which host plugins reach: with a tool that notes its calls, and a model from a script."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import define, field

from agentrail import SessionHandle, SessionSpec, Supervisor, open_supervisor, tool
from agentrail.host import HostPlugin, RequestContext
from agentrail.host.plugins.host_context import OwnedProvider, providers_of, reaching
from agentrail.host.plugins.plugin_runner import HostPluginRow
from agentrail.models import Json, ToolMessage
from agentrail.plugins import Attachable
from agentrail.testing import ScriptedModel, call, say
from tests.host.plugins.probes import CONTEXT, Reports

ID: Final = "s1"


@define
class Scene:
    """A session, its supervisor and its model, what the tool was called with, and what was reported."""

    session: SessionHandle
    supervisor: Supervisor
    model: ScriptedModel
    ran: list[str]
    reports: Reports
    asked_for: list[str] = field(factory=list)

    def results(self) -> list[tuple[str, bool]]:
        """Return text and failure of each result in the history, in order."""
        return [
            (message.text, message.is_error) for message in self.session.messages() if isinstance(message, ToolMessage)
        ]


Call = Mapping[str, Json]


def note(text: str, calls: int = 1) -> object:
    """Return a response with calls of the tool `note`."""
    return say(calls=[call("note", {"text": text}) for _ in range(calls)])


@asynccontextmanager
async def scene(
    plugins: Sequence[HostPlugin],
    script: Sequence[object],
    *,
    session_plugins: Sequence[Attachable] = (),
    providers: Callable[[HostPluginRow], Sequence[OwnedProvider]] = providers_of,
    tool_seconds: float = 0.25,
    more: Callable[[SessionSpec], SessionSpec] = lambda spec: spec,
) -> AsyncGenerator[Scene]:
    """Open a session with these host plugins and this script of its model."""
    ran = list[str]()

    @tool(effect="pure", parallel=True)
    async def note(text: str) -> str:
        """Note a text."""
        await trio.sleep(tool_seconds)
        ran.append(text)
        if text == "fail":
            raise OSError(text)
        return f"noted {text}"

    reports = Reports()
    row = HostPluginRow(plugins, reports)
    model = ScriptedModel(script)  # type: ignore[arg-type]  # responses
    asked_for = list[str]()

    def context_of(session: str) -> RequestContext:
        asked_for.append(session)
        return CONTEXT

    async with open_supervisor() as supervisor:
        spec = more(SessionSpec(model=model, tools=[note], plugins=session_plugins, tool_max_retries=0))
        session_spec = reaching(spec, row, providers(row), context_of, lambda id_: supervisor.session(id_).messages())
        session = await supervisor.spawn(session_spec, id=ID)
        yield Scene(session, supervisor, model, ran, reports, asked_for)
