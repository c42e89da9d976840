"""The services that search the web, as data: address, key, the request for a query, and where the results are.

Each was written after the public documentation of its service (2026).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, cast
from urllib.parse import urlencode

import msgspec

from agentrail.adapters.models.wire_format import sub, text
from agentrail.adapters.web import WebRequest
from agentrail.ports.tool import SearchResult
from agentrail.values.json import Json
from agentrail.values.value import Value

ACCEPT: Final = {"user-agent": "agentrail", "accept": "application/json", "accept-encoding": "gzip"}
"""Headers of every request."""


class SearchService(Value, gc=True):
    """A service that searches the web."""

    title: str
    """Its name, for people."""
    url: str
    """The address to which queries are sent."""
    keys: tuple[str, ...]
    """The environment variables of which the first that is set holds its key."""
    request: Callable[[str, int, str], tuple[str, WebRequest]]
    """Returns what the URL goes on with, and the request, for a query, a number of results and a key."""
    results: Callable[[Mapping[str, object]], Iterable[SearchResult]]
    """Yields the results in an answer, as the service wrote them."""


def _tavily_request(query: str, count: int, key: str) -> tuple[str, WebRequest]:
    return "", _post({"query": query, "max_results": count}, {"authorization": f"Bearer {key}"})


def _tavily_results(answer: Mapping[str, object]) -> Iterable[SearchResult]:
    for item in _objects(answer.get("results")):
        yield SearchResult(text(item, "url"), text(item, "title"), text(item, "content"), text(item, "published_date"))


def _brave_request(query: str, count: int, key: str) -> tuple[str, WebRequest]:
    fields = urlencode({"q": query, "count": count, "result_filter": "web", "text_decorations": "false"})
    return f"?{fields}", WebRequest("GET", {**ACCEPT, "x-subscription-token": key})


def _brave_results(answer: Mapping[str, object]) -> Iterable[SearchResult]:
    for item in _objects(sub(answer, "web").get("results")):
        date = text(item, "page_age") or text(item, "age")
        yield SearchResult(text(item, "url"), text(item, "title"), text(item, "description"), date)


def _exa_request(query: str, count: int, key: str) -> tuple[str, WebRequest]:
    fields: dict[str, Json] = {"query": query, "contents": {"highlights": True}, "numResults": count}
    return "", _post(fields, {"x-api-key": key})


def _exa_results(answer: Mapping[str, object]) -> Iterable[SearchResult]:
    for item in _objects(answer.get("results")):
        highlights = item.get("highlights")
        pieces = cast("list[object]", highlights) if isinstance(highlights, list) else []
        snippet = " … ".join([piece for piece in pieces if isinstance(piece, str)])
        yield SearchResult(text(item, "url"), text(item, "title"), snippet, text(item, "publishedDate"))


def _jina_request(query: str, count: int, key: str) -> tuple[str, WebRequest]:
    # without this header the service reads each page, and charges for its tokens
    headers = {"authorization": f"Bearer {key}", "x-respond-with": "no-content"}
    return "", _post({"q": query, "num": count}, headers)


def _jina_results(answer: Mapping[str, object]) -> Iterable[SearchResult]:
    for item in _objects(answer.get("data")):
        yield SearchResult(text(item, "url"), text(item, "title"), text(item, "description"), text(item, "date"))


def _post(fields: Mapping[str, Json], headers: Mapping[str, str]) -> WebRequest:
    sent_headers = {**ACCEPT, "content-type": "application/json", **headers}
    return WebRequest("POST", sent_headers, msgspec.json.encode(fields))


def _objects(value: object) -> Iterable[Mapping[str, object]]:
    items = cast("list[object]", value) if isinstance(value, list) else []
    return (cast("Mapping[str, object]", item) for item in items if isinstance(item, Mapping))


SERVICES: Final[Mapping[str, SearchService]] = {
    "tavily": SearchService(
        "Tavily", "https://api.tavily.com/search", ("TAVILY_API_KEY",), _tavily_request, _tavily_results
    ),
    "brave": SearchService(
        "Brave",
        "https://api.search.brave.com/res/v1/web/search",
        ("BRAVE_SEARCH_API_KEY", "BRAVE_API_KEY"),
        _brave_request,
        _brave_results,
    ),
    "exa": SearchService("Exa", "https://api.exa.ai/search", ("EXA_API_KEY",), _exa_request, _exa_results),
    "jina": SearchService("Jina", "https://s.jina.ai/", ("JINA_API_KEY",), _jina_request, _jina_results),
}
"""The services by name, in the order in which a key is looked for."""
