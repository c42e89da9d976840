"""Authenticators of a host: `LocalToken` is the default; `GuardedAuthenticator` wraps the program's own.

`KeyWatch`: checks at intervals whether the key of an open stream or WebSocket is still valid.
"""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Sequence
from typing import Final, cast

import trio
from attrs import evolve

from agentrail.adapters.peer_process import StrangePeerError, check_peer
from agentrail.api.limits import HostLimits
from agentrail.api.operation_table import SCOPES
from agentrail.errors import AgentrailError, AuthenticatorFailed, NotAuthenticated, RefusedError
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.identity import AUTHORIZATION, Authenticator, ForwardedIdentity, Identity, bearer
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse
from agentrail.host.requests.proxies import UNIX
from agentrail.runtime.shared.code_loops import place_function
from agentrail.runtime.shared.untrusted_calls import Contained, tell
from agentrail.values.untrusted_values import type_name

log = logging.getLogger("agentrail.host")

WRONG: Final = "the token is not the one that was printed at the start of this host"

TOKEN_BYTES: Final = 24
"""Random bytes of a token: an address with it fits a row of a terminal."""

LOCAL: Final = Identity("local", "you", frozenset(SCOPES))


class LocalToken:
    """Authenticator with one token, new at each start: a request that has it is of *user*, who may do everything.

    *token* is given to hosts of one machine that have to have the same.
    """

    def __init__(self, user: Identity = LOCAL, *, token: str | None = None) -> None:
        self._user = user
        self._token = token or secrets.token_urlsafe(TOKEN_BYTES)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @property
    def token(self) -> str:
        """The token."""
        return self._token

    @property
    def fragment(self) -> str:
        """The token as the fragment of an address, which a browser does not send: `#token=…`."""
        return f"#token={self._token}"

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return the one user; raise `NotAuthenticated` if the request does not bear the token."""
        token = bearer(headers)
        if not hmac.compare_digest(token.encode(errors="surrogatepass"), self._token.encode()):
            raise NotAuthenticated(WRONG)
        return self._user


class SocketOwner(LocalToken):
    """Authenticator of a host at a unix socket that one user can open: a request there needs no token, others do.

    It is for hosts without proxies: the request of another user may reach the socket through one. A process in a
    sandbox has the same user, and is not answered: it may have been started by an agent.
    """

    def admits(self, connected: trio.socket.SocketType) -> bool:
        """Whether the peer of a socket is a process of this user that is in no sandbox; see `check_peer`."""
        try:
            check_peer(connected)
        except (StrangePeerError, OSError) as error:
            log.info("a connection to the socket was closed: %s", error)
            return False
        return True

    def admitting(self, handler: Handler) -> Handler:
        """Return *handler* for requests of which those at the socket have the token, whatever key they came with."""

        async def admit(request: HttpRequest) -> HttpResponse:
            return await handler(self._with_token(request) if request.peer == UNIX else request)

        return admit

    def _with_token(self, request: HttpRequest) -> HttpRequest:
        others = tuple([header for header in request.headers if header[0] != AUTHORIZATION])
        return evolve(request, headers=(*others, (AUTHORIZATION, f"Bearer {self._token}")))


WITHIN: Final = 10.0
"""Seconds that an authenticator may take, as a hook of a host plugin may."""

LATE: Final = f"it was not done after {WITHIN:g} s"


class GuardedAuthenticator:
    """Wraps the program's own authenticator: the host survives one that fails, hangs, or returns a wrong value."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._identify = place_function(authenticator.identify)

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return the identity that the program's authenticator finds; raise `AuthenticatorFailed` if it fails.

        An error of the branch `RefusedError`, such as `NotAuthenticated`, is the answer of the authenticator.
        """
        failed: list[BaseException] = []
        answer: object = None
        with trio.move_on_after(WITHIN) as scope, Contained(failed.append):
            answer = await self._identify(headers)
        if failed and isinstance(failed[0], RefusedError):
            raise failed[0]
        if not failed and not scope.cancelled_caught and _is_identity(answer):
            return cast("Identity", answer)
        problem = LATE if scope.cancelled_caught else f"it returned a `{type_name(answer)}` that is no valid `Identity`"
        # The text of the exception is left out: it may contain the key.
        tell(
            log,
            failed[0] if failed else None,
            "the authenticator failed%s",
            "" if failed else f": {problem}",
            words=False,
        )
        raise AuthenticatorFailed


def guarded(authenticator: Authenticator) -> Authenticator:
    """Return *authenticator*, wrapped in a `GuardedAuthenticator` if it is the program's own."""
    is_ours = isinstance(authenticator, ApiKeys | LocalToken)
    return authenticator if is_ours else GuardedAuthenticator(authenticator)


def _is_identity(value: object) -> bool:
    if not isinstance(value, Identity):
        return False
    texts = cast("tuple[object, ...]", (value.tenant, value.user))
    return all(isinstance(text, str) and text for text in texts) and isinstance(
        cast("object", value.scopes), frozenset | set
    )


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
