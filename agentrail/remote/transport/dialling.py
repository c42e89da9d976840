"""How a host is connected to, before any protocol is spoken, and why a connection was cut."""

from __future__ import annotations

import os
import ssl
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, cast

import trio

from agentrail.remote.transport.host_address import HostAddress

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


async def dial_address(address: HostAddress, tls: ssl.SSLContext | None) -> trio.abc.Stream:
    """Connect to *address*; raise `OSError`, or `CutError` if there is no encrypted connection."""
    if address.unix:
        return await trio.open_unix_socket(address.unix)
    plain = await trio.open_tcp_stream(address.host, address.port)
    if not address.tls:
        return plain
    stream = trio.SSLStream(
        plain, tls or ssl.create_default_context(), server_hostname=address.host, https_compatible=True
    )
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
