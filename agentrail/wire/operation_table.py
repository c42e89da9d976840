"""The table of calls: what each takes and gives, which errors it may answer with, and which scope it needs.

`HostCall` is a row of it. `HANDLE_CALLS` are those of programs that use a session as one of their own.
"""

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
WEBSOCKET: Final = "websocket"
"""Stands in place of the media type of what comes back: the connection goes on as a WebSocket."""


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
    waits: bool = False
    """Whether the answer may be waited for as long as for the end of a turn, although the call is about none."""
    command: bool = False
    """Whether the header `Idempotency-Key` is its command id: sent twice, it is carried out once."""
    raises: Errors = ()
    """Errors of its own; those that every such call has are added: see `errors_of`."""

    @property
    def looks(self) -> bool:
        """Whether it changes nothing, and is answered at once with what is there."""
        return self.gives is not None and not (self.held or self.waits or self.command)


ANY: Final[Errors] = (errors.BadQuery, errors.OriginRefused)
WITH_KEY: Final[Errors] = (
    errors.NotAuthenticated,
    errors.AuthenticatorFailed,
    errors.ScopeMissing,
    errors.TooManyRequests,
    errors.ConnectionsInUse,
    errors.HostClosing,
)
WITH_BODY: Final[Errors] = (errors.BodyTooLarge, errors.WrongMedia, errors.BadText, errors.BadBody)
STORED: Final[Errors] = (errors.JournalFailed, errors.BadRecord, errors.WaitsForJournal)
OF_SESSION: Final[Errors] = (errors.UnknownSession, errors.SessionBeingDeleted)
COMMAND: Final[Errors] = (
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
OPENING: Final[Errors] = (
    errors.UnknownAgent,
    errors.BadName,
    errors.TooManySessions,
    errors.SessionRefused,
    errors.ModelMissing,
    errors.BadModelOptions,
    errors.JournalFull,
    errors.NothingWritten,
)
TALK: Final[Errors] = (
    errors.PluginFailed,
    errors.UnknownCommand,
    errors.UnknownFile,
    errors.FileFailed,
    errors.BadMessage,
    errors.BadReturns,
    errors.PartRefused,
    errors.QueueFull,
    errors.PromptWasRejected,
)
TURN: Final[Errors] = (
    errors.TurnAborted,
    errors.ModelError,
    errors.PromptWasDropped,
    errors.AnswerUnfit,
    errors.UnknownSession,
    errors.SessionBeingDeleted,
)
DECIDE: Final[Errors] = (errors.UnknownApproval, errors.WrongDecision, errors.OwnDecision)


HANDLE_CALLS: Final = (
    HostCall(
        "ask",
        "ask the session",
        "talk",
        "admin",
        body=bodies.PromptBody,
        gives=views.WholeReplyView,
        held=True,
        command=True,
        raises=(*TALK, *TURN),
    ),
    HostCall(
        "stop",
        "end the session",
        "talk",
        "admin",
        body=bodies.StopBody,
        status=204,
        command=True,
        raises=(errors.NotWrittenYet,),
    ),
    HostCall(
        "label",
        "label the session",
        "talk",
        "admin",
        body=bodies.LabelBody,
        status=204,
        command=True,
        raises=(errors.TooManyLabels,),
    ),
    HostCall("queued", "show the queue", "talk", "observe", gives=views.QueueView),
    HostCall(
        "withdraw",
        "withdraw the prompt",
        "talk",
        "admin",
        body=bodies.WithdrawBody,
        status=204,
        command=True,
        raises=(errors.UnknownPrompt,),
    ),
    HostCall("suspend", "suspend the session", "talk", "admin", status=204),
    HostCall("resume", "resume the session", "talk", "admin", status=204),
    HostCall("offered", "show what the session may be given", "talk", "observe", gives=views.OfferedView),
    # Sub-agents
    HostCall("tasks", "list the sub-agents", "talk", "observe", gives=views.TasksView),
    HostCall(
        "message_task",
        "write to the sub-agent",
        "talk",
        "admin",
        body=bodies.MessageTaskBody,
        status=204,
        command=True,
        raises=(errors.UnknownTask, errors.TaskDone),
    ),
    HostCall(
        "cancel_task",
        "stop the sub-agent",
        "talk",
        "admin",
        query=bodies.TaskQuery,
        status=204,
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    HostCall(
        "task_result",
        "wait for the sub-agent",
        "talk",
        "observe",
        query=bodies.TaskQuery,
        gives=views.TaskResultView,
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    HostCall(
        "wait_tasks",
        "wait for sub-agents",
        "talk",
        "observe",
        query=bodies.WaitTasksQuery,
        gives=views.TaskResultsView,
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    HostCall("agents", "list the agents", "talk", gives=views.AgentsView),
)
"""Rows of the table of calls."""


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
        raises=(*OPENING, *TALK, *TURN),
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
        raises=(*OPENING, *TALK, *TURN, errors.TooManyStreams),
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
        raises=(*OPENING, errors.SessionExists, errors.TooManyLabels),
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
        waits=True,
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
        raises=TALK,
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
        raises=(*DECIDE, errors.FourEyesWanted, errors.NoFamily, errors.BadArguments, errors.ToolChanged),
    ),
    HostCall(
        "reject",
        "reject the call",
        "decide",
        "decide",
        body=bodies.RejectBody,
        status=204,
        command=True,
        raises=DECIDE,
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
        raises=(*OPENING, errors.SessionExists, errors.UnknownRecord),
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
            errors.BadBody,
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
    HostCall(
        "socket",
        "open a WebSocket",
        None,
        media=WEBSOCKET,
        status=101,
        raises=(
            errors.UpgradeWanted,
            errors.NotAuthenticated,
            errors.AuthenticatorFailed,
            errors.TooManyRequests,
            errors.ConnectionsInUse,
            errors.HostClosing,
        ),
    ),
    # The host itself
    HostCall("health", "say that the host answers", None, gives=views.HealthView),
    HostCall("ready", "say whether the host is ready", None, gives=views.ReadyView),
    HostCall("metrics", "show the figures", "observe", media=PROMETHEUS),
    HostCall("page", "show the page of the host", None, media=HTML),
    HostCall("openapi", "show the OpenAPI document", None),
)

CALLS: Final[Mapping[str, HostCall]] = MappingProxyType({call.name: call for call in (*_CALLS, *HANDLE_CALLS)})
"""Each call by its name."""


def errors_of(call: HostCall, *, about_session: bool) -> Errors:
    """Return the errors that a call may answer with, each once; *about_session*: its route names a session."""
    found = [*ANY, *call.raises]
    if call.scope is not None:
        found += WITH_KEY
    if call.body is not None:
        found += WITH_BODY
    if call.gives is not None and call.scope is not None:
        found += STORED
    if about_session:
        found += OF_SESSION
    if call.command:
        found += COMMAND
    return tuple(dict.fromkeys(found))
