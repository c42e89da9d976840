"""Errors of things outside of agentrail: tools, files, processes, web pages, other tasks."""

from __future__ import annotations

from typing import Final

from agentrail.errors.branches import OutsideError

MAX_STUCK: Final = 20
"""The most tasks and threads that the text of `SupervisorStuck` names; `stuck` has all of them."""


class ToolError(OutsideError):
    """A call of a tool failed; raise it in a tool, and the model gets the text as the call's error result."""

    wording = "{0}"

    def __init__(self, message: str) -> None:
        super().__init__(message)


class NotReadable(OutsideError):
    """A file cannot be read."""

    wording = "cannot read `{0}`: {1}"

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)


class FileFailed(OutsideError):
    """An operation on a file or folder failed."""

    wording = "cannot {0} `{1}`: {2}"

    def __init__(self, verb: str, path: str, problem: str) -> None:
        super().__init__(verb, path, problem)


class FileMissing(FileFailed):
    """There is no such file or folder."""

    wording = "cannot {0} `{1}`: there is no such {2}; list the folder to see what there is"


class DiskFull(FileFailed):
    """A file could not be written because its disk is full, or its user has no room there."""

    wording = "cannot {0} `{1}`: {2}; remove what is not needed"


class CommandFailed(OutsideError):
    """A command could not be started. A command that ran and failed raises no error; its exit code says so."""

    wording = "cannot run `{0}`: {1}"

    def __init__(self, command: str, problem: str) -> None:
        super().__init__(command, problem)


class SearchTooSlow(OutsideError):
    """A search was stopped because it took too long."""

    wording = "the search for {0!r} was stopped after {1}; use a simpler pattern or a smaller folder"

    def __init__(self, pattern: str, spent: str) -> None:
        super().__init__(pattern, spent)


class WebFailed(OutsideError):
    """A page could not be fetched."""

    wording = "cannot fetch `{0}`: {1}"

    def __init__(self, url: str, problem: str) -> None:
        super().__init__(url, problem)


class McpFailed(OutsideError):
    """An MCP server could not be started, or has ended."""

    wording = "the MCP server `{0}` is not there: {1}"

    def __init__(self, server: str, problem: str) -> None:
        super().__init__(server, problem)


class SessionCrashed(OutsideError):
    """The session has ended because of an error in its task."""

    wording = "session `{0}` crashed: {1}"

    def __init__(self, session: str, cause: str) -> None:
        super().__init__(session, cause)


class SupervisorFailed(OutsideError):
    """A supervisor has ended with its children, because they crashed too often or one could not be started again."""

    wording = "supervisor `{0}` failed: {1}; its crash reports say more"

    def __init__(self, supervisor: str, cause: str) -> None:
        super().__init__(supervisor, cause)


class SupervisorStuck(OutsideError):
    """A supervisor was closed although some of its tasks or threads had not ended; `stuck` names them."""

    wording = (
        "the supervisor was left after {0} s, but some of its tasks and threads go on: {1}; what was durable stays so; "
        "have them end when they are cancelled, give more `stop_within`, or end the process, as `agentrail.run` does"
    )

    def __init__(self, seconds: float, stuck: tuple[str, ...]) -> None:
        super().__init__(seconds, stuck)
        self.stuck = stuck

    def _worded(self) -> tuple[object, ...]:
        shown = "; ".join(self.stuck[:MAX_STUCK])
        more = len(self.stuck) - MAX_STUCK
        return f"{self.args[0]:.3g}", f"{shown}; and {more} more" if more > 0 else shown


class StartTooSlow(OutsideError):
    """A service was not ready in time."""

    wording = "`{0}` was not ready within {1} s; call `task_status.started()` earlier, or give it more `start_timeout`"

    def __init__(self, child: str, seconds: float) -> None:
        super().__init__(child, seconds)


class SubscriberTooSlow(OutsideError):
    """A subscriber was too slow, and had chosen to be disconnected in that case."""

    wording = "this subscriber fell behind; subscribe again with `since=({0}, {1})`"

    def __init__(self, seq: int, n: int) -> None:
        super().__init__(seq, n)

    @property
    def cursor(self) -> tuple[int, int]:
        """The cursor at which to continue, for `subscribe(since=…)`."""
        seq, n = self.args
        return seq, n


class SourceFailed(OutsideError):
    """A source of tools, such as an MCP server, did not start, so none of its tools was attached."""

    wording = "cannot attach the tools of `{0}`: {1}; nothing was attached, so it can be tried again"

    def __init__(self, source: str, problem: str) -> None:
        super().__init__(source, problem)
