"""A client for each tenant: tools get it with its type, and a session that returns gets one again.

A function makes what the tools of a session depend on, from what is stored of the session. The client itself is in no
record; here, one supervisor ends while a session of each tenant is stored, and another one goes on with them.

    acme: 1 order, asked by client 1
    zoo: 2 orders, asked by client 2
    acme: 1 order, asked by client 3
    zoo: 2 orders, asked by client 4
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import trio

from agentrail import DepsWanted, SessionSpec, open_supervisor, tool
from agentrail.journals import MemoryJournal
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import ToolContext

ORDERS = {"acme": ["tea"], "zoo": ["fish", "hay"]}
NUMBERS = count(1)


@dataclass
class Orders:
    """Stands for a client that has a connection."""

    tenant: str
    number: int


@tool(effect="pure")
async def orders(ctx: ToolContext[Orders]) -> str:
    """Count the orders of the customer."""
    found = len(ORDERS[ctx.deps.tenant])
    return f"{found} order{'s' * (found > 1)}, asked by client {ctx.deps.number}"


async def connect(session: DepsWanted) -> Orders:
    """Return a client for the tenant of the session."""
    return Orders(session.tenant, next(NUMBERS))


def desk() -> SessionSpec:
    """Return the specification, for new sessions and for those that return."""
    model = ScriptedModel([say(calls=[call("orders")]), "Done."])
    return SessionSpec(name="desk", model=model, tools=[orders], deps=connect)


async def main() -> None:
    """Ask in a session of each tenant, twice."""
    journal = MemoryJournal()
    for is_new in (True, False):
        async with open_supervisor(journal=journal, specs={"desk": desk}) as supervisor:
            for tenant in ORDERS:
                opened = supervisor.spawn(desk(), tenant, tenant=tenant) if is_new else supervisor.resume(tenant)
                session = await opened
                await session.ask("How many orders are there?")
                print(f"{tenant}: {session.messages()[-2].text}")


trio.run(main)
