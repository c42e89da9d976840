"""A host on loopback whose agent does what a message names, so that a client without a provider can call each route."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from attrs import frozen

from agentrail import SessionSpec, tool
from agentrail.api.operation_table import match
from agentrail.errors import UsageError
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.host.requests.access_log import FACTS
from agentrail.knowledge import KnowledgeFolder
from agentrail.models import Model, ModelRequest, ToolMessage
from agentrail.plugins import EventLogger, HumanApproval
from agentrail.sandboxes import LocalSandbox
from agentrail.testing import ScriptedModel, call, say, stall
from agentrail.tools.builtin import ask_user
from tests.host.hosted import KEYS, LINES, desk_of
from tests.kit import Element

KEY: Final = KEYS["eve"]
"""A key with all scopes of a tenant."""
LIMITS: Final = HostLimits(drain_seconds=0.5, requests_per_second=10_000, burst=10_000, sessions=100_000)


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool(elsewhere=True)
async def build(branch: str) -> str:
    """Build it."""
    raise NotImplementedError(branch)


@tool
async def look() -> str:
    """Look."""
    return "nothing to see"


ANSWERS: Final[dict[str, Element]] = {
    "pay": say(calls=[call("pay", {"to": "ann"})]),
    "question": say(calls=[call("ask_user", {"question": "Which one?"})]),
    "build": say(calls=[call("build", {"branch": "main"})]),
    "delegate": say(calls=[call("task", {"agent": "helper", "description": "help", "prompt": "wait"})]),
    "wait": stall(),
}
"""What the model does if this is the message; any other message is answered by `done`."""


def obedient() -> Model:
    """Return a model that does what the message names."""

    def obey(request: ModelRequest) -> Element:
        last = request.messages[-1]
        return "done" if isinstance(last, ToolMessage) else ANSWERS.get(last.text, "done")

    return ScriptedModel([obey], repeat_last=True)


def profiles(folder: Path) -> list[Profile]:
    """Return the one profile of the host, whose sessions have something for each route, and files in *folder*."""
    spec = SessionSpec(
        model=obedient(),
        tools=[pay, ask_user, build],
        plugins=[HumanApproval(tools=["pay"])],
        sandbox=LocalSandbox(folder, snapshots=True),
        agents={"helper": SessionSpec(model=obedient(), description="Helps.")},
    )
    return [Profile("desk", spec, tools=[look], plugins=[EventLogger()], models=["demo"])]


@frozen
class OfflineHost:
    """A host that serves, and the statuses of its answers by name of the call."""

    url: str
    statuses: dict[str, set[int]]


class _AnswerRecorder(logging.Handler):
    """Notes the status of each answer in the access log, by the method and path of its request."""

    def __init__(self) -> None:
        super().__init__()
        self.statuses: dict[str, set[int]] = defaultdict(set)

    def emit(self, record: logging.LogRecord) -> None:
        facts = record.__dict__[FACTS]
        if name := call_name(facts["method"], facts["target"].partition("?")[0]):
            self.statuses[name].add(facts["status"])


def call_name(method: str, path: str) -> str | None:
    """Return the name of the call that a request is for, `None` if there is none."""
    try:
        return match(method, path).route.call.name
    except UsageError:
        return None


@contextmanager
def recorded_answers() -> Iterator[dict[str, set[int]]]:
    """Record the statuses of all answers by name of the call, from the access log."""
    log = logging.getLogger("agentrail.access")
    recorder, level = _AnswerRecorder(), log.level
    log.addHandler(recorder)
    log.setLevel(logging.INFO)
    try:
        yield recorder.statuses
    finally:
        log.removeHandler(recorder)
        log.setLevel(level)


@asynccontextmanager
async def open_offline_host(folder: Path) -> AsyncGenerator[OfflineHost]:
    """Serve on a free port of loopback, with files of sessions, and knowledge, in *folder*."""
    with recorded_answers() as statuses:
        keys, knowledge = ApiKeys(lines=LINES), KnowledgeFolder(folder.with_name("knowledge"))
        host = Host(profiles(folder), authenticator=keys, limits=LIMITS, knowledge=knowledge)
        async with desk_of(host) as desk:
            yield OfflineHost(desk.serving.url, statuses)
