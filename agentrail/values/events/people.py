"""Events of approvals and questions to people."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.values.events.envelope import Event
from agentrail.values.json import JsonObject
from agentrail.values.personal import Kept, Personal, ToolName


class ApprovalRequired(Event):
    """A plugin holds a call until a person approves or rejects it."""

    approval_id: Kept[str]
    """Id to pass to `approve` and `reject`; unique among a session and its sub-agents."""
    call_id: Kept[str]
    """Id of the call."""
    tool: ToolName
    """Name of the tool."""
    args: Personal[JsonObject]
    """Arguments of the call; if approved unchanged, it runs with exactly these."""
    hint: Personal[str]
    """What the person should know, from the plugin."""
    plugin: Kept[str]
    """Key of the plugin that holds the call."""
    requested_at: int
    """When approval was requested, in milliseconds since 1970."""
    expires_at: int | None
    """When the hold expires, in milliseconds since 1970; `None` if it does not."""
    family: Personal[str | None] = None
    """Command family that `approve(always=True)` would let pass; `None` if that is not possible."""
    path: Kept[tuple[str, ...]] = ()
    """For a call of a sub-agent: the ids of parent session and call, outermost first; else empty."""
    digest: Personal[str] = ""
    """Digest of id, tool, family, arguments; a decision that carries it is refused if the call is another by then."""


class ApprovalResolved(Event):
    """A held call was decided, or what waited for a decision, an answer or a result was dropped: it waits no more.

    With the status `cleared`, a person ended the doubt about a stopped call, so an equal call is not held.
    """

    approval_id: Kept[str]
    """Id of the approval, the question or the awaited result; of a doubt, `SESSION:CALL`."""
    call_id: Kept[str]
    """Id of the call."""
    tool: ToolName
    """Name of the tool."""
    status: Kept[str]
    """`approved`, `rejected`, `timeout`, `superseded`, `aborted`; or `cleared`."""
    reason: Personal[str | None] = None
    """Reason given with the decision."""
    edited: bool = False
    """Whether the person edited the arguments."""
    by: Kept[str] = ""
    """Id of the user who decided; empty if it was done without one, or if nobody did."""


class ToolApprovedAlways(Event):
    """A person approved all later calls of this kind, so they are not held any more."""

    tool: ToolName
    """Name of the tool."""
    command_family: Personal[str]
    """Command family of the calls."""
    by: Kept[str] = ""
    """Id of the user who approved; empty if it was done without one."""


class AskUser(Event):
    """A tool asks a person a question."""

    ref: Kept[str]
    """Id to pass to `respond`."""
    call_id: Kept[str]
    """Id of the call that asks."""
    question: Personal[str]
    """Text of the question."""
    options: Personal[tuple[str, ...]] = ()
    """Answers to choose from; empty if the answer is free text."""
    path: Kept[tuple[str, ...]] = ()
    """For a call of a sub-agent: the ids of parent session and call, outermost first; else empty."""


class UserResponded(Event):
    """A person answered a question."""

    ref: Kept[str]
    """Id of the question."""
    response: Personal[str]
    """The answer."""


class ResultRequired(Event):
    """A call waits for its result, which somebody elsewhere gives; `ToolExecutionEnd` tells that it has come."""

    ref: Kept[str]
    """Id to pass to `result`; unique among a session and its sub-agents."""
    call_id: Kept[str]
    """Id of the call."""
    tool: ToolName
    """Name of the tool."""
    args: Personal[JsonObject]
    """Arguments of the call."""
    expires_at: int
    """Until when a result is taken, in milliseconds since 1970."""
    path: Kept[tuple[str, ...]] = ()
    """For a call of a sub-agent: the ids of parent session and call, outermost first; else empty."""


AnyPeopleEvent: TypeAlias = (
    ApprovalRequired | ApprovalResolved | AskUser | ResultRequired | ToolApprovedAlways | UserResponded
)
"""The events of this module, in the order of the catalogue."""
