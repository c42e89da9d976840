"""Memory: a file is in the prompt of each request, and is read again when a tool has written it.

The model is told that the file is the word of the user.

    ask 1: Use tabs.
    ask 2: Use spaces.
"""

import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.plugins import MemoryLoader
from agentrail.sandboxes import MemorySandbox
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools


async def main() -> None:
    note = say(calls=[call("write_file", {"path": "AGENTS.md", "content": "Use spaces."})])
    model = ScriptedModel([note, "I have noted it."])
    sandbox = MemorySandbox({"AGENTS.md": b"Use tabs."})
    spec = SessionSpec(model=model, tools=standard_tools(), sandbox=sandbox, plugins=[MemoryLoader()])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.ask("From now on, use spaces.")
    for number, request in enumerate(model.requests, 1):
        print(f"ask {number}:", dict(request.background)["AGENTS.md"])


trio.run(main)
