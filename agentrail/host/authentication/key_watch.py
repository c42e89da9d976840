"""`KeyWatch`: checks at intervals whether the key of an open stream or WebSocket is still valid."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

import trio

from agentrail.api.limits import HostLimits
from agentrail.errors import AgentrailError, AuthenticatorFailed, NotAuthenticated
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.identity import Authenticator, ForwardedIdentity, Identity
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.host")

CHANGED: Final = "the key allows less than when the stream began, or is somebody else's"


class KeyWatch:
    """Checks the keys of open streams every `heartbeat_seconds`.

    If the authenticator fails, streams go on for `unknown_seconds`. Otherwise a short outage of the database that it
    asks, say, would cut all clients at once, and they would reconnect during the outage.
    """

    def __init__(self, authenticator: Authenticator, limits: HostLimits) -> None:
        self._authenticator = authenticator
        self._limits = limits
        self._keys = authenticator if isinstance(authenticator, ApiKeys) and authenticator.may_change else None
        """The file of keys of this host, which is looked at for users of other hosts too; `None` if there is none."""
        self._failure = ""
        """What kept the file from being read last, which is logged once; empty if nothing did."""

    async def refusal(self, began: Identity, headers: Sequence[tuple[str, str]]) -> AgentrailError:
        """Wait until the key in *headers* no longer allows the stream of *began*; return the error that says why.

        The error is `AuthenticatorFailed` if the authenticator has failed for `unknown_seconds`. If another host has
        passed the stream on, it watches the key, too; here the keys of this host are looked at, by their ids.
        """
        if isinstance(began, ForwardedIdentity) and (self._keys is None or not began.key):
            await trio.sleep_forever()
        failing: float | None = None
        while True:
            await trio.sleep(self._limits.heartbeat_seconds)
            error = await self._problem(began, headers)
            now = trio.current_time()
            if error is None:
                failing = None
            elif not isinstance(error, AuthenticatorFailed):
                return error
            else:
                failing = now if failing is None else failing
                if now - failing >= self._limits.unknown_seconds:
                    return error

    async def _problem(self, began: Identity, headers: Sequence[tuple[str, str]]) -> AgentrailError | None:
        """Return why the key in *headers*, or that of the user for whom another host asks, does not count."""
        failed: list[BaseException] = []
        if self._keys is not None:
            with Contained(failed.append):
                await self._keys.refresh()
        failure = repr(type(failed[0])) if failed else ""
        previous, self._failure = self._failure, failure
        if failed:  # such as no thread to read the file in, which must not end all streams
            if failure != previous:
                tell(log, failed[0], "the look at the keys of open streams failed; it is made again", words=False)
            return AuthenticatorFailed()
        try:
            if isinstance(began, ForwardedIdentity) and self._keys is not None:
                await self._keys.check_key(began)
            else:
                check_same(began, await self._authenticator.identify(headers))
        except AgentrailError as error:
            return error
        return None


def check_same(began: Identity, now: Identity) -> None:
    """Raise `NotAuthenticated` if the key now has another user than *began*, or fewer scopes."""
    if (began.tenant, began.user) != (now.tenant, now.user) or not began.scopes <= now.scopes:
        raise NotAuthenticated(CHANGED)
