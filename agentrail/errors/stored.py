"""Errors in calls about stored sessions."""

from __future__ import annotations

from agentrail.errors.branches import UsageError
from agentrail.errors.usage import UnknownSession


class SessionStored(UsageError):
    """A session cannot be spawned with this id, because the journal has one with it."""

    wording = (
        "cannot spawn `{0}`: a session of this id is in the journal; if it has not ended, "
        "`supervisor.resume({0!r}, spec)` goes on with it, and `supervisor.open({0!r}, spec)` does either; "
        "or use another id"
    )

    def __init__(self, session: str) -> None:
        super().__init__(session)


class TooManyLabels(UsageError):
    """A session would have more labels than it may."""

    wording = "the session would have {0} labels, and may have {1}; remove some in the same call"

    def __init__(self, labels: int, most: int) -> None:
        super().__init__(labels, most)


class SessionNotStored(UnknownSession):
    """The journal has no session of this id."""

    wording = (
        "there is no session `{0}` in the journal; `await supervisor.stored()` lists those there are, "
        "and `supervisor.spawn(spec, {0!r})` starts one"
    )


class SessionForgotten(UnknownSession):
    """The session has ended, and its records are gone: it was deleted, or it never was in a journal that is kept.

    A supervisor without a journal of the user's own keeps only sessions that have not ended.
    """

    wording = (
        "nothing is known of a session `{0}` any more: it was deleted, or it has ended in a supervisor without a "
        "journal of your own, which forgets such sessions; give `open_supervisor(journal=…)` one that keeps them, a "
        "`SqliteJournal` or a `MemoryJournal`"
    )


class SessionBeingDeleted(UsageError):
    """The session is being deleted from the journal: nothing of it can be read, and its id is not free yet."""

    wording = (
        "session `{0}` is being deleted from the journal; `await supervisor.delete({0!r})` returns when that is done, "
        "and goes on with it if a process ended before; then the id is free"
    )

    def __init__(self, session: str) -> None:
        super().__init__(session)


class SessionStillRuns(UsageError):
    """A session cannot be deleted or redacted, because it or one of its sub-agents runs in this supervisor."""

    wording = (
        "cannot delete or redact session `{0}`: session `{1}` runs in this supervisor; "
        "`await supervisor.session({1!r}).stop()` ends it, and then it can be done"
    )

    def __init__(self, session: str, running: str) -> None:
        super().__init__(session, running)


class SessionUnfinished(UsageError):
    """A session cannot be redacted, because its turn is open, or prompts wait: it would go on without their texts."""

    wording = (
        "cannot redact session `{0}`: its turn is open, or prompts wait, and it would go on without their texts; "
        "`supervisor.resume({0!r}, spec)` and wait until it is idle or `stop()` it, or delete it"
    )

    def __init__(self, session: str) -> None:
        super().__init__(session)


class SessionAsleep(UsageError):
    """The session hibernates, and the data that was asked for is only in the journal."""

    wording = "session `{0}` sleeps, and its conversation is in the journal; `await session.wake()` first"

    def __init__(self, session: str) -> None:
        super().__init__(session)


class SessionParked(UsageError):
    """The session is stored in the journal, and this supervisor does not run it."""

    wording = "session `{0}` is in the journal and not here any more; `supervisor.resume({0!r}, spec)` goes on with it"

    def __init__(self, session: str) -> None:
        super().__init__(session)


class UnknownRecord(UsageError):
    """The session has no record with this number."""

    wording = "session `{0}` has no record {1}; `supervisor.stored()` tells how many it has, and they begin with 1"

    def __init__(self, session: str, number: int) -> None:
        super().__init__(session, number)


class SpecMissing(UsageError):
    """A session cannot be resumed, because no specification was given for its code."""

    wording = (
        "cannot resume `{0}`: its specification is called {1!r}, and there is none of that name; "
        "give one to `resume`, or open the supervisor with `specs={{name: build}}`"
    )

    def __init__(self, session: str, name: str) -> None:
        super().__init__(session, name)


class PluginMismatch(UsageError):
    """A session cannot be resumed, because the code of a plugin does not fit its records; nothing was changed."""

    wording = (
        "cannot resume `{0}`: plugin `{1}`: {2}; give a specification with that plugin, of this version or a later one"
    )

    def __init__(self, session: str, plugin: str, problem: str) -> None:
        super().__init__(session, plugin, problem)
