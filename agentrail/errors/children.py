"""Errors in calls about the children of a supervisor, or in the arguments of a supervisor."""

from __future__ import annotations

from collections.abc import Iterable

from agentrail.errors.branches import UsageError, listed


class ChildExists(UsageError):
    """Two children of a supervisor cannot have one name."""

    wording = "a child `{0}` is there already; use another name, or stop that one first"

    def __init__(self, child: str) -> None:
        super().__init__(child)


class NotReady(UsageError):
    """A service has ended before it was ready."""

    wording = "`{0}` ended before it was ready; call `task_status.started()`, or start it again if it was stopped"

    def __init__(self, child: str) -> None:
        super().__init__(child)


class EndedTooOften(UsageError):
    """A child that is to run for ever has ended, without an error, more often than it may be restarted."""

    wording = "`{0}` has ended too often, without an error; let it run until it is cancelled, or use `transient`"

    def __init__(self, child: str) -> None:
        super().__init__(child)


class BadSupervisor(UsageError):
    """The numbers for the restarts of a supervisor are invalid."""

    wording = "cannot supervise with max_restarts={0} and period={1}; give 0 or more restarts in more than 0 seconds"

    def __init__(self, max_restarts: int, period: float) -> None:
        super().__init__(max_restarts, period)


class UnknownChild(UsageError):
    """No child of the supervisor has this name."""

    wording = "there is no child `{0}` here (there are: {1})"

    def __init__(self, child: str, there: str) -> None:
        super().__init__(child, there)

    @classmethod
    def among(cls, child: str, there: Iterable[str]) -> UnknownChild:
        """Return an error that lists the existing children."""
        return cls(child, listed(there))


class UnknownTask(UsageError):
    """No sub-agent of the session has this id."""

    wording = "no sub-agent `{0}` is known here (known are: {1}); what ended long ago is in the journal only"

    def __init__(self, child: str, there: str) -> None:
        super().__init__(child, there)

    @classmethod
    def among(cls, child: str, there: Iterable[str]) -> UnknownTask:
        """Return an error that lists the known sub-agents."""
        return cls(child, listed(there))


class TaskDone(UsageError):
    """A message came too late: the sub-agent has given its answer."""

    wording = (
        "the task of `{0}` is done, so it reads no messages; take its answer, and give a new task if more is to do"
    )

    def __init__(self, child: str) -> None:
        super().__init__(child)
