"""Errors of things outside of agentrail: tools, files, processes, web pages, other tasks."""

from __future__ import annotations

from typing import Final

from agentrail.errors.agentrail_error import OutsideError, error

MAX_STUCK: Final = 20
"""The most tasks and threads that the text of `SupervisorStuck` names; `stuck` has all of them."""


@error
class ToolError(OutsideError):
    """A call of a tool failed; raise it in a tool, and the model gets the text as the call's error result."""

    wording = "{message}"

    message: str
    """What the model is told."""


@error
class FileFailed(OutsideError):
    """An operation on a file or folder failed."""

    wording = "cannot {verb} `{path}`: {problem}"

    verb: str
    """What was to be done with it, as a verb."""
    path: str
    """Path of the file or folder."""
    problem: str
    """What went wrong, or, for a missing one, its kind."""


class FileMissing(FileFailed):
    """There is no such file or folder."""

    wording = "cannot {verb} `{path}`: there is no such {problem}; list the folder to see what there is"


class DiskFull(FileFailed):
    """A file could not be written because its disk is full, or its user has no room there."""

    wording = "cannot {verb} `{path}`: {problem}; remove what is not needed"


@error
class SearchTooSlow(OutsideError):
    """A search was stopped because it took too long."""

    wording = "the search for {pattern!r} was stopped after {spent}; use a simpler pattern or a smaller folder"

    pattern: str
    """The pattern that was searched for."""
    spent: str
    """The time that it took, as text."""


@error
class WebFailed(OutsideError):
    """A page could not be fetched."""

    wording = "cannot fetch `{url}`: {problem}"

    url: str
    """The URL."""
    problem: str
    """What went wrong."""


@error
class SearchFailed(OutsideError):
    """The web could not be searched, or no search service has a key."""

    wording = "cannot search the web: {problem}"

    problem: str
    """What went wrong, with the name of the service."""


@error
class SessionCrashed(OutsideError):
    """The session has ended because of an error in its task."""

    wording = "session `{session}` crashed: {cause}"

    session: str
    """Id of the session."""
    cause: str
    """The error that ended it, as text."""


@error
class SupervisorFailed(OutsideError):
    """A supervisor has ended with its children, because they crashed too often or one could not be started again."""

    wording = "supervisor `{supervisor}` failed: {cause}; its crash reports say more"

    supervisor: str
    """Name of the supervisor."""
    cause: str
    """The error that ended it, as text."""


@error
class SupervisorStuck(OutsideError):
    """A supervisor was closed although some of its tasks or threads had not ended; `stuck` names them."""

    wording = (
        "the supervisor was left after {seconds} s, but some of its tasks and threads go on: {stuck}; what was "
        "durable stays so; have them end when they are cancelled, give more `stop_within`, or end the process, as "
        "`agentrail.run` does"
    )

    seconds: float
    """The seconds that it was waited for them."""
    stuck: tuple[str, ...]
    """The tasks and threads that had not ended."""

    def _text(self) -> str:
        named = "; ".join(self.stuck[:MAX_STUCK])
        more = len(self.stuck) - MAX_STUCK
        stuck = f"{named}; and {more} more" if more > 0 else named
        return self.wording.format(seconds=f"{self.seconds:.3g}", stuck=stuck)


@error
class StartTooSlow(OutsideError):
    """A service was not ready in time."""

    wording = (
        "`{child}` was not ready within {seconds} s; call `task_status.started()` earlier, or give it more "
        "`start_timeout`"
    )

    child: str
    """Name of the service."""
    seconds: float
    """The seconds that it had."""


@error
class SubscriberTooSlow(OutsideError):
    """A subscriber was too slow, and had chosen to be disconnected in that case."""

    wording = "this subscriber fell behind; subscribe again with `since=({seq}, {n})`"

    seq: int
    """Number of the record at which to continue."""
    n: int
    """Number of the event within that record."""

    @property
    def cursor(self) -> tuple[int, int]:
        """The cursor at which to continue, for `subscribe(since=…)`."""
        seq, n = self.args
        return seq, n


@error
class SourceFailed(OutsideError):
    """A source of tools, such as an MCP server, did not start, so none of its tools was attached."""

    wording = "cannot attach the tools of `{source}`: {problem}; nothing was attached, so it can be tried again"

    source: str
    """Name of the source."""
    problem: str
    """What went wrong."""
