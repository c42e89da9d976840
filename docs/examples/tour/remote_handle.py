"""A remote handle: a session at a host has the methods of a local one, and its events survive a cut connection.

Here the host is in the same program, at any free port of this machine.

    you.trip: Lisbon is by the sea.
    SessionStarted PromptReceived AgentStart AgentEnd
"""

import trio

import agentrail
from agentrail import SessionSpec
from agentrail.events import AgentEnd, AgentStart, Event, PromptReceived, SessionStarted
from agentrail.host import Host, Profile
from agentrail.testing import ScriptedModel

TYPES: list[type[Event]] = [SessionStarted, PromptReceived, AgentStart, AgentEnd]


async def main() -> None:
    host = Host([Profile("desk", SessionSpec(model=ScriptedModel(["Lisbon is by the sea."])))])
    async with host.serving() as serving:
        url, _, token = serving.entry.partition("/#token=")
        async with agentrail.connect(url, token) as supervisor:
            session = await supervisor.spawn("desk", "trip")
            reply = await session.ask("Where is Lisbon?")
            print(f"{session.id}: {reply.text}")
            async with session.subscribe(since=0, types=TYPES) as events:
                print(*[type((await anext(events)).event).__name__ for _ in TYPES])


trio.run(main)
