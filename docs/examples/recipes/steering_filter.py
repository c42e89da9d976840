"""What people say into a running turn passes a filter: some of it is changed, and some is refused.

`before_steering` is asked before a text is queued. `ReplacePrompt` changes what the model will have as said; `Abort`
refuses it, and the caller gets the reason.

    plugin `OneSubject` refuses: this is about tea alone
    ['about tea: is it green?']
"""

from __future__ import annotations

import trio
from attrs import frozen

from agentrail import Abort, Continue, Plugin, ReplacePrompt, SessionSpec, open_supervisor
from agentrail.errors import PluginRefused
from agentrail.plugins import BeforeSteering, Context
from agentrail.testing import ScriptedModel, say


@frozen
class OneSubject(Plugin[None]):
    """Let people speak of one *subject*."""

    subject: str
    others: frozenset[str]

    def before_steering(
        self, hook: BeforeSteering, state: None, ctx: Context
    ) -> Continue[None] | ReplacePrompt[None] | Abort[None]:
        if any(other in hook.text for other in self.others):
            return Abort(f"this is about {self.subject} alone")
        if self.subject in hook.text:
            return Continue()
        return ReplacePrompt(f"about {self.subject}: {hook.text}")


async def main() -> None:
    """Steer a turn that takes a while."""
    model = ScriptedModel([say("Tea is a plant.", delay=0.2), "It is, often."])
    spec = SessionSpec(model=model, plugins=[OneSubject("tea", frozenset({"coffee"}))])
    async with open_supervisor() as supervisor:
        session = await supervisor.spawn(spec)
        await session.prompt("What is it?", command="what")
        try:
            await session.steer("and coffee?")
        except PluginRefused as error:
            print(error)
        await session.steer("is it green?")
        await session.ask("What is it?", command="what")  # the same command: its reply
        print([message.text for message in session.messages() if "green" in message.text])


trio.run(main)
