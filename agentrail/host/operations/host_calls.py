"""Calls about the host itself: whether it is well, which agents it has, and whose the key is.

`StaticContent`: content that stays the same while the server runs, with an `ETag`.

`ConsoleCalls`: the page of the host, the files that it loads, and the OpenAPI document.

The page is built from `agentrail/console/web` into `agentrail/console/static`, which is in git and in the wheel. An
installation without these files has a plain page in their place, which loads nothing.
"""

from __future__ import annotations

import gzip
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

import trio
from attrs import field, frozen

import agentrail
from agentrail.api.openapi import openapi_json
from agentrail.api.operation_table import HTML, JSON
from agentrail.api.views import AgentsView, CheckView, HealthView, IdentityView, ReadyView
from agentrail.errors import UsageError
from agentrail.errors.agentrail_error import cut
from agentrail.host.operations.call import Answer, OperationCall
from agentrail.host.operations.host_operations import ACCEPTING, HostDrain
from agentrail.host.profiles import ProfileTable
from agentrail.host.requests.http_messages import Headers, HttpRequest, HttpResponse

NOT_READY: Final = 503


class HostCalls:
    """Carries out the calls about the host itself."""

    def __init__(
        self, look: Callable[[], Awaitable[tuple[CheckView, ...]]], drain: HostDrain, profiles: ProfileTable
    ) -> None:
        self._look = look
        self._drain = drain
        self._profiles = profiles

    async def health(self, call: OperationCall) -> Answer:
        """Say that the host answers."""
        await trio.lowlevel.checkpoint()
        return call.view_answer(HealthView())

    async def ready(self, call: OperationCall) -> Answer:
        """Say whether all checks are passed, and the host takes requests."""
        checks = (*await self._look(), CheckView(ACCEPTING, not self._drain.has_begun, 0.0))
        is_ready = all(check.ok for check in checks)
        return call.view_answer(ReadyView(is_ready, checks), None if is_ready else NOT_READY)

    async def identity(self, call: OperationCall) -> Answer:
        """Show whose the key is."""
        await trio.lowlevel.checkpoint()
        who = call.who
        return call.view_answer(IdentityView(who.tenant, who.user, tuple(sorted(who.scopes))))

    async def agents(self, call: OperationCall) -> Answer:
        """List the names of the profiles."""
        await trio.lowlevel.checkpoint()
        return call.view_answer(AgentsView(tuple([profile.id for profile in self._profiles])))


_NEVER: Final = re.compile(r"q=0(\.0*)?", re.IGNORECASE)
"""The weight of a coding that the client does not take."""


@frozen
class StaticContent:
    """A page, script or picture that the server has in memory."""

    content: bytes = field(repr=False)
    media_type: str
    """With its charset, if it is text: `text/html; charset=utf-8`."""
    headers: Headers = ()
    """Further headers of the answer."""
    gzipped: bytes = field(default=b"", repr=False)
    """The content as gzip has it, for clients that take that; empty if there is none."""
    caching: str = "no-cache"
    """Value of `Cache-Control`."""
    etag: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        digest = f'"{urlsafe_b64encode(sha256(self.content).digest()[:18]).decode()}"'
        object.__setattr__(self, "etag", digest)

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return 304 if the client has this content already (`If-None-Match`), and otherwise the content."""
        headers: Headers = (("etag", self.etag), ("cache-control", self.caching))
        if self.gzipped:
            headers += (("vary", "accept-encoding"),)
        if is_known(self.etag, request.header("if-none-match")):
            return HttpResponse(304, headers)
        headers += (("content-type", self.media_type), ("x-content-type-options", "nosniff"), *self.headers)
        if self.gzipped and takes_gzip(request.header("accept-encoding")):
            return HttpResponse(200, (*headers, ("content-encoding", "gzip")), self.gzipped)
        return HttpResponse(200, headers, self.content)


def is_known(etag: str, tags: str | None) -> bool:
    """Whether *tags*, a value of `If-None-Match`, has the tag *etag* of a content."""
    if tags is None:
        return False
    return tags.strip() == "*" or etag in (tag.strip().removeprefix("W/") for tag in tags.split(","))


def takes_gzip(accepted: str | None) -> bool:
    """Whether *accepted*, a value of `Accept-Encoding`, names gzip, and not with a weight of 0."""
    for coding in (accepted or "").split(","):
        name, _, weight = coding.partition(";")
        if name.strip().lower() == "gzip":
            return not _NEVER.fullmatch(weight.strip())
    return False


STATIC: Final = Path(agentrail.__file__).parent / "console" / "static"
"""Where the built console is."""

PAGE: Final = "index.html"
"""The file that is served at `/`; the others are in `FILES`, and served at `/console/…`."""

FILES: Final = "console"

MEDIA_TYPES: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""The media types of the files, by how their names end."""

COMPRESSED: Final = frozenset({".woff2"})
"""Ends of names of files that compression makes no smaller."""

FOR_EVER: Final = "public, max-age=31536000, immutable"
"""The name of a file has a digest of its content."""

_STYLE: Final = "body{max-width:52rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 sans-serif}pre{overflow:auto}"

_PLAIN_PAGE: Final = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>agentrail</title>
<style>{_STYLE}</style>
<h1>agentrail</h1>
<p>A host for LLM agents runs here. People and programs talk with its agents over HTTP.</p>
<p>Its console, a page to see and steer what the agents do, is missing: this installation has no files in
<code>agentrail/console/static</code>. Where the source is, with node and npm, <code>make console</code> builds them.
Then start the host again.</p>
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

_NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def _headers(policy: str) -> Headers:
    return (
        ("content-security-policy", f"{_NOTHING}; {policy}"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    )


# Scripts and styles are files of the console alone, and text never becomes HTML or a script, whatever the page does.
_CONSOLE: Final = _headers(
    "script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

PLAIN_PAGE: Final = StaticContent(
    _PLAIN_PAGE.encode(), HTML, _headers(f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'")
)
"""The page of a host without the files of the console."""


class ConsoleCalls:
    """Serves the console that is built in *folder*, and the OpenAPI document; each is made when it is first wanted."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._page: StaticContent | None = None
        self._document: StaticContent | None = None
        self._files: Mapping[str, StaticContent] | None = None

    async def page(self, request: HttpRequest) -> HttpResponse:
        """Show the page of the host: the console, or a plain page if its files are missing."""
        if self._page is None:
            self._page = await trio.to_thread.run_sync(_read_page, self._folder)
        else:
            await trio.lowlevel.checkpoint()
        return self._page.answer(request)

    async def openapi(self, request: HttpRequest) -> HttpResponse:
        """Show the OpenAPI document."""
        await trio.lowlevel.checkpoint()
        # made at the first request: at the start, it would take longer than everything else there
        if self._document is None:
            self._document = await trio.to_thread.run_sync(_make_document)
        return self._document.answer(request)

    async def file(self, request: HttpRequest) -> HttpResponse:
        """Show a file of the console; raise `UsageError` if it has none of this name."""
        if self._files is None:
            self._files = await trio.to_thread.run_sync(_read_files, self._folder / FILES)
        else:
            await trio.lowlevel.checkpoint()
        content = self._files.get(request.path.rpartition("/")[2])
        if content is None:
            raise UsageError("unknown-route", cut(request.path))
        return content.answer(request)


def _make_document() -> StaticContent:
    return StaticContent(openapi_json(), JSON)


def _read_page(folder: Path) -> StaticContent:
    page = folder / PAGE
    if not page.is_file():
        return PLAIN_PAGE
    content = page.read_bytes()
    return StaticContent(content, HTML, _CONSOLE, gzip.compress(content))


def _read_files(folder: Path) -> Mapping[str, StaticContent]:
    return {path.name: _read_file(path) for path in folder.glob("*") if path.suffix in MEDIA_TYPES}


def _read_file(path: Path) -> StaticContent:
    content = path.read_bytes()
    gzipped = b"" if path.suffix in COMPRESSED else gzip.compress(content)
    return StaticContent(content, MEDIA_TYPES[path.suffix], _CONSOLE, gzipped, FOR_EVER)
