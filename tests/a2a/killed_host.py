"""A host that speaks A2A, in a process of its own, which is killed: `python -m tests.a2a.killed_host PORT JOURNAL`."""

import sys
from pathlib import Path

import trio

from agentrail import SessionSpec, tool
from agentrail.a2a import A2aFace
from agentrail.host import ApiKeys, Host, Profile
from agentrail.journals import SqliteJournal
from agentrail.models import ModelRequest, ToolMessage
from agentrail.testing import ScriptedModel, call, say
from tests.kit import Element

STEPS = 12


@tool(effect="pure")
async def step(number: int) -> str:
    """Take a step."""
    await trio.sleep(0.03)
    return f"step {number}"


def answer(request: ModelRequest) -> Element:
    count = sum(isinstance(message, ToolMessage) for message in request.messages)
    return say(f"Step {count}.", calls=[call("step", {"number": count})]) if count < STEPS else "All steps are taken."


async def main(port: int, journal: Path, keys: Path) -> None:
    spec = SessionSpec(model=ScriptedModel([answer], repeat_last=True), tools=[step])
    host = Host([Profile("desk", spec)], authenticator=ApiKeys(keys), journal=SqliteJournal(journal), faces=[A2aFace()])
    async with host.serving(port):
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
