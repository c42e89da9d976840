"""The context of a turn is that of the request that began it, also in another process."""

from __future__ import annotations

import httpx
import trio

from agentrail import SessionSpec, tool
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.plugins.plugin_values import Allow, BeforeToolCall, RequestContext
from agentrail.journals import MemoryJournal
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.hosted import open_desk


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


class Witness(HostPlugin):
    """Notes the contexts that it is given."""

    def __init__(self) -> None:
        self.begun: list[RequestContext] = []
        self.called: list[RequestContext] = []
        self.over: list[RequestContext] = []
        self.is_over = trio.Event()

    def on_request_start(self, context: RequestContext) -> None:
        self.begun.append(context)

    def before_tool_call(self, event: BeforeToolCall) -> Allow:
        self.called.append(event.context)
        return Allow()

    def on_turn_persisted(self, context: RequestContext) -> None:
        self.over.append(context)
        self.is_over.set()


def seen(context: RequestContext) -> tuple[str, ...]:
    return (
        *(context.kind, context.tenant_id, context.user_id, context.session_id, context.agent_id),
        context.request_id,
    )


async def held(client: httpx.AsyncClient) -> str:
    found = await client.post("/v1/chat", json={"message": "pay", "session": "ann.trip"})
    (one,) = found.json()["held"]
    return str(one["id"])


async def test_plugins_hear_which_request_began_a_turn_that_ends_after_a_restart() -> None:
    journal, before, after = MemoryJournal(), Witness(), Witness()
    model = ScriptedModel([say(calls=[call("pay", {"to": "eve"})]), "done"])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with open_desk(spec, [before], journal=journal) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        waits = await held(desk.clients["boss"])  # of a session that is another's: it is the request that counts
    async with open_desk(spec, [after], journal=journal) as desk:
        approved = await desk.ann.post("/v1/sessions/trip/approve", json={"approval": waits})
        assert approved.status_code == 204
        with trio.fail_after(20):
            await after.is_over.wait()
    (began,) = before.begun
    assert (before.over, after.begun) == ([], [])
    wanted = ("chat", "acme", "boss", "ann.trip", "desk", began.request_id)
    assert (seen(after.over[0]), [seen(one) for one in after.called]) == (wanted, [wanted])
    assert began.request_id.startswith("chat-")
