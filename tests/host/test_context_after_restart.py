"""The context of a turn is that of the request that began it, also in another process."""

from __future__ import annotations

from collections.abc import Sequence

import httpx
import trio
import trio.testing

from agentrail import SessionSpec, tool
from agentrail.host import Allow, BeforeToolCall, HostPlugin, Profile, RequestContext, TurnEnd
from agentrail.journals import MemoryJournal
from agentrail.models import AssistantMessage, Message, Text
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

    def on_turn_persisted(self, context: TurnEnd) -> None:
        self.over.append(context)
        self.is_over.set()


def seen(context: RequestContext) -> tuple[str, ...]:
    return (
        *(context.kind, context.tenant_id, context.user_id, context.session_id, context.agent_id),
        context.request_id,
    )


async def held(client: httpx.AsyncClient) -> str:
    response = await client.post("/v1/chat", json={"message": "pay", "session": "ann.trip"})
    (item,) = response.json()["held"]
    return str(item["id"])


async def test_plugins_hear_which_request_began_a_turn_that_ends_after_a_restart() -> None:
    journal, witness, after = MemoryJournal(), Witness(), Witness()
    model = ScriptedModel([say(calls=[call("pay", {"to": "eve"})]), "done"])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with open_desk(spec, [witness], journal=journal) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        waits = await held(desk.clients["boss"])  # of a session that is another's: it is the request that counts
    async with open_desk(spec, [after], journal=journal) as desk:
        approved = await desk.ann.post("/v1/sessions/trip/approve", json={"approval": waits})
        assert approved.status_code == 204
        with trio.fail_after(20):
            await after.is_over.wait()
    (began,) = witness.begun
    assert (witness.over, after.begun) == ([], [])
    expected = ("chat", "acme", "boss", "ann.trip", "desk", began.request_id)
    assert (seen(after.over[0]), [seen(item) for item in after.called]) == (expected, [expected])
    assert began.request_id.startswith("chat-")


class Surrounds(HostPlugin):
    """Adds messages of both roles around the conversation, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.context_providers = [self.surround]

    def surround(self, _: RequestContext, messages: Sequence[Message]) -> list[str | Message]:
        self.asked += 1
        answer = AssistantMessage((Text(f"answer {self.asked}"),))
        return [f"front {self.asked}", answer, *messages, answer, f"behind {self.asked}"]


async def test_what_is_added_around_the_conversation_is_the_same_after_a_restart_in_the_turn() -> None:
    journal, surroundings, after, witness = MemoryJournal(), Surrounds(), Surrounds(), Witness()
    model = ScriptedModel([say(calls=[call("pay", {"to": "eve"})]), "done"])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with open_desk(spec, [surroundings], journal=journal) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        waits = await held(desk.ann)
    async with open_desk(spec, [after, witness], journal=journal) as desk:
        await desk.ann.post("/v1/sessions/trip/approve", json={"approval": waits})
        with trio.fail_after(60):
            await witness.is_over.wait()
    front, back = ["front 1", "answer 1"], ["answer 1", "behind 1"]
    assert [[message.text for message in request.messages] for request in model.requests] == [
        [*front, "pay", *back],
        [*front, "pay", "", "paid eve", *back],
    ]
    assert (surroundings.asked, after.asked) == (1, 0)


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
    journal, witness, after = MemoryJournal(), Witness(), Witness()
    async with open_desk(scripted(stall()), [witness], journal=journal) as desk:
        await desk.ann.post("/v1/sessions", json={"session": "trip"})
        prompted = await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "hi"})
        assert prompted.status_code == 202
    source = SlowSource()
    async with open_desk(scripted("done").but(tools=[source]), [after], journal=journal):
        with trio.fail_after(20):
            await after.is_over.wait()
    (began,) = witness.begun
    assert (witness.over, [seen(item) for item in after.over]) == ([], [seen(began.but(agent_id="desk"))])


class Reader(Witness):
    """Notes what each turn said, and the contexts that its context provider is given."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[list[str]] = []
        self.asked: list[RequestContext] = []
        self.context_providers = [self.note]

    async def note(self, context: RequestContext, _: Sequence[Message]) -> list[str]:
        self.asked.append(context)
        return []

    def on_turn_persisted(self, context: TurnEnd) -> None:
        self.said.append([message.text for message in context.messages])
        super().on_turn_persisted(context)


async def test_what_a_turn_said_can_be_read_when_it_is_over_also_after_a_restart() -> None:
    journal, reader, after = MemoryJournal(), Reader(), Reader()
    model = ScriptedModel([say("one"), say(calls=[call("pay", {"to": "eve"})]), "done", stall(after=1)])
    spec = SessionSpec(model=model, tools=[pay], plugins=[HumanApproval(tools=["pay"])])
    async with open_desk(spec, [reader], journal=journal) as desk:
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        waits = await held(desk.ann)
    assert reader.said == [["hi", "one"]]
    async with open_desk(spec, [after], journal=journal) as desk:
        await desk.ann.post("/v1/sessions/trip/approve", json={"approval": waits})
        with trio.fail_after(60):
            await after.is_over.wait()
        assert after.said == [["pay", "", "paid eve", "done"]]
        after.is_over = trio.Event()
        await desk.ann.post("/v1/sessions/trip/prompt", json={"message": "stay"})
        await desk.ann.post("/v1/sessions/trip/abort", json={})
        with trio.fail_after(60):
            await after.is_over.wait()
    assert [text[0] for text in after.said[1:]] == ["stay"]


async def test_plugins_know_agent_and_session_from_the_start() -> None:
    reader, other = Reader(), SessionSpec(model=ScriptedModel(["a", "b"]))
    profiles = [Profile("desk", scripted("c")), Profile("other", other)]
    async with open_desk(profiles, [reader]) as desk:
        await desk.ann.post("/v1/chat", json={"message": "hi"})
        await desk.ann.post("/v1/chat", json={"message": "hi", "agent": "other", "session": "trip"})
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
    names = [(item.agent_id, item.session_id) for item in reader.begun]
    (_, created), *_ = names
    assert created.startswith("ann.")
    assert names == [("desk", created), ("other", "ann.trip"), ("other", "ann.trip")]
    assert [(item.agent_id, item.session_id) for item in reader.asked] == names
    assert [(item.agent_id, item.session_id) for item in reader.over] == names


async def test_a_function_for_profiles_is_asked_before_the_agent_is_known() -> None:
    reader = Reader()
    async with open_desk(lambda _: Profile("found", scripted("a", "b")), [reader]) as desk:
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
        await desk.ann.post("/v1/chat", json={"message": "hi", "session": "trip"})
    assert [item.agent_id for item in reader.begun] == ["", "found"]
    assert [item.agent_id for item in reader.asked] == ["found", "found"]
