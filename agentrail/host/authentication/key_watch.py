"""`KeyWatch`: tells open streams, WebSockets and long requests as soon as their keys no longer allow them.

A key is looked at once for all that is open with it. Keys in a file cost nothing as long as the file is the same: one
look at it serves all, and only a change of it has the keys looked up. Any other authenticator is asked for each key.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

import trio

from agentrail.api.limits import HostLimits
from agentrail.errors import AgentrailError, AuthenticatorFailed, NotAuthenticated
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.authenticators import LocalToken, SocketOwner
from agentrail.host.authentication.identity import Authenticator, ForwardedIdentity, Identity
from agentrail.runtime.shared.untrusted_calls import Contained, tell

log = logging.getLogger("agentrail.host")

LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at the keys of what is open."""

ASKED_A_SECOND: Final = 100
"""The most looks in a second at keys of an authenticator of the program; with more keys, each is looked at later."""

ASKED_PART: Final = 10
"""An authenticator is left alone for so many times as long as its last look at the same key took."""

OTHER_HEADERS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "connection",
        "content-length",
        "content-type",
        "expect",
        "idempotency-key",
        "last-event-id",
        "traceparent",
        "tracestate",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-request-id",
    }
)
"""Headers that differ between the requests of one key, and say nothing of whose it is."""

CHANGED: Final = "the key allows less than when the stream began, or is somebody else's"

WatchedKey: TypeAlias = tuple[bool, str, str, str, frozenset[str], tuple[tuple[str, str], ...]]
"""What is watched together: who has begun, with the id of the key, and the headers that may bear it."""

Check: TypeAlias = Callable[[], Awaitable[object]]
"""Raises an error of agentrail if the key does not count any more."""


def check_same(began: Identity, now: Identity) -> None:
    """Raise `NotAuthenticated` if the key now has another user than *began*, or fewer scopes."""
    if (began.tenant, began.user) != (now.tenant, now.user) or not began.scopes <= now.scopes:
        raise NotAuthenticated(CHANGED)


class OpenKey:
    """One key that something is open with; *check* looks at it."""

    def __init__(self, check: Check) -> None:
        self.check = check
        self.users = 0
        """How many wait for its end."""
        self.error: AgentrailError | None = None
        """Why the key does not count any more; `None` as long as it does."""
        self.fault: BaseException | None = None
        """What the last look has raised that is no error of agentrail; `None` if nothing."""
        self.ended = trio.Event()
        self.scope = trio.CancelScope()
        """Scope of the task that asks for it, if there is one."""
        self.seen: int | None = None
        """The change of the file after which it was looked at; `None` if it was not."""

    def end(self, error: AgentrailError) -> None:
        """Tell all that wait that the key does not count any more."""
        self.error = error
        self.ended.set()

    async def problem(self) -> AgentrailError | None:
        """Return why the key does not count, `AuthenticatorFailed` if nobody can say so; `None` if it counts.

        An error of the code of an authenticator that is no refusal is the `fault` of the watch.
        """
        failed: list[BaseException] = []
        with Contained(failed.append):
            await self.check()
        if not failed:
            return None
        error = failed[0]
        if isinstance(error, AgentrailError):
            return error
        self.fault = error
        return AuthenticatorFailed()


class KeyWatch:
    """Watches the keys of all that is open.

    If the authenticator fails, streams go on for `unknown_seconds`. Otherwise a short outage of the database that it
    asks, say, would cut all clients at once, and they would reconnect during the outage.
    """

    def __init__(self, authenticator: Authenticator, limits: HostLimits) -> None:
        self._authenticator = authenticator
        self._limits = limits
        self._look = min(LOOK_SECONDS, limits.heartbeat_seconds)
        self._keys = authenticator if isinstance(authenticator, ApiKeys) and authenticator.may_change else None
        """The file of keys of this host, which is looked at for users of other hosts too; `None` if there is none."""
        self._failure = ""
        """What kept the file from being read last, which is logged once; empty if nothing did."""
        self._failing: float | None = None
        """Since when the file could not be read; `None` if it could."""
        self._watches: dict[WatchedKey, OpenKey] = {}
        self._of_file: dict[OpenKey, None] = {}
        """Those of which the file of keys says whether they count."""
        self._of_authenticator: dict[OpenKey, None] = {}
        """Those for which the authenticator is asked."""
        self._new: list[OpenKey] = []
        """Those of `_of_authenticator` whose tasks have not begun."""
        self._has_new = trio.Event()
        """Set when there is one."""
        self._has_of_file = trio.Event()
        """Set when `_of_file` is not empty."""

    async def refusal(self, began: Identity, headers: Sequence[tuple[str, str]]) -> AgentrailError:
        """Wait until the key in *headers* no longer allows what *began* has opened; return the error that says why.

        The error is `AuthenticatorFailed` if the authenticator has failed for `unknown_seconds`. If another host has
        passed the request on, it watches the key, too; here the keys of this host are looked at, by their ids.
        """
        if not self._can_end(began):
            await trio.sleep_forever()
        key = _key_of(began, headers)
        watch = self._watches.get(key)
        if watch is None or watch.error is not None:
            watch = self._watches[key] = self._begin(began, headers)
        watch.users += 1
        try:
            await watch.ended.wait()
        finally:
            watch.users -= 1
            if not watch.users:
                self._end(key, watch)
        if watch.fault is not None:
            raise watch.fault
        return watch.error or AuthenticatorFailed()

    async def run(self) -> None:
        """Body of the task that looks at the keys as long as something is open with them."""
        async with trio.open_nursery() as nursery:  # noqa: TID251 - each task ends with its watch
            nursery.start_soon(self._look_again)
            while True:
                for watch in self._new:
                    nursery.start_soon(self._ask_again, watch)
                self._new.clear()
                self._has_new = trio.Event()
                await self._has_new.wait()

    def _can_end(self, began: Identity) -> bool:
        if isinstance(began, ForwardedIdentity):
            return self._keys is not None and bool(began.key)
        kind = type(self._authenticator)
        return kind not in {LocalToken, SocketOwner} and (self._keys is not None or not _is_stock(self._authenticator))

    def _begin(self, began: Identity, headers: Sequence[tuple[str, str]]) -> OpenKey:
        keys, authenticator = self._keys, self._authenticator

        async def check_id() -> None:
            if keys is not None:
                await keys.check_key(began)

        async def check_headers() -> None:
            check_same(began, await authenticator.identify(headers))

        is_forwarded = isinstance(began, ForwardedIdentity)
        watch = OpenKey(check_id if is_forwarded else check_headers)
        if is_forwarded or _is_stock(authenticator):
            self._of_file[watch] = None
            self._has_of_file.set()
        else:
            self._of_authenticator[watch] = None
            self._new.append(watch)
            self._has_new.set()
        return watch

    def _end(self, key: WatchedKey, watch: OpenKey) -> None:
        if self._watches.get(key) is watch:
            del self._watches[key]
        self._of_file.pop(watch, None)
        self._of_authenticator.pop(watch, None)
        watch.scope.cancel()

    # Keys in a file

    async def _look_again(self) -> None:
        """Body of the task that looks at the file of keys as long as something is open with one of them."""
        while True:
            if not self._of_file:
                self._has_of_file = trio.Event()
                await self._has_of_file.wait()
            await trio.sleep(self._look)
            await self._look_at_file()

    async def _look_at_file(self) -> None:
        """Look whether the file of keys has changed, and at those keys that were not looked at since."""
        if self._keys is None or not await self._can_read(self._keys):
            return
        for watch in [watch for watch in self._of_file if watch.seen != self._keys.changes]:
            changes = self._keys.changes
            error = await watch.problem()
            watch.fault = None  # such as no thread to read the file in: it is looked at again
            if not isinstance(error, AuthenticatorFailed):
                watch.seen = changes
                if error is not None:
                    watch.end(error)

    async def _can_read(self, keys: ApiKeys) -> bool:
        """Return whether the file could be looked at; after `unknown_seconds` in which it could not, all ends."""
        failed: list[BaseException] = []
        with Contained(failed.append):
            await keys.refresh()
        failure = repr(type(failed[0])) if failed else ""
        previous, self._failure = self._failure, failure
        if not failed:
            self._failing = None
            return True
        # such as no thread to read the file in, which must not end all streams
        if failure != previous:
            tell(log, failed[0], "the look at the keys of open streams failed; it is made again", words=False)
        now = trio.current_time()
        self._failing = now if self._failing is None else self._failing
        if now - self._failing >= self._limits.unknown_seconds:
            for watch in tuple(self._of_file):
                watch.end(AuthenticatorFailed())
        return False

    # Authenticators of the program

    async def _ask_again(self, watch: OpenKey) -> None:
        """Body of the task of one key: ask for it again and again, less often if that is slow or fails."""
        with watch.scope:
            failing: float | None = None
            pause = self._pause()
            while watch.error is None:
                await trio.sleep(pause)
                asked_at = trio.current_time()
                error = await watch.problem()
                now = trio.current_time()
                if error is None:
                    failing, pause = None, max(self._pause(), ASKED_PART * (now - asked_at))
                elif not isinstance(error, AuthenticatorFailed) or watch.fault is not None:
                    watch.end(error)
                else:
                    failing = now if failing is None else failing
                    remaining_seconds = failing + self._limits.unknown_seconds - now
                    pause = min(2 * pause, max(remaining_seconds, self._look))
                    if remaining_seconds <= 0:
                        watch.end(error)
                pause = min(pause, self._limits.heartbeat_seconds)

    def _pause(self) -> float:
        return max(self._look, len(self._of_authenticator) / ASKED_A_SECOND)


def _is_stock(authenticator: Authenticator) -> bool:
    """Whether the keys of a file, or of lines, alone say who makes a request."""
    return isinstance(authenticator, ApiKeys) and type(authenticator).identify is ApiKeys.identify


def _key_of(began: Identity, headers: Sequence[tuple[str, str]]) -> WatchedKey:
    key_headers = tuple(
        [header for header in headers if header[0] not in OTHER_HEADERS and not header[0].startswith("sec-")]
    )
    is_forwarded = isinstance(began, ForwardedIdentity)
    return (
        is_forwarded,
        began.tenant,
        began.user,
        began.key,
        frozenset(began.scopes),
        () if is_forwarded else key_headers,
    )
