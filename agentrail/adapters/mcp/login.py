"""`sign_in`: a person signs in at an MCP server once, and sessions use the tokens from then on."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from agentrail.adapters import tls_contexts
from agentrail.adapters.mcp.loopback_browser import open_browser
from agentrail.adapters.mcp.response_bound import bound_body
from agentrail.adapters.mcp.server import McpServer
from agentrail.adapters.mcp.sign_in import Browser
from agentrail.adapters.mcp.token_auth import TokenAuth
from agentrail.errors import OutsideError
from agentrail.values.argument_checks import checked
from agentrail.values.untrusted_values import leaves


@checked
async def sign_in(server: McpServer, show: Callable[[str], None], browser: Browser | None = None) -> None:
    """Sign in at *server*: *show* gets the page for the person's browser, which comes back to a port of this machine.

    A *browser* of your own takes the place of both. Raise `OutsideError` if it fails.
    """
    if browser is not None:
        await _connect(server, browser)
        return
    port = 0 if server.auth is None else server.auth.redirect_port
    async with open_browser(show, port) as opened:
        await _connect(server, opened)


async def _connect(server: McpServer, browser: Browser) -> None:
    """Connect to the server once; the flow begins when it refuses."""
    auth = TokenAuth(server, browser)
    tls = await tls_contexts.shared("mcp", httpx2.create_ssl_context)
    try:
        async with (
            httpx2.AsyncClient(
                headers={"accept-encoding": "identity", **server.headers},
                auth=auth,
                verify=tls,
                event_hooks={"response": [bound_body]},
            ) as http,
            Client(streamable_http_client(server.url, http_client=http), cache=None) as client,
        ):
            await client.list_tools()  # a server may let everybody connect, and no more
    except Exception as error:  # noqa: BLE001 - the client fails by groups of whatever its tasks met
        raise OutsideError("mcp-failed", server.name, auth.problem or _why(error)) from None
    if not auth.has_signed_in and not auth.problem:
        raise OutsideError("mcp-failed", server.name, "it asks nobody to sign in")
    if auth.problem:
        raise OutsideError("mcp-failed", server.name, auth.problem)


def _why(error: Exception) -> str:
    """Return what failed first; without its text, in which a token may be, unless the machine was not reached."""
    first = next(leaves(error))
    return f"{type(first).__name__}: {first}" if isinstance(first, httpx2.ConnectError) else type(first).__name__
