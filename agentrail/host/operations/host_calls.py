"""Calls about the host itself: whether it is well, its OpenAPI document, and its page, which loads nothing."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Final

import trio

from agentrail.api.openapi import openapi_json
from agentrail.api.operation_table import HTML, JSON
from agentrail.api.views import CheckView, HealthView, ReadyView
from agentrail.host.host_drain import ACCEPTING, HostDrain
from agentrail.host.operations.call_request import CallRequest
from agentrail.host.requests.http_messages import Headers, HttpResponse
from agentrail.host.requests.static_content import StaticContent

_STYLE: Final = "body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 sans-serif}pre{overflow:auto}"

_PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>agentrail</title>
<style>{_STYLE}</style>
<h1>agentrail</h1>
<p>A host for LLM agents runs here. People and programs talk with its agents over HTTP.</p>
<h2>The key</h2>
<p>Each request bears a key. If the address that <code>agentrail serve</code> printed ends with <code>#token=…</code>,
what comes after the <code>=</code> is the key; it stays in your browser. Otherwise, whoever runs this host makes one
for you: <code>agentrail serve keys make FILE TENANT USER</code>.</p>
<h2>Talk</h2>
<p><code>HOST</code> is the address of this page, up to the first single <code>/</code>.</p>
<pre>curl -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\
     -d '{{"message": "Hello", "session": "first"}}' $HOST/v1/chat</pre>
<p>What happens in a session, as it happens:</p>
<pre>curl -N -H "Authorization: Bearer $KEY" "$HOST/v1/sessions/first/events?since=0"</pre>
<h2>For programs</h2>
<ul>
<li><a href="/openapi.json"><code>/openapi.json</code></a>: each call, with what it takes, gives and may refuse</li>
<li><a href="/healthz"><code>/healthz</code></a>: whether the host answers</li>
<li><a href="/readyz"><code>/readyz</code></a>: whether it can do its work</li>
</ul>
</html>
"""

_POLICY: Final = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)

_HEADERS: Final[Headers] = (("content-security-policy", _POLICY), ("referrer-policy", "no-referrer"))

HOST_PAGE: Final = StaticContent(_PAGE.encode(), HTML, _HEADERS)
"""The page, as it is served at `/`."""


NOT_READY: Final = 503


class HostCalls:
    """Carries out the calls about the host itself."""

    def __init__(self, look: Callable[[], Awaitable[tuple[CheckView, ...]]], drain: HostDrain) -> None:
        self._look = look
        self._drain = drain
        self._document: StaticContent | None = None

    async def health(self, request: CallRequest) -> HttpResponse:
        """Say that the host answers."""
        await trio.lowlevel.checkpoint()
        return request.view_answer(HealthView())

    async def ready(self, request: CallRequest) -> HttpResponse:
        """Say whether all checks are passed, and the host takes requests."""
        checks = (*await self._look(), CheckView(ACCEPTING, not self._drain.has_begun, 0.0))
        is_ready = all(check.ok for check in checks)
        return request.view_answer(ReadyView(is_ready, checks), None if is_ready else NOT_READY)

    async def page(self, request: CallRequest) -> HttpResponse:
        """Show the page of the host."""
        await trio.lowlevel.checkpoint()
        return HOST_PAGE.answer(request.http)

    async def openapi(self, request: CallRequest) -> HttpResponse:
        """Show the OpenAPI document."""
        await trio.lowlevel.checkpoint()
        # made at the first request: at the start, it would take longer than everything else there
        if self._document is None:
            self._document = StaticContent(openapi_json(), JSON)
        return self._document.answer(request.http)
