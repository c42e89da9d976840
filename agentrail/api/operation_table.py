"""The table of calls: what each takes and gives, which errors it may answer with, which scope it needs, and its route.

`HostCall` is a row of it; `match` finds that of a request. For a call that sends commands, its row (field `commands`)
is all that the host and remote handles need.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, Union, cast

from agentrail import errors
from agentrail.api import bodies, command_checks, insight_views, sse_frames, views
from agentrail.api.bodies import As, Spelled, spelled
from agentrail.api.command_checks import AnyCommand
from agentrail.core.vocabulary import commands
from agentrail.errors import AgentrailError, MethodRefused, UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.values.json import JsonObject
from agentrail.values.value import Value

Scope: TypeAlias = Literal["talk", "decide", "observe", "admin", "operate"]
"""What a key allows: to talk with one's own sessions, to decide about held calls, to see what all sessions of the
tenant do, to change and erase sessions of the tenant; and to see the figures of all tenants and the experiments, which
no other allows."""

SCOPES: Final[tuple[Scope, ...]] = ("talk", "decide", "observe", "admin", "operate")
OPERATE: Final = "operate"

Errors: TypeAlias = tuple[type[AgentrailError] | str, ...]
"""Classes of errors, and codes of those that have none."""

SESSION: Final = "{id}"
"""Stands in a path for the id of a session, as clients see it."""

SESSION_PATH: Final = f"/v1/sessions/{SESSION}"

FILE: Final = "{file}"
"""Stands in a path for the name of a file of the console."""

STORE: Final = "{store}"
DOCUMENT: Final = "{name}"
"""Stand in a path for the name of a store of knowledge, and of a document in it: the rest of the path, which may have
slashes. Both are fields of the query of the call, too, for a WebSocket, which has no paths.
"""

STORES_PATH: Final = "/v1/knowledge"
STORE_PATH: Final = f"{STORES_PATH}/{STORE}"
DOCUMENTS_PATH: Final = f"{STORE_PATH}/documents"
DOCUMENT_PATH: Final = f"{DOCUMENTS_PATH}/{DOCUMENT}"

JSON: Final = "application/json"
HTML: Final = "text/html; charset=utf-8"
PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
BYTES: Final = "*/*"
"""Any media type: what is sent or comes back is a file."""
WEBSOCKET: Final = "websocket"
"""Stands in place of the media type of what comes back: the connection goes on as a WebSocket."""


class HostCall(Value, gc=True):
    """One thing that a client can have the host do."""

    name: str
    """Name of the call, its `operationId`."""
    route: str
    """Method and path; `{id}` stands for the id of a session, `{file}` for the name of a file."""
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
    commands: tuple[Spelled, ...] = ()
    """The commands that it sends to the session, one for each class of its body; empty if a function is written for it.
    """

    @property
    def about_session(self) -> bool:
        """Whether its path names a session."""
        return SESSION in self.route

    @property
    def about_knowledge(self) -> bool:
        """Whether it is about the knowledge of the tenant, for which either of two scopes does."""
        return STORES_PATH in self.route

    @property
    def looks(self) -> bool:
        """Whether the call changes nothing, and is answered at once from the present state."""
        return self.gives is not None and not (self.held or self.waits or self.command)


ANY: Final[Errors] = ("bad-query", errors.OriginRefused)
WITH_KEY: Final[Errors] = (
    errors.NotAuthenticated,
    errors.KeyWithdrawn,
    errors.AuthenticatorFailed,
    errors.ClusterFault,
    errors.ScopeMissing,
    errors.TooManyRequests,
    errors.ConnectionsInUse,
    errors.HostClosing,
)
WITH_BODY: Final[Errors] = (errors.BodyTooLarge, "wrong-media", errors.BadText, "bad-body")
STORED: Final[Errors] = (errors.JournalFailed, errors.BadRecord, errors.WaitsForJournal)
OF_SESSION: Final[Errors] = (errors.UnknownSession, errors.SessionBeingDeleted)
REWINDING: Final[Errors] = (
    errors.UnknownRecord,
    "unknown-turn",
    "no-snapshots",
    "snapshot-gone",
    "snapshot-damaged",
    "snapshot-not-kept",
    "snapshot-too-large",
    errors.FileFailed,
)
COMMAND: Final[Errors] = (
    errors.CommandConflict,
    errors.SessionNotAlive,
    "spec-missing",
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
    "too-many-sessions",
    errors.SessionRefused,
    errors.ModelMissing,
    errors.BadModelOptions,
    errors.JournalFull,
    errors.NothingWritten,
)
TALK: Final[Errors] = (
    "plugin-failed",
    "unknown-command",
    "unknown-file",
    errors.FileFailed,
    "bad-message",
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
DECIDE: Final[Errors] = (errors.UnknownApproval, errors.WrongDecision, errors.NotAsShown, "own-decision")

OF_STORE: Final[Errors] = (
    "no-knowledge",
    "unknown-store",
    "bad-store-name",
    "knowledge-unusable",
    "knowledge-failed",
    "other-embedder",
)
OF_DOCUMENT: Final[Errors] = (*OF_STORE, "unknown-document", "bad-document-name")
PUTTING: Final[Errors] = (
    *OF_STORE,
    "bad-document-name",
    errors.BodyTooLarge,
    "wrong-media",
    "wrong-content",
    "document-unreadable",
    "document-too-large",
    "too-many-documents",
    "too-many-stores",
    "store-full",
    "bad-embedding",
    errors.ModelError,
)
WRITTEN: Final[Errors] = (errors.UnknownAgent, errors.FileFailed)


def _command(
    name: str,
    attempt: str,
    scope: Scope,
    others: Scope,
    *spelled_commands: Spelled,
    route: str = "",
    waits: bool = False,
    raises: Errors = (),
) -> HostCall:
    """Return the row of a call that sends a command to a session; *route* is `POST` and *name* by default."""
    shapes = [spelled_command.body for spelled_command in spelled_commands if spelled_command.body is not None]
    is_query = issubclass(shapes[0], bodies.Query) if shapes else False
    has_body = bool(shapes) and not is_query
    return HostCall(
        name,
        route or f"POST {SESSION_PATH}/{name}",
        attempt,
        scope,
        others,
        body=Union[tuple(shapes)] if has_body else None,  # noqa: UP007 - `|` takes no tuple
        query=cast("type[bodies.Query]", shapes[0]) if is_query else None,
        status=204,
        waits=waits,
        command=has_body,
        raises=raises,
        commands=spelled_commands,
    )


# The order is that of the pages that are made of the table.

_CALLS: Final = (
    HostCall(
        "chat",
        "POST /v1/chat",
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
        "POST /v1/stream",
        "talk to the session",
        "talk",
        "admin",
        body=bodies.ChatBody,
        media=sse_frames.MEDIA_TYPE,
        command=True,
        raises=(*OPENING, *TALK, *TURN, "too-many-streams"),
    ),
    # The life of sessions
    HostCall(
        "open_session",
        "POST /v1/sessions",
        "open a session",
        "talk",
        body=bodies.OpenBody,
        gives=views.OpenedView,
        status=201,
        command=True,
        raises=(*OPENING, errors.SessionExists, "too-many-labels"),
    ),
    HostCall(
        "list_sessions",
        "GET /v1/sessions",
        "list the sessions",
        "talk",
        "observe",
        query=bodies.SessionsQuery,
        gives=views.SessionsView,
    ),
    HostCall(
        "show_session",
        f"GET {SESSION_PATH}",
        "show the session",
        "talk",
        "observe",
        gives=views.DetailView,
    ),
    HostCall(
        "delete_session",
        f"DELETE {SESSION_PATH}",
        "delete the session",
        "admin",
        "admin",
        query=bodies.DeleteQuery,
        gives=views.ErasedView,
        waits=True,
        raises=(errors.FileFailed, errors.SessionStillRuns, "session-unfinished", errors.SessionHeld),
    ),
    # Talking
    HostCall(
        "prompt",
        f"POST {SESSION_PATH}/prompt",
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
        f"POST {SESSION_PATH}/steer",
        "steer the session",
        "talk",
        "admin",
        body=bodies.SteerBody,
        gives=views.AcceptedView,
        status=202,
        command=True,
        raises=(errors.SteeringQueueFull,),
    ),
    _command(
        "abort",
        "abort the turn",
        "talk",
        "admin",
        spelled(
            commands.AbortSent,
            "How the open turn is ended.",
            reason=As(),
            kill_tools=As(commands.Kill),
            clear_queue=As(),
            turn=As(),
        ),
        raises=(errors.NotWrittenYet,),
    ),
    # Deciding
    _command(
        "approve",
        "approve the call",
        "decide",
        "decide",
        spelled(
            commands.ApproveSent,
            "A held call is to run, or the doubt about a stopped one ends.",
            approval_id=As(bodies.Name, "approval", holds="held"),
            args=As(),
            always=As(),
            auto_resume=As(),
            digest=As(),
        ),
        raises=(*DECIDE, "four-eyes-wanted", "no-family", "bad-arguments", "tool-changed"),
    ),
    _command(
        "disallow",
        "take an approval for always back",
        "decide",
        "decide",
        spelled(
            commands.DisallowSent,
            "Calls that were approved for always are to be held again.",
            tool=As(bodies.Filled),
            command_family=As(bodies.Filled),
        ),
    ),
    _command(
        "reject",
        "reject the call",
        "decide",
        "decide",
        spelled(
            commands.RejectSent,
            "A held call is not to run.",
            approval_id=As(bodies.Name, "approval", holds="held"),
            reason=As(),
            auto_resume=As(),
            digest=As(),
        ),
        raises=DECIDE,
    ),
    _command(
        "respond",
        "answer the question",
        "talk",
        "decide",
        spelled(commands.RespondSent, "The answer to a question.", ref=As(bodies.Name, holds="held"), answer=As()),
        raises=(errors.UnknownApproval, errors.WrongDecision),
    ),
    _command(
        "result",
        "give the result",
        "talk",
        "decide",
        spelled(
            commands.ResultSent,
            "The result of a call that is made elsewhere.",
            ref=As(bodies.Name, "call", holds="held"),
            result=As(),
        ),
        raises=(errors.UnknownApproval, errors.ResultNotWanted, errors.WrongDecision, errors.BadResult),
    ),
    # Changing
    _command(
        "switch_model",
        "switch the model",
        "admin",
        "admin",
        spelled(
            command_checks.UseModel,
            name="ModelBody",
            model=As(bodies.Name | bodies.SomeNames, offer="models"),
            options=As(),
        ),
        route=f"POST {SESSION_PATH}/model",
        raises=("not-registered", errors.UnknownModel, errors.BadOptions, errors.BadModelOptions),
    ),
    _command(
        "change_tools",
        "change the tools",
        "admin",
        "admin",
        spelled(command_checks.EditTools, name="ToolsBody", do=As(), tools=As(bodies.SomeNames, offer="tools")),
        route=f"POST {SESSION_PATH}/tools",
        raises=(
            "not-registered",
            errors.UnknownTool,
            errors.ToolExists,
            "source-exists",
            "source-alone",
            errors.SourceFailed,
        ),
    ),
    _command(
        "change_plugins",
        "change the plugins",
        "admin",
        "admin",
        spelled(command_checks.AttachPlugin, tag="attach", plugin=As(bodies.Name, offer="plugins")),
        spelled(
            commands.DetachPluginSent,
            "A plugin is removed as soon as no turn is open.",
            tag="detach",
            key=As(bodies.Name, "plugin"),
        ),
        spelled(command_checks.UpdatePlugin, tag="update", plugin=As(bodies.Name), options=As(JsonObject), pin=As()),
        route=f"POST {SESSION_PATH}/plugins",
        raises=(
            "not-registered",
            errors.UnknownPlugin,
            "plugin-exists",
            errors.PluginRefused,
            "four-eyes-wanted",
            errors.BadOptions,
        ),
    ),
    _command(
        "compact",
        "compact the context",
        "talk",
        "admin",
        spelled(commands.CompactSent, "The context is to be made shorter.", reason=As()),
    ),
    HostCall(
        "fork",
        f"POST {SESSION_PATH}/fork",
        "fork the session",
        "talk",
        "admin",
        body=bodies.ForkBody,
        gives=views.OpenedView,
        status=201,
        command=True,
        raises=(*OPENING, errors.SessionExists, errors.UnknownRecord, "unknown-turn"),
    ),
    HostCall(
        "rewind",
        f"POST {SESSION_PATH}/rewind",
        "bring back files",
        "talk",
        "admin",
        body=bodies.RewindBody,
        gives=views.RewoundView,
        waits=True,
        command=True,
        raises=(*REWINDING, "no-changed-file", errors.FilesEdited, errors.Busy),
    ),
    # Looking
    HostCall(
        "preview_rewind",
        f"GET {SESSION_PATH}/rewind",
        "look which files would come back",
        "talk",
        "observe",
        query=bodies.RewindQuery,
        gives=views.RewindPreviewView,
        waits=True,
        raises=REWINDING,
    ),
    HostCall(
        "events",
        f"GET {SESSION_PATH}/events",
        "stream the events",
        "talk",
        "observe",
        query=bodies.EventsQuery,
        media=sse_frames.MEDIA_TYPE,
        raises=(errors.UnknownCursor, "too-many-streams"),
    ),
    HostCall(
        "messages",
        f"GET {SESSION_PATH}/messages",
        "read the messages",
        "talk",
        "observe",
        query=bodies.MessagesQuery,
        gives=views.MessagesView,
    ),
    HostCall(
        "change",
        f"GET {SESSION_PATH}/change",
        "show what a call changes in a file",
        "decide",
        "decide",
        raises=(errors.UnknownApproval,),
        query=bodies.ChangeQuery,
        gives=views.ChangeView,
    ),
    # Understanding: records have what plugins of the host said and who decided, so that one's own need `observe` too
    HostCall(
        "records",
        f"GET {SESSION_PATH}/records",
        "read the records",
        "observe",
        "observe",
        query=bodies.RecordsQuery,
        gives=insight_views.RecordsView,
        raises=(errors.UnknownRecord,),
    ),
    HostCall(
        "why",
        f"GET {SESSION_PATH}/why",
        "explain the session",
        "observe",
        "observe",
        query=bodies.AboutQuery,
        gives=insight_views.AccountView,
        raises=("history-too-long",),
    ),
    HostCall(
        "what_if",
        f"GET {SESSION_PATH}/what-if",
        "try other plugins on the session",
        "observe",
        "observe",
        query=bodies.WhatIfQuery,
        gives=insight_views.WhatIfView,
        raises=("history-too-long", "unknown-candidate", "no-candidate", "bad-candidate"),
    ),
    HostCall(
        "state_at",
        f"GET {SESSION_PATH}/at",
        "show the state",
        "observe",
        "observe",
        query=bodies.StateAtQuery,
        gives=insight_views.StateAtView,
        raises=(errors.UnknownRecord,),
    ),
    HostCall(
        "timeline",
        f"GET {SESSION_PATH}/timeline",
        "show the timeline",
        "observe",
        "observe",
        query=bodies.TimelineQuery,
        gives=insight_views.TimelineView,
        raises=("history-too-long",),
    ),
    HostCall(
        "seen",
        f"GET {SESSION_PATH}/seen",
        "show what the model saw",
        "observe",
        "observe",
        query=bodies.SeenQuery,
        gives=insight_views.SeenView,
        raises=("history-too-long", errors.UnknownRequest),
    ),
    HostCall(
        "upload",
        f"POST {SESSION_PATH}/files",
        "upload the file",
        "talk",
        "admin",
        query=bodies.FileQuery,
        takes=BYTES,
        gives=views.FileView,
        status=201,
        raises=(
            errors.BodyTooLarge,
            "bad-body",
            "wrong-media",
            "wrong-content",
            "spec-missing",
            errors.SessionNotAlive,
            "files-too-large",
            "too-many-files",
            errors.FilesNotTaken,
            errors.PathRefused,
            errors.FileFailed,
            errors.DiskFull,
        ),
    ),
    HostCall(
        "files",
        f"GET {SESSION_PATH}/files",
        "list the files that the agent wrote",
        "talk",
        "observe",
        query=bodies.WrittenFilesQuery,
        gives=views.WrittenFilesView,
        raises=WRITTEN,
    ),
    HostCall(
        "file",
        f"GET {SESSION_PATH}/file",
        "send the file",
        "talk",
        "observe",
        query=bodies.WrittenFileQuery,
        media=BYTES,
        raises=(*WRITTEN, *STORED, "no-written-file", "file-too-large"),
    ),
    HostCall(
        "file_piece",
        f"GET {SESSION_PATH}/file/piece",
        "send a piece of the file",
        "talk",
        "observe",
        query=bodies.FilePieceQuery,
        gives=views.FilePieceView,
        raises=(*WRITTEN, "no-written-file", "file-too-large"),
    ),
    # Knowledge: documents of the tenant, in stores
    HostCall("stores", f"GET {STORES_PATH}", "list the stores", "talk", "observe", gives=views.StoresView),
    HostCall(
        "erase_store",
        f"DELETE {STORE_PATH}",
        "erase the store",
        "admin",
        query=bodies.StoreQuery,
        status=204,
        waits=True,
        raises=OF_STORE,
    ),
    HostCall(
        "documents",
        f"GET {DOCUMENTS_PATH}",
        "list the documents",
        "talk",
        "observe",
        query=bodies.DocumentsQuery,
        gives=views.DocumentsView,
        raises=OF_STORE,
    ),
    HostCall(
        "document",
        f"GET {DOCUMENT_PATH}",
        "show the document",
        "talk",
        "observe",
        query=bodies.DocumentTextQuery,
        gives=views.DocumentTextView,
        raises=OF_DOCUMENT,
    ),
    HostCall(
        "put_document",
        f"PUT {DOCUMENT_PATH}",
        "put the document into the store",
        "admin",
        query=bodies.DocumentQuery,
        takes=BYTES,
        gives=views.DocumentView,
        waits=True,
        raises=PUTTING,
    ),
    HostCall(
        "delete_document",
        f"DELETE {DOCUMENT_PATH}",
        "delete the document",
        "admin",
        query=bodies.DocumentQuery,
        status=204,
        raises=OF_DOCUMENT,
    ),
    HostCall(
        "search",
        f"GET {STORE_PATH}/search",
        "search the store",
        "talk",
        "observe",
        query=bodies.SearchQuery,
        gives=views.SearchView,
        waits=True,
        raises=(*OF_STORE, "bad-embedding", errors.ModelError),
    ),
    HostCall(
        "cited",
        f"GET {SESSION_PATH}/cited",
        "list the citations",
        "talk",
        "observe",
        query=bodies.CitedQuery,
        gives=views.CitedView,
        raises=OF_STORE,
    ),
    # AG-UI: front ends that speak the Agent User Interaction Protocol
    HostCall(
        "ag_ui_run",
        "POST /v1/ag-ui",
        "run the agent",
        "talk",
        "admin",
        body=bodies.RunBody,
        query=bodies.RunQuery,
        media=sse_frames.MEDIA_TYPE,
        command=True,
        raises=(
            *OPENING,
            *TALK,
            *DECIDE,
            "four-eyes-wanted",
            "no-family",
            "bad-arguments",
            "tool-changed",
            errors.UnknownSession,
            errors.SessionBeingDeleted,
            errors.UnknownCursor,
            "too-many-streams",
        ),
    ),
    HostCall(
        "ag_ui_follow",
        f"GET {SESSION_PATH}/ag-ui",
        "follow the run",
        "talk",
        "observe",
        query=bodies.FollowQuery,
        media=sse_frames.MEDIA_TYPE,
        raises=(errors.UnknownCursor, "too-many-streams"),
    ),
    # Calls for remote handles: programs that use a session of the host as if it were local
    HostCall(
        "ask",
        f"POST {SESSION_PATH}/ask",
        "ask the session",
        "talk",
        "admin",
        body=bodies.AskBody,
        gives=views.WholeReplyView,
        held=True,
        command=True,
        raises=(*TALK, *TURN),
    ),
    HostCall(
        "reply",
        f"GET {SESSION_PATH}/reply",
        "wait for the end of the turn",
        "talk",
        "observe",
        query=bodies.ReplyQuery,
        gives=views.TurnReplyView,
        held=True,
        waits=True,
        raises=(*TURN, errors.PromptWasRejected, "no-turn", "unknown-turn"),
    ),
    _command(
        "stop",
        "end the session",
        "talk",
        "admin",
        spelled(commands.StopSent, "The session is to end for good.", reason=As()),
        raises=(errors.NotWrittenYet,),
    ),
    _command(
        "label",
        "label the session",
        "talk",
        "admin",
        spelled(
            commands.LabelSent,
            "Other labels, by which sessions are found, and another title.",
            add=As(bodies.Names),
            remove=As(bodies.Names),
            title=As(bodies.Title | None),
        ),
        raises=("too-many-labels",),
    ),
    HostCall("queued", f"GET {SESSION_PATH}/queue", "show the queue", "talk", "observe", gives=views.QueueView),
    _command(
        "withdraw",
        "withdraw the prompt",
        "talk",
        "admin",
        spelled(commands.WithdrawSent, "A prompt is to leave the queue.", ref=As(bodies.Name)),
        raises=(errors.UnknownPrompt,),
    ),
    _command("suspend", "suspend the session", "talk", "admin", Spelled(commands.SuspendSent)),
    _command("resume", "resume the session", "talk", "admin", Spelled(commands.ResumeSent)),
    HostCall(
        "offered",
        f"GET {SESSION_PATH}/offered",
        "show what the session may be given",
        "talk",
        "observe",
        gives=views.OfferedView,
    ),
    HostCall("tasks", f"GET {SESSION_PATH}/tasks", "list the sub-agents", "talk", "observe", gives=views.TasksView),
    _command(
        "message_task",
        "write to the sub-agent",
        "talk",
        "admin",
        spelled(command_checks.MessageTask, child=As(bodies.SessionId, holds="child"), text=As(bodies.Filled)),
        route=f"POST {SESSION_PATH}/tasks",
        raises=(errors.UnknownTask, "task-done"),
    ),
    _command(
        "cancel_task",
        "stop the sub-agent",
        "talk",
        "admin",
        Spelled(command_checks.CancelTask, bodies.TaskQuery, (("child", As(holds="child")),)),
        route=f"DELETE {SESSION_PATH}/tasks",
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    HostCall(
        "task_result",
        f"GET {SESSION_PATH}/tasks/result",
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
        f"GET {SESSION_PATH}/tasks/results",
        "wait for sub-agents",
        "talk",
        "observe",
        query=bodies.WaitTasksQuery,
        gives=views.TaskResultsView,
        waits=True,
        raises=(errors.UnknownTask,),
    ),
    # Calls that are not about one session
    HostCall("identity", "GET /v1/identity", "say whose the key is", "talk", "observe", gives=views.IdentityView),
    HostCall("agents", "GET /v1/agents", "list the agents", "talk", gives=views.AgentsView),
    HostCall(
        "approvals",
        "GET /v1/approvals",
        "list what waits for a decision",
        "decide",
        query=bodies.PageQuery,
        gives=views.ApprovalsView,
    ),
    HostCall("tree", "GET /v1/tree", "show the tree", "observe", gives=views.ChildShown),
    HostCall(
        "rows",
        "GET /v1/tree/rows",
        "show the rows of the tree",
        "observe",
        raises=(errors.UnknownSession,),
        query=bodies.RowsQuery,
        gives=views.RowsView,
    ),
    HostCall(
        "trouble",
        "GET /v1/trouble",
        "list what went wrong",
        "observe",
        query=bodies.TroubleQuery,
        gives=views.TroublesView,
    ),
    HostCall(
        "figures",
        "GET /v1/figures",
        "show the figures over time",
        "observe",
        query=bodies.FiguresQuery,
        gives=views.FiguresView,
    ),
    HostCall(
        "evaluations",
        "GET /v1/evaluations",
        "list the experiments",
        OPERATE,
        gives=views.EvaluationsView,
        raises=("bad-evaluation",),
    ),
    HostCall(
        "evaluation",
        "GET /v1/evaluation",
        "show the experiment",
        OPERATE,
        query=bodies.EvaluationQuery,
        gives=views.EvaluationView,
        raises=("bad-evaluation",),
    ),
    HostCall("candidates", "GET /v1/candidates", "list the candidates", "observe", gives=insight_views.CandidatesView),
    HostCall("commands", "GET /v1/commands", "list the commands", "talk", gives=views.CommandsView),
    HostCall(
        "socket",
        "GET /v1/ws",
        "open a WebSocket",
        None,
        media=WEBSOCKET,
        status=101,
        raises=(
            "upgrade-wanted",
            errors.NotAuthenticated,
            errors.AuthenticatorFailed,
            errors.TooManyRequests,
            errors.ConnectionsInUse,
            errors.HostClosing,
        ),
    ),
    # The host itself
    HostCall("health", "GET /healthz", "say that the host answers", None, gives=views.HealthView),
    HostCall("ready", "GET /readyz", "say whether the host is ready", None, gives=views.ReadyView),
    HostCall("metrics", "GET /metrics", "show the figures", "observe", media=PROMETHEUS),
    HostCall("page", "GET /", "show the page of the host", None, media=HTML),
    HostCall(
        "console_file",
        f"GET /console/{FILE}",
        "show a file of the console",
        None,
        media=BYTES,
        raises=("unknown-route",),
    ),
    HostCall("openapi", "GET /openapi.json", "show the OpenAPI document", None),
)

CALLS: Final[Mapping[str, HostCall]] = MappingProxyType({call.name: call for call in _CALLS})
"""The table of calls: each by its name, in the order of their pages."""

COMMANDS: Final[Mapping[type[AnyCommand], tuple[HostCall, Spelled]]] = MappingProxyType(
    {spelled_command.command: (call, spelled_command) for call in _CALLS for spelled_command in call.commands}
)
"""By the class of a command: the call that carries it out, and how clients send it."""


def errors_of(call: HostCall) -> Errors:
    """Return the errors that a call may answer with, each once."""
    errors = [*ANY, *call.raises]
    if call.scope is not None:
        errors += WITH_KEY
    if call.body is not None:
        errors += WITH_BODY
    if call.gives is not None and call.scope is not None:
        errors += STORED
    if call.about_session:
        errors += OF_SESSION
    if call.command:
        errors += COMMAND
    return tuple(dict.fromkeys(errors))


class HostRoute(Value, gc=True):
    """A method and a path, and the call that they mean."""

    method: str
    """Method, in capitals."""
    path: str
    """Path; `{id}` stands for the id of a session, `{file}` for the name of a file."""
    call: HostCall
    """The call."""

    @property
    def path_fields(self) -> tuple[str, ...]:
        """The fields of the query of the call that its path has."""
        return tuple([part[1:-1] for part in self.path.split("/") if part in {STORE, DOCUMENT}])

    @property
    def about_session(self) -> bool:
        """Whether the path names a session."""
        return self.call.about_session


class Matched(Value, gc=True):
    """The route that a request means."""

    route: HostRoute
    """The route."""
    session: str
    """The id of the session in the path; empty if the path has none."""
    fields: tuple[tuple[str, str], ...] = ()
    """Fields of the query of the call that the path has, with their values."""


ROUTES: Final = tuple(
    [HostRoute(method, path, call) for call in CALLS.values() for method, path in [call.route.split(" ")]]
)
"""All routes of a host, each call once."""


def _by_path() -> Mapping[tuple[str, ...], Mapping[str, HostRoute]]:
    by_path: dict[tuple[str, ...], dict[str, HostRoute]] = {}
    for route in ROUTES:
        by_path.setdefault(tuple(route.path.split("/")), {})[route.method] = route
    return MappingProxyType(by_path)


_BY_PATH: Final = _by_path()
_ID_AT: Final = len(SESSION_PATH.split("/")) - 1
_FILE_AT: Final = 2
"""Where the name of a file stands in `/console/{file}`."""
_STORES: Final = STORES_PATH.split("/")
_STORE_AT: Final = STORE_PATH.split("/").index(STORE)
_DOCUMENT_AT: Final = DOCUMENT_PATH.split("/").index(DOCUMENT)


Routes: TypeAlias = Mapping[str, HostRoute]
"""The routes of one path, by their methods."""


def match(method: str, path: str) -> Matched:
    """Return the route that *method* and *path*, decoded and without its query, mean.

    Raise `UsageError` for an unknown path, and `MethodRefused`, which names the methods of the path, for another
    method. `HEAD` means `GET`.
    """
    parts = path.split("/")
    fields: tuple[tuple[str, str], ...] = ()
    session = ""
    if parts[:_STORE_AT] == _STORES and len(parts) > _STORE_AT:
        routes, fields = _in_store(parts)
    else:
        routes, session = _elsewhere(parts)
    if routes is None:
        raise UsageError("unknown-route", cut(path))
    route = routes.get("GET" if method == "HEAD" else method)
    if route is None:
        raise MethodRefused(method, path, ", ".join(allowed(routes)))
    return Matched(route, session, fields)


def _elsewhere(parts: list[str]) -> tuple[Routes | None, str]:
    """Return the routes of a path that names no store, and the id of a session in it."""
    routes = _BY_PATH.get(tuple(parts))
    if (routes is None or SESSION in parts) and len(parts) > _ID_AT and parts[_ID_AT]:
        return _BY_PATH.get((*parts[:_ID_AT], SESSION, *parts[_ID_AT + 1 :])), parts[_ID_AT]
    if routes is None and len(parts) == _FILE_AT + 1 and parts[_FILE_AT]:
        return _BY_PATH.get((*parts[:_FILE_AT], FILE)), ""
    return routes, ""


def _in_store(parts: list[str]) -> tuple[Routes | None, tuple[tuple[str, str], ...]]:
    """Return the routes of a path that names a store, and the fields that are in it."""
    store, document = parts[_STORE_AT], "/".join(parts[_DOCUMENT_AT:])
    if not store or (len(parts) > _DOCUMENT_AT and not document):
        return None, ()
    fields = ((STORE[1:-1], store), *([(DOCUMENT[1:-1], document)] if document else []))
    shape = (*_STORES, STORE, *parts[_STORE_AT + 1 : _DOCUMENT_AT], *([DOCUMENT] if document else []))
    return _BY_PATH.get(shape), fields


def allowed(methods: Iterable[str]) -> tuple[str, ...]:
    """Return the methods for the header `Allow`: with `GET` there is `HEAD`."""
    return tuple(sorted({*methods, *(["HEAD"] if "GET" in methods else [])}))
