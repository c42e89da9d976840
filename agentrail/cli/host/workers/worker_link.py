"""`WorkerLink`: what one of several processes has of the process that started it: its part, and whether that lives.

Both have an end of a pair of sockets. The key of the cluster is sent there, as others can read arguments and the
environment of a process, and what an agent runs inherits that. Its end is the end of the process that started this one.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Sequence
from typing import Final, cast

import msgspec

from agentrail.cli.host.serve_options import ServeOptions
from agentrail.host.cluster.cluster_options import Cluster
from agentrail.host.http11.listening import BACKLOG
from agentrail.host.served_file import NothingToServeError
from agentrail.values.value import Value, learned

VARIABLE: Final = "AGENTRAIL_WORKER"
"""Names the descriptor of the socket, in the environment of the process."""

LOOPBACK: Final = "127.0.0.1"

ALONE: Final = f"{VARIABLE} is set, and no process of `agentrail serve --cores` has set it; leave it out"


class WorkerAssignment(Value):
    """What a process is told by the one that starts it."""

    number: int
    """Its number, from 1 on: it is the same when it is started again."""
    port: int
    """Port at which it listens for the others."""
    key: str
    """Key of the cluster that they are."""
    descriptor: int
    """Descriptor of the socket at which all of them listen for clients."""
    others: tuple[int, ...]
    """Ports of the others."""

    def __repr__(self) -> str:
        return f"<WorkerAssignment {self.number}>"


class WorkerReport(Value):
    """What a process says when it serves."""

    description: str
    """What it serves."""
    entry: str
    """The address for the person at this machine."""


class WorkerLink:
    """The socket to the process that started this one, and what came over it."""

    def __init__(self, connection: socket.socket, assignment: WorkerAssignment) -> None:
        self._connection = connection
        self._assignment = assignment
        threading.Thread(target=self._watch, name="agentrail worker link", daemon=True).start()

    @classmethod
    def inherited(cls) -> WorkerLink | None:
        """Return the link of a process that was started as one of several; `None` for any other process."""
        text = os.environ.pop(VARIABLE, None)
        if text is None:
            return None
        try:
            connection = socket.socket(fileno=int(text))
            connection.set_inheritable(False)
            with connection.makefile("rb") as lines:
                assignment = msgspec.json.decode(lines.readline(), type=learned(WorkerAssignment))
        except (OSError, ValueError, msgspec.DecodeError) as error:
            raise NothingToServeError(ALONE) from error
        return cls(connection, cast("WorkerAssignment", assignment))

    @property
    def number(self) -> int:
        """Number of this process."""
        return self._assignment.number

    @property
    def descriptor(self) -> int:
        """Descriptor of the socket at which all processes listen for clients."""
        return self._assignment.descriptor

    def cluster(self) -> Cluster:
        """Return the cluster of all processes, with a new socket at which this one listens for the others."""
        listener = reserve_port(self._assignment.port)
        listener.listen(BACKLOG)
        address = _url(self._assignment.port)
        cluster = Cluster(address, self._assignment.key, descriptor=listener.detach())
        cluster.members = frozenset(_url(port) for port in self._assignment.others)
        return cluster

    @staticmethod
    def names(options: ServeOptions) -> Sequence[str]:
        """Return the name in the options of the address, which the socket does not have."""
        return () if options.unix is not None or ":" in options.tcp.host else (options.tcp.host,)

    def report(self, description: str, entry: str) -> None:
        """Say that this process serves, and where."""
        self._connection.sendall(msgspec.json.encode(WorkerReport(description, entry)) + b"\n")

    def _watch(self) -> None:
        """Body of a thread, which a blocked event loop does not hold up: end this process if the other one ends."""
        try:
            while self._connection.recv(1):
                pass
        except OSError:
            pass
        os.kill(os.getpid(), signal.SIGTERM)


def _url(port: int) -> str:
    return f"http://{LOOPBACK}:{port}"


def reserve_port(port: int = 0) -> socket.socket:
    """Return a socket that has a *port* of this machine for this user, by default any that is free.

    Another process of the user can listen at the port, and nobody else: connections are refused while none does.
    """
    reserved = socket.socket()
    try:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind((LOOPBACK, port))
    except BaseException:
        reserved.close()
        raise
    return reserved
