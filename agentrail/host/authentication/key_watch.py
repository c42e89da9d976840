"""`KeyWatch`: looks again and again whether the key of an open stream or WebSocket still allows it."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import trio

from agentrail.api.limits import HostLimits
from agentrail.errors import AgentrailError, AuthenticatorFailed, NotAuthenticated
from agentrail.host.authentication.api_keys import FRESH, ApiKeys, Owner
from agentrail.host.authentication.identity import Authenticator, Identity
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.host")

CHANGED: Final = "the key allows less than when the stream began, or is somebody else's"


class KeyWatch:
    """Looks at keys that are in use, each `heartbeat_seconds`; those of a file also as soon as it has changed.

    If the authenticator fails, streams go on for `unknown_seconds`: a short outage of what it asks, such as a database,
    would otherwise cut all clients at once, which would come back while it is still away.
    """

    def __init__(self, authenticator: Authenticator, limits: HostLimits) -> None:
        self._authenticator = authenticator
        self._limits = limits
        self._keys = authenticator if isinstance(authenticator, ApiKeys) and authenticator.may_change else None
        self._changed: dict[Owner, trio.Event] = {}
        self._failure = ""
        self._streams = 0
        self._has_streams = trio.Event()

    async def run(self) -> None:
        """Look at the file of the keys while streams are open: once for all, however many they are.

        A look that fails is logged, once in a row, and the next one comes: the host is not to end by it.
        """
        if self._keys is None:
            return
        with self._keys.telling(self._wake):
            while True:
                await self._has_streams.wait()
                with Contained(self._failed):
                    await self._keys.refresh()
                    self._failure = ""
                await trio.sleep(FRESH)

    def _failed(self, error: BaseException) -> None:
        failure, self._failure = self._failure, repr(type(error))
        if failure != self._failure:
            tell(log, error, "the look at the keys of open streams failed; it is made again", words=False)

    def _wake(self, owners: frozenset[Owner]) -> None:
        for owner in owners & self._changed.keys():
            self._changed.pop(owner).set()

    @contextmanager
    def _counted(self) -> Generator[None]:
        self._streams += 1
        self._has_streams.set()
        try:
            yield
        finally:
            self._streams -= 1
            if not self._streams:
                self._has_streams = trio.Event()

    async def refusal(self, began: Identity, headers: Sequence[tuple[str, str]]) -> AgentrailError:
        """Wait until the stream has to end that *began* with the key in *headers*; return the error that says why.

        It is `AuthenticatorFailed` if nobody could say for too long whose key it is.
        """
        failing: float | None = None
        with self._counted():
            if self._keys is None:  # the request was looked at just now, and nobody could tell of a change since
                await trio.sleep(self._limits.heartbeat_seconds)
            while True:
                # It is taken before the look, which would miss a change that comes while it is under way.
                changed = self._change_of(began)
                try:
                    check_same(began, await self._authenticator.identify(headers))
                    failing = None
                except AuthenticatorFailed as failed:
                    now = trio.current_time()
                    failing = now if failing is None else failing
                    if now - failing >= self._limits.unknown_seconds:
                        return failed
                except AgentrailError as refused:
                    return refused
                with trio.move_on_after(self._limits.heartbeat_seconds):
                    await changed.wait()

    def _change_of(self, who: Identity) -> trio.Event:
        """Return the event of the next change of keys of a user; if keys are in no file, nothing sets it."""
        return trio.Event() if self._keys is None else self._changed.setdefault((who.tenant, who.user), trio.Event())


def check_same(began: Identity, now: Identity) -> None:
    """Raise `NotAuthenticated` if the key is no longer that of who *began* the stream, or allows less."""
    if (began.tenant, began.user) != (now.tenant, now.user) or not began.scopes <= now.scopes:
        raise NotAuthenticated(CHANGED)
