"""An MCP server with its authorization server in one, which plays OAuth 2.1 with tokens that are used once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qs, urlsplit

import trio
from attrs import define, field

from tests.adapters.models.server import Asked, Play, Server, refusing, serving

SECRET = "tok-5ecret"
"""What each token begins with: nothing of it may be seen anywhere."""


@define
class Realm:
    """Plays both servers; its fields say what they do wrong."""

    server: Server | None = None
    lasts: int | None = 3600
    """Seconds that a token lasts, as the server says."""
    valid: set[str] = field(factory=set)
    """Access tokens that are taken."""
    refresh: str = ""
    """The one refresh token that is taken."""
    told: dict[str, object] = field(factory=dict)
    """What takes the place of fields of the metadata of the authorization server."""
    resource: dict[str, object] = field(factory=dict)
    """The same for that of the MCP server."""
    refuses_refresh: int = 0
    """Status with which each refresh is refused; 0 if it is not."""
    wants: str = ""
    """A scope that a tool wants; empty if none."""
    numbers: int = 0
    pages: list[str] = field(factory=list)
    """The pages that a person has seen."""

    @property
    def base(self) -> str:
        assert self.server is not None
        return self.server.url

    @property
    def url(self) -> str:
        return f"{self.base}/mcp"

    def asked(self, path: str, **fields: str) -> list[Asked]:
        """Return the requests to *path* whose form has these fields."""
        assert self.server is not None
        at_path = [request for request in self.server.asked if request.target.partition("?")[0] == path]
        return [one for one in at_path if all(form(one).get(name) == value for name, value in fields.items())]

    def bearers(self) -> list[str]:
        """Return the headers by which the MCP server was asked."""
        return [request.headers.get("authorization", "-") for request in self.asked("/mcp")]

    def answer(self, request: Asked) -> Play:
        path = request.target.partition("?")[0]
        match path:
            case "/mcp":
                return self._mcp(request)
            case "/.well-known/oauth-protected-resource/mcp":
                resource = {"resource": self.url, "authorization_servers": [self.base]}
                return sent({**resource, **self.resource})
            case "/.well-known/oauth-authorization-server":
                return sent(self._metadata())
            case "/register":
                return sent({**json.loads(request.body), "client_id": "c-1"}, 201)
            case "/token":
                return self._token(form(request))
        return refusing(404, b"")

    def _metadata(self) -> dict[str, object]:
        return {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "registration_endpoint": f"{self.base}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            **self.told,
        }

    def _token(self, asked: dict[str, str]) -> Play:
        if asked["grant_type"] == "refresh_token":
            if self.refuses_refresh:
                return sent(
                    {"error": "invalid_grant", "error_description": asked["refresh_token"]}, self.refuses_refresh
                )
            if asked["refresh_token"] != self.refresh:
                return sent({"error": "invalid_grant"}, 400)
        return sent(self.issue())

    def issue(self) -> dict[str, object]:
        """Make a pair of tokens, the only ones that are taken from now on."""
        self.numbers += 1
        access, self.refresh = f"{SECRET}-a{self.numbers}", f"{SECRET}-r{self.numbers}"
        self.valid = {access}
        lasts = {} if self.lasts is None else {"expires_in": self.lasts}
        return {"access_token": access, "token_type": "Bearer", "refresh_token": self.refresh, **lasts}

    def _mcp(self, request: Asked) -> Play:
        if request.headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            where = f"{self.base}/.well-known/oauth-protected-resource/mcp"
            return refusing(401, b"", f'www-authenticate: Bearer resource_metadata="{where}"')
        if request.method != "POST":
            return refusing(405, b"")
        told = request.json
        if told["method"] == "tools/call" and self.wants:
            return refusing(403, b"", f'www-authenticate: Bearer error="insufficient_scope", scope="{self.wants}"')
        return rpc(told)

    @property
    def redirect_uri(self) -> str:
        return "http://127.0.0.1:1/callback"

    async def visit(self, page: str) -> str:
        """Be the browser of a person who agrees at once."""
        self.pages.append(page)
        await trio.lowlevel.checkpoint()
        state = parse_qs(urlsplit(page).query)["state"][0]
        return f"{self.redirect_uri}?code={SECRET}-code&state={state}"


def rpc(told: dict[str, object]) -> Play:
    """Answer as an MCP server of an older protocol with one tool."""
    if "id" not in told:
        return refusing(202, b"")
    info = {"name": "tickets", "version": "1"}
    tool = {"name": "search", "inputSchema": {"type": "object"}}
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "three tickets"}]},
    }
    if told["method"] not in results:
        return sent({"jsonrpc": "2.0", "id": told["id"], "error": {"code": -32601, "message": "unknown"}})
    return sent({"jsonrpc": "2.0", "id": told["id"], "result": results[str(told["method"])]})


def form(request: Asked) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.body.decode("latin-1")).items()}


def sent(body: object, status: int = 200) -> Play:
    return refusing(status, json.dumps(body).encode())


@asynccontextmanager
async def open_realm(**fields: object) -> AsyncIterator[Realm]:
    realm = Realm(**fields)  # type: ignore[arg-type]  # a test may give any
    async with serving(realm.answer) as server:
        realm.server = server
        yield realm
