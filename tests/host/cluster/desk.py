"""The program of one of several hosts: that of `tests.host.deployed` and more, on a journal of all of them.

`CLOCK` in the environment is by how many seconds its clock is wrong. The witness has what the journal refuses: claims,
and records of a host that has lost a session.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import cast

import trio

from agentrail import SessionSpec
from agentrail.errors import Fenced, SessionHeld
from agentrail.host import ApiKeys, Cluster, Host, Profile
from agentrail.journals import NO_LEASE, Claim, Journal, Lease, PostgresJournal, Record
from agentrail.models import JsonObject, ModelRequest, UserMessage
from agentrail.plugins import HumanApproval
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext, tool
from tests.host.cluster.several import KEY, LEASE
from tests.host.deployed import desk
from tests.kit import Element
from tests.recovery.shared import SharedJournal

_true_time, _wrong = time.time, float(os.environ.get("CLOCK", "0"))
time.time = lambda: _true_time() + _wrong


class LaterJournal(SharedJournal):
    """Connects to the journal when that is used first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._dialling = trio.Lock()
        self._is_connected = False

    async def _ask(self, name: str, *args: object, **more: object) -> object:
        async with self._dialling:
            if not self._is_connected:
                super().__init__(await trio.open_unix_socket(self._path))
                self._is_connected = True
        return await super()._ask(name, *args, **more)


class WitnessedJournal(PostgresJournal):
    """Notes what is refused."""

    async def claim(
        self, session_id: str, holder: str, lease: Lease = NO_LEASE, *, take_over: bool | str = False
    ) -> Claim:
        try:
            return await super().claim(session_id, holder, lease, take_over=take_over)
        except SessionHeld:
            desk.note("held", f"{holder}|{session_id}", time.monotonic())
            raise

    async def append(self, claim: Claim, expected: int, records: Sequence[Record]) -> int:
        try:
            return await super().append(claim, expected, records)
        except Fenced:
            desk.note("fenced", claim.session_id, time.monotonic())
            raise


def journal() -> Journal:
    """Return the journal that the environment names: a socket, or a database."""
    url = os.environ["JOURNAL"]
    if url.startswith("postgresql:"):
        return WitnessedJournal(url)
    return cast("Journal", LaterJournal(url))


@tool(effect="pure")
async def look(at: str, seconds: float) -> str:
    """Look at something, which may be done again."""
    await trio.sleep(seconds)
    return f"seen {at}"


@tool
async def pay(to: str, ctx: ToolContext) -> str:
    """Pay, which somebody approves before."""
    desk.note("began", ctx.idempotency_key, time.monotonic())
    desk.note("ended", ctx.idempotency_key, time.monotonic())
    return f"paid {to}"


def answer(request: ModelRequest) -> Element:
    """Do what the user says must be done, as `name seconds what`, and talk about it."""
    last = request.messages[-1]
    words = last.text.split() if isinstance(last, UserMessage) else []
    if len(words) < 2:
        return desk.answer(request) if not words else say("well")
    name, seconds, what = words[0], float(words[1]), words[2] if len(words) > 2 else "send"
    args: JsonObject = {"to": name, "seconds": seconds}
    match what:
        case "look":
            args = {"at": name, "seconds": seconds}
        case "pay":
            args = {"to": name}
        case "task":
            args = {"agent": "helper", "description": "help", "prompt": f"{name} {seconds}"}
        case _:
            pass
    return say(calls=[call(what, args)])


def build_spec(_: object) -> SessionSpec:
    helper = desk.build_spec(None).but(description="Sends.")
    return SessionSpec(
        model=ScriptedModel([answer], repeat_last=True),
        tools=[desk.send, look, pay],
        agents={"helper": helper},
        plugins=[HumanApproval(["pay"])],
    )


def slow(_: object) -> SessionSpec:
    """Return an agent whose turns take several seconds, in which it says something all the time."""
    words = " ".join(f"word{number}" for number in range(200))
    return SessionSpec(model=ScriptedModel([say(words, delay=0.02)], repeat_last=True))


PROFILES = (Profile("desk", build_spec), Profile("slow", slow))

host = Host(
    PROFILES,
    authenticator=ApiKeys("keys.txt"),
    journal=journal(),
    limits=desk.host.limits,
    cluster=Cluster(os.environ["ADDRESS"], KEY, lease=float(os.environ.get("LEASE", LEASE))),
)
