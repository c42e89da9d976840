"""`KeyWatch`: checks at intervals whether the key of an open stream or WebSocket is still valid."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import trio

from agentrail.api.limits import HostLimits
from agentrail.errors import AgentrailError, AuthenticatorFailed, NotAuthenticated
from agentrail.host.authentication.api_keys import FRESH, ApiKeys, Owner
from agentrail.host.authentication.identity import Authenticator, ForwardedIdentity, Identity
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.host")

CHANGED: Final = "the key allows less than when the stream began, or is somebody else's"


class KeyWatch:
    """Checks the keys of open streams every `heartbeat_seconds`, and when the key file has changed.

    If the authenticator fails, streams go on for `unknown_seconds`. Otherwise a short outage of the database that it
    asks, say, would cut all clients at once, and they would reconnect during the outage.
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
        """Read the key file at intervals while streams are open: once for all streams together.

        A failed reading is logged (the first of a row only) and tried again: it must not end the host.
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
        """Wait until the key in *headers* no longer allows the stream of *began*; return the error that says why.

        The error is `AuthenticatorFailed` if the authenticator has failed for `unknown_seconds`. If another host has
        passed the stream on, it watches the key, too; here the keys of this host are looked at, by their ids.
        """
        failing: float | None = None
        if isinstance(began, ForwardedIdentity) and (self._keys is None or not began.key):
            await trio.sleep_forever()
        with self._counted():
            if self._keys is None:  # the request was checked just now, and without a key file no change is announced
                await trio.sleep(self._limits.heartbeat_seconds)
            while True:
                # The event is fetched before the check: a change during the check would otherwise be missed.
                changed = self._change_of(began)
                try:
                    await self._check(began, headers)
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

    async def _check(self, began: Identity, headers: Sequence[tuple[str, str]]) -> None:
        """Raise an error if the key in *headers*, or that of the user for whom another host asks, does not count."""
        if isinstance(began, ForwardedIdentity) and self._keys is not None:
            await self._keys.check_key(began)
        else:
            check_same(began, await self._authenticator.identify(headers))

    def _change_of(self, who: Identity) -> trio.Event:
        """Return the event that the next change of the user's keys sets; without a key file, nothing sets it."""
        return trio.Event() if self._keys is None else self._changed.setdefault((who.tenant, who.user), trio.Event())


def check_same(began: Identity, now: Identity) -> None:
    """Raise `NotAuthenticated` if the key now has another user than *began*, or fewer scopes."""
    if (began.tenant, began.user) != (now.tenant, now.user) or not began.scopes <= now.scopes:
        raise NotAuthenticated(CHANGED)
