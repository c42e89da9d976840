"""The address of a host, parsed from a URL; the client's key, which is never shown; how the host is connected to."""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Final, TypeAlias, cast
from urllib.parse import SplitResult, urlsplit

import trio

from agentrail.errors import BadConnection
from agentrail.values.secrets import Secret, secret_name
from agentrail.values.value import Value

CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The environment variables that name other certificates than those of the system."""

TLS: Final = frozenset({"https", "wss"})
PLAIN: Final = frozenset({"http", "ws"})
UNIX: Final = "unix"
BEFORE_KEY: Final = "#token="
"""Stands between address and key in the line that a host prints at its start."""

ADVICE: Final = "give an address such as `https://agents.example.org` or `unix:/run/agentrail.sock`"
LOCAL: Final = "localhost"
"""Name of the host for a socket of this machine."""

_SCHEMES: Final = "it does not begin with `https://`, `http://`, `wss://`, `ws://` or `unix:`"


class HostAddress(Value):
    """Where a host listens."""

    host: str
    """Name or number of the machine, without brackets."""
    port: int
    """Its port; 0 for a socket of this machine."""
    prefix: str = ""
    """What stands before `/v1` in each path."""
    tls: bool = False
    """Whether the connection is encrypted."""
    unix: str = ""
    """Path of a socket of this machine; empty for TCP."""

    def __str__(self) -> str:
        if self.unix:
            return f"unix:{self.unix}"
        return f"{'wss' if self.tls else 'ws'}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """The host and the port, as the header `Host` has them."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        return name if self.port in {0, _default_port(tls=self.tls)} else f"{name}:{self.port}"


def split_key(url: str) -> tuple[str, str]:
    """Split *url*, as a host prints it at its start, into address and key; raise `BadConnection` if it has no key."""
    address, _, key = url.partition(BEFORE_KEY)
    if not key:
        raise BadConnection(
            problem=f"no key is given, and the address does not end with `{BEFORE_KEY}…`", advice=KEY_ADVICE
        )
    return address.removesuffix("/"), key


def read_address(url: str) -> HostAddress:
    """Parse *url*; raise `BadConnection` if it is no address of a host, or contains more than an address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as why:
        raise BadConnection(problem=_problem(why), advice=ADVICE) from None
    if parts.query or parts.fragment or parts.username is not None or parts.password is not None:
        raise BadConnection(problem="it has more than host, port and path; a key is given beside it", advice=ADVICE)
    if parts.scheme == UNIX:
        return _unix(parts)
    if parts.scheme not in TLS | PLAIN:
        raise BadConnection(problem=_SCHEMES, advice=ADVICE)
    if not parts.hostname or not url.isascii() or not url.isprintable() or " " in url:
        raise BadConnection(problem="it names no host", advice=ADVICE)
    tls = parts.scheme in TLS
    return HostAddress(parts.hostname, port or _default_port(tls=tls), parts.path.rstrip("/"), tls)


def _unix(parts: SplitResult) -> HostAddress:
    if parts.netloc or not parts.path.startswith("/"):
        raise BadConnection(problem="`unix:` is not followed by the absolute path of a socket", advice=ADVICE)
    return HostAddress(LOCAL, 0, unix=parts.path)


def _problem(why: ValueError) -> str:
    """Describe *why* without its text, which may contain a password."""
    return "its port is no number from 0 to 65535" if "ort" in str(why) else "it cannot be read"


def _default_port(*, tls: bool) -> int:
    return 443 if tls else 80


KEY_ADVICE: Final = "give the key that `agentrail serve keys make` has printed, or a `Secret` that names its variable"
_SENDABLE: Final = re.compile(r"[!-~]{1,1024}", re.ASCII)


class HostKey:
    """A key for a host. Nothing but `header` gives its text: it is in no `repr`, no log and no error."""

    __slots__ = ("_text",)

    def __init__(self, key: str | Secret) -> None:
        """Take the key itself, or a `Secret` with the name of the environment variable that has it."""
        self.replace(key)

    def replace(self, key: str | Secret) -> None:
        """Use another key for all connections that are made from now on."""
        name = secret_name(key)
        text: object = key if name is None else os.environ.get(name)
        if text is None:
            raise BadConnection(problem=f"the environment variable `{name}` is not set", advice=KEY_ADVICE)
        if not isinstance(text, str) or not _SENDABLE.fullmatch(text):
            raise BadConnection(problem="it is no text of 1 to 1024 characters for a header", advice=KEY_ADVICE)
        self._text = text

    def __repr__(self) -> str:
        return "<HostKey>"

    @property
    def header(self) -> tuple[bytes, bytes]:
        """The header `Authorization` with the key."""
        return b"authorization", b"Bearer " + self._text.encode()


CUT: Final = "the connection was cut"
TRUST_IT: Final = "`SSL_CERT_FILE` names those that have signed it"

Dial: TypeAlias = Callable[[], Awaitable[trio.abc.Stream]]
"""Connects to a host, each time that a connection is needed; it raises `OSError` or `CutError` if that fails."""

ABNORMAL: Final = 1006
"""The code of a connection that was cut without a close frame."""


class CutError(Exception):
    """The connection was cut, or could not be made; `problem` says why."""

    def __init__(self, problem: str, code: int = ABNORMAL, reason: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        """What happened, in words."""
        self.code = code
        """Code of the host's close frame; 1006 if there was none."""
        self.reason = reason
        """Reason in that frame; empty if it had none."""


@lru_cache(maxsize=4)
def _system_context(*_named: str | None) -> ssl.SSLContext:
    """Return a context with the certificates of the system, or with those that the variables name; shared.

    Making one reads the certificates of all authorities, which takes 50 to 110 ms.
    """
    return ssl.create_default_context()


async def dial_address(address: HostAddress, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Connect to *address*; raise `OSError`, or `CutError` if there is no encrypted connection."""
    if address.unix:
        return await trio.open_unix_socket(address.unix)
    plain = await trio.open_tcp_stream(address.host, address.port)
    if not address.tls:
        return plain
    context = tls
    if context is None:
        try:
            context = await trio.to_thread.run_sync(_system_context, *map(os.environ.get, CERTIFICATES))
        except BaseException:
            await trio.aclose_forcefully(plain)
            raise
    stream = trio.SSLStream(plain, context, server_hostname=address.host, https_compatible=True)
    try:
        await stream.do_handshake()
    except trio.BrokenResourceError as broken:
        await trio.aclose_forcefully(stream)
        raise CutError(problem=f"no encrypted connection: {cut_reason(broken)}") from None
    except BaseException:
        await trio.aclose_forcefully(stream)
        raise
    return stream


def cut_reason(error: BaseException) -> str:
    """Return the words of the system for *error*."""
    for failure in (first_in(error.__cause__), error):
        if isinstance(failure, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {failure.verify_message} ({TRUST_IT})"
        if isinstance(failure, ssl.SSLError):
            return f"TLS failed: {failure.reason}"
        if isinstance(failure, OSError):
            number = failure.errno or 0
            return os.strerror(number) if number > 0 else failure.strerror or str(failure)
    return CUT


def first_in(error: BaseException | None) -> BaseException | None:
    """Return the first error in a group, and in groups in it; *error* itself if it is none."""
    while isinstance(error, BaseExceptionGroup):
        error = next(iter(cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return error
