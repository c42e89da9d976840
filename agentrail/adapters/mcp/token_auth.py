"""Adds the token of a signed-in session to each request to its MCP server, and renews it; it waits for no person."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.mcp.sign_in import Browser, SignIn
from agentrail.adapters.mcp.token_file import SignedIn
from agentrail.errors import FileFailed, OutsideError

UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
SCOPE: Final = "insufficient_scope"
"""The error by which a server says that it wants more scopes."""


class TokenAuth(httpx2.Auth):
    """Signs requests to one server. A response 401 is passed on, and `problem` says why there is no better one."""

    def __init__(self, server: McpServer, browser: Browser | None = None) -> None:
        self._server = server
        self._sign_in = SignIn(server)
        self._browser = browser  # of a person who signs in now, whatever tokens there are
        self.problem = ""
        """Why requests are refused: what a person has to do, or what is wrong; empty if they are not."""
        self.needs_person = False
        """Whether a person has to sign in."""
        self.has_signed_in = False
        """Whether the person at the browser has signed in."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send *request* with a token that has not ended; if it is refused, once more with a newer one."""
        try:
            signed_in = await self._usable()
        except (OutsideError, FileFailed) as error:
            self.problem, signed_in = str(error), SignedIn()
        _sign(request, signed_in)
        response = yield request
        if not _is_refused(response):
            if response.is_success:
                self.problem, self.needs_person = "", False
            return
        await response.aread()
        newer = await self._newer(request, response, signed_in)
        if newer is None:
            return
        _sign(request, newer)
        response = yield request
        if _is_refused(response):
            self._ask_person(f"it refuses the new token too (status {response.status_code})")
        else:
            self.problem, self.needs_person = "", False

    async def _usable(self) -> SignedIn:
        if self._browser is not None and not self.has_signed_in:
            return SignedIn()
        stored = await self._sign_in.signed_in()
        return await self._sign_in.refreshed(stored) if stored.is_over and stored.can_refresh else stored

    async def _newer(self, request: httpx2.Request, response: httpx2.Response, old: SignedIn) -> SignedIn | None:
        """Return newer tokens than *old*, which a *response* has refused; `None` if there are none without a person."""
        auth = self._server.auth
        wants_scope = extract_field_from_www_auth(response, "error") == SCOPE
        try:
            if self._browser is not None and not self.has_signed_in:
                newer = await self._sign_in.by_person(request, response, self._browser)
                self.has_signed_in = True
                return newer
            if wants_scope:
                await self._sign_in.want_scope(extract_scope_from_www_auth(response) or "")
            if auth is not None and auth.without_person:
                return await self._sign_in.by_client(request, response, old)
            if not wants_scope:
                newer = await self._sign_in.refreshed(old)
                if newer.access_token and newer.access_token != old.access_token:
                    return newer
        except (OutsideError, FileFailed) as error:
            self.problem = str(error)
            return None
        self._ask_person("it wants further scopes" if wants_scope else "it wants a person to sign in")
        return None

    def _ask_person(self, why: str) -> None:
        self.problem, self.needs_person = why, True


def _sign(request: httpx2.Request, signed_in: SignedIn) -> None:
    if signed_in.access_token:
        request.headers["Authorization"] = f"Bearer {signed_in.access_token}"


def _is_refused(response: httpx2.Response) -> bool:
    """Whether *response* asks for another token: 401, or 403 for want of a scope."""
    if response.status_code == FORBIDDEN:
        return extract_field_from_www_auth(response, "error") == SCOPE
    return response.status_code == UNAUTHORIZED
