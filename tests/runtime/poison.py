"""A bug of our own that crashes an actor: planted where a step is written down, because no plugin can cause one."""

from contextlib import ExitStack

from agentrail.hooks.actions import Continue
from agentrail.hooks.context import Context
from agentrail.hooks.moments import BeforePrompt
from agentrail.hooks.plugin import Plugin
from agentrail.ports.failpoints import Failpoint, watching

POISONED = "OurBug: poison"
"""How a crash by it is described."""


class OurBug(Exception):  # noqa: N818 - a name that is seen in reports
    """Stands for a mistake in the machine or the shell."""


def crash_this_step() -> None:
    """Have the step that is being made crash its actor, when its record is about to be written."""
    planted = ExitStack()

    def watcher(point: Failpoint) -> None:
        if point is Failpoint.APPEND:
            planted.close()
            message = "poison"
            raise OurBug(message)

    planted.enter_context(watching(watcher))


class Poison(Plugin[int]):
    """Crashes the actor at a prompt that says so; counts the others."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int]:
        if hook.text == "die":
            crash_this_step()
        return Continue(state + 1)
