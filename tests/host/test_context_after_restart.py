"""The context of a turn is that of the request that began it, also in another process."""

from __future__ import annotations

import httpx
import trio
import trio.testing

from agentrail import SessionSpec, tool
from agentrail.host.plugins.host_plugin import HostPlugin
from agentrail.host.plugins.plugin_values import Allow, BeforeToolCall, RequestContext
from agentrail.journals import MemoryJournal
from agentrail.plugins import HumanApproval
from agentrail.ports.tool import Offer
from agentrail.testing import ScriptedModel, call, say, stall
from tests.host.hosted import open_desk, scripted


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


class SlowSource:
    """A source of tools that is there when all else rests: until then, its session does not count as back."""

    name = "slow"

    def check(self) -> None:
        """There is nothing to check."""

    async def supply(self, working_dir: str, offer: Offer) -> None:
        await trio.testing.wait_all_tasks_blocked()
        await offer(())
        await trio.sleep_forever()


async def test_plugins_hear_of_a_turn_that_ends_before_its_session_counts_as_back() -> None:
    journal, before, after = MemoryJournal(), Witness(), Witness()
    async with open_desk(scripted(stall()), [before], journal=journal) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        prompted = await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "hi"})
        assert prompted.status_code == 202
    source = SlowSource()
    async with open_desk(scripted("done").but(tools=[source]), [after], journal=journal):
        with trio.fail_after(20):
            await after.is_over.wait()
    (began,) = before.begun
    assert (before.over, [seen(one) for one in after.over]) == ([], [seen(began.but(agent_id="desk"))])
