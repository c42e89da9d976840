"""Events of approvals and questions."""

from __future__ import annotations

from agentrail.values.events.envelope import Event
from agentrail.values.json import JsonObject
from agentrail.values.value import value


@value
class ApprovalRequired(Event):
    """A call waits for a person."""

    approval_id: str
    """What `approve` and `reject` take; unique in the tree of sessions."""
    call_id: str
    """Which call."""
    tool: str
    """Which tool."""
    args: JsonObject
    """With which arguments: exactly these run."""
    hint: str
    """What the plugin that holds it says."""
    plugin: str
    """Who holds it."""
    requested_at: int
    """Since when, in milliseconds since 1970."""
    expires_at: int | None
    """Until when; `None`: for ever."""
    family: str | None = None
    """What "always" would mean."""
    path: tuple[str, ...] = ()
    """Of a sub-agent: parent session and call, outermost first."""


@value
class ApprovalResolved(Event):
    """A held call was decided, or a question was given up: nobody need answer it any more."""

    approval_id: str
    """Which approval, or which question."""
    call_id: str
    """Which call."""
    tool: str
    """Which tool."""
    status: str
    """`approved`, `rejected`, `timeout`, `superseded` or `aborted`."""
    reason: str | None = None
    """The words of whoever decided."""
    edited: bool = False
    """Whether the arguments were edited."""


@value
class ToolApprovedAlways(Event):
    """Calls of this kind pass without asking from now on."""

    tool: str
    """Which tool."""
    command_family: str
    """Which kind of its calls."""


@value
class AskUser(Event):
    """The agent asks the person."""

    ref: str
    """What `respond` takes."""
    call_id: str
    """The call that asks."""
    question: str
    """What it asks."""
    options: tuple[str, ...] = ()
    """Answers to choose from; empty: free text."""
    path: tuple[str, ...] = ()
    """Of a sub-agent: parent session and call, outermost first."""


@value
class UserResponded(Event):
    """The person answered."""

    ref: str
    """Which question."""
    response: str
    """The answer."""
