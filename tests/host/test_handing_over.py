"""A session of a host is handed over to another agent, and back: over HTTP, a WebSocket and AG-UI, and after a restart.

The profile has another name than its first agent, as each file of the command line has.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from agentrail import Handoff, SessionSpec, connect, tool
from agentrail.events import AgentEnd, HandedOff
from agentrail.journals import Journal, MemoryJournal, SqliteJournal
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from tests.host.ag_ui.front_end import FrontEnd
from tests.host.hosted import KEYS, open_desk
from tests.host.test_host import chat
from tests.host.test_records import get_view
from tests.kit import Element

TO_BILLING = say("Billing can help.", calls=[call("transfer_to_billing")])
TO_FRONT = say("That is for the front.", calls=[call("transfer_to_front")])
REFUND = say(calls=[call("pay_back", {"order": 7})])


@tool
async def pay_back(order: int) -> str:
    """Pay the price of an order back."""
    return f"paid {order} back"


def two_agents(
    front: list[Element], billing: list[Element], history: Literal["all", "turn", "summary"] = "all"
) -> SessionSpec:
    other = SessionSpec(
        name="billing",
        description="Pays back.",
        model=ScriptedModel(billing, name="billing"),
        tools=[pay_back],
        handoffs=["front"],
    )
    return SessionSpec(
        name="front",
        description="Finds out who can help.",
        model=ScriptedModel(front, name="front"),
        handoffs=[Handoff(other, history)],
        plugins=[HumanApproval(tools=["pay_back"])],
    )


async def test_over_http_status_tools_and_records_tell_who_works() -> None:
    async with open_desk(two_agents([TO_BILLING], ["I am billing."])) as desk:
        assert (await chat(desk.ann, "My money back!", session="trip")).json()["text"] == "I am billing."
        body = (await desk.ann.get("/v1/sessions/trip")).json()
        assert (body["agent"], body["status"]["agent"], body["status"]["model"]) == ("desk", "billing", "billing")
        assert body["tools"] == ["pay_back", "transfer_to_front"]
        account = await get_view(desk.clients["boss"], "why", about=1)
        sentences = [entry["sentence"] for entry in account["entries"]]
        assert "the conversation was handed over to billing, as the model asked" in sentences
        state = (await get_view(desk.clients["boss"], "at", record=1))["state"]
        assert (state["setup"]["spec"], state["setup"]["agent"]) == ("desk", "front")


async def test_over_a_web_socket_events_tell_of_both_ways() -> None:
    spec = two_agents([TO_BILLING, "I am the front."], [TO_FRONT])
    async with open_desk(spec) as desk, connect(desk.serving.url, KEYS["ann"]) as supervisor:
        session = await supervisor.spawn("desk", "trip")
        assert (await session.status()).agent == "front"
        handed = list[tuple[str, str]]()
        async with session.subscribe() as events:
            await session.prompt("go")
            async for envelope in events:
                match envelope.event:
                    case HandedOff(from_=before, to=after):
                        handed.append((before, after))
                        assert (await session.status()).agent in {"front", "billing"}
                    case AgentEnd():
                        break
        assert handed == [("front", "billing"), ("billing", "front")]
        assert (await session.status()).agent == "front"


@pytest.mark.parametrize("history", ["all", "turn", "summary"])
async def test_runs_of_ag_ui_show_the_whole_conversation(history: Literal["all", "turn", "summary"]) -> None:
    spec = two_agents(["hi", TO_BILLING, "I am the front."], [TO_FRONT], history).but(
        compactor=keep_nothing, context_window=100_000
    )
    async with open_desk(spec) as desk:
        front = FrontEnd(desk.ann, "trip")
        await front.say("hello")
        await front.say("go")
        turn = [
            ("user", "go"),
            ("assistant", "Billing can help."),
            ("tool", "`billing` goes on with the conversation"),
            ("assistant", "That is for the front."),
            ("tool", "`front` goes on with the conversation"),
            ("assistant", "I am the front."),
        ]
        assert front.texts() == [("user", "hello"), ("assistant", "hi"), *turn]
        reloaded = FrontEnd(desk.ann, "trip")
        await reloaded.join()
        assert reloaded.texts()[-len(turn) :] == turn


async def keep_nothing(leaving: object, ask: object) -> str:  # noqa: ARG001 - as a compactor is called
    """Return a summary."""
    return "They said hello."


async def test_a_held_call_of_the_other_agent_is_an_interrupt_of_ag_ui() -> None:
    async with open_desk(two_agents([TO_BILLING], [REFUND, "It is paid."])) as desk:
        front = FrontEnd(desk.ann, "trip")
        await front.say("My money back!")
        (interrupt,) = front.interrupts
        assert interrupt["metadata"]["tool"] == "pay_back"
        await front.answer({"approved": True})
        assert front.texts()[-2:] == [("tool", "paid 7 back"), ("assistant", "It is paid.")]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_after_a_restart_the_other_agent_goes_on_and_hands_back(kind: str, tmp_path: Path) -> None:
    journals: list[Journal] = [MemoryJournal()] * 2
    if kind == "sqlite":
        journals = [SqliteJournal(tmp_path / "s.db"), SqliteJournal(tmp_path / "s.db")]
    async with open_desk(two_agents([TO_BILLING], ["I am billing."]), journal=journals[0]) as desk:
        await chat(desk.ann, "My money back!", session="trip")
    async with open_desk(two_agents(["I am the front."], [TO_FRONT]), journal=journals[1]) as desk:
        assert (await chat(desk.ann, "And now?", session="trip")).json()["text"] == "I am the front."
        assert (await desk.ann.get("/v1/sessions/trip")).json()["status"]["agent"] == "front"


async def test_at_its_start_a_host_warns_of_the_models_of_handoffs(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)
    other = SessionSpec(name="billing", description="Pays back.", model="mistral:mistral-large-latest")
    async with open_desk(SessionSpec(model="demo", handoffs=[other])):
        pass
    assert any("`mistral:mistral-large-latest`" in record.message for record in caplog.records)
