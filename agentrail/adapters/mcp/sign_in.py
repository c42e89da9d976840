"""Signs in at an MCP server by the flow of the package `mcp`: by a person in a browser, or as this client itself.

The flow of `mcp` holds a lock for as long as a request, and a person's thoughts, take. So each sign-in has a provider
of its own here, which only drives it; requests of sessions go by `TokenAuth`, which waits for nobody.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Final, Protocol
from urllib.parse import parse_qs, urlsplit

import httpx2
import trio
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, BaseModel, ValidationError

from agentrail.adapters import tls_contexts
from agentrail.adapters.mcp.oauth import HERE, OAuth, is_safe_url
from agentrail.adapters.mcp.response_bound import bound_body
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.mcp.token_file import SignedIn, TokenFile
from agentrail.adapters.web import is_open, resolve
from agentrail.errors import OutsideError
from agentrail.values.json import JsonObject, freeze_object

MAX_BODY: Final = 1024 * 1024
"""The most bytes of an answer of an authorization server."""

WITHIN: Final = 8.0
"""Seconds for one request to an authorization server; less than others wait for the lock of the tokens."""

PERSON_WITHIN: Final = 300.0
"""Seconds that a person has to sign in at the browser."""

FAILURES: Final = (OAuthFlowError, httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ValueError, OSError)
"""How a flow fails by what a server says, or does not say."""


TOO_MANY: Final = 429
"""The status by which an authorization server asks for patience."""


class _NoTracebacks(logging.Filter):
    """Drops what the package `mcp` logs of a failed flow: its texts may repeat tokens, and the caller gets an error."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.exc_info is None


logging.getLogger("mcp.client.auth.oauth2").addFilter(_NoTracebacks())


class Browser(Protocol):
    """Shows a person the page at which to sign in, and gets the address to which their browser comes back."""

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser is to come back."""
        ...

    async def visit(self, page: str) -> str:
        """Show the person *page*; return the whole address to which their browser has come back."""
        ...


class NeedsPersonError(OAuthFlowError):
    """A person has to sign in, and this flow has none."""


class _Storage:
    """The tokens and the client of one flow: read before it, and written by whoever drives it."""

    def __init__(self, signed_in: SignedIn) -> None:
        self._signed_in = signed_in

    async def get_tokens(self) -> OAuthToken | None:  # noqa: ASYNC124 - `mcp` awaits it
        """Return the stored tokens."""
        return None if self._signed_in.tokens is None else OAuthToken.model_validate(self._signed_in.tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """No-op: the driver stores the result of the whole flow."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:  # noqa: ASYNC124 - `mcp` awaits it
        """Return the stored client."""
        return (
            None
            if self._signed_in.client is None
            else OAuthClientInformationFull.model_validate(self._signed_in.client)
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """No-op, as `set_tokens`."""


def _provider(server: McpServer, signed_in: SignedIn, browser: Browser | None) -> OAuthClientProvider:
    """Return the flow of `mcp` for one sign-in or refresh, with what is known of the authorization server."""
    auth = server.auth or OAuth()
    storage = _Storage(signed_in)
    scope = union_scopes(" ".join(auth.scopes) or None, signed_in.scope or None)
    provider: OAuthClientProvider
    if auth.private_key:
        signing = SignedJWTParameters(
            issuer=auth.client_id,
            subject=auth.client_id,
            signing_key=auth.private_key,
            signing_algorithm=auth.key_algorithm,
        )
        provider = PrivateKeyJWTOAuthProvider(
            server.url, storage, auth.client_id, signing.create_assertion_provider(), scope, auth.issuer
        )
    elif auth.without_person:
        provider = ClientCredentialsOAuthProvider(
            server.url, storage, auth.client_id, auth.client_secret, scope=scope, issuer=auth.issuer
        )
    else:
        provider = _CodeProvider(server, storage, scope, browser)
    context = provider.context
    if signed_in.metadata is not None:
        context.oauth_metadata = OAuthMetadata.model_validate(signed_in.metadata)
    if signed_in.resource is not None:
        context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(signed_in.resource)
    return provider


class _CodeProvider(OAuthClientProvider):
    """The flow with a code, whose page is checked before a person sees it."""

    def __init__(self, server: McpServer, storage: _Storage, scope: str | None, browser: Browser | None) -> None:
        auth = server.auth or OAuth()
        redirect = AnyUrl(browser.redirect_uri if browser is not None else "http://127.0.0.1/callback")
        super().__init__(
            server.url,
            OAuthClientMetadata(
                client_name="agentrail",
                redirect_uris=[redirect],
                grant_types=["authorization_code", "refresh_token"],
                response_types=["code"],
                token_endpoint_auth_method="client_secret_basic" if auth.client_secret else "none",
                scope=scope,
            ),
            storage,
            client_metadata_url=auth.metadata_url or None,
        )
        self._auth, self._browser, self._wanted_scope = auth, browser, scope
        self._server_host = urlsplit(server.url).hostname
        if auth.client_id:
            self._own_client: OAuthClientInformationFull | None = OAuthClientInformationFull(
                redirect_uris=[redirect],
                client_id=auth.client_id,
                client_secret=auth.client_secret or None,
                token_endpoint_auth_method="client_secret_basic" if auth.client_secret else "none",
                issuer=auth.issuer or None,
            )
        else:
            self._own_client = None

    async def _initialize(self) -> None:
        await super()._initialize()
        if self._own_client is not None:
            self.context.client_info = self._own_client

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return (
            self._auth.issuer if self._auth.issuer in advertised else super()._select_authorization_server(advertised)
        )

    async def _perform_authorization_code_grant(self) -> tuple[str, str]:
        if self._browser is None:
            message = "a person has to sign in"
            raise NeedsPersonError(message)
        self._check_hosts()
        if self._wanted_scope:
            self.context.client_metadata.scope = union_scopes(self.context.client_metadata.scope, self._wanted_scope)
        came_back: list[str] = []
        browser = self._browser

        async def show(page: str) -> None:
            came_back.append(await browser.visit(page))

        async def code() -> AuthorizationCodeResult:  # noqa: ASYNC124 - `mcp` awaits it
            return _code_in(came_back.pop())

        self.context.redirect_handler, self.context.callback_handler = show, code
        return await super()._perform_authorization_code_grant()

    def _check_hosts(self) -> None:
        """Raise `OAuthFlowError` if the page, or its server, is on a host that nobody has named."""
        metadata = self.context.oauth_metadata
        issuer = str(metadata.issuer) if metadata is not None else self._expected_issuer()
        host = urlsplit(issuer).hostname
        if self._auth.issuer:
            if issuer.rstrip("/") != self._auth.issuer.rstrip("/"):
                problem = f"it sends people to {issuer} to sign in, and not to {self._auth.issuer}, as `issuer` says"
                raise OAuthFlowError(problem)
        elif host != self._server_host:
            problem = f"its page to sign in is on another host, {host}; if that is right, say so: `issuer` = {issuer}"
            raise OAuthFlowError(problem)
        if metadata is None:
            return
        page = urlsplit(str(metadata.authorization_endpoint))
        if page.hostname != host:
            problem = f"its page to sign in is on the host {page.hostname}, and its authorization server on {host}"
            raise OAuthFlowError(problem)


def _code_in(address: str) -> AuthorizationCodeResult:
    """Return the code in the *address* to which a browser came back; raise `OAuthFlowError` if it has an error."""
    query = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    if "code" not in query:
        error = query.get("error", "there is no code")
        problem = f"the sign-in was refused: {error[:100]}"
        raise OAuthFlowError(problem)
    return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


class SignIn:
    """Sign-ins and refreshes at one server, whose results are stored."""

    __slots__ = ("_private", "_server", "file")

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._private: bool | None = None  # whether the server itself is at no public address; `None`: not looked up
        self.file = TokenFile.of(server)
        """The file with the tokens."""

    async def signed_in(self) -> SignedIn:
        """Return what is stored; raise `FileFailed` if it cannot be used."""
        return await trio.to_thread.run_sync(self.file.read)

    async def refreshed(self, old: SignedIn) -> SignedIn:
        """Return tokens that are newer than *old*: refreshed, or by another session or process meanwhile.

        Return them without tokens if the authorization server refuses; raise `OutsideError` if it cannot be asked.
        """
        async with self.file.locked():
            stored = await self.signed_in()
            if stored.access_token != old.access_token or not stored.can_refresh:
                return stored
            # Shielded: the server has made the old token invalid before the new one is stored.
            # tests/mcp/test_oauth.py::test_a_refresh_that_is_cancelled_is_stored
            newer = stored
            with trio.CancelScope(shield=True):
                newer = await self._refresh(stored)
            return newer  # noqa: RET504 - mypy takes a `return` in the scope for one that may be left out

    async def _refresh(self, stored: SignedIn) -> SignedIn:
        try:
            provider = _provider(self._server, stored, None)
            await provider._initialize()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - `mcp` refreshes by its flow alone
            request = await provider._refresh_token()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            async with await self._client() as http:
                response = await self._send(http, request)
            if response.is_server_error or response.status_code == TOO_MANY:
                problem = f"its authorization server answers with status {response.status_code}"
                raise OAuthFlowError(problem)
            await provider._handle_refresh_response(response)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        except FAILURES as error:
            raise self._failed(error) from None
        return await self._store(provider, stored, scope=stored.scope)

    async def by_client(self, request: httpx2.Request, refusal: httpx2.Response, old: SignedIn) -> SignedIn:
        """Sign in as this client itself, under the lock; or return what another session has done meanwhile."""
        async with self.file.locked():
            stored = await self.signed_in()
            if stored.access_token != old.access_token:
                return stored
            newer = stored
            with trio.CancelScope(shield=True):
                newer = await self._flow(request, refusal, stored, None)
            return newer  # noqa: RET504 - mypy takes a `return` in the scope for one that may be left out

    async def by_person(self, request: httpx2.Request, refusal: httpx2.Response, browser: Browser) -> SignedIn:
        """Have a person sign in; no lock is held while they think."""
        stored = await self.signed_in()
        if stored.client is not None and browser.redirect_uri not in _redirects(stored.client):
            stored = SignedIn(tokens=stored.tokens, ends_at=stored.ends_at, scope=stored.scope)
        with trio.move_on_after(PERSON_WITHIN):
            return await self._flow(request, refusal, stored, browser)
        raise OutsideError("mcp-failed", self._server.name, f"nobody signed in within {PERSON_WITHIN:g} s")

    async def want_scope(self, scope: str) -> None:
        """Store that the server wants *scope*, so that the next sign-in asks for it."""
        async with self.file.locked():
            stored = await self.signed_in()
            wider = union_scopes(stored.scope or None, scope) or ""
            if wider != stored.scope:
                await trio.to_thread.run_sync(self.file.write, _with(stored, scope=wider))

    async def _flow(
        self, request: httpx2.Request, refusal: httpx2.Response, stored: SignedIn, browser: Browser | None
    ) -> SignedIn:
        """Drive the flow of `mcp` from the server's *refusal* of *request* to its tokens, and store them."""
        try:
            provider = _provider(self._server, stored, browser)
            provider.context.token_expiry_time = None
            flow = provider.async_auth_flow(request)
            try:
                await anext(flow)
                outgoing = await flow.asend(refusal)
                async with await self._client() as http:
                    while outgoing is not request:
                        outgoing = await flow.asend(await self._send(http, outgoing))
            finally:
                await flow.aclose()  # noqa: ASYNC102 - it awaits nothing
        except FAILURES as error:
            raise self._failed(error) from None
        if browser is None:
            return await self._store(provider, stored)
        async with self.file.locked():
            return await self._store(provider, stored)

    async def _client(self) -> httpx2.AsyncClient:
        tls = await tls_contexts.shared("mcp", httpx2.create_ssl_context)
        return httpx2.AsyncClient(timeout=WITHIN, verify=tls, headers={"accept-encoding": "identity"})

    async def _send(self, http: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the flow, if its address may be reached, and return the response with a bounded body."""
        await self._check_address(str(request.url))
        with trio.fail_after(WITHIN):
            response = await http.send(request, stream=True, follow_redirects=False)
            await bound_body(response)
            body = bytearray()
            try:
                async for piece in response.aiter_raw():
                    body += piece
                    if len(body) > MAX_BODY:
                        problem = f"an answer has more than {MAX_BODY} bytes"
                        raise OAuthFlowError(problem)
            finally:
                await response.aclose()  # noqa: ASYNC102 - the client around it closes everything
        bounded = httpx2.Response(response.status_code, headers=response.headers, content=bytes(body), request=request)
        bounded.next_request = response.next_request
        return bounded

    async def _check_address(self, url: str) -> None:
        """Raise `OAuthFlowError` for an address that the flow of this server must not reach."""
        if not is_safe_url(url):
            problem = f"it names an address that is not https: {_address_text(url)}"
            raise OAuthFlowError(problem)
        if self._private is None:
            self._private = await _is_private(self._server.url)
        if not self._private and await _is_private(url):
            problem = f"it names an address in a private network: {_address_text(url)}"
            raise OAuthFlowError(problem)

    async def _store(self, provider: OAuthClientProvider, stored: SignedIn, scope: str = "") -> SignedIn:
        context = provider.context
        signed_in = SignedIn(
            _json(context.current_tokens),
            context.token_expiry_time,
            _json(context.client_info) if isinstance(provider, _CodeProvider) else stored.client,
            _json(context.oauth_metadata),
            _json(context.protected_resource_metadata),
            scope,
        )
        await trio.to_thread.run_sync(self.file.write, signed_in)
        return signed_in

    def _failed(self, error: Exception) -> OutsideError:
        """Return the error of a flow that failed, without what servers have said: that may repeat a token."""
        if isinstance(error, OutsideError):
            return error
        if isinstance(error, ValidationError):
            problem = "what its authorization server says cannot be read"
        elif isinstance(error, OAuthFlowError):
            problem = str(error).partition(": ")[0] if type(error) is not OAuthFlowError else str(error)
        else:
            problem = f"its authorization server cannot be asked ({type(error).__name__})"
        return OutsideError("mcp-failed", self._server.name, f"signing in failed: {problem}"[:1_000])


def _with(stored: SignedIn, *, scope: str) -> SignedIn:
    return SignedIn(stored.tokens, stored.ends_at, stored.client, stored.metadata, stored.resource, scope)


def _json(model: BaseModel | None) -> JsonObject | None:
    return None if model is None else freeze_object(model.model_dump(mode="json", exclude_none=True))


def _redirects(client: JsonObject) -> tuple[object, ...]:
    uris = client.get("redirect_uris")
    return tuple(uris) if isinstance(uris, (list, tuple)) else ()


def _address_text(url: str) -> str:
    return repr(url.partition("?")[0][:200])


async def _is_private(url: str) -> bool:
    """Whether the host of *url* leads to an address that is not public, or to none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in HERE:
        return True
    try:
        addresses = await resolve(host, parts.port or 443)
        return not all(is_open(ipaddress.ip_address(address)) for address in addresses)
    except (OSError, ValueError):
        return False  # the request will say that there is no such host
