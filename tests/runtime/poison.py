"""A mistake in agentrail that crashes an actor; it is raised at a failpoint, because no plugin can cause one."""

from contextlib import ExitStack

from agentrail import Context, Continue, Plugin
from agentrail.plugins import AfterResponse, BeforePrompt
from tests.kit import Failpoint, watching

POISONED = "OurBug: poison"
"""The crash by `OurBug`, as crash reports and errors describe it."""


class OurBug(Exception):  # noqa: N818 - a name that is seen in reports
    """Stands for a mistake in the machine or the runtime."""


def crash_this_step(failpoint: Failpoint = Failpoint.APPEND) -> None:
    """Make the current step crash its actor, just before its record is written, or at another point."""
    planted = ExitStack()

    def watcher(point: Failpoint) -> None:
        if point is failpoint:
            planted.close()
            message = "poison"
            raise OurBug(message)

    planted.enter_context(watching(watcher))


class Poison(Plugin[int]):
    """Crashes the actor at the prompt "die"; its state counts the other prompts."""

    def init(self, ctx: Context) -> int:
        return 0

    def before_prompt(self, hook: BeforePrompt, state: int, ctx: Context) -> Continue[int]:
        if hook.text == "die":
            crash_this_step()
        return Continue(state + 1)


class PoisonedResponse(Plugin[None]):
    """Crashes the actor at the response "poison", each time it is handled: the session is set aside with it."""

    def after_response(self, hook: AfterResponse, state: None, ctx: Context) -> Continue[None]:
        if hook.message.text == "poison":
            crash_this_step()
        return Continue()
