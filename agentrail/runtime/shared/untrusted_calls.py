"""Contains what foreign code raises (tools, models, services, callers), and tells it to the log.

What it returns is checked by `values/untrusted_content.py`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from traceback import format_exception, format_tb
from typing import Final, cast

import trio

from agentrail.runtime.shared.code_loops import code_loops, is_asyncio
from agentrail.values.untrusted_values import (
    described,
    inside,
    is_short,
    mended,
    message_of,
    pass_interrupt,
    traceback_of,
    type_name,
)

MAX_FRAMES: Final = 50
"""The most frames of a traceback that are logged: the innermost ones."""


class Contained:
    """Context manager around foreign code: an exception is passed to *told* and does not spread further.

    Trio's cancellation passes through, also inside an exception group. A `Cancelled` that nothing requested (kept from
    an earlier call and raised again) is handled like any other exception.
    """

    __slots__ = ("_told",)

    def __init__(self, report: Callable[[BaseException], None]) -> None:
        self._told = report

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None:
            return False
        passing, crash = split(error)
        if crash is not None:
            self._told(_bare(crash))
        if passing is None or passing is error:
            return passing is None
        # Foreign nurseries wrap Trio's cancellation in a group. It must not be swallowed: the task would go on.
        # tests/runtime/test_hostile_errors.py::test_a_cancellation_in_a_group_ends_the_task_and_the_errors_beside_it_are_told  # noqa: E501
        try:
            raise passing from None
        finally:
            del passing  # breaks a reference cycle: its traceback refers to this frame


def split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Split *error* into the part that must be raised on (cancellation, interrupt) and the part that is a crash."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        try:
            return BaseExceptionGroup.split(group, _is_ours)
        except Exception:  # noqa: BLE001 - nested too deep, or a group class that cannot be rebuilt
            return None, group
    # In an exception group if foreign code has a nursery.
    is_closed = isinstance(error, GeneratorExit) and _is_closing(error)
    return (error, None) if is_closed or _is_ours(error) else (None, error)


def _is_ours(error: BaseException) -> bool:
    """Whether *error* is Trio's cancellation of the current task, or an interrupt (Ctrl-C)."""
    if isinstance(error, trio.Cancelled):
        # A tool may keep a `Cancelled` and raise it in a task that is not cancelled: then it counts as a crash.
        # tests/runtime/test_outliving.py::test_a_cancellation_kept_from_one_call_and_raised_in_another_is_a_crash_of_that_call  # noqa: E501
        return trio.current_effective_deadline() == -math.inf
    return isinstance(error, KeyboardInterrupt)


def _is_closing(error: GeneratorExit) -> bool:
    """Whether this coroutine is being closed; then *error* (a `GeneratorExit`) was raised in our own frame."""
    came = traceback_of(error)
    return came is not None and came.tb_next is None


def _bare(error: BaseException) -> BaseException:
    """Return *error* without enclosing exception groups that hold only one exception."""
    bare = error
    while len(members := inside(bare)) == 1:
        bare = members[0]
    return bare


def traced(error: BaseException) -> str:
    """Return class and traceback of *error* for the log, without its message, which may quote the conversation."""
    return mended(f"{type_name(error)}\n{''.join(format_tb(traceback_of(error), -MAX_FRAMES))}")


NO_LOOP: Final = ("no running event loop", "no current event loop", "trio.run received unrecognized yield message")
"""How the texts of errors begin that asyncio, or Trio, raises if the code of one awaits the other."""

LOOP_OR_TRIO: Final = "open the supervisor by `agentrail.aio` or `agentrail.sync`, or write it for Trio"

WITHOUT_LOOP: Final = (AttributeError, RuntimeError, TypeError)
"""What asyncio and its libraries raise where they find no loop."""


def crash_text(error: BaseException, code: object, name: str, mark: str) -> str:
    """Return *error* of *code*, which is called *name*, as text; advise to *mark* it if it has awaited asyncio on Trio.

    Code that is marked has its loop, so asyncio raises something else there.
    """
    text = described(error)
    if hasattr(code, "check_loop") or not isinstance(error, WITHOUT_LOOP):
        return text
    if not (message_of(error).startswith(NO_LOOP) or is_asyncio(_raising_module(error))):
        return text
    if code_loops() is None:
        return f"{text}; `{name}` awaits asyncio and no asyncio loop is there; {LOOP_OR_TRIO}"
    return f"{text}; `{name}` awaits asyncio on Trio; decorate it by `{mark}`"


def _raising_module(error: BaseException) -> str:
    """Return the name of the module whose code has raised *error*; empty if it is not known."""
    came = traceback_of(error)
    while came is not None and came.tb_next is not None:
        came = came.tb_next
    name: object = None if came is None else came.tb_frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""


def tell(
    log: logging.Logger,
    error: BaseException | None,
    message: str,
    *about: object,
    level: int = logging.ERROR,
    words: bool = True,
) -> None:
    """Log *error* with its traceback and causes, as far as they can be formatted.

    Without *words*, the class and the traceback alone are logged: the texts of exceptions may hold what plugins screen
    out, and so may the exception itself, which handlers of logs read too.
    The text is made here. A log handler that cannot encode half a surrogate pair would drop the whole line.
    """
    if not log.isEnabledFor(level):
        return
    message_ = mended(message % about)
    text = None if error is None else _led_to(error) if words else traced(error)
    exc_info = None if error is None or not words else (type(error), error, traceback_of(error))
    file, line, function, _ = log.findCaller(stacklevel=2)
    record = log.makeRecord(log.name, level, file, line, "%s", (message_,), exc_info, function)
    record.exc_text = text
    log.handle(record)


def _led_to(error: BaseException) -> str:
    """Return the traceback of *error* with its causes as text, as far as that can be made and is no great work."""
    if not is_short(error):
        return traced(error)
    try:
        return mended("".join(format_exception(error)).rstrip("\n"))
    except BaseException as worse:  # noqa: BLE001, ASYNC103 - nested too deep for `traceback`, or its class is hostile
        pass_interrupt(worse)
        return traced(error)  # noqa: ASYNC104 - nothing is awaited here, so it is no cancellation of ours
