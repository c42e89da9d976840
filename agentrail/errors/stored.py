"""A stored session was asked for in a way that does not fit it."""

from __future__ import annotations

from agentrail.errors.branches import UsageError
from agentrail.errors.usage import UnknownSession


class SessionStored(UsageError):
    """A session of this id is in the journal."""

    wording = (
        "cannot spawn `{0}`: a session of this id is in the journal; if it has not ended, "
        "`supervisor.resume({0!r}, spec)` goes on with it, and `supervisor.open({0!r}, spec)` does either; "
        "or use another id"
    )

    def __init__(self, session: str) -> None:
        super().__init__(session)


class SessionForgotten(UnknownSession):
    """The session has ended, or there never was one of this id: this supervisor's journal keeps only living ones."""

    wording = (
        "nothing is known of a session `{0}`: without a journal of your own, a supervisor forgets sessions that have "
        "ended; give `open_supervisor(journal=…)` one that keeps them, a `SqliteJournal` or a `MemoryJournal`"
    )


class SessionAsleep(UsageError):
    """The session sleeps, and what was asked for is in its journal only."""

    wording = "session `{0}` sleeps, and its conversation is in the journal; `await session.wake()` first"

    def __init__(self, session: str) -> None:
        super().__init__(session)


class SessionParked(UsageError):
    """The session is in the journal, and nobody runs it here."""

    wording = "session `{0}` is in the journal and not here any more; `supervisor.resume({0!r}, spec)` goes on with it"

    def __init__(self, session: str) -> None:
        super().__init__(session)


class UnknownRecord(UsageError):
    """A session was asked for as it was at a time that it never had."""

    wording = "session `{0}` has no record {1}; `supervisor.stored()` tells how many it has, and they begin with 1"

    def __init__(self, session: str, number: int) -> None:
        super().__init__(session, number)


class SpecMissing(UsageError):
    """A session is to come back, and nobody says from which code."""

    wording = (
        "cannot resume `{0}`: its specification is called {1!r}, and there is none of that name; "
        "give one to `resume`, or open the supervisor with `specs={{name: build}}`"
    )

    def __init__(self, session: str, name: str) -> None:
        super().__init__(session, name)


class PluginMismatch(UsageError):
    """The code of a stored session does not fit its records; nothing of it was changed."""

    wording = (
        "cannot resume `{0}`: plugin `{1}`: {2}; give a specification with that plugin, of this version or a later one"
    )

    def __init__(self, session: str, plugin: str, problem: str) -> None:
        super().__init__(session, plugin, problem)
