"""`HostCall`: one row of the table of calls; and errors that several rows share."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from agentrail import errors
from agentrail.errors import AgentrailError
from agentrail.values.value import Value
from agentrail.wire import bodies, views

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
