"""The TLS contexts of clients: each is made once, in a thread, and shared.

Making one reads the certificates of all authorities, which takes 50 to 110 ms.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from typing import Final, TypeAlias

import trio

VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""The environment variables that name other certificates than the usual ones."""

Certificates: TypeAlias = tuple[str, int, int] | None
"""A file or folder that a variable names: path, time of its last change, and size; `None` if it names none."""

_CONTEXTS: Final[dict[tuple[str, tuple[Certificates, ...]], ssl.SSLContext]] = {}
"""The contexts by the client that they are for and the certificates that they were made of."""


async def of_httpx(*, trust_env: bool = True) -> ssl.SSLContext:
    """Return the context that httpx would make; without *trust_env*, whatever the environment variables say."""

    def make() -> ssl.SSLContext:
        import httpx  # noqa: ASYNC127, PLC0415 - slow to import

        return httpx.create_ssl_context(trust_env=trust_env)

    return await shared(f"httpx {trust_env}", make)


async def shared(client: str, make: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return the context for *client*, made by *make* if there is none of today's certificates."""
    key = client, tuple([_certificates(os.environ.get(name, "")) for name in VARIABLES])
    if key not in _CONTEXTS:
        context = await trio.to_thread.run_sync(make)
        _CONTEXTS.setdefault(key, context)  # another task may have made it meanwhile
    return _CONTEXTS[key]


def _certificates(path: str) -> Certificates:
    if not path:
        return None
    try:
        status = os.stat(path)  # noqa: PTH116 - a text
    except OSError:
        return path, 0, 0  # another one than the usual ones: to make the context says what is wrong with it
    return path, status.st_mtime_ns, status.st_size
