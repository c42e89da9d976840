"""`ReadingAnew`: reads the certificate and the keys of a host again at SIGHUP, while it serves."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import trio

from agentrail.app.process import hangup
from agentrail.errors import CannotListen
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.identity import Authenticator
from agentrail.host.http11.listening import Certificate
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.host")

NOTHING: Final = "SIGHUP: there is neither a certificate nor a file of keys to read anew"


class ReadingAnew:
    """Reads the *certificate*, and the keys of the *authenticator* if it has them in a file, again at each SIGHUP."""

    def __init__(self, certificate: Certificate | None, authenticator: Authenticator | None) -> None:
        self._certificate = certificate
        self._keys = authenticator if isinstance(authenticator, ApiKeys) and authenticator.may_change else None
        self._signalled = trio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Catch SIGHUP, which would otherwise end the program, until the `async with` is left."""
        with hangup().listening(self._note):
            yield

    def _note(self) -> None:
        self._signalled.set()

    async def run(self) -> None:
        """Read the files at each signal, and log whether that succeeded.

        An unfit certificate changes nothing, and neither does a file of keys with a line that is not valid. If there is
        no file of keys, or it cannot be read, no key is taken until it can be. A failure does not end the host.
        """
        while True:
            await self._signalled.wait()
            self._signalled = trio.Event()
            if self._certificate is not None:
                with Contained(_failed):
                    await self._read_certificate(self._certificate)
            if self._keys is not None:
                with Contained(_failed):
                    await self._read_keys(self._keys)
            if self._certificate is None and self._keys is None:
                log.warning(NOTHING)

    async def _read_keys(self, keys: ApiKeys) -> None:
        keys.read_anew()
        await keys.refresh()  # `refresh` itself logs what is wrong with the file
        if not keys.problem:
            log.info("SIGHUP: the keys are read anew")

    async def _read_certificate(self, certificate: Certificate) -> None:
        try:
            await trio.to_thread.run_sync(certificate.read_anew)
        except CannotListen as problem:
            log.error(
                "SIGHUP: the earlier certificate and key stay in use, because the new ones are unfit: %s", problem
            )
        else:
            log.info("SIGHUP: the certificate and key are read anew; new connections use them")


def _failed(error: BaseException) -> None:
    tell(log, error, "SIGHUP: files could not be read anew", words=False)
