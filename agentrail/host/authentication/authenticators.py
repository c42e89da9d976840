"""Authenticators of a host: `LocalToken` is the default; `GuardedAuthenticator` wraps the program's own."""

from __future__ import annotations

import hmac
import logging
import secrets
from collections.abc import Sequence
from typing import Final, cast

import trio
from attrs import evolve

from agentrail.adapters.peer_process import StrangePeerError, check_peer
from agentrail.api.operation_table import SCOPES
from agentrail.errors import AuthenticatorFailed, NotAuthenticated, RefusedError
from agentrail.host.authentication.api_keys import ApiKeys
from agentrail.host.authentication.identity import AUTHORIZATION, Authenticator, Identity, bearer
from agentrail.host.requests.http_messages import Handler, HttpRequest, HttpResponse
from agentrail.host.requests.proxies import UNIX
from agentrail.runtime.shared.code_loops import bind_function
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
        self._identify = bind_function(authenticator.identify)

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
