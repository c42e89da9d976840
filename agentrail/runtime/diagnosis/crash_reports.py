"""Crash reports, and the view of a supervision tree that `tree()` returns."""

from __future__ import annotations

from typing import cast

from agentrail.errors.agentrail_error import kind_of
from agentrail.values.untrusted_values import described
from agentrail.values.value import Value

MAX_DEPTH = 8
"""How many levels of causes and groups of exceptions a report holds at most."""

MAX_WIDTH = 16
"""How many exceptions of one group a report holds at most."""


class Reason(Value):
    """An exception as data, with its causes."""

    kind: str
    """The class of the error."""
    text: str
    """Class and message."""
    where: str = ""
    """File, line and function in which the error was raised; empty if that is not known."""
    parts: tuple[Reason, ...] = ()
    """The exceptions in an exception group; empty if it is no group."""
    cause: Reason | None = None
    """The exception that caused this one, or was being handled when this one was raised; `None` if there is none."""


class CrashReport(Value):
    """One crash of one child of a supervisor."""

    path: tuple[str, ...]
    """Names of the supervisors above the child, then the child's own."""
    kind: str
    """`session`, `service` or `supervisor`."""
    reason: Reason
    """The exception that crashed the child."""
    done: str
    """What the supervisor did about the crash: `restarted`, `input_set_aside`, `set_aside`, `given_up` or `failed`.

    With `input_set_aside` the session was restarted too, without the message that had crashed it twice.
    """
    restarts: int
    """How often the child had been restarted before this crash."""
    input: str
    """For a session: kind and number of the message that it was handling; empty if none."""
    mailbox: tuple[int, int, int]
    """For a session: number of waiting messages in each lane: control, results, user."""
    at: int
    """Time of the crash, in milliseconds since 1970."""


def reason_of(error: BaseException, depth: int = 0) -> Reason:
    """Return *error* as a `Reason`, with its causes and, if it is a group, its exceptions, down to `MAX_DEPTH`."""
    cause: BaseException | None = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    cause_reason = None if cause is None or depth >= MAX_DEPTH else reason_of(cause, depth + 1)
    reason = Reason(kind_of(error), described(error), _where(error), cause=cause_reason)
    if depth >= MAX_DEPTH or not isinstance(error, BaseExceptionGroup):
        return reason
    group = cast("BaseExceptionGroup[BaseException]", error)
    return reason.but(parts=tuple(reason_of(part, depth + 1) for part in group.exceptions[:MAX_WIDTH]))


def _where(error: BaseException) -> str:
    """Return file, line and function in which *error* was raised."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{code.co_filename}:{trace.tb_lineno} in {code.co_qualname}"
