"""`run`: runs a whole program, stops it in an orderly way at a signal, and ends the process if that takes too long."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final, TypeAlias, TypeVar

import trio

from agentrail.app.hangup import HANGUP, Hangup, noted_hangup
from agentrail.app.shutdown_time import ending
from agentrail.errors import SupervisorStuck, WrongType
from agentrail.runtime.shared.collector import fewer_full_collections
from agentrail.runtime.shared.untrusted_calls import tell
from agentrail.values.argument_checks import checked
from agentrail.values.untrusted_values import as_seconds, brief, leaves

_RUNNING: Final[trio.lowlevel.RunVar[Hangup]] = trio.lowlevel.RunVar("agentrail-hangup")


def hangup() -> Hangup:
    """Return the `Hangup` of this run of Trio. Only `agentrail.run` listens to the signal."""
    try:
        return _RUNNING.get()
    except LookupError:
        hangup_ = Hangup()
        _RUNNING.set(hangup_)
        return hangup_


T = TypeVar("T")

_Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None
"""A handler of a signal, as `signal.getsignal` returns it: a function, a default of the system, or `None`."""

log = logging.getLogger("agentrail.process")

GAVE_UP: Final = 70
"""The exit status of a process that was ended because it did not end by itself in time."""

ENDING: Final = ("SIGTERM", "SIGINT", HANGUP)
"""The names of the signals that stop a program in an orderly way; some systems do not have all of them."""

ONE_SIGNAL: Final = 0.2
"""Seconds within which a signal that comes again is the same one: `timeout` sends it to a process and to its group."""


class SignalRepeats:
    """Tells signals that were sent anew from those that come again within `ONE_SIGNAL`, and are not to count twice."""

    def __init__(self) -> None:
        self._counted_at: dict[int, float] = {}

    def has(self, number: int) -> bool:
        """Whether the signal *number*, which has just come, is one that has counted."""
        now = trio.current_time()
        is_repeat = now < self._counted_at.get(number, -ONE_SIGNAL) + ONE_SIGNAL
        if not is_repeat:
            self._counted_at[number] = now
        return is_repeat


@checked
def run(main: Callable[[], Awaitable[T]], *, stop_within: float = 10.0, fewer_collections: bool = False) -> T | None:
    """Run *main* by `trio.run` and return its result, or `None` if SIGTERM, SIGINT or SIGHUP cancelled it.

    A signal that is ignored when the process starts, such as SIGHUP under `nohup`, stays ignored. While *main* serves
    a `Host`, SIGHUP has it read its certificate and keys anew, unless the terminal of the program has gone.

    The program has *stop_within* seconds to end, from the signal or from the end of *main* on. Its supervisors end
    within that time, and name what is stuck. After that time, or at a second signal, the process is ended with exit
    status 70, whatever still runs. If *main* raises `SupervisorStuck`, that happens at once: `trio.run` returns only
    after all its tasks.

    With *fewer_collections*, Python's full garbage collections are rarer while *main* runs, and with 500 sessions and
    connections they freeze objects; without it, the collector of the process is left alone.
    """
    within = as_seconds(stop_within)
    if within is None:
        raise WrongType("stop_within", brief(stop_within), "seconds from 0 on")
    last_resort = _LastResort(within)
    try:
        with fewer_full_collections() if fewer_collections else nullcontext():
            return trio.run(_guarded, main, last_resort)
    finally:
        last_resort.cancel()


class _LastResort:
    """Ends the process when its time to stop is over. It waits in a thread, because the event loop may be blocked.

    Signal handlers talk to the thread through a `SimpleQueue`, which is safe to use wherever a signal interrupts.
    """

    def __init__(self, within: float) -> None:
        self.within = within
        self._goes_on: SimpleQueue[bool] = SimpleQueue()
        threading.Thread(target=self._wait, name="agentrail last resort", daemon=True).start()

    def begin(self) -> None:
        """Start the countdown; no-op if it has started already."""
        self._goes_on.put(False)

    def cancel(self) -> None:
        """Stop the countdown, because the program has ended by itself."""
        self._goes_on.put(True)

    def _wait(self) -> None:
        """Body of the thread: wait for the countdown to start, then to end; end the process if not cancelled."""
        if self._goes_on.get():
            return
        end = time.monotonic() + self.within
        try:
            while not self._goes_on.get(timeout=min(max(end - time.monotonic(), 0), threading.TIMEOUT_MAX)):
                pass
        except Empty:
            _leave("it did not end in time")


async def _guarded(main: Callable[[], Awaitable[T]], last_resort: _LastResort) -> T | None:
    """Run *main* under the signal handlers; end the process at once if a supervisor is stuck."""
    _RUNNING.set(noted_hangup() or Hangup())
    scope = trio.CancelScope()
    result: T | None = None
    async with trio.open_nursery() as nursery:  # noqa: TID251 - around the whole program
        await nursery.start(_obey, scope, last_resort)
        with scope:
            try:
                result = await main()
            except BaseException as error:
                if _is_stuck(error):
                    _leave("a supervisor cannot end", error)
                raise
            finally:
                last_resort.begin()
        nursery.cancel_scope.cancel()
    return result


def _is_stuck(error: BaseException) -> bool:
    """Whether *error* is or contains a `SupervisorStuck`."""
    return any(isinstance(leaf, SupervisorStuck) for leaf in leaves(error))


async def _obey(scope: trio.CancelScope, last_resort: _LastResort, task_status: trio.TaskStatus[None]) -> None:
    """Cancel *scope* at the first signal that ends the program, and end the process at the second."""
    numbers = tuple(ending_signals())
    if not numbers:
        task_status.started()
        return
    hung_up, repeats = hangup(), SignalRepeats()

    def begin(number: int) -> None:
        """Start the countdown, unless the signal is a SIGHUP that listeners get."""
        if not _is_hangup(number) or hung_up.ends:
            last_resort.begin()

    with trio.open_signal_receiver(*numbers) as signals:
        for signal_number in numbers:
            signal.signal(signal_number, _first(begin, signal.getsignal(signal_number)))
        task_status.started()
        async for number in signals:
            if _is_hangup(number) and not hung_up.ends:
                hung_up.tell()
                continue
            if repeats.has(number):
                continue
            if scope.cancel_called:
                _leave("it was told twice")
            log.warning("%s: the program stops within %g s", signal.Signals(number).name, last_resort.within)
            last_resort.begin()  # a host may have listened to SIGHUP when the handler ran
            ending().begin(last_resort.within)
            scope.cancel()


def _is_hangup(number: int) -> bool:
    return signal.Signals(number).name == HANGUP


def _first(begin: Callable[[int], None], then: _Handler) -> Callable[[int, FrameType | None], None]:
    """Return a signal handler that calls *begin*, even while the event loop is blocked, then the handler *then*."""

    def handle(number: int, frame: FrameType | None) -> None:
        """Call *begin*, then the former handler."""
        begin(number)
        if callable(then):
            then(number, frame)

    return handle


def ending_signals() -> Iterator[signal.Signals]:
    """Yield the signals of `ENDING` that this system has and that the process does not ignore."""
    for name in ENDING:
        number: signal.Signals | None = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            yield number


def _leave(why: str, error: BaseException | None = None) -> None:
    """Log *why*, and end the process at once."""
    tell(log, error, "the process ends at once: %s", why)
    logging.shutdown()
    os._exit(GAVE_UP)
