"""What a reader has broken of messages and waits among sub-agents, and the search that finds it."""

from __future__ import annotations

from random import Random
from typing import Final

import trio
from trio.testing import MockClock

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.core.machine import steering
from agentrail.errors import TaskDone
from agentrail.events import SteeringReceived, ToolExecutionEnd
from agentrail.journals import MemoryJournal
from agentrail.models import ToolCall
from agentrail.runtime.supervision.subagents.subagents import Subagents
from agentrail.testing import Choose, ScriptedModel, call, say
from agentrail.tools import message_tools
from property_tests.planted.change import Change

CHANGES: Final = (
    Change(
        "whoever_knows_an_id_may_write",
        "a sub-agent reaches one of which it was not given the address",
        Subagents.send,
        "if to not in task.peers and",
        "if not to and",
        "messages",
    ),
    Change(
        "a_message_stops_calls",
        "a message cancels the calls of its receiver, as steering does",
        steering.finish_before_steering,
        "if command.message:",
        "if not command.text:",
        "messages",
    ),
    Change(
        "a_message_without_its_command",
        "a message whose command is sent again comes again",
        Subagents.tell,
        "asked_by, command)",
        "asked_by, None)",
        "messages",
    ),
    Change(
        "a_wait_without_its_deadline",
        "a wait goes on until the tasks have ended",
        Subagents.wait,
        "parent.state, call_id, plain",
        "parent.state, call_id, plain + 1000",
        "messages",
    ),
)

WORKS: Final = 20
"""How many seconds the receiver works."""


@tool(timeout=100)
async def work() -> str:
    """Work."""
    await trio.sleep(WORKS)
    return "worked"


def _begin(agent: str, *peers: str) -> ToolCall:
    return call("task", {"agent": agent, "description": agent, "prompt": "go", "background": True, "peers": peers})


def _agent(name: str, first: ToolCall) -> SessionSpec:
    model = ScriptedModel([say(calls=[first]), "done", "done"], name=name)
    return SessionSpec(description=name, model=model, tools=[work, *message_tools()])


async def _play(choose: Choose) -> str | None:
    given = [name for name in ("b", "c") if choose.below(2)]
    sends, seconds = choose.number(1, 2), choose.number(1, WORKS - 2)
    agents = {"a": _agent("a", call("work"))} | {
        name: _agent(name, call("message_send", {"to": "p.c3", "message": f"from {name}"})) for name in ("b", "c")
    }
    begins = [_begin("a"), *(_begin(name, *(["p.c3"] if name in given else [])) for name in ("b", "c"))]
    lead = ScriptedModel([*(say(calls=[one]) for one in begins), "begun"])
    journal = MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=lead, agents=agents), "p")
        await session.ask("go")
        for _ in range(sends):
            await session.message_task("p.c3", "from p", command="one")
        began = trio.current_time()
        await session.wait_tasks("p.c3", seconds=seconds)
        late = trio.current_time() - began > seconds + 1
        await session.wait_tasks("p.c3")
    records = await journal.read("p.c3", 0, 1000)
    events = [envelope.event for record in records for envelope in record.events]
    heard = sorted(event.text.rpartition("> ")[2] for event in events if isinstance(event, SteeringReceived))
    worked = [event.text for event in events if isinstance(event, ToolExecutionEnd)]
    if heard != [f"from {name}" for name in (*given, "p")]:
        return "addresses" if len(heard) == len(set(heard)) else "once"
    return "stopped" if worked != ["worked"] else "deadline" if late else None


def broken_messages(seed: int) -> str | None:
    """Let three sub-agents, with some addresses drawn, and a program write to one; return what is wrong, or `None`."""
    try:
        return trio.run(_play, Choose(Random(seed).randrange), clock=MockClock(autojump_threshold=0))
    except TaskDone:  # the receiver works for long enough
        return "done"


MESSAGES: Final = {"messages": broken_messages}
"""The searches by name: each takes a seed, and returns what is wrong, or `None`."""
