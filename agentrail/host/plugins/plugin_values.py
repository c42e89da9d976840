"""What host plugins are shown and what they answer: requests, contexts, tool calls, `HandledResponse`, `Allow`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from msgspec import field

from agentrail.host.access.identity import Identity
from agentrail.values.json import Json
from agentrail.values.messages import Message
from agentrail.values.tools import Err, Ok
from agentrail.values.usage import NOTHING_USED, Usage
from agentrail.values.value import Authored

RequestKind: TypeAlias = Literal["chat", "stream", "ws", "none"]
"""How a request came in; `none`: no request began the turn, but a recovery or a timer."""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


class RequestContext(Authored, gc=True):
    """Whose request it is, and what it is about. One request has one context, which all hooks of all plugins get."""

    kind: RequestKind
    """How the request came in: `chat`, `stream` or `ws`; `none` for a turn that no request began."""
    tenant_id: str
    """Id of the tenant."""
    user_id: str
    """Id of the user."""
    session_id: str
    """Public id of the session; if the request begins a new one, the id that it will have."""
    agent_id: str
    """Name of the profile: that of the session if it is there, else the one that the request names, else the first.

    With a function for profiles, it is empty until there is a session, unless the request names one.
    """
    request_id: str
    """Id of the request; empty for a turn that no request began."""
    state: dict[type[object], object] = field(default_factory=dict[type[object], object])
    """What plugins keep for the time of this request, by plugin class."""


class RequestEnd(RequestContext, kw_only=True, gc=True):
    """The context of a request that has ended, and how it ended; `agent_id` is the profile that served it."""

    outcome: str
    """How the request ended, such as `finished`, `held`, `intercepted`, `refused`, `failed` or `cancelled`."""
    usage: Usage = NOTHING_USED
    """Tokens and cost of the request."""
    duration_ms: int = 0
    """Time from the beginning of the request to its end, in milliseconds."""
    error: str | None = None
    """What went wrong; `None` if nothing did."""


class TurnEnd(RequestContext, kw_only=True, gc=True):
    """The context of a turn that is over and durable, and what was said in it: also after a restart of the host."""

    messages: tuple[Message, ...] = ()
    """Messages that the turn added to the history, the prompt first; of one that was aborted, those still known.

    Nothing is known of an aborted turn any more if others have ended since, or if a compaction has taken its prompt.
    """


class Attachment(Authored):
    """A file that came with a request, as the host has stored it."""

    name: str
    """Name that the sender gave to the file."""
    mime_type: str
    """Type of the content, as the sender says."""
    path: str
    """Path of the file in the session's sandbox."""
    size_kb: int
    """Size in KiB, rounded up."""


class Request(Authored, gc=True):
    """A request to talk to an agent, before its session is looked up."""

    message: str
    """Text for the agent."""
    attachments: tuple[Attachment, ...]
    """The files that came with it."""
    headers: tuple[tuple[str, str], ...]
    """The headers of the HTTP request, with names in lower case."""
    kind: RequestKind
    """How the request came in."""
    identity: Identity
    """Who makes the request."""
    context: RequestContext
    """The context of the request, which later hooks get too."""

    def header(self, name: str) -> str | None:
        """Return the value of the first header called *name*, in any case; `None` if there is none."""
        wanted = name.lower()
        return next((value for header, value in self.headers if header == wanted), None)


class HandledResponse(Authored, gc=True):
    """Answer of `intercept`: the host sends it, and no session is asked."""

    status: int = 200
    """Status of the HTTP response, from 200 to 599."""
    body: Json = None
    """Body of the response, sent as JSON; nothing is sent with the statuses 204, 205 and 304."""
    headers: Mapping[str, str] = NO_HEADERS
    """Further headers of the response, such as `Retry-After`, but none about the connection or the length."""


class BeforeToolCall(Authored, gc=True):
    """A tool call is about to run, in a session or in one of its sub-agents."""

    tool: str
    """Name of the tool."""
    arguments: dict[str, object]
    """Arguments of the call, as JSON: a deep copy for this plugin alone."""
    call_id: str
    """Id of the call, unique in its session."""
    session_id: str
    """Id of the session that makes the call, inside the supervisor; a sub-agent has one of its own."""
    path: tuple[str, ...]
    """Ids of the sessions from the root to this one; of a sub-agent, that of its parent comes first."""
    context: RequestContext
    """The context of the request that began the turn of the root session."""


class AfterToolCall(BeforeToolCall, kw_only=True, gc=True):
    """A tool call has run."""

    result: Ok | Err
    """Result of the call, as replaced by the plugins before this one."""
    outcome: Literal["ok", "error"]
    """Whether `result` is an `Ok` or an `Err`."""
    duration_ms: int
    """Time that the call took, in milliseconds."""


class Allow(Authored, gc=True):
    """Answer of `before_tool_call`: let the call run, and ask the next plugin."""

    input: Mapping[str, object] | None = None
    """The arguments with which the call is to run; `None` if they stay."""


class Deny(Authored):
    """Answer of `before_tool_call`: the call does not run, and no further plugin is asked."""

    reason: str
    """Reason, which the model gets as the error of the call."""


Addition: TypeAlias = str | Message
"""What a context provider adds to the requests of a turn: a text, or a message of any role, without images and files.

In a list that holds all messages which the provider was shown, what precedes them is sent before the conversation, and
what follows them after it; in any other list, all is sent after it. A message of the model is sent as one. A result of
a tool, or a message of the model with calls, is told as a text that says whose it is: each needs the other in its
place.
"""
ContextProvider: TypeAlias = Callable[
    [RequestContext, Sequence[Message]], Awaitable[Sequence[Addition]] | Sequence[Addition]
]
"""A function from the context of a turn and the messages before it to what it adds; it may be async."""
