"""Screening: a key is taken out of every text before it reaches a record, an event, a log or the model.

The same holds for what tools return and for what the model says.

    the model reads: My key is [key].
    the records have it: False
"""

import re

import trio
from attrs import frozen

from agentrail import Plugin, SessionSpec, open_supervisor
from agentrail.journals import MemoryJournal
from agentrail.testing import ScriptedModel


@frozen
class Keys(Plugin[None]):
    """Take API keys out of all texts."""

    pattern: str = r"sk-[A-Za-z0-9]{4,}"

    def screen(self, text: str) -> str:
        return re.sub(self.pattern, "[key]", text)


async def main() -> None:
    model, journal = ScriptedModel(["Use sk-999900, not sk-123400."]), MemoryJournal()
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Keys()]), "desk")
        await session.ask("My key is sk-123400.")
        print("the model reads:", model.requests[0].messages[0].text)
        print("the records have it:", "123400" in str(await journal.read("desk")))


trio.run(main)
