"""The arguments and results of the hooks of host plugins (requests, contexts, responses); checks the results."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, cast

from msgspec import field

from agentrail.core.compaction import lines_of
from agentrail.host.authentication.identity import Identity
from agentrail.host.requests.http_messages import OWNED, WITHOUT_CONTENT
from agentrail.values.content import File, Image, Text
from agentrail.values.json import Json, freeze, freeze_object
from agentrail.values.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agentrail.values.tools import Err, Ok
from agentrail.values.untrusted_content import fit_result
from agentrail.values.untrusted_values import brief, mended, number, plain_text, type_name
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
        lower_name = name.lower()
        return next((value for header, value in self.headers if header == lower_name), None)


class HandledResponse(Authored, gc=True):
    """Result of `intercept`: the host sends this response, and the request reaches no session."""

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


_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f]")
LOWEST: Final = 200
HIGHEST: Final = 599
"""The statuses that a plugin may answer with."""
NO_BODY: Final = WITHOUT_CONTENT | {205}
"""The statuses that have no body."""


class UnfitAnswerError(TypeError):
    """A hook returned a value that its contract does not allow."""

    def __init__(self, value: object, expected: str) -> None:
        none = value is None
        super().__init__(f"it returned {'nothing' if none else brief(value)}; it must return {expected}")
        self.unquoted = f"it returned {'nothing' if none else f'a `{type_name(value)}`'}; it must return {expected}"
        """The same without the value, which may quote the conversation."""


def nothing(value: object) -> None:
    """Return `None`; raise if *value* is anything else."""
    if value is not None:
        raise UnfitAnswerError(value, "nothing")


def text_or_nothing(value: object) -> str | None:
    """Return *value*, a text or `None`."""
    plain = plain_text(value)
    if plain is None and value is not None:
        raise UnfitAnswerError(value, "a text or None")
    return None if plain is None else mended(plain)


def answer_of(value: object) -> HandledResponse | None:
    """Return *value*, a `HandledResponse` or `None`, with its body frozen."""
    if value is None:
        return None
    if not isinstance(value, HandledResponse):
        raise UnfitAnswerError(value, "a `HandledResponse` or None")
    status = number(value.status)
    if type(status) is not int or not LOWEST <= status <= HIGHEST:
        raise UnfitAnswerError(value.status, f"a status from {LOWEST} to {HIGHEST}")
    if status in NO_BODY and value.body is not None:
        raise UnfitAnswerError(value.body, f"no body with the status {status}")
    return HandledResponse(status, freeze(value.body), _headers(value.headers))


def _headers(source: object) -> Mapping[str, str]:
    if not isinstance(source, Mapping):
        raise UnfitAnswerError(source, "headers as a mapping of texts")
    headers, names = dict[str, str](), set[str]()
    for name, value in cast("Mapping[object, object]", source).items():
        named, valued = plain_text(name), plain_text(value)
        if named is None or _NAME.fullmatch(named) is None:
            raise UnfitAnswerError(name, "names of headers of letters, digits and `-`")
        if named.lower() in OWNED:
            raise UnfitAnswerError(name, "headers without those of the connection, which the host sets")
        if named.lower() in names:
            raise UnfitAnswerError(name, "each header once, in capitals or not")
        names.add(named.lower())
        if valued is None or _FORBIDDEN.search(valued) or not valued.isascii():
            raise UnfitAnswerError(value, "values of headers of printable ASCII characters")
        headers[named] = valued.strip(" ")
    return headers


def ruling_of(value: object) -> Allow | Deny:
    """Return *value*, an `Allow` or a `Deny`, with its arguments frozen."""
    match value:
        case Allow(input=None):
            return value
        case Allow(input=input_):
            return Allow(freeze_object(input_))
        case Deny(reason=reason):
            plain = plain_text(reason)
            if plain is None:
                raise UnfitAnswerError(reason, "a reason that is a text")
            return Deny(mended(plain))
        case _:
            raise UnfitAnswerError(value, "`Allow(…)` or `Deny(…)`")


def result_of(value: object) -> Ok | Err | None:
    """Return *value*, an `Ok`, an `Err` or `None`."""
    if value is None:
        return None
    fitted = fit_result(value) if isinstance(value, Ok | Err) else None
    if not isinstance(fitted, Ok | Err):
        raise UnfitAnswerError(value, "an `Ok`, an `Err` or None")
    return fitted


Additions: TypeAlias = tuple[str | AssistantMessage, ...]
"""Texts of the program and messages of the model that a context provider adds, in order."""


def additions_to(messages: Sequence[Message]) -> Callable[[object], tuple[Additions, Additions]]:
    """Return a function that checks the result of a context provider, which was shown *messages*.

    The function splits the result into the texts before the messages and those after them.
    """
    return partial(_additions, messages)


def _additions(messages: Sequence[Message], value: object) -> tuple[Additions, Additions]:
    if not isinstance(value, list | tuple):
        raise UnfitAnswerError(value, "a list of texts and messages")
    front, back = _around_shown(messages, cast("Sequence[object]", value))
    return tuple([_addition(messages, addition) for addition in front]), tuple(
        [_addition(messages, addition) for addition in back]
    )


def _around_shown(messages: Sequence[Message], items: Sequence[object]) -> tuple[Sequence[object], Sequence[object]]:
    """Split *items* at the *messages* in it, as in `[note, *messages]`; return the items before and after them.

    If *items* does not contain the messages, all items come after them.
    """
    count = len(messages)
    if count == 0 or len(items) < count:
        return (), items
    for start in range(len(items) - count + 1):
        if all(item is message or item == message for item, message in zip(items[start:], messages, strict=False)):
            return items[:start], items[start + count :]
    return (), items


def _addition(messages: Sequence[Message], value: object) -> str | AssistantMessage:
    plain = plain_text(value)
    if plain is not None:
        return mended(plain)
    if value in messages:
        raise UnfitAnswerError(
            value, "additions, or additions and all messages that it was shown; its list holds some of these"
        )
    if isinstance(value, UserMessage | AssistantMessage | ToolMessage) and not any(
        isinstance(part, Image | File) for part in value.parts
    ):
        if isinstance(value, AssistantMessage) and not value.calls:
            return AssistantMessage((Text(mended(value.text)),))
        return mended(value.text if isinstance(value, UserMessage) else "\n".join(lines_of(value)))
    raise UnfitAnswerError(value, "texts, and messages of texts")
