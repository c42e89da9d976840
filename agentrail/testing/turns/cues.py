"""The steps of a script for `simulate`: what users say, what the model answers, what tools return.

What the model does is written as for `ScriptedModel`: `say`, `transient`, `permanent`, `overflow`, `stall`. The rest is
here. Each is a frozen value, so a script can be drawn, shrunk and printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from agentrail.hooks.actions import AskAnswer
from agentrail.testing.scripted import Cue
from agentrail.values.json import Json, JsonObject, freeze_object
from agentrail.values.spelling import checked
from agentrail.values.tools import ToolResult, ok
from agentrail.values.value import value


@value
class Prompted(Cue):
    """A user prompts."""

    text: str
    """The text."""
    at_once: bool = False
    """Whether also while a turn runs; otherwise when the session has come to rest."""


@value
class Steered(Cue):
    """A user steers."""

    text: str
    """The text."""
    when: str = "gap"
    """`gap` or `now`."""


@value
class Aborted(Cue):
    """A user aborts."""

    reason: str | None = None
    """Why."""
    kill_tools: str = "killable"
    """`killable`, `all` or `none`."""
    clear_queue: bool = False
    """Whether queued prompts are dropped."""


@value
class Approved(Cue):
    """A person approves the first held call."""

    args: JsonObject | None = None
    """Other arguments to run it with."""
    always: bool = False
    """Whether calls like this pass from now on."""


@value
class Rejected(Cue):
    """A person rejects the first held call."""

    reason: str | None = None
    """Why."""
    auto_resume: bool = False
    """Whether the model is asked to go on."""


@value
class Responded(Cue):
    """A person answers the first open question."""

    text: str
    """The answer."""


@value
class Returned(Cue):
    """The first running call returns."""

    result: ToolResult
    """What."""


@value
class Raised(Cue):
    """The first running call raises."""

    error: str
    """What."""


@value
class Told(Cue):
    """A plugin is told what it asked for."""

    answer: AskAnswer
    """The answer."""


@value
class Waited(Cue):
    """Time passes, and timers fire."""

    seconds: float
    """Seconds that pass."""


@value
class Switched(Cue):
    """A user switches the model."""

    model: str
    """Name of the model."""


@value
class Compacted(Cue):
    """A user has the context compacted."""


@value
class Stopped(Cue):
    """The session is stopped for good."""

    reason: str = "stopped"
    """Why."""


Script: TypeAlias = Sequence[Cue]
"""What happens to a session from outside, in order."""


@checked
def prompt(text: str, *, at_once: bool = False) -> Prompted:
    """Prompt the session when it has come to rest, or *at_once*."""
    return Prompted(text, at_once)


@checked
def steer(text: str, when: str = "gap") -> Steered:
    """Steer the session."""
    return Steered(text, when)


@checked
def abort(reason: str | None = None, *, kill_tools: str = "killable", clear_queue: bool = False) -> Aborted:
    """Abort what the session does."""
    return Aborted(reason, kill_tools, clear_queue)


@checked
def approve(args: Mapping[str, Json] | None = None, *, always: bool = False) -> Approved:
    """Approve the call that is held."""
    return Approved(None if args is None else freeze_object(args), always)


@checked
def reject(reason: str | None = None, *, auto_resume: bool = False) -> Rejected:
    """Reject the call that is held."""
    return Rejected(reason, auto_resume)


@checked
def respond(text: str) -> Responded:
    """Answer what a tool has asked the user."""
    return Responded(text)


@checked
def returns(result: str | ToolResult) -> Returned:
    """Let the first call that runs return a text, or any result."""
    return Returned(ok(result) if isinstance(result, str) else result)


@checked
def raises(error: str) -> Raised:
    """Let the first call that runs raise."""
    return Raised(error)


@checked
def tell(answer: AskAnswer) -> Told:
    """Answer what a plugin has asked for: `Ok`, `Failed` or `TimedOut`."""
    return Told(answer)


@checked
def wait(seconds: float) -> Waited:
    """Let time pass."""
    return Waited(seconds)


@checked
def switch_model(model: str) -> Switched:
    """Switch the model."""
    return Switched(model)


@checked
def compact() -> Compacted:
    """Have the context compacted."""
    return Compacted()


@checked
def stop(reason: str = "stopped") -> Stopped:
    """Stop the session for good."""
    return Stopped(reason)
