"""The table of calls: what each takes and gives, which errors it may answer with, and which scope it needs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from agentrail import errors
from agentrail.errors import AgentrailError
from agentrail.values.value import Value
from agentrail.wire import bodies, sse_frames, views

Scope: TypeAlias = Literal["talk", "decide", "observe", "admin", "operate"]
"""What a key allows: to talk with one's own sessions, to decide about held calls, to see what all sessions of the
tenant do, to change and erase sessions of the tenant; and to see the figures of all tenants, which no other allows."""

SCOPES: Final[tuple[Scope, ...]] = ("talk", "decide", "observe", "admin", "operate")
OPERATE: Final = "operate"

Errors: TypeAlias = tuple[type[AgentrailError], ...]

JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
BYTES: Final = "*/*"


class HostCall(Value, gc=True):
    """One thing that a client can have the host do."""

    name: str
    """Name of the call, its `operationId`."""
    attempt: str
    """What it is to do, after "cannot" in a problem document."""
    scope: Scope | None
    """Scope that is needed for sessions of one's own, or for the call if it is about none; `None`: no key is needed."""
    others: Scope | None = None
    """Scope that is needed for sessions of other users of the tenant, which also does for one's own; `None`: they are
    as if they were not there."""
    body: object = None
    """Class or union of classes of its body; `None` if it has none."""
    query: type[bodies.Query] | None = None
    """Class of its query; `None` if it has none."""
    takes: str = JSON
    """Media type of its body."""
    gives: type[views.View] | None = None
    """Class of what comes back as JSON; `None` if nothing does, or another media type."""
    media: str = JSON
    """Media type of what comes back."""
    status: int = 200
    """Status of the response if it went well."""
    held: bool = False
    """Whether a turn that waits for a person is answered with status 202."""
    command: bool = False
    """Whether the header `Idempotency-Key` is its command id: sent twice, it is carried out once."""
    raises: Errors = ()
    """Errors of its own; those that every such call has are added: see `errors_of`."""


_ANY: Final[Errors] = (errors.BadQuery, errors.OriginRefused)
_WITH_KEY: Final[Errors] = (errors.NotAuthenticated, errors.ScopeMissing, errors.TooManyRequests, errors.HostClosing)
_WITH_BODY: Final[Errors] = (errors.BodyTooLarge, errors.WrongMedia, errors.BadText, errors.BadBody)
_STORED: Final[Errors] = (errors.JournalFailed, errors.BadRecord, errors.WaitsForJournal)
_OF_SESSION: Final[Errors] = (errors.UnknownSession, errors.SessionBeingDeleted)
_COMMAND: Final[Errors] = (
    errors.CommandConflict,
    errors.SessionNotAlive,
    errors.SpecMissing,
    errors.PluginMismatch,
    errors.SessionHeld,
    errors.Fenced,
    errors.SessionCrashed,
    errors.MailboxFull,
    errors.JournalFull,
    errors.NothingWritten,
    errors.CommitUnknown,
    errors.IllegalInput,
)
_OPENING: Final[Errors] = (
    errors.UnknownAgent,
    errors.BadName,
    errors.TooManySessions,
    errors.SessionRefused,
    errors.ModelMissing,
    errors.BadModelOptions,
    errors.JournalFull,
    errors.NothingWritten,
)
_TALK: Final[Errors] = (
    errors.PluginFailed,
    errors.UnknownCommand,
    errors.UnknownFile,
    errors.FileFailed,
    errors.BadMessage,
    errors.PartRefused,
    errors.QueueFull,
    errors.PromptWasRejected,
)
_TURN: Final[Errors] = (
    errors.TurnAborted,
    errors.ModelError,
    errors.PromptWasDropped,
    errors.AnswerUnfit,
    errors.UnknownSession,
    errors.SessionBeingDeleted,
)
_DECIDE: Final[Errors] = (errors.UnknownApproval, errors.WrongDecision, errors.OwnDecision)

_CALLS: Final = (
    HostCall(
        "chat",
        "talk to the session",
        "talk",
        "admin",
        body=bodies.ChatBody,
        gives=views.ReplyView,
        held=True,
        command=True,
        raises=(*_OPENING, *_TALK, *_TURN),
    ),
    HostCall(
        "stream",
        "talk to the session",
        "talk",
        "admin",
        body=bodies.ChatBody,
        gives=views.ReplyView,
        media=sse_frames.MEDIA_TYPE,
        held=True,
        command=True,
        raises=(*_OPENING, *_TALK, *_TURN, errors.TooManyStreams),
    ),
    # The life of sessions
    HostCall(
        "open_session",
        "open a session",
        "talk",
        body=bodies.OpenBody,
        gives=views.OpenedView,
        status=201,
        command=True,
        raises=(*_OPENING, errors.SessionExists, errors.TooManyLabels),
    ),
    HostCall(
        "list_sessions", "list the sessions", "talk", "observe", query=bodies.SessionsQuery, gives=views.SessionsView
    ),
    HostCall("show_session", "show the session", "talk", "observe", gives=views.DetailView),
    HostCall(
        "delete_session",
        "delete the session",
        "admin",
        "admin",
        query=bodies.DeleteQuery,
        gives=views.ErasedView,
        raises=(errors.FileFailed, errors.SessionStillRuns, errors.SessionUnfinished, errors.SessionHeld),
    ),
    # Talking
    HostCall(
        "prompt",
        "prompt the session",
        "talk",
        "admin",
        body=bodies.PromptBody,
        gives=views.AcceptedView,
        status=202,
        command=True,
        raises=_TALK,
    ),
    HostCall(
        "steer",
        "steer the session",
        "talk",
        "admin",
        body=bodies.SteerBody,
        gives=views.AcceptedView,
        status=202,
        command=True,
        raises=(errors.SteeringQueueFull,),
    ),
    HostCall(
        "abort",
        "abort the turn",
        "talk",
        "admin",
        body=bodies.AbortBody,
        status=204,
        command=True,
        raises=(errors.NotWrittenYet,),
    ),
    # Deciding
    HostCall(
        "approve",
        "approve the call",
        "decide",
        "decide",
        body=bodies.ApproveBody,
        status=204,
        command=True,
        raises=(*_DECIDE, errors.FourEyesWanted, errors.NoFamily, errors.BadArguments, errors.ToolChanged),
    ),
    HostCall(
        "reject",
        "reject the call",
        "decide",
        "decide",
        body=bodies.RejectBody,
        status=204,
        command=True,
        raises=_DECIDE,
    ),
    HostCall(
        "respond",
        "answer the question",
        "talk",
        "decide",
        body=bodies.RespondBody,
        status=204,
        command=True,
        raises=(errors.UnknownApproval, errors.WrongDecision),
    ),
    # Changing
    HostCall(
        "switch_model",
        "switch the model",
        "admin",
        "admin",
        body=bodies.ModelBody,
        status=204,
        command=True,
        raises=(errors.NotRegistered, errors.UnknownModel, errors.BadOptions, errors.BadModelOptions),
    ),
    HostCall(
        "change_tools",
        "change the tools",
        "admin",
        "admin",
        body=bodies.ToolsBody,
        status=204,
        command=True,
        raises=(
            errors.NotRegistered,
            errors.UnknownTool,
            errors.ToolExists,
            errors.SourceExists,
            errors.SourceAlone,
            errors.SourceFailed,
        ),
    ),
    HostCall(
        "change_plugins",
        "change the plugins",
        "admin",
        "admin",
        body=bodies.PluginsBody,
        status=204,
        command=True,
        raises=(
            errors.NotRegistered,
            errors.UnknownPlugin,
            errors.PluginExists,
            errors.PluginRefused,
            errors.FourEyesWanted,
            errors.BadOptions,
        ),
    ),
    HostCall("compact", "compact the context", "talk", "admin", body=bodies.CompactBody, status=204, command=True),
    HostCall(
        "fork",
        "fork the session",
        "talk",
        "admin",
        body=bodies.ForkBody,
        gives=views.OpenedView,
        status=201,
        command=True,
        raises=(*_OPENING, errors.SessionExists, errors.UnknownRecord),
    ),
    # Looking
    HostCall(
        "events",
        "stream the events",
        "talk",
        "observe",
        query=bodies.EventsQuery,
        media=sse_frames.MEDIA_TYPE,
        raises=(errors.UnknownCursor, errors.TooManyStreams),
    ),
    HostCall("messages", "read the messages", "talk", "observe", query=bodies.MessagesQuery, gives=views.MessagesView),
    HostCall(
        "upload",
        "upload the file",
        "talk",
        "admin",
        query=bodies.FileQuery,
        takes=BYTES,
        gives=views.FileView,
        status=201,
        raises=(
            errors.BodyTooLarge,
            errors.WrongMedia,
            errors.WrongContent,
            errors.SpecMissing,
            errors.SessionNotAlive,
            errors.FilesTooLarge,
            errors.TooManyFiles,
            errors.FilesNotTaken,
            errors.PathRefused,
            errors.FileFailed,
            errors.DiskFull,
        ),
    ),
    HostCall(
        "approvals", "list what waits for a decision", "decide", query=bodies.PageQuery, gives=views.ApprovalsView
    ),
    HostCall("tree", "show the tree", "observe", gives=views.ChildShown),
    HostCall("commands", "list the commands", "talk", gives=views.CommandsView),
    # The host itself
    HostCall("health", "say that the host answers", None, gives=views.HealthView),
    HostCall("ready", "say whether the host is ready", None, gives=views.ReadyView),
    HostCall("metrics", "show the figures", "observe", media=PROMETHEUS),
    HostCall("page", "show the page of the host", None, media=HTML),
    HostCall("openapi", "show the OpenAPI document", None),
)

CALLS: Final[Mapping[str, HostCall]] = MappingProxyType({call.name: call for call in _CALLS})
"""Each call by its name."""


def errors_of(call: HostCall, *, about_session: bool) -> Errors:
    """Return the errors that a call may answer with, each once; *about_session*: its route names a session."""
    found = [*_ANY, *call.raises]
    if call.scope is not None:
        found += _WITH_KEY
    if call.body is not None:
        found += _WITH_BODY
    if call.gives is not None and call.scope is not None:
        found += _STORED
    if about_session:
        found += _OF_SESSION
    if call.command:
        found += _COMMAND
    return tuple(dict.fromkeys(found))
