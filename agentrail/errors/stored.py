"""Errors in calls about stored sessions."""

from __future__ import annotations

from agentrail.errors.agentrail_error import UsageError, error
from agentrail.errors.usage import UnknownSession


@error
class SessionStored(UsageError):
    """A session cannot be spawned with this id, because the journal has one with it."""

    wording = (
        "cannot spawn `{session}`: a session of this id is in the journal; if it has not ended, "
        "`supervisor.resume({session!r}, spec)` goes on with it, and `supervisor.open({session!r}, spec)` does either; "
        "or use another id"
    )

    session: str
    """Id of the session."""


class SessionNotStored(UnknownSession):
    """The journal has no session of this id."""

    wording = (
        "there is no session `{session}` in the journal; `await supervisor.stored()` lists those there are, "
        "and `supervisor.spawn(spec, {session!r})` starts one"
    )


class SessionForgotten(UnknownSession):
    """The session has ended, and its records are gone: it was deleted, or it never was in a journal that is kept.

    A supervisor without a journal of the user's own keeps only sessions that have not ended.
    """

    wording = (
        "nothing is known of a session `{session}` any more: it was deleted, or it has ended in a supervisor without a "
        "journal of your own, which forgets such sessions; give `open_supervisor(journal=…)` one that keeps them, a "
        "`SqliteJournal` or a `MemoryJournal`"
    )


@error
class SessionBeingDeleted(UsageError):
    """The session is being deleted from the journal: nothing of it can be read, and its id is not free yet."""

    wording = (
        "session `{session}` is being deleted from the journal; `await supervisor.delete({session!r})` returns when "
        "that is done, and goes on with it if a process ended before; then the id is free"
    )

    session: str
    """Id of the session."""


@error
class SessionStillRuns(UsageError):
    """A session cannot be deleted or redacted, because it or one of its sub-agents runs in this supervisor."""

    wording = (
        "cannot delete or redact session `{session}`: session `{running}` runs in this supervisor; "
        "`await supervisor.session({running!r}).stop()` ends it, and then it can be done"
    )

    session: str
    """Id of the session."""
    running: str
    """Id of the session that runs: itself or one of its sub-agents."""


@error
class SessionAsleep(UsageError):
    """The session hibernates, and the data that was asked for is only in the journal."""

    wording = "session `{session}` sleeps, and its conversation is in the journal; wake it by `await session.resume()`"

    session: str
    """Id of the session."""


@error
class SessionParked(UsageError):
    """The session is stored in the journal, and this supervisor does not run it."""

    wording = (
        "session `{session}` is in the journal and not here any more; `supervisor.resume({session!r}, spec)` goes on "
        "with it"
    )

    session: str
    """Id of the session."""


@error
class UnknownRecord(UsageError):
    """The session has no record with this number."""

    wording = (
        "session `{session}` has no record {number}; `supervisor.stored()` tells how many it has, and they begin with 1"
    )

    session: str
    """Id of the session."""
    number: int
    """Number that was asked for."""


@error
class UnknownRequest(UsageError):
    """The session has sent no such request to its model."""

    wording = (
        "session `{session}` has sent no request {request}; it has sent {count}, and its events `RequestStart` have "
        "their ids"
    )

    session: str
    """Id of the session."""
    request: str
    """Number of the round, or id of the request, that was asked for."""
    count: int
    """How many requests it has sent."""


@error
class PluginMismatch(UsageError):
    """A session cannot be resumed, because the code of a plugin does not fit its records; nothing was changed."""

    wording = (
        "cannot resume `{session}`: plugin `{plugin}`: {problem}; give a specification with that plugin, of this "
        "version or a later one; a fork with `as_spec=True` leaves it out"
    )

    session: str
    """Id of the session."""
    plugin: str
    """Key of the plugin."""
    problem: str
    """Why it does not fit."""


@error
class JournalReadOnly(UsageError):
    """A journal is only looked at: nothing is written, and no session of it is claimed."""

    wording = (
        "cannot {attempt}: the journal is only looked at here; open a supervisor or a host with the journal for that"
    )

    attempt: str
    """What the journal was to do."""
