"""`LocalToken`: the authenticator of a host that was given none, for the one person at this machine."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import Final

from agentrail.errors import NotAuthenticated
from agentrail.host.access.identity import Identity, bearer
from agentrail.wire.call_rows.host_call import SCOPES

WRONG: Final = "the token is not the one that was printed at the start of this host"

LOCAL: Final = Identity("local", "you", frozenset(SCOPES))


class LocalToken:
    """Authenticator: whoever has the token, which is new at each start, may do everything."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(32)

    def __repr__(self) -> str:
        return "<LocalToken>"

    @property
    def fragment(self) -> str:
        """The token as the fragment of an address, which a browser does not send: `#token=…`."""
        return f"#token={self._token}"

    async def identify(self, headers: Sequence[tuple[str, str]]) -> Identity:
        """Return the one user; raise `NotAuthenticated` if the request does not bear the token."""
        given = bearer(headers)
        if not hmac.compare_digest(given.encode(errors="surrogatepass"), self._token.encode()):
            raise NotAuthenticated(WRONG)
        return LOCAL
