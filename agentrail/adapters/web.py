"""Fetches pages of the web by httpx, within limits, and only from public addresses.

A host name is resolved once. Every address found must be public, and the connection goes to one of these addresses. So
no second look-up can give another address. Each redirect is checked in the same way. Proxies that the environment names
are not used, and no cookies are kept.

The lists of networks are those of IANA's special-purpose registries (2024) that are not globally reachable. An IPv6
address that contains an IPv4 address is public if that one is.
"""

from __future__ import annotations

import ipaddress
import re
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import trio

from agentrail.adapters import tls_contexts
from agentrail.errors import WebFailed, WebRefused
from agentrail.ports.tool import MAX_PAGE, Page
from agentrail.values.value import Value

if TYPE_CHECKING:  # importing httpx takes longer than importing all of agentrail
    import httpx  # noqa: ASYNC127 - the client that pyproject.toml names


Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

CLOSED_4: Final = tuple(
    map(
        ipaddress.IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",
        ),
    )
)
"""IPv4 networks that tools must not reach: private, local and special ones."""

OPEN_6: Final = ipaddress.IPv6Network("2000::/3")
"""The IPv6 network of all public addresses."""

CLOSED_6: Final = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20")))
"""Networks inside `OPEN_6` that tools must not reach."""

TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")
SIX_TO_FOUR: Final = ipaddress.IPv6Network("2002::/16")


def networks(names: Iterable[str]) -> tuple[IpNetwork, ...]:
    """Return the networks written in *names*, such as `10.0.0.0/8` or `127.0.0.1`."""
    return tuple(ipaddress.ip_network(name) for name in names)


def is_open(address: Address, allowed: Iterable[IpNetwork] = ()) -> bool:
    """Whether *address* is public, or in an *allowed* network. If it contains IPv4 addresses, all these must be."""
    if any(address in network for network in allowed):
        return True
    if isinstance(address, ipaddress.IPv4Address):
        return not any(address in network for network in CLOSED_4)
    if getattr(address, "scope_id", None) is not None:
        return False
    carried = list(_inner_addresses(address))
    if carried:
        return all(is_open(inner, allowed) for inner in carried)
    return address in OPEN_6 and not any(address in network for network in CLOSED_6)


def _inner_addresses(address: ipaddress.IPv6Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that *address* contains."""
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address in TRANSLATED:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in SIX_TO_FOUR:
        yield ipaddress.IPv4Address((int(address) >> 80) & 0xFFFFFFFF)


MAX_REDIRECTS: Final = 5
"""The most redirects that are followed for one page; one more raises `WebFailed`."""

MAX_ADDRESSES: Final = 3
"""The most addresses of one host to which a connection is tried; the others are only checked."""

HEADERS: Final = {
    "user-agent": "agentrail",
    "accept": "text/html, text/*, application/json, */*;q=0.1",
    "accept-encoding": "gzip",
}

_NUMERIC: Final = re.compile(r"(?:.*\.)?(?:\d+|0[xX][0-9A-Fa-f]*)\.?")
_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_TEXTUAL: Final = re.compile(r"text/.*|application/(?:.*\+)?(?:json|xml|javascript|yaml|x-yaml|toml|x-ndjson)")
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_MOVED: Final = frozenset({301, 302, 303, 307, 308})

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Function that returns the IP addresses of a host and port."""


T = TypeVar("T")

AnswerReader: TypeAlias = "Callable[[httpx.Response], Awaitable[T]]"
"""Function that reads an answer, of which the head has come."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """Ask the system for the addresses of *host*."""
    addresses = await trio.socket.getaddrinfo(host, port, type=trio.socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for *_, address in addresses))


class WebRequest(Value, gc=True):
    """What is sent to a server beside the address."""

    method: str
    """The HTTP method."""
    headers: Mapping[str, str]
    """The headers; their names are in lower case. They may hold a key, so `repr` does not show them."""
    body: bytes = b""
    """The body."""

    def __repr__(self) -> str:
        return f"<WebRequest {self.method}>"


PLAIN: Final = WebRequest("GET", HEADERS)
"""The request for a page."""


class WebResponse(Value, gc=True):
    """The answer of a server to one request."""

    status: int
    """The HTTP status."""
    location: str
    """The target of a redirect; empty if there is none."""
    content_type: str
    """The header `content-type`."""
    body: bytes
    """The part of the body that was read, up to the limit."""
    cut: bool
    """Whether the body was longer."""
    retry_after: str = ""
    """The header `retry-after`."""


class HttpxWeb:
    """Fetches pages; *allowed* names networks that may be reached although they are not public."""

    __slots__ = ("_allowed", "_resolve", "_transport")

    def __init__(
        self,
        *,
        allowed: Iterable[str] = (),
        resolve: Resolve = resolve,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._allowed = networks(allowed)
        self._resolve = resolve
        self._transport = transport

    async def fetch(self, url: str, *, timeout: float, raw: bool = False) -> Page:  # noqa: ASYNC109 - a limit of the fetch
        """Return the page at *url*, HTML as Markdown unless *raw*.

        Raise `WebRefused` if it must not be fetched, and `WebFailed` if it cannot be.
        """
        with trio.move_on_after(timeout):
            return await self._fetch(url, raw=raw)
        raise WebFailed(url, f"it took longer than {timeout:g} seconds")

    async def send(self, url: str, request: WebRequest, *, timeout: float) -> WebResponse:  # noqa: ASYNC109 - as above
        """Send *request*, which holds a key, to *url*; return the answer, also one that redirects.

        Raise the errors of `fetch`. Without TLS the key goes to `allowed` networks alone.
        """
        return await self._send(url, request, timeout, _answer)

    async def status_of(self, url: str, request: WebRequest, *, timeout: float) -> int:  # noqa: ASYNC109 - as above
        """Send *request* as `send` does; return the status of the answer, of which nothing else is read."""
        return await self._send(url, request, timeout, _status)

    async def check(self, url: str, *, timeout: float) -> None:  # noqa: ASYNC109 - as above
        """Raise the error that `send` would raise before it connects."""
        with trio.move_on_after(timeout) as scope:
            await self._private_addresses(_parse_url(url))
        if scope.cancelled_caught:
            raise WebFailed(url, f"it took longer than {timeout:g} seconds")

    async def _send(
        self,
        url: str,
        request: WebRequest,
        timeout: float,  # noqa: ASYNC109 - as above
        reader: AnswerReader[T],
    ) -> T:
        with trio.move_on_after(timeout):
            where = _parse_url(url)
            return await self._try(where, await self._private_addresses(where), request, reader)
        raise WebFailed(url, f"it took longer than {timeout:g} seconds")

    async def _private_addresses(self, where: httpx.URL) -> list[Address]:
        """Return the addresses of the host; raise `WebRefused` if a key would go there unencrypted."""
        addresses = await self._addresses(where)
        if where.scheme == "http" and any(map(is_open, addresses)):
            raise WebRefused(str(where), "the key would cross the network unencrypted; use `https://`")
        return addresses

    async def _fetch(self, url: str, *, raw: bool) -> Page:
        where = _parse_url(url)
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._try(where, await self._addresses(where), PLAIN, _answer)
            if answer.status not in _MOVED or not answer.location:
                return await _page(str(where), answer, raw=raw)
            where = _next(where, answer.location)
        raise WebFailed(url, f"it redirects more than {MAX_REDIRECTS} times")

    async def _try(
        self, where: httpx.URL, addresses: Sequence[Address], request: WebRequest, reader: AnswerReader[T]
    ) -> T:
        """Return what *reader* returns of the answer to *request*; raise `WebFailed` if there is none."""
        import httpx  # noqa: ASYNC127, PLC0415 - importing it takes longer than importing all of agentrail

        try:
            return await self._ask(where, addresses, request, reader)
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, ValueError, OSError) as error:
            raise WebFailed(str(where), f"{type(error).__name__}: {error}") from error

    async def _addresses(self, where: httpx.URL) -> list[Address]:
        """Return up to `MAX_ADDRESSES` addresses of the host; raise `WebRefused` unless `is_open` allows all it has."""
        host = where.raw_host.decode("ascii").strip("[]")
        try:
            names = [host] if _is_address(host) else await self._resolve(host, where.port or _port(where))
            addresses = [ipaddress.ip_address(name) for name in names]
        except (OSError, UnicodeError, ValueError) as error:
            raise WebFailed(str(where), f"the name {host!r} has no address ({error})") from error
        if not addresses:
            raise WebFailed(str(where), f"the name {host!r} has no address")
        for address in addresses:
            if not is_open(address, self._allowed):
                raise WebRefused(str(where), f"it leads to {address}, which is no public address")
        return addresses[:MAX_ADDRESSES]

    async def _ask(
        self, where: httpx.URL, addresses: Sequence[Address], web_request: WebRequest, reader: AnswerReader[T]
    ) -> T:
        """Send one request to the first of *addresses* that accepts a connection; return what *reader* returns."""
        import httpx  # noqa: ASYNC127, PLC0415 - slow to import

        host = where.netloc.decode("ascii")
        extensions = {"sni_hostname": where.raw_host.decode("ascii")}
        async with httpx.AsyncClient(
            verify=True if self._transport else await tls_contexts.of_httpx(trust_env=False),
            transport=self._transport,
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(None),
        ) as client:
            for address in addresses:
                pinned = where.copy_with(host=str(address))
                headers = {**web_request.headers, "host": host}
                request = client.build_request(
                    web_request.method, pinned, headers=headers, content=web_request.body or None, extensions=extensions
                )
                try:
                    response = await client.send(request, stream=True)
                except httpx.ConnectError:
                    if address == addresses[-1]:
                        raise
                    continue
                try:
                    return await reader(response)
                finally:
                    await response.aclose()  # noqa: ASYNC102 - if cancelled, the client around it closes everything
        raise WebFailed(str(where), "no address took the connection")


def _parse_url(url: str) -> httpx.URL:
    """Return *url* parsed, without a fragment; raise `WebRefused` if it must not be fetched."""
    import httpx  # noqa: ASYNC127, PLC0415 - slow to import

    problem = ""
    try:
        where = httpx.URL(url.strip())
        host = where.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError, TypeError, UnicodeError) as error:
        raise WebRefused(url, f"it is no address of a page ({error})") from error
    if where.scheme not in {"http", "https"}:
        problem = "it does not begin with `http://` or `https://`"
    elif not host:
        problem = "it names no host"
    elif where.userinfo:
        problem = "it holds a user name or password; leave them out"
    elif "%" in host or "\\" in url:
        problem = "its host is written in an odd way"
    elif _NUMERIC.fullmatch(host) and not _is_address(host):
        problem = "its host is a number in an unusual form; write four numbers with dots"
    if problem:
        raise WebRefused(url, problem)
    return where.copy_with(fragment=None)


def _next(where: httpx.URL, location: str) -> httpx.URL:
    import httpx  # noqa: ASYNC127, PLC0415 - slow to import

    try:
        target = str(where.join(location))
    except (httpx.InvalidURL, ValueError, UnicodeError) as error:
        raise WebFailed(str(where), f"it redirects to {location!r}, which is not a valid address") from error
    return _parse_url(target)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _port(where: httpx.URL) -> int:
    return 443 if where.scheme == "https" else 80


async def _answer(response: httpx.Response) -> WebResponse:
    """Read the answer, its body up to the limit; the body of a redirect is not read."""
    body, cut = b"", False
    location = response.headers.get("location", "")
    if response.status_code not in _MOVED or not location:
        body, cut = await _body(response)
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    body, inflated_cut = _inflate(body, encoding)
    kind = response.headers.get("content-type", "")
    retry_after = response.headers.get("retry-after", "")
    return WebResponse(response.status_code, location, kind, body, cut or inflated_cut, retry_after)


async def _status(response: httpx.Response) -> int:
    await trio.lowlevel.checkpoint()
    return response.status_code


async def _body(response: httpx.Response) -> tuple[bytes, bool]:
    """Return the body up to the limit, and whether there is more.

    At the limit the response is closed, not the loop left: closing makes the iteration fail, and with it all of
    httpx's generators end.
    """
    import httpx  # noqa: ASYNC127, PLC0415 - slow to import

    body, cut = bytearray(), False
    try:
        async for piece in response.aiter_raw():
            cut = cut or len(body) + len(piece) > MAX_PAGE
            body += piece[: MAX_PAGE - len(body)]
            if cut:
                await response.aclose()
    except (httpx.HTTPError, httpx.StreamError):
        if not cut:
            raise
    return bytes(body), cut


def _inflate(body: bytes, encoding: str) -> tuple[bytes, bool]:
    """Return *body* unpacked, up to `MAX_PAGE` bytes, and whether there is more: a small body may become a huge one."""
    if encoding in {"", "identity"} or not body:
        return body, False
    if encoding not in {"gzip", "x-gzip", "deflate"}:
        message = f"it is encoded as {encoding!r}, which was not asked for"
        raise ValueError(message)
    try:
        inflater = zlib.decompressobj(zlib.MAX_WBITS | 32)
        return inflater.decompress(body, MAX_PAGE), bool(inflater.unconsumed_tail)
    except zlib.error as error:
        message = f"it cannot be decompressed ({error})"
        raise ValueError(message) from error


async def _page(url: str, answer: WebResponse, *, raw: bool) -> Page:
    media_type = answer.content_type.partition(";")[0].strip().lower()
    if b"\0" in answer.body[:4096] or not (_TEXTUAL.fullmatch(media_type) or not media_type or media_type in _HTML):
        raise WebFailed(url, f"it is no text but {media_type or 'something unknown'}, {len(answer.body)} bytes or more")
    text = _decode(answer)
    if media_type in _HTML and not raw:
        from agentrail.adapters.html_to_markdown import to_markdown  # noqa: PLC0415 - its parser is needed here alone

        text = await trio.to_thread.run_sync(to_markdown, text, url, abandon_on_cancel=True)
    return Page(url, answer.status, media_type, text, answer.cut)


def _decode(answer: WebResponse) -> str:
    charset = _CHARSET.search(answer.content_type) or _CHARSET.search(answer.body[:2048].decode("ascii", "replace"))
    try:
        return answer.body.decode(charset[1] if charset else "utf-8", errors="replace")
    except (LookupError, UnicodeError):
        return answer.body.decode("utf-8", errors="replace")
