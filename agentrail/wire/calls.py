"""The table of calls: what each takes and gives, which errors it may answer with, and which scope it needs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail import errors
from agentrail.wire import bodies, sse_frames, views
from agentrail.wire.call_rows import host_views
from agentrail.wire.call_rows.handle_calls import HANDLE_CALLS
from agentrail.wire.call_rows.host_call import (
    ANY,
    BYTES,
    COMMAND,
    DECIDE,
    HTML,
    OF_SESSION,
    OPENING,
    PROMETHEUS,
    STORED,
    TALK,
    TURN,
    WEBSOCKET,
    WITH_BODY,
    WITH_KEY,
    Errors,
    HostCall,
)

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
    HostCall("health", "say that the host answers", None, gives=host_views.HealthView),
    HostCall("ready", "say whether the host is ready", None, gives=host_views.ReadyView),
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
