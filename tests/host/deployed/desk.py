"""The program of a host that is deployed again and again: an agent that talks, and sends what cannot be taken back."""

from __future__ import annotations

import time
from pathlib import Path

import trio

from agentrail import SessionSpec
from agentrail.host import ApiKeys, Host, HostLimits, Profile
from agentrail.journals import SqliteJournal
from agentrail.models import ModelRequest, UserMessage
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, tool
from tests.kit import Element

WITNESS = Path("witness")
MANY = 100_000
WORDS = 8


def note(*words: object) -> None:
    """Write a line to a file that outlives the process: what is written the system has, even if that is killed."""
    line = " ".join(map(str, words))
    with WITNESS.open("ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


@tool(timeout=60)
async def send(to: str, seconds: float, ctx: ToolContext) -> str:
    """Send something, which takes its time and cannot be taken back."""
    note("began", ctx.idempotency_key, time.monotonic())
    await trio.sleep(seconds)
    note("ended", ctx.idempotency_key, time.monotonic())
    return f"sent to {to}"


def answer(request: ModelRequest) -> Element:
    """Send what the user says must be sent, as `name seconds`, and talk about it."""
    last = request.messages[-1]
    if isinstance(last, UserMessage):
        name, seconds = last.text.split()
        return say(calls=[call("send", {"to": name, "seconds": float(seconds)})])
    return say(" ".join(f"word{number}" for number in range(WORDS)), delay=0.01)


def build_spec(_: object) -> SessionSpec:
    return SessionSpec(model=ScriptedModel([answer], repeat_last=True), tools=[send])


host = Host(
    [Profile("desk", build_spec)],
    authenticator=ApiKeys("keys.txt"),
    journal=SqliteJournal("kept.db"),
    limits=HostLimits(
        requests_per_second=MANY,
        burst=MANY,
        sessions=MANY,
        streams=MANY,
        connections=MANY,
        connections_per_address=MANY,
        drain_seconds=10,
    ),
)
