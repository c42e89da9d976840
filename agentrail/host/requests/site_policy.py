"""`SitePolicy`: under which names the server is known, and which pages of other origins may use it.

A page of any site can make a browser send requests here. Its `Origin` says which page it was; if the page's own
name was made to point here (DNS rebinding), `Host` has that name. Both are compared with exact lists; loopback is no
exception, and `null` and `*` are never allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from attrs import evolve, field, frozen

from agentrail.errors import BadChoice, OriginRefused
from agentrail.host.requests.http_messages import Handler, Headers, HttpRequest, HttpResponse

MAX_HOST: Final = 261
"""The longest name of a host, a colon and a port."""

_HOST: Final = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?"
    r"(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)*)(?::(?P<port>[0-9]{1,5}))?"
)
_ORIGIN: Final = re.compile(r"(https?)://([^/?#@\\\s]+)")
_DEFAULT_PORTS: Final = {"http": ":80", "https": ":443"}


@lru_cache(maxsize=256)
def _parsed(host: str) -> tuple[str, str] | None:
    match = _HOST.fullmatch(host)
    if match is None or int(match["port"] or 0) > 65535:  # noqa: PLR2004 - the largest port
        return None
    name = match["name"].lower()
    if name.startswith("["):
        try:
            name = f"[{IPv6Address(name[1:-1])}]"
        except AddressValueError:
            return None
    return name, match["port"] or ""


def _name_and_port(host: str | None) -> tuple[str, str] | None:
    """Split *host*: return its name in lower case and its port (`""` if it has none); `None` if *host* is not valid."""
    return None if host is None or len(host) > MAX_HOST else _parsed(host)


def is_host(host: str | None) -> bool:
    """Whether *host* is a valid value of the header `Host`."""
    return _name_and_port(host) is not None


def _hosts(hosts: Iterable[str]) -> frozenset[str]:
    checked: set[str] = set()
    for text in hosts:
        host = _name_and_port(text)
        if host is None:
            raise BadChoice("hosts", text, "names such as `example.com` or `example.com:8080`")
        checked.add(_joined(*host))
    return frozenset(checked)


def _origins(origins: Iterable[str]) -> frozenset[str]:
    checked = frozenset(origins)
    for origin in checked:
        match = _ORIGIN.fullmatch(origin)
        if match is None or not is_host(match[2]) or origin != origin.lower():
            raise BadChoice(
                "origins",
                origin,
                "origins such as `https://example.com`: in lower case, without a path or a `/` at the end",
            )
    return checked


def _joined(name: str, port: str) -> str:
    return f"{name}:{port}" if port else name


@frozen
class SitePolicy:
    """The names of the server, and the origins whose pages may use it."""

    hosts: frozenset[str] = field(converter=_hosts)
    """What `Host` may be: `example.com` with any port, `example.com:8080` with this one."""
    origins: frozenset[str] = field(default=frozenset(), converter=_origins)
    """Origins of other sites, exactly as browsers send them; pages of the server itself need not be listed."""
    https: bool = False
    """Whether browsers reach the server by https."""

    def knows(self, host: str | None) -> bool:
        """Whether *host*, the value of the header `Host`, is a name of this server."""
        known_host = _name_and_port(host)
        return known_host is not None and (known_host[0] in self.hosts or _joined(*known_host) in self.hosts)

    def admits(self, origin: str | None, host: str) -> bool:
        """Whether a page of *origin* may use the server as *host*; `None`: the request comes from no page."""
        return origin is None or origin in self.origins or self._is_own(origin, host)

    def _is_own(self, origin: str, host: str) -> bool:
        scheme = "https" if self.https else "http"
        return self.knows(host) and origin == f"{scheme}://{host.lower().removesuffix(_DEFAULT_PORTS[scheme])}"

    def headers_for(self, origin: str | None) -> Headers:
        """Return the headers by which a browser gives an answer to the page of *origin*."""
        if not self.origins:
            return ()
        vary = ("vary", "origin")
        if origin is None or origin not in self.origins:
            return (vary,)
        return (vary, ("access-control-allow-origin", origin), ("access-control-expose-headers", EXPOSED))

    def screen(self, request: HttpRequest) -> None:
        """Raise `OriginRefused` if the request is for another host, or comes from a page that may not use this one."""
        host, origin = request.header("host"), request.header("origin")
        if host is None or not self.knows(host):
            raise OriginRefused(host or "")
        if not self.admits(origin, host):
            raise OriginRefused(origin or "")


EXPOSED: Final = "etag, location, retry-after, x-request-id"
ALLOWED_METHODS: Final = "DELETE, GET, PATCH, POST, PUT"
ALLOWED_HEADERS: Final = "authorization, content-type, idempotency-key, last-event-id"
PREFLIGHT_AGE: Final = "600"
"""Seconds for which a browser may remember the answer to a preflight."""


def is_preflight(request: HttpRequest) -> bool:
    """Whether *request* is a CORS preflight: a browser asks if a page may send a request."""
    asks = request.header("access-control-request-method") is not None
    return asks and request.method == "OPTIONS" and request.header("origin") is not None


def preflight(policy: SitePolicy, request: HttpRequest) -> HttpResponse:
    """Return the answer to a preflight that `SitePolicy.screen` has let through."""
    allowed = (
        ("access-control-allow-methods", ALLOWED_METHODS),
        ("access-control-allow-headers", ALLOWED_HEADERS),
        ("access-control-max-age", PREFLIGHT_AGE),
    )
    return HttpResponse(204, policy.headers_for(request.header("origin")) + allowed)


def screened(policy: SitePolicy, handler: Handler) -> Handler:
    """Return *handler* wrapped in *policy*: requests may be refused, preflights are answered, CORS headers added."""

    async def screening(request: HttpRequest) -> HttpResponse:
        policy.screen(request)
        if is_preflight(request):
            return preflight(policy, request)
        response = await handler(evolve(request, scheme="https") if policy.https else request)
        more = policy.headers_for(request.header("origin"))
        return evolve(response, headers=response.headers + more) if more else response

    return screening
