"""Errors of the journal, and of its disk or server."""

from __future__ import annotations

from agentrail.errors.agentrail_error import InfrastructureError, error, filled


class JournalError(InfrastructureError):
    """An operation of the journal failed."""


class JournalUnavailable(JournalError):
    """The journal cannot be used now. Sessions wait until it can, and refuse calls meanwhile."""

    @property
    def found(self) -> str:
        """The failure alone, without the advice to the caller."""
        return filled(self.wording.partition(";")[0], self) if self.args else str(self)


@error
class JournalFailed(JournalUnavailable):
    """One operation of the journal failed; it may succeed if it is tried again."""

    wording = (
        "the journal could not {attempt} ({problem}); see that its disk or server can be reached, and try again: "
        "a call with a `command` id is never carried out twice"
    )

    attempt: str
    """What the journal was to do."""
    problem: str
    """What went wrong."""


class BadJournal(JournalUnavailable):
    """A method of a journal returned a value that the protocol `Journal` does not allow."""

    wording = "the journal's `{0}` returned {1} where {2} is wanted; report this to whoever wrote the journal"

    def __init__(self, method: str, found: str, wanted: str) -> None:
        super().__init__(method, found, wanted)


@error
class NothingWritten(JournalUnavailable):
    """The journal cannot write now, and nothing was written; try again later."""

    wording = (
        "the journal cannot write ({problem}); nothing was accepted; "
        "see that its disk works, that it may write there, and that no other program locks its file, and try again"
    )

    problem: str
    """What went wrong."""


class JournalFull(NothingWritten):
    """The journal has no space, so nothing was written; try again when there is some."""

    wording = "the journal has no space ({problem}); nothing was accepted; free some, and try again"


@error
class NotWrittenYet(JournalError):
    """A `stop`, or an `abort` with a command id, has taken effect, but the journal has not taken its record yet."""

    wording = (
        "what was going on in `{session}` has stopped, and that is not written yet: {problem}; it is written as soon "
        "as it can be, unless the process ends before: then the session comes back as it was, and has to be stopped "
        "again"
    )

    session: str
    """Id of the session."""
    problem: str
    """Why the record is not written yet."""


@error
class SessionHeld(JournalError):
    """Another supervisor runs the session: it has a lease of it, which lasts for *left* more milliseconds."""

    wording = (
        "session `{session}` is held by `{holder}` for {left} more milliseconds, unless that lease is "
        "renewed; talk to the session there, wait until the lease ends, or take the session over with "
        "`supervisor.resume({session!r}, take_over=True)`"
    )

    session: str
    """Id of the session."""
    holder: str
    """Address of the supervisor that runs it."""
    left: int
    """For how many milliseconds the lease lasts by the journal's clock; yours may show another time."""

    @property
    def retry_after(self) -> float:
        """Seconds until the lease ends, if it is not renewed."""
        return self.left / 1000


@error
class Fenced(JournalError):
    """Another holder has claimed the session, so this one must not go on with it."""

    wording = (
        "session `{session}` was claimed by another holder (epoch {epoch}), so it was stopped here; "
        "`supervisor.resume({session!r})` says who holds it, or goes on with it if nobody does"
    )

    session: str
    """Id of the session."""
    epoch: int
    """Epoch of the other holder's claim."""


@error
class CommitUnknown(JournalError):
    """It is not known whether the records were written, so this process must not continue with its state."""

    wording = "the outcome of a commit is unknown ({problem}); restart from the journal"

    problem: str
    """What went wrong."""


@error
class BadRecord(JournalError):
    """A record in the journal is damaged or missing."""

    wording = "record {number} of session `{session}` cannot be read: {problem}"

    session: str
    """Id of the session."""
    number: int
    """Number of the record."""
    problem: str
    """Why it cannot be read."""


class JournalInUse(JournalUnavailable):
    """Another process has this journal, in a way that cannot be shared."""

    wording = "the journal `{0}` is in use ({1}); stop whoever uses it"

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(path, owner)


@error
class JournalUnusable(JournalUnavailable):
    """A journal cannot be opened, or is damaged as a whole."""

    wording = "the journal `{path}` cannot be used: {problem}"

    path: str
    """Path of the journal."""
    problem: str
    """What is wrong."""


@error
class BadArchive(JournalError):
    """A file that is to be imported is not a complete, unchanged export of a session."""

    wording = "cannot import `{path}`, line {line}: {problem}"

    path: str
    """Path of the file, or a name for it."""
    line: int
    """Number of the line, from 1 on."""
    problem: str
    """What is wrong."""


@error
class JournalLinked(JournalInUse):
    """The file of a journal has more than one name; records written under one would be lost under the other."""

    wording = (
        "the journal `{path}` has another name{name}, and SQLite keeps a log beside each; "
        "use one name for it, remove the other, and copy it instead of linking it"
    )

    path: str
    """Path of the journal."""
    name: str
    """The other name, with what goes before it; empty if it is not known."""
