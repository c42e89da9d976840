"""Clients that do all that clients do, and say how long they heard nothing."""

from __future__ import annotations

import time

from attrs import define, field

from tests.host.deployed.client import Client, Heard
from tests.host.deployed.line_client import LineClient

WHAT = ("send", "send", "look", "pay", "task")
REFUSED = ("unknown-approval", "unknown-turn")
"""Types of what comes too late, as the call was decided, or too early, as the turn has not begun."""


@define(slots=False)
class BusyClient(Client):
    """Steers, aborts, decides, labels and forks, too."""

    times: list[float] = field(factory=list)
    """When each event was heard."""
    forks: int = 0
    """How many copies of the session were made."""

    def hear(self, heard: Heard) -> None:
        self.times.append(time.monotonic())
        super().hear(heard)

    async def take_turn(self) -> None:
        chance = self.chance
        since = len(self.heard)
        ref = await self.begin_turn(f" {chance.choice(WHAT)}")
        number, decided = self.sent, set[str]()
        match chance.randrange(8):
            case 0:
                await self.do("steer", f"steer-{number}", text="briefly")
            case 1:
                await self.do("abort", f"abort-{number}", reason="enough")
            case 2:
                await self.do("label", f"label-{number}", add=[f"l{number}"], remove=[f"l{number - 1}"])
            case 3:
                self.forks += 1
                point = {"at": ref} if chance.random() < 0.5 else {}
                await self.do("fork", f"fork-{number}", session=f"{self.session}-f{number}", **point)
            case _:
                pass
        while not self.has_ended(ref):
            waiting = [frame.approval for frame in self.heard[since:] if frame.name == "ApprovalRequired"]
            for approval in waiting:
                if approval not in decided:
                    decided.add(approval)
                    decision = "reject" if chance.random() < 0.3 else "approve"
                    await self.do(decision, f"{decision}-{approval}", approval=approval, auto_resume=True)
            if len(decided) == len(set(waiting)) and not self.has_ended(ref):
                await self.news.wait()

    async def do(self, name: str, command: str, **body: object) -> None:
        """Have something done."""
        await self.command("POST", f"/v1/sessions/{self.session}/{name}", body, command, *REFUSED)


@define(slots=False)
class BusyLineClient(BusyClient, LineClient):
    """The same by the library's own client."""
