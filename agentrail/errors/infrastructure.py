"""Errors of the journal, and of its disk or server."""

from __future__ import annotations

from agentrail.errors.branches import InfrastructureError


class JournalError(InfrastructureError):
    """An operation of the journal failed."""


class JournalUnavailable(JournalError):
    """The journal cannot be used now. Sessions wait until it can, and refuse calls meanwhile."""

    @property
    def found(self) -> str:
        """What was found, without the advice to the caller."""
        return self.wording.partition(";")[0].format(*self.args) if self.args else str(self)


class JournalFailed(JournalUnavailable):
    """One operation of the journal failed; it may succeed if it is tried again."""

    wording = (
        "the journal could not {0} ({1}); see that its disk or server can be reached, and try again: "
        "a call with a `command` id is never carried out twice"
    )

    def __init__(self, attempt: str, problem: str) -> None:
        super().__init__(attempt, problem)


class BadJournal(JournalUnavailable):
    """A method of a journal returned a value that the protocol `Journal` does not allow."""

    wording = "the journal's `{0}` returned {1} where {2} is wanted; report this to whoever wrote the journal"

    def __init__(self, method: str, found: str, wanted: str) -> None:
        super().__init__(method, found, wanted)


class NothingWritten(JournalUnavailable):
    """The journal cannot write now, and nothing was written; try again later."""

    wording = (
        "the journal cannot write ({0}); nothing was accepted; "
        "see that its disk works, that it may write there, and that no other program locks its file, and try again"
    )

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class JournalFull(NothingWritten):
    """The journal has no space, so nothing was written; try again when there is some."""

    wording = "the journal has no space ({0}); nothing was accepted; free some, and try again"


class NotWrittenYet(JournalError):
    """A `stop`, or an `abort` with a command id, has taken effect, but the journal has not taken its record yet."""

    wording = (
        "what was going on in `{0}` has stopped, and that is not written yet: {1}; it is written as soon as it can be, "
        "unless the process ends before: then the session comes back as it was, and has to be stopped again"
    )

    def __init__(self, session: str, problem: str) -> None:
        super().__init__(session, problem)


class SessionHeld(JournalError):
    """Another supervisor runs the session: it has a lease of it, which ends at *until* (milliseconds since 1970)."""

    wording = (
        "session `{0}` is held by `{1}` until {2} (milliseconds since 1970), unless that lease is renewed; "
        "talk to the session there, wait until the lease ends, or take the session over with `take_over=True`"
    )

    def __init__(self, session: str, holder: str, until: int) -> None:
        super().__init__(session, holder, until)


class Fenced(JournalError):
    """Another holder has claimed the session, so this one must not go on with it."""

    wording = (
        "session `{0}` was claimed by another holder (epoch {1}), so it was stopped here; "
        "`supervisor.resume({0!r})` says who holds it"
    )

    def __init__(self, session: str, epoch: int) -> None:
        super().__init__(session, epoch)


class CommitUnknown(JournalError):
    """It is not known whether the records were written, so this process must not continue with its state."""

    wording = "the outcome of a commit is unknown ({0}); restart from the journal"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class BadRecord(JournalError):
    """A record in the journal is damaged or missing."""

    wording = "record {1} of session `{0}` cannot be read: {2}"

    def __init__(self, session: str, number: int, problem: str) -> None:
        super().__init__(session, number, problem)


class JournalInUse(JournalUnavailable):
    """Another process writes this journal."""

    wording = "the journal `{0}` is in use ({1}); stop whoever uses it, or take it over with `take_over=True`"

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(path, owner)


class JournalLocked(JournalInUse):
    """A journal cannot be taken over, because another process hangs inside a write and has SQLite's lock for it."""

    wording = (
        "the journal `{0}` cannot be taken over: {1} is inside a write and keeps SQLite's lock, which only the end of "
        "that process releases; kill it (`kill -9`, also if it is stopped) and try again: what it had not committed "
        "is rolled back"
    )


class JournalUnusable(JournalUnavailable):
    """A journal cannot be opened, or is damaged as a whole."""

    wording = "the journal `{0}` cannot be used: {1}"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)


class BadArchive(JournalError):
    """A file that is to be imported is not a complete, unchanged export of a session."""

    wording = "cannot import `{0}`, line {1}: {2}"

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)


class JournalLinked(JournalInUse):
    """The file of a journal has more than one name; records written under one would be lost under the other."""

    wording = (
        "the journal `{0}` has another name{1}, and SQLite keeps a log beside each; "
        "use one name for it, remove the other, and copy it instead of linking it"
    )

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path, name)
