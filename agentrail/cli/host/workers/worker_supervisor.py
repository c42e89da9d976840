"""`WorkerSupervisor`: starts the processes of `agentrail serve --cores`, and starts those again that end.

It opens the socket at which all of them accept, and serves nothing itself. A process that ends is started again with
its address, so it has its sessions back at once. One that cannot serve at the start, or ends too often, ends all.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from subprocess import DEVNULL
from typing import Final, cast

import msgspec
import trio

from agentrail.adapters.system import HAS_INHERITED_SOCKETS
from agentrail.app.hangup import HANGUP, Hangup, noted_hangup
from agentrail.app.process import SignalRepeats, ending_signals
from agentrail.cli.exit_codes import WRONG_USAGE
from agentrail.cli.host.serve_options import ServeOptions
from agentrail.cli.host.workers.worker_link import VARIABLE, WorkerAssignment, WorkerReport, reserve_port
from agentrail.errors import AgentrailError, CannotListen
from agentrail.host.http11.listening import inherited, listen_tcp
from agentrail.host.served_file import NothingToServeError
from agentrail.values.value import learned

log = logging.getLogger("agentrail.workers")

KEY_BYTES: Final = 32

MOST_ENDS: Final = 5
"""How often one process may end within `PERIOD`; once more ends all."""

PERIOD: Final = 30.0
"""Seconds over which the ends of a process are counted."""

FIRST_PAUSE: Final = 0.1
"""Seconds before the second restart within the period, then doubled; there is none before the first."""

FAILED: Final = 1
"""The exit status if processes end too often."""

BY_SIGNAL: Final = 128
"""Added to the number of the signal that has ended a process, as shells do."""

MOST_REPORTED: Final = 16 * 1024
"""The most bytes of a report."""

NOT_HERE: Final = "--cores needs a system on which processes share sockets, such as Linux; leave it out"
ONE_ADDRESS: Final = "it is the name of several addresses"
NAME_ONE: Final = "give one of them, such as 127.0.0.1"


class WorkerProcess:
    """One of the processes: what stays the same when it is started again, and when it has ended."""

    def __init__(self, number: int, address: socket.socket) -> None:
        self.number = number
        """Its number, from 1 on."""
        self.address = address
        """Socket that keeps its port free, at which it listens for the others."""
        self.process: trio.Process | None = None
        """The process as it runs now; `None` while it does not."""
        self.serves = trio.Event()
        """Is set when it has served for the first time."""
        self.status = 0
        """Exit status of its last end."""
        self._ends: deque[float] = deque()

    @property
    def port(self) -> int:
        """Its port for the others."""
        port: int = self.address.getsockname()[1]
        return port

    def note_end(self, now: float) -> float | None:
        """Note that it has ended; return the seconds before it is started again, `None` if it has ended too often."""
        self._ends.append(now)
        while self._ends[0] <= now - PERIOD:
            self._ends.popleft()
        count = len(self._ends)
        if count > MOST_ENDS:
            return None
        return 0.0 if count == 1 else FIRST_PAUSE * 2 ** (count - 2)

    def send(self, number: int) -> None:
        """Send it a signal; no-op if it does not run."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class WorkerSupervisor:
    """Starts and watches the *workers*, which accept at the socket with a *descriptor*."""

    def __init__(self, workers: tuple[WorkerProcess, ...], descriptor: int) -> None:
        self._workers = workers
        self._descriptor = descriptor
        self._key = secrets.token_urlsafe(KEY_BYTES)
        self._report: WorkerReport | None = None
        self._status = 0
        self._is_ending = trio.Event()

    async def run(self) -> int:
        """Serve until a signal ends all, or a process cannot be kept alive; return the exit status."""
        first, *others = self._workers
        async with trio.open_nursery() as nursery:  # noqa: TID251 - around the whole program
            await nursery.start(self._obey)
            async with trio.open_nursery() as keeping:  # noqa: TID251 - each task ends with its process
                keeping.start_soon(self._keep, first)
                keeping.start_soon(self._tell)
                await self._until_ending(first.serves)  # an error of all is shown once
                for worker in others:
                    keeping.start_soon(self._keep, worker)
            nursery.cancel_scope.cancel()
        statuses = [self._status, *[worker.status for worker in self._workers]]
        return next((exit_code(status) for status in statuses if status), 0)

    async def _until_ending(self, event: trio.Event) -> None:
        """Wait for *event*, but no longer than until all end."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - it ends with the first of both
            for waited in (event, self._is_ending):
                nursery.start_soon(_cancel_after, waited, nursery.cancel_scope)

    async def _tell(self) -> None:
        """Print where it is served, as soon as all processes do."""
        for worker in self._workers:
            await self._until_ending(worker.serves)
        if self._report is not None and not self._is_ending.is_set():
            many, report = len(self._workers), self._report
            print(
                f"agentrail serves {report.description} at {report.entry}\n{many} processes. Ctrl-C ends it.",
                flush=True,
            )

    # Signals

    async def _obey(self, task_status: trio.TaskStatus[None]) -> None:
        """End all at a signal that ends a program; pass a SIGHUP on, at which processes read their files anew."""
        hangup, repeats = noted_hangup() or Hangup(is_noting=True), SignalRepeats()
        with trio.open_signal_receiver(*ending_signals()) as signals, hangup.listening(self._read_anew):
            task_status.started()
            async for number in signals:
                name = signal.Signals(number).name
                if name == HANGUP and not hangup.ends:
                    hangup.tell()
                    continue
                if repeats.has(number):
                    continue
                log.warning("%s: all processes are told to end", name)
                self._end()

    def _read_anew(self) -> None:
        for worker in self._workers:
            if worker.serves.is_set():
                worker.send(getattr(signal, HANGUP))

    def _end(self, status: int = 0) -> None:
        """Tell each process to end, and start none again: told a second time, they end at once."""
        self._status = self._status or status
        self._is_ending.set()
        for worker in self._workers:
            worker.send(signal.SIGTERM)

    # Processes

    async def _keep(self, worker: WorkerProcess) -> None:
        """Run a process, again and again, until all end."""
        while not self._is_ending.is_set():
            worker.status = await self._run(worker)
            if self._is_ending.is_set():
                return
            if not worker.serves.is_set():  # it has said why
                self._end(worker.status or FAILED)
                return
            pause = worker.note_end(trio.current_time())
            if pause is None:
                log.error("process %d has %s, once too often: all end", worker.number, _ending_text(worker.status))
                self._end(worker.status or FAILED)
                return
            log.warning("process %d has %s, and is started again", worker.number, _ending_text(worker.status))
            with trio.move_on_after(pause):
                await self._is_ending.wait()
            worker.status = 0

    async def _run(self, worker: WorkerProcess) -> int:
        """Run a process once, and return its exit status."""
        ours, theirs = socket.socketpair()
        link = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        async with link:
            with theirs:
                worker.process = await trio.lowlevel.open_process(
                    [sys.executable, "-P", *sys.orig_argv[1:]],  # `-P`: no code of the current folder
                    stdin=DEVNULL,
                    env={**os.environ, VARIABLE: str(theirs.fileno())},
                    pass_fds=(theirs.fileno(), self._descriptor),
                    start_new_session=True,  # Ctrl-C is for this process, which tells the others
                )
            try:
                if self._is_ending.is_set():
                    worker.send(signal.SIGTERM)
                await self._introduce(worker, link)
                return await worker.process.wait()
            finally:
                worker.process = None

    async def _introduce(self, worker: WorkerProcess, link: trio.SocketStream) -> None:
        """Tell a process its part, and wait until it serves or has ended."""
        others = tuple([other.port for other in self._workers if other is not worker])
        assignment = WorkerAssignment(worker.number, worker.port, self._key, self._descriptor, others)
        data = b""
        with suppress(trio.BrokenResourceError):
            await link.send_all(msgspec.json.encode(assignment) + b"\n")
            while len(data) < MOST_REPORTED and not data.endswith(b"\n"):
                piece = await link.receive_some(MOST_REPORTED)
                if not piece:
                    return
                data += piece
            self._report = cast("WorkerReport", msgspec.json.decode(data, type=learned(WorkerReport)))
            worker.serves.set()


def serve_by_workers(options: ServeOptions) -> int:
    """Serve by as many processes as the options say, and return the exit code."""
    if not HAS_INHERITED_SOCKETS:
        raise NothingToServeError(NOT_HERE)
    return trio.run(_serve, options)


async def _serve(options: ServeOptions) -> int:
    try:
        async with AsyncExitStack() as stack:
            descriptor = await stack.enter_async_context(listening(options))
            addresses = [stack.enter_context(closing(reserve_port())) for _ in range(options.cores)]
            workers = tuple([WorkerProcess(number, address) for number, address in enumerate(addresses, 1)])
            return await WorkerSupervisor(workers, descriptor).run()
    except AgentrailError as error:  # raised here, outside of all nurseries
        print(f"agentrail: {error}", file=sys.stderr)
        return WRONG_USAGE


@asynccontextmanager
async def listening(options: ServeOptions) -> AsyncGenerator[int]:
    """Listen for clients where the options say, and yield the descriptor of the socket."""
    if options.socket is not None:
        with inherited(options.socket).socket as sock:
            yield sock.fileno()
    elif options.unix is not None:
        from agentrail.host.http11.unix_listener import opened_unix  # noqa: PLC0415 - not there on every system

        async with opened_unix(options.unix) as unix_listener:
            yield unix_listener.socket.fileno()
    else:
        listeners = await listen_tcp(options.tcp)
        try:
            if len(listeners) > 1:
                raise CannotListen(options.tcp.host, ONE_ADDRESS, NAME_ONE)
            yield listeners[0].socket.fileno()
        finally:
            for listener in listeners:
                listener.socket.close()


async def _cancel_after(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


def exit_code(status: int) -> int:
    """Return the *status* of a process as shells show it: a negative one is that of a signal."""
    return status if status >= 0 else BY_SIGNAL - status


def _ending_text(status: int) -> str:
    """Return how a process has ended, for the log."""
    return f"ended with status {status}" if status >= 0 else f"been ended by {signal.Signals(-status).name}"
