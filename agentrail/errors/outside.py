"""Something outside failed: a tool, a disk, a process."""

from __future__ import annotations

from agentrail.errors.branches import OutsideError


class ToolError(OutsideError):
    """Raise it in a tool to answer `Err`: the model sees the text."""

    wording = "{0}"

    def __init__(self, message: str) -> None:
        super().__init__(message)


class NotReadable(OutsideError):
    """A file cannot be read."""

    wording = "cannot read `{0}`: {1}"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)


class FileFailed(OutsideError):
    """The file system could not do it."""

    wording = "cannot {0} `{1}`: {2}"

    def __init__(self, verb: str, path: str, problem: str) -> None:
        super().__init__(verb, path, problem)


class FileMissing(FileFailed):
    """There is no such file or folder."""

    wording = "cannot {0} `{1}`: there is no such {2}; list the folder to see what there is"


class CommandFailed(OutsideError):
    """A command could not be started or watched; it says nothing of what the command itself answered."""

    wording = "cannot run `{0}`: {1}"

    def __init__(self, command: str, problem: str) -> None:
        super().__init__(command, problem)


class SearchTooSlow(OutsideError):
    """A search was stopped because it took too long."""

    wording = "the search for {0!r} was stopped after {1} seconds; use a simpler pattern or a smaller folder"

    def __init__(self, pattern: str, seconds: float) -> None:
        super().__init__(pattern, seconds)


class WebFailed(OutsideError):
    """A page could not be fetched."""

    wording = "cannot fetch `{0}`: {1}"

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)


class McpFailed(OutsideError):
    """An MCP server could not be started, or ended."""

    wording = "the MCP server `{0}` is not there: {1}"

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(server, problem)


class SessionCrashed(OutsideError):
    """The session ended by an error of its own."""

    wording = "session `{0}` crashed: {1}"

    def __init__(self, session: str, cause: str) -> None:
        super().__init__(session, cause)


class SupervisorFailed(OutsideError):
    """A supervisor has stopped its children, because they crashed too often or one could not be started again."""

    wording = "supervisor `{0}` failed: {1}; its crash reports say more"

    def __init__(self, supervisor: str, cause: str) -> None:
        super().__init__(supervisor, cause)


class StartTooSlow(OutsideError):
    """A service was not ready in time."""

    wording = "`{0}` was not ready within {1} s; call `task_status.started()` earlier, or give it more `start_timeout`"

    def __init__(self, child: str, seconds: float) -> None:
        super().__init__(child, seconds)


class SubscriberTooSlow(OutsideError):
    """A subscriber did not keep up, and asked to be disconnected then."""

    wording = "this subscriber fell behind; subscribe again with `since=({0}, {1})`"

    def __init__(self, seq: int, n: int) -> None:
        super().__init__(seq, n)


class JournalError(OutsideError):
    """The journal could not do it."""


class JournalFull(JournalError):
    """Nothing was written; it can be tried again when there is space."""

    wording = "the journal cannot write ({0}); nothing was accepted; free some space"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class Fenced(JournalError):
    """Somebody else owns the session now."""

    wording = "session `{0}` was claimed by another owner (epoch {1}); this one must stop writing"

    def __init__(self, session: str, epoch: int) -> None:
        super().__init__(session, epoch)


class CommitUnknown(JournalError):
    """Whether the records were written is not known; the process must not go on."""

    wording = "the outcome of a commit is unknown ({0}); restart from the journal"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class BadRecord(JournalError):
    """A record cannot be read."""

    wording = "record {1} of session `{0}` cannot be read: {2}"

    def __init__(self, session: str, number: int, problem: str) -> None:
        super().__init__(session, number, problem)


class JournalInUse(JournalError):
    """Another process writes this journal."""

    wording = "the journal `{0}` is in use ({1}); stop whoever uses it, or take it over with `take_over=True`"

    def __init__(self, path: str, owner: str) -> None:
        super().__init__(path, owner)


class JournalLinked(JournalInUse):
    """A journal has more than one name: what is written under one would be lost under the other."""

    wording = (
        "the journal `{0}` has another name{1}, and SQLite keeps a log beside each; "
        "use one name for it, remove the other, and copy it instead of linking it"
    )

    def __init__(self, path: str, name: str) -> None:
        super().__init__(path, name)


class JournalUnusable(JournalError):
    """A journal cannot be opened, or is damaged as a whole."""

    wording = "the journal `{0}` cannot be used: {1}"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)


class BadArchive(JournalError):
    """A file is not a whole session."""

    wording = "cannot import `{0}`, line {1}: {2}"

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
