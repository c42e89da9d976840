"""Only the exact lists of hosts and origins let a request in, whatever combination a page makes a browser send."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from agentrail.errors import BadChoice, OriginRefused
from agentrail.host.requests.http_messages import Body, HttpRequest, HttpResponse
from agentrail.host.requests.site_policy import ALLOWED_HEADERS, ALLOWED_METHODS, EXPOSED, SitePolicy, screened

POLICY: Final = SitePolicy(
    frozenset({"localhost", "127.0.0.1:8000", "[::1]", "agents.example.com"}),
    frozenset({"https://app.example.com", "http://localhost:3000"}),
)

HOSTS: Final[dict[str | None, str | None]] = {
    "localhost": "http://localhost",
    "localhost:8000": "http://localhost:8000",
    "localhost:80": "http://localhost",
    "LOCALHOST:8000": "http://localhost:8000",
    "127.0.0.1:8000": "http://127.0.0.1:8000",
    "[::1]:8000": "http://[::1]:8000",
    "agents.example.com": "http://agents.example.com",
    "Agents.Example.Com:8000": "http://agents.example.com:8000",
    None: None,
    "": None,
    "127.0.0.1": None,
    "127.0.0.1:8001": None,
    "127.1:8000": None,
    "0.0.0.0:8000": None,
    "[::]:8000": None,
    "[::ffff:127.0.0.1]:8000": None,
    "rebound.evil.example:8000": None,
    "evil.example": None,
    "localhost.evil.example": None,
    "evil-localhost": None,
    "localhost.": None,
    "agents.example.com.evil.example": None,
    "x.agents.example.com": None,
    "user@localhost": None,
    "localhost:8000:80": None,
    "localhost, evil.example": None,
}
"""What may be sent as `Host`, with the origin of the server's pages there; `None` if it is no name of the server."""

OTHERS: Final = (
    "null",
    "*",
    "",
    "https://localhost:8000",
    "http://localhost:8001",
    "http://evil.example",
    "http://rebound.evil.example:8000",
    "https://app.example.com.evil.example",
    "https://app.example.com:8443",
    "http://app.example.com",
    "https://APP.example.com",
    "https://app.example.com/",
    "https://evil.example#https://app.example.com",
    "https://x.app.example.com",
    "https://app.example.com, https://evil.example",
    "file://",
    "chrome-extension://abc",
    "localhost:8000",
)
OWN: Final = sorted({origin for origin in HOSTS.values() if origin is not None})
ORIGINS: Final = (None, *sorted(POLICY.origins), *OWN, *OTHERS)


class NoBody(Body):
    @property
    def length(self) -> int:
        return 0

    @property
    def limit(self) -> int:
        return 0

    async def chunk(self) -> bytes:
        return b""


def _request(host: str | None, origin: str | None, method: str = "GET", *more: tuple[str, str]) -> HttpRequest:
    headers = [("host", host), ("origin", origin)]
    sent = tuple((name, value) for name, value in headers if value is not None)
    return HttpRequest(method, "/", "", sent + more, "127.0.0.1", NoBody())


async def _answer(_: HttpRequest) -> HttpResponse:
    return HttpResponse(200)


handler = screened(POLICY, _answer)


@pytest.mark.parametrize("host", HOSTS)
async def test_a_request_is_let_in_by_the_lists_alone(host: str | None) -> None:
    own_origin = HOSTS[host]
    wrong: list[object] = []
    for origin in ORIGINS:
        is_expected = own_origin is not None and (origin is None or origin == own_origin or origin in POLICY.origins)
        try:
            response = await handler(_request(host, origin))
        except OriginRefused:
            is_allowed = False
        else:
            allowed = dict(response.headers).get("access-control-allow-origin")
            is_allowed = allowed == (origin if origin in POLICY.origins else None)
        if is_allowed != is_expected:
            wrong.append(origin)
    assert wrong == []


async def test_the_error_names_the_host_that_is_none_of_the_list() -> None:
    with pytest.raises(OriginRefused, match=r"evil\.example"):
        await handler(_request("evil.example", None))


@pytest.mark.parametrize(("host", "origin"), [*product(["localhost:8000", "evil.example"], ORIGINS)])
async def test_a_preflight_is_answered_for_origins_that_are_let_in(host: str, origin: str | None) -> None:
    preflight = _request(host, origin, "OPTIONS", ("access-control-request-method", "DELETE"))
    try:
        response = await handler(preflight)
    except OriginRefused:
        assert host == "evil.example" or origin not in {*POLICY.origins, "http://localhost:8000", None}
        return
    allowed = dict(response.headers).get("access-control-allow-origin")
    assert (response.status, allowed) == (
        200 if origin is None else 204,
        origin if origin in POLICY.origins else None,
    )


async def test_an_answer_for_a_listed_origin_says_so_and_depends_on_it() -> None:
    response = await handler(_request("localhost", "http://localhost:3000"))
    assert response.headers == (
        ("vary", "origin"),
        ("access-control-allow-origin", "http://localhost:3000"),
        ("access-control-expose-headers", EXPOSED),
    )
    preflight = _request("localhost", "http://localhost:3000", "OPTIONS", ("access-control-request-method", "POST"))
    assert (await handler(preflight)).headers == (
        *response.headers,
        ("access-control-allow-methods", ALLOWED_METHODS),
        ("access-control-allow-headers", ALLOWED_HEADERS),
        ("access-control-max-age", "600"),
    )


async def test_without_other_origins_answers_do_not_depend_on_one() -> None:
    alone = screened(SitePolicy(frozenset({"localhost"})), _answer)
    assert (await alone(_request("localhost", "http://localhost"))).headers == ()


async def test_pages_that_are_reached_by_https_have_their_origin() -> None:
    secure = SitePolicy(frozenset({"example.com"}), https=True)
    assert secure.admits("https://example.com", "example.com:443")
    assert secure.admits("https://example.com:8443", "example.com:8443")
    assert not secure.admits("http://example.com", "example.com")


@pytest.mark.parametrize(
    "origin", ["*", "null", "https://*.example.com", "https://a.com/", "https://A.com", "a.com", "ftp://a"]
)
def test_an_origin_that_no_browser_sends_is_refused(origin: str) -> None:
    with pytest.raises(BadChoice):
        SitePolicy(frozenset(), frozenset({origin}))


@pytest.mark.parametrize("host", ["*", "", "*.example.com", "http://a.com", "a.com/", "a b", "a:b", "[::1"])
def test_a_host_that_is_no_name_is_refused(host: str) -> None:
    with pytest.raises(BadChoice):
        SitePolicy(frozenset({host}))
