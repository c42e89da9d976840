"""The page of a host: what runs here, and how to talk to it. It has no script, and loads nothing."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Final

from agentrail.host.http11.http_messages import Headers
from agentrail.host.http11.static_content import StaticContent
from agentrail.wire.call_rows.host_call import HTML

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
