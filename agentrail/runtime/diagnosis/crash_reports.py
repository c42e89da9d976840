"""Crash reports, and the view of a supervision tree that `tree()` returns."""

from __future__ import annotations

from typing import cast

from agentrail.values.foreign import described
from agentrail.values.value import Value, value

MAX_DEPTH = 8
"""Levels of causes that a report holds."""

MAX_WIDTH = 16
"""Errors of one group that a report holds."""


@value
class Reason(Value):
    """An exception as data, with its causes."""

    kind: str
    """The class of the error."""
    text: str
    """Class and message."""
    where: str = ""
    """File, line and function in which it was raised."""
    parts: tuple[Reason, ...] = ()
    """The exceptions in it, if it is a group."""
    cause: Reason | None = None
    """The exception that it was raised from."""


@value
class CrashReport(Value):
    """One crash of one child of a supervisor."""

    path: tuple[str, ...]
    """Names of the supervisors above the child, then its own."""
    kind: str
    """`session`, `service` or `supervisor`."""
    reason: Reason
    """The exception that crashed it."""
    done: str
    """`restarted`, `set_aside`, `given_up`, `failed`: what its supervisor did about it."""
    restarts: int
    """Number of its restarts before this crash."""
    input: str = ""
    """For a session: kind and number of the message that it was handling."""
    mailbox: tuple[int, int, int] = (0, 0, 0)
    """For a session: number of waiting messages: control, results, user."""
    at: int = 0
    """When, in milliseconds since 1970."""


@value
class ChildView(Value):
    """One child of a supervisor, as `tree()` shows it, with what is under it."""

    name: str
    """Name of the child."""
    kind: str
    """`session`, `service` or `supervisor`."""
    state: str
    """`starting`, `running`, `waiting` (to be started again), `stopping`, `asleep`, `quarantined`, `stuck`, `down`."""
    restart: str
    """`permanent`, `transient` or `temporary`."""
    restarts: int = 0
    """How often it was started again."""
    phase: str = ""
    """Of a session: its phase."""
    suspended: bool = False
    """Of a session: whether it was suspended."""
    mailbox: tuple[int, int, int] = (0, 0, 0)
    """Of a session: how many messages wait: control, results, user."""
    memory: int = 0
    """Of a session: about how many characters of conversation it holds in memory."""
    limited: int = 0
    """Of a session: how many of its requests to models wait for the limit of their provider."""
    children: tuple[ChildView, ...] = ()
    """Of a supervisor: its children; of a session: its sub-agents; in the order of their start."""


def reason_of(error: BaseException, depth: int = 0) -> Reason:
    """Return *error* as a `Reason`: groups with their exceptions, each with its cause."""
    cause: BaseException | None = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    behind = None if cause is None or depth >= MAX_DEPTH else reason_of(cause, depth + 1)
    reason = Reason(type(error).__name__, described(error), _where(error), cause=behind)
    if depth >= MAX_DEPTH or not isinstance(error, BaseExceptionGroup):
        return reason
    group = cast("BaseExceptionGroup[BaseException]", error)
    return reason.but(parts=tuple(reason_of(part, depth + 1) for part in group.exceptions[:MAX_WIDTH]))


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{code.co_filename}:{trace.tb_lineno} in {code.co_qualname}"
