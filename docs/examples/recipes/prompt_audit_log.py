"""An audit log of prompts: who asked what, one line each, written by the session with the standard `logging`.

A plugin does no I/O; it returns a `Log` from `on_event`, and the session writes it. Only its length goes into the log
here, because prompts may hold what a log must not.

    audit.prompt session=desk {'by': 'ann', 'characters': 5}
    audit.prompt session=desk {'by': 'bob', 'characters': 11}
"""

from __future__ import annotations

import logging
import sys

import trio
from attrs import frozen

from agentrail import Plugin, SessionSpec, open_supervisor
from agentrail.events import Envelope, PromptReceived
from agentrail.plugins import Context, Log


@frozen
class PromptAudit(Plugin[None]):
    """Log each prompt."""

    def on_event(self, event: Envelope, state: None, ctx: Context) -> Log[None] | None:
        if not isinstance(event.event, PromptReceived):
            return None
        return Log("info", "audit.prompt", {"by": event.by, "characters": len(event.event.text)}, state)


async def main() -> None:
    """Let two people ask."""
    form = "%(message)s session=%(session_id)s %(fields)s"
    logging.basicConfig(level="INFO", format=form, stream=sys.stdout)
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model="demo", plugins=[PromptAudit()]), id="desk")
        await session.by("ann").ask("hello")
        await session.by("bob").ask("hello again")


trio.run(main)
