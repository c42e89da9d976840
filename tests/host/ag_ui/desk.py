"""The program of a host whose agent counts, pays, and hands over, as it is told."""

from __future__ import annotations

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, Profile
from agentrail.journals import SqliteJournal
from agentrail.models import ModelRequest, UserMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import tool
from tests.kit import Element


@tool
async def pay(to: str) -> str:
    """Pay."""
    return f"paid {to}"


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def answer(request: ModelRequest) -> Element:
    """Do what the last message says: `add`, `pay`, `hand over`, or `count` slowly."""
    last = request.messages[-1]
    if not isinstance(last, UserMessage):
        return f"It is {last.text}."
    match last.text.split():
        case ["add", a, b]:
            return say("I add.", calls=[call("add", {"a": int(a), "b": int(b)})])
        case ["pay", name]:
            return say("I pay.", calls=[call("pay", {"to": name})])
        case ["hand", "over"]:
            return say(calls=[call("task", {"agent": "helper", "description": "adds", "prompt": "add 2 3"})])
        case ["count", number]:
            return say(" ".join(f"n{index}" for index in range(int(number))), delay=0.01)
        case _:
            return "What?"


def build_spec(_: object) -> SessionSpec:
    helper = SessionSpec(model=ScriptedModel([answer], repeat_last=True), description="Adds.", tools=[add])
    return SessionSpec(
        model=ScriptedModel([answer], repeat_last=True),
        tools=[add, pay],
        plugins=[HumanApproval(tools=["pay"])],
        agents={"helper": helper},
    )


host = Host([Profile("desk", build_spec)], authenticator=ApiKeys("keys.txt"), journal=SqliteJournal("kept.db"))
app = host.asgi()
