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
from agentrail.host.http11.certificates import Certificate

log = logging.getLogger("agentrail.host")

NOTHING: Final = "SIGHUP: there is neither a certificate nor a file of keys to read anew"


class ReadingAnew:
    """Reads the *certificate*, and the keys of the *authenticator* if those are `ApiKeys`, again at each SIGHUP."""

    def __init__(self, certificate: Certificate | None, authenticator: Authenticator | None) -> None:
        self._certificate = certificate
        self._keys = authenticator if isinstance(authenticator, ApiKeys) else None
        self._signalled = trio.Event()

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[None]:
        """Take SIGHUP, which would end the program, until the `async with` is left."""
        with hangup().listening(self._note):
            yield

    def _note(self) -> None:
        self._signalled.set()

    async def run(self) -> None:
        """Read the files at each signal; what is wrong with them is logged, and the earlier ones stay in use."""
        while True:
            await self._signalled.wait()
            self._signalled = trio.Event()
            if self._certificate is not None:
                await self._read(self._certificate)
            if self._keys is not None:
                self._keys.read_anew()
                log.info("SIGHUP: the keys are read anew")
            if self._certificate is None and self._keys is None:
                log.warning(NOTHING)

    async def _read(self, certificate: Certificate) -> None:
        try:
            await trio.to_thread.run_sync(certificate.read_anew)
        except CannotListen as problem:
            log.error(
                "SIGHUP: the earlier certificate and key stay in use, because the new ones are unfit: %s", problem
            )
        else:
            log.info("SIGHUP: the certificate and key are read anew; new connections use them")
