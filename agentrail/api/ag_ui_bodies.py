"""What the calls of AG-UI take: the input of a run, of which a host reads little, and the place to go on from."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from agentrail.api.bodies import MAX_NAMED, MAX_NAMES, AgentName, CallBody, Filled, Query, SessionId
from agentrail.values.json import Json

MAX_MESSAGES: Final = 10_000
"""The most messages that a client may send along; the body has its own limit."""

_NUMBER: Final = r"(0|[1-9][0-9]{0,14})"
_REF: Final = r"(\+[a-z]{1,2}[0-9]{1,15})?"
_OPEN: Final = r"(~[tr]m[0-9]{1,15}(?:\.[0-9]{1,9})?(?:\.r)?)?"
FRAME_ID: Final = rf"^{_NUMBER}\.{_NUMBER}\.([oe]?){_NUMBER}{_REF}{_OPEN}(!?)$"
"""Pattern of the ids of frames: cursor, number of the frame, prompt of the run, what is open then, and whether
a snapshot is to come."""

RunName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAMED)]


class RunMessage(CallBody, forbid_unknown_fields=False):
    """A message as the client has it. Only the last one of the list is read, and only if it is new and a user's."""

    role: str
    """`user`, `assistant`, `tool`, …"""
    id: RunName
    """Id of the message. One that was sent already is not sent again."""
    content: Json = None
    """Its text, or its parts."""


class ResumeEntry(CallBody, forbid_unknown_fields=False, rename="camel"):
    """The answer to an interrupt."""

    interrupt_id: RunName
    """Id of the interrupt."""
    status: Literal["resolved", "cancelled"]
    """`cancelled`: the person gave no answer."""
    payload: Json = None
    """The answer, as the `responseSchema` of the interrupt has it."""


class RunBody(CallBody, forbid_unknown_fields=False, rename="camel"):
    """The input of a run (`RunAgentInput` of AG-UI); its other fields, such as `tools` and `state`, are not read."""

    thread_id: SessionId
    """Id of the session. A name that is not there yet is given to a new one."""
    run_id: RunName
    """Id of the run, as its frames have it."""
    messages: Annotated[tuple[RunMessage, ...], Meta(max_length=MAX_MESSAGES)] = ()
    """The conversation as the client has it. The host has its own."""
    resume: Annotated[tuple[ResumeEntry, ...], Meta(max_length=MAX_NAMES)] = ()
    """Answers to interrupts."""


class RunQuery(Query):
    """Which agent."""

    agent: AgentName | None = None
    """Name of the profile, for a new session; the first one if not given."""


class FollowQuery(Query):
    """From where on, and how the run is called."""

    since: Annotated[Filled, Meta(extra_json_schema={"pattern": FRAME_ID})] | None = None
    """Id of a frame: what came after it, and then what comes. From the beginning of a run if not given.

    The header `Last-Event-ID` says the same, and counts if both are given.
    """
    run: RunName | None = None
    """Id of the run, as its frames have it; the host makes one up if not given."""
