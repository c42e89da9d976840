"""Where a server listens: `Tcp`, with TLS or without, `UnixSocket`, and `Inherited`, a socket of another process.

`EagerListener` accepts all waiting connections at once, not one in each pass of the event loop. After a deployment all
clients connect at once, and passes become longer with each one that is served, so the last ones would wait long.

`Certificate`: a server's certificate and its key; an error says which of the files is wrong, and how.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, cast

import trio
from attrs import frozen

from agentrail.adapters.system import HAS_UNIX_SOCKETS
from agentrail.errors import CannotListen

CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
PRIVATE_KEY: Final = "PRIVATE KEY-----"
MISMATCH: Final = "KEY_VALUES_MISMATCH"

A_CHAIN: Final = "give the certificate with its chain as PEM, such as `fullchain.pem`"
UNREADABLE: Final = ("{0} cannot be read: {1}", "give a file that the user of this program can read")
NO_CERTIFICATE: Final = ("{0} has no certificate", A_CHAIN)
NO_KEY: Final = ("{0} has no private key", "give the key as PEM, such as `privkey.pem`")
LOCKED: Final = ("the key {0} has a password", "take it off: `openssl pkey -in {0} -out key.pem`")
OTHER_KEY: Final = ("the key {0} is not that of the certificate {1}", "give the key that belongs to it")
UNUSABLE: Final = ("{0} and {1} cannot be used: {2}", A_CHAIN)
"""What can be wrong, and what to do."""


class Certificate:
    """The *certificate* of a server (PEM, with its chain) and its *key*; without *key*, that is in the same file."""

    def __init__(self, certificate: Path, key: Path | None = None) -> None:
        """Read the files; raise `CannotListen` if they cannot be used."""
        self._files = (certificate, certificate if key is None else key)
        self.context = _context(*self._files)
        """What new connections use, from TLS 1.2 on."""

    def read_anew(self) -> None:
        """Read the files again, for new connections; raise `CannotListen`, and change nothing, if that fails."""
        # A new context, because OpenSSL would leave the old one half changed if the key did not fit the certificate.
        self.context = _context(*self._files)


def _context(certificate: Path, source: Path) -> ssl.SSLContext:
    if CERTIFICATE not in _text(certificate):
        raise _unfit(NO_CERTIFICATE, certificate)
    if PRIVATE_KEY not in _text(source):
        raise _unfit(NO_KEY, source)

    def ask() -> NoReturn:  # OpenSSL would ask at the terminal
        raise _unfit(LOCKED, source)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, source, ask)
    except OSError as error:  # the file may be replaced between the check and the load
        if isinstance(error, ssl.SSLError) and error.reason == MISMATCH:
            raise _unfit(OTHER_KEY, source, certificate) from error
        raise _unfit(UNUSABLE, certificate, source, error) from error
    return context


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="latin-1")
    except OSError as error:
        raise _unfit(UNREADABLE, path, error.strerror) from error


def _unfit(problem: tuple[str, str], *facts: object) -> CannotListen:
    problem_text, to_do = problem
    return CannotListen("an address with TLS", problem_text.format(*facts), to_do.format(*facts))


log = logging.getLogger("agentrail.http")

AT_ONCE: Final = 16
"""The most connections that are accepted in one pass; fewer begin to be served in it (`BEGUN_AT_ONCE`).

Clients that find the queue of the system full, which takes some 4,000, try again only seconds later.
"""

NO_ROOM: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
"""Errors of `accept` that say that this process, or the system, has no descriptor or no memory left for one more."""

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
"""Seconds until `accept` is tried again after the first of these errors, and after many in a row."""

SETTLED: Final = 2 * LONGEST_PAUSE
"""Seconds without such an error after which there is room again; until then, one more descriptor may be the last."""

FULL: Final = "no connection can be accepted: %s; clients wait (raise the limit of open files, such as `LimitNOFILE`)"
ROOM: Final = "connections are accepted again, after %.0f s"

PeerStream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class Shortage:
    """Pauses of a listener while there is no room for one more connection; its beginning and its end are logged."""

    def __init__(self) -> None:
        self._began: float | None = None
        """When the first error came; `None` while there is room."""
        self._failed = 0.0
        """When the last one came."""
        self._pause = 0.0
        """Seconds of the last pause; 0 if a connection was accepted after it."""

    async def wait(self, error: OSError) -> None:
        """Wait after an *error* of `NO_ROOM`, longer after each one in a row."""
        self._failed = trio.current_time()
        if self._began is None:
            self._began = self._failed
            log.error(FULL, error.strerror)
        self._pause = min(2 * self._pause or FIRST_PAUSE, LONGEST_PAUSE)
        await trio.sleep(self._pause)

    def accepted(self) -> None:
        """Note that a connection was accepted."""
        self._pause, now = 0.0, trio.current_time()
        if self._began is not None and now - self._failed >= SETTLED:
            log.warning(ROOM, now - self._began)
            self._began = None


def _always() -> bool:
    """Return true: a listener accepts all connections, unless its server says otherwise."""
    return True


class EagerListener(trio.abc.Listener[PeerStream]):
    """Accepts at *listener*, for *tls* or without; up to `AT_ONCE` calls of `accept` return in one pass of the loop.

    If the socket is *shared* with another process, one call returns in a pass, so that the other takes its part of
    those that connect at once, and connections that wait when it is closed are left to that process.
    """

    def __init__(self, listener: trio.SocketListener, tls: Certificate | None = None, *, shared: bool = False) -> None:
        self._listener = listener
        self._tls = tls
        self._shared = shared
        self.last: list[PeerStream] = []
        """Connections that waited when the listener was closed: accepted by `aclose`, as closing would reset them."""
        self.may_accept: Callable[[], bool] = _always
        """Whether connections may be accepted in this pass of the event loop; otherwise they wait with the system."""
        self._plain: socket.socket | None = None
        self._accepts_left = 0
        self._shortage = Shortage()

    async def accept(self) -> PeerStream:  # noqa: ASYNC910 - that is its purpose
        """Return the next connection, as soon as there is room for it; raise what `trio.SocketListener` raises."""
        if self._accepts_left:
            self._accepts_left -= 1
            waiting = self._next()
            if waiting is not None:
                return waiting
        while not self.may_accept():  # noqa: ASYNC110 - for a few passes, in each of which it may have changed
            await trio.lowlevel.checkpoint()
        stream = await self._accept()
        self._accepts_left = 0 if self._shared else AT_ONCE - 1
        return self._with_tls(stream)

    async def _accept(self) -> trio.SocketStream:
        """Wait for the next connection, and for room."""
        while True:
            try:
                stream = await self._listener.accept()
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                await self._shortage.wait(error)  # noqa: ASYNC120 - who cancels it wants no error
            else:
                self._shortage.accepted()
                return stream

    def _next(self) -> PeerStream | None:
        """Accept a waiting connection; `None` if there is none, or on an error, which Trio's `accept` raises again."""
        try:
            if self._plain is None:  # a second socket object, because Trio has no `accept` that does not wait
                self._plain = socket.socket(fileno=os.dup(self._listener.socket.fileno()))
                self._plain.setblocking(False)
            accepted, _ = self._plain.accept()
        except OSError:
            return None
        return self._with_tls(trio.SocketStream(trio.socket.from_stdlib_socket(accepted)))

    def _with_tls(self, stream: trio.SocketStream) -> PeerStream:
        if self._tls is None:
            return stream
        return trio.SSLStream(stream, self._tls.context, server_side=True, https_compatible=True)

    async def aclose(self) -> None:
        """Accept the waiting connections into `last`, unless the listener is shared, and close it."""
        while not self._shared and (stream := self._next()) is not None:
            self.last.append(stream)
        if self._plain is not None:
            self._plain.close()
        await self._listener.aclose()


BACKLOG: Final = 65535
"""Connections that are to wait until they are accepted; the system keeps no more than it is set up to (`somaxconn`)."""

LAST_PORT: Final = 65535

ANOTHER_PORT: Final = "choose another address or port"
ANOTHER_DESCRIPTOR: Final = "give the number of a stream socket that listens; systemd counts from 3"
NO_UNIX_SOCKETS: Final = "this system has none that Python can use"
A_PORT: Final = "serve at a port of `127.0.0.1`"
NO_PORT: Final = "there is no such port"
NO_LISTENER: Final = "nothing listens there"
NO_STREAM: Final = "it is no stream socket"


@frozen
class Tcp:
    """A TCP port at an address of this machine; port 0: any free port."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: Certificate | None = None


@frozen
class UnixSocket:
    """A unix socket at a *path*, for the user of this process alone (mode 0600)."""

    path: Path


@frozen
class Inherited:
    """A listening *socket* that another process has opened, and may pass to the next process when this one ends."""

    socket: socket.socket
    tls: Certificate | None = None

    @property
    def host(self) -> str:
        """Its address as text; empty for a unix socket."""
        name: object = self.socket.getsockname()
        return str(cast("tuple[object, ...]", name)[0]) if isinstance(name, tuple) else ""


ListenAddress: TypeAlias = Tcp | UnixSocket | Inherited


@frozen
class Listening:
    """An address at which a server listens."""

    url: str
    port: int
    """The port that was found, if any was asked for; 0 for a unix socket."""
    listeners: Sequence[EagerListener]


@asynccontextmanager
async def opened(address: ListenAddress) -> AsyncGenerator[Listening]:
    """Listen at *address*; raise `CannotListen` if that is not possible."""
    match address:
        case Tcp():
            listeners = await listen_tcp(address)
            try:
                yield _listening(address, listeners)
            finally:
                for opened_listener in listeners:
                    opened_listener.socket.close()
        case Inherited():
            try:
                yield _inherited(address)
            finally:
                address.socket.close()
        case UnixSocket(path):
            if not HAS_UNIX_SOCKETS:
                raise CannotListen(f"unix:{path}", NO_UNIX_SOCKETS, A_PORT)
            from agentrail.host.http11.unix_listener import opened_unix  # noqa: PLC0415 - not there on every system

            async with opened_unix(path) as listener:
                yield Listening(f"unix:{path.absolute()}", 0, (EagerListener(listener),))


async def listen_tcp(address: Tcp) -> list[trio.SocketListener]:
    """Listen at *address*; raise `CannotListen` if that is not possible."""
    named = f"{address.host}:{address.port}"
    if not 0 <= address.port <= LAST_PORT:  # the system would take 65536 as 0
        raise CannotListen(named, NO_PORT, ANOTHER_PORT)
    try:
        listeners = await trio.open_tcp_listeners(address.port, host=address.host, backlog=BACKLOG)
    except OSError as error:
        raise CannotListen(named, str(error), ANOTHER_PORT) from error
    if address.port == 0:  # each address would get another free port
        for listener in listeners[1:]:
            listener.socket.close()
        del listeners[1:]
    return listeners


def inherited(descriptor: int, tls: Certificate | None = None) -> Inherited:
    """Return the socket that this process inherited as *descriptor*; raise `CannotListen` if it does not listen."""
    named = f"descriptor {descriptor}"
    try:
        sock = socket.socket(fileno=descriptor)
    except (OSError, ValueError, OverflowError) as error:
        raise CannotListen(named, str(error), ANOTHER_DESCRIPTOR) from error
    is_stream = sock.type == socket.SOCK_STREAM
    if not is_stream or not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        sock.detach()  # another process owns the socket: it must not be closed here
        raise CannotListen(named, NO_LISTENER if is_stream else NO_STREAM, ANOTHER_DESCRIPTOR)
    sock.set_inheritable(False)
    return Inherited(sock, tls)


def _inherited(address: Inherited) -> Listening:
    name: object = address.socket.getsockname()
    listener = trio.SocketListener(trio.socket.from_stdlib_socket(address.socket))
    if not isinstance(name, tuple):
        return Listening(url_of(name, "", has_tls=False), 0, (EagerListener(listener, shared=True),))
    return _listening(Tcp(address.host, 0, address.tls), [listener], shared=True)


def _listening(address: Tcp, listeners: list[trio.SocketListener], *, shared: bool = False) -> Listening:
    name = listeners[0].socket.getsockname()
    url = url_of(name, address.host, has_tls=address.tls is not None)
    eager = [EagerListener(listener, address.tls, shared=shared) for listener in listeners]
    return Listening(url, name[1], tuple(eager))


def url_of(name: object, host: str, *, has_tls: bool) -> str:
    """Return the URL of a socket with the system's *name*, which listens at *host*, as that was given."""
    if not isinstance(name, tuple):
        return f"unix:{name!s}"
    in_url = f"[{host}]" if ":" in host else host
    return f"{'https' if has_tls else 'http'}://{in_url}:{cast('tuple[object, ...]', name)[1]}"
