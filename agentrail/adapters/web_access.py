"""`WebAccess`: pages of the web and searches, as the tools of a session get them if its specification says no other.

A search goes to the service that is named, else to the first of `SERVICES` with a key. The key is looked up at each
search. It goes to the service's address alone, for no redirect is followed. Neither errors nor results show it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from itertools import islice
from typing import Final, NamedTuple, NoReturn, cast
from urllib.parse import urlsplit

from agentrail.adapters.models.redaction import LookUp, Redactor, looked_up
from agentrail.adapters.search_services import SERVICES, SearchService
from agentrail.adapters.web import HttpxWeb, WebResponse, networks
from agentrail.errors import BadChoice, ModelError, SearchFailed, UsageError, WebFailed, WebRefused
from agentrail.errors.agentrail_error import listed
from agentrail.plugins.short_texts import one_line
from agentrail.ports.tool import Page, SearchResult
from agentrail.reprs import in_brackets
from agentrail.values.argument_checks import checked
from agentrail.values.secrets import Secret, secret_name

MAX_URL: Final = 2_000
"""The most characters of the address of a result; one with a longer address is left out."""

MAX_TITLE: Final = 201
"""The most characters of the title of a result, and of its date; the rest is cut, with the mark of a cut."""

MAX_SNIPPET: Final = 1_001
"""The most characters of the snippet of a result; the rest is cut, with the mark of a cut."""

MAX_ANSWER: Final = 2**19
"""The most bytes of an answer that is read as JSON: that takes up to 17 ms, in which no session goes on."""

MAX_ITEMS: Final = 100
"""How many items of an answer are looked at, at most; services give up to 20."""

OK: Final = 200
THROTTLED: Final = 429
SERVER_FAULTS: Final = 500
MOVED: Final = range(300, 400)

REASONS: Final[Mapping[int, str]] = {
    400: "it refuses the query as malformed; ask with other words",
    401: "it refuses the key; check it, or make a new one",
    402: "the account has no money or no searches left; top it up",
    403: "the key may not search; look at the rights and the plan of the account",
    422: "it has no results for this query, or refuses it; ask with other or fewer words",
    432: "the plan of the account has no searches left",
    433: "the account has reached its limit for paid searches",
}
"""What the status of an answer means at these services, and what to do."""

MAX_WAIT: Final = 86_400
"""The most seconds of `retry-after` that an error names; more is no wait but a refusal."""


class ServiceChoice(NamedTuple):
    """The service that a search goes to, and with which key."""

    service: SearchService
    """The service."""
    variable: str
    """Name of the secret that holds the key."""
    key: str
    """The key; `repr` does not show it."""

    def __repr__(self) -> str:
        return f"<ServiceChoice {self.service.title} {self.variable}>"


class WebAccess:
    """Fetches pages and searches the web, for the tools `web_fetch` and `web_search`.

    *search* names the service for searches: `tavily`, `brave`, `exa` or `jina`; empty for the first of them that has a
    key. *api_key* names the secret with the key of that service, *base_url* another address for it, such as a gateway.
    *secrets* looks up a secret by its name, by default in the environment. *allowed* are networks that may be reached
    although they are not public, such as `10.0.0.0/8`.
    """

    __slots__ = ("_api_key", "_base_url", "_pages", "_search", "_secrets")

    @checked
    def __init__(
        self,
        search: str = "",
        *,
        api_key: Secret | None = None,
        base_url: str = "",
        secrets: Callable[[str], str | None] | None = None,
        allowed: Iterable[str] = (),
    ) -> None:
        if search and search not in SERVICES:
            raise BadChoice.among("search", search, SERVICES)
        if not search and (api_key is not None or base_url):
            raise UsageError("bad-web-access", "`api_key` and `base_url` are those of one service; name it by `search`")
        self._search = search
        self._api_key = "" if api_key is None else secret_name(api_key) or ""
        self._base_url = base_url
        self._secrets = secrets or os.environ.get
        self._pages = HttpxWeb(allowed=_network_names(allowed))

    @in_brackets
    def __repr__(self) -> str:
        return f"search {self._search or 'by key'}"

    async def fetch(self, url: str, *, timeout: float, raw: bool = False) -> Page:  # noqa: ASYNC109 - a limit of the fetch
        """Return the page at *url*, HTML as Markdown unless *raw*.

        Raise `WebRefused` if it must not be fetched, and `WebFailed` if it cannot be.
        """
        return await self._pages.fetch(url, timeout=timeout, raw=raw)

    async def search(self, query: str, *, max_results: int, timeout: float) -> tuple[SearchResult, ...]:  # noqa: ASYNC109 - as above
        """Return up to *max_results* pages for *query*, the best first; raise `SearchFailed` if that fails."""
        service, _, key = choose_service(self._search, self._api_key, self._secrets)
        # its filters keep what a server has sent, such as an echoed key, out of httpcore's log; it brings httpx
        import_module("agentrail.adapters.models.http")
        rest, request = service.request(query, max_results, key)
        try:
            answer = await self._pages.send((self._base_url or service.url) + rest, request, timeout=timeout)
            items = islice(service.results(_object_in(answer)), MAX_ITEMS)
            results = tuple(islice(_clean(items, Redactor((key,))), max_results))
        except WebFailed as error:
            failure = _failure_of(error)
        except WebRefused as error:
            failure = f"its address is refused: {error.why}"
        except ValueError as error:
            failure = str(error)
        else:
            return results
        # raised outside of the `except`: the error's context would hold the request with the key
        raise SearchFailed(f"{service.title}: {failure}")


def choose_service(name: str, secret: str, look_up: LookUp) -> ServiceChoice:
    """Return the service called *name*, or the first with a key if that is empty, and its key.

    *secret* names the secret with the key; if it is empty, the usual ones of the service are tried. Raise
    `SearchFailed` if there is no key.
    """
    tried = [
        (service, variable)
        for service in ([SERVICES[name]] if name else SERVICES.values())
        for variable in ((secret,) if secret else service.keys)
    ]
    for service, variable in tried:
        key = _usable(variable, look_up)
        if key:
            return ServiceChoice(service, variable, key)
    one_of = "set" if len(tried) == 1 else "set one of"
    variables = listed([variable for _, variable in tried])
    raise SearchFailed(f"there is no key for it; {one_of} {variables} in the environment of the agent")


def _usable(variable: str, look_up: LookUp) -> str:
    """Return the key in *variable*, without spaces around it; empty if there is none."""
    failure = ""
    try:
        key = looked_up(variable, look_up).strip()
    except ModelError as error:
        key, failure = "", str(error.args[0])
    if failure:
        raise SearchFailed(failure)
    if not (key.isascii() and key.isprintable()):
        raise SearchFailed(f"the key in `{variable}` has characters that no header can hold")
    return key


def _network_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return *names* if each is that of a network; raise `UsageError` otherwise."""
    checked_names: list[str] = []
    for name in names:
        try:
            networks([name] if isinstance(name, str) else [""])
        except ValueError:
            problem = f"`allowed` has {name!r:.80}, and wants networks such as `10.0.0.0/8`"
            raise UsageError("bad-web-access", problem) from None
        checked_names.append(cast("str", name))
    return tuple(checked_names)


def _failure_of(error: WebFailed) -> str:
    """Return why there is no answer. What is wrong with one may quote it, and so the key: only its kind is said."""
    cause = error.__cause__
    if cause is None or type(cause).__name__ == "ConnectError" or isinstance(cause, OSError):
        return error.problem
    return f"its answer cannot be read ({type(cause).__name__}); try again later"


def _object_in(answer: WebResponse) -> Mapping[str, object]:
    """Return the JSON object in *answer*; raise `ValueError`, which says why there is none."""
    if answer.status != OK:
        _refuse(_reason_of(answer))
    if answer.cut or len(answer.body) > MAX_ANSWER:
        _refuse("its answer is larger than any list of results")
    try:
        document: object = json.loads(answer.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        _refuse("its answer is no JSON object")
    return cast("Mapping[str, object]", document)


def _refuse(problem: str) -> NoReturn:
    raise ValueError(problem)


def _reason_of(answer: WebResponse) -> str:
    """Return why an *answer* with another status than 200 has no results. What it says may hold the key: not shown."""
    status = answer.status
    if status in MOVED:
        return f"it answers {status}, a redirect, which is not followed: the key is for its own address"
    if status == THROTTLED:
        seconds = int(answer.retry_after) if answer.retry_after.isascii() and answer.retry_after.isdecimal() else 0
        wait = f"in {seconds} seconds" if 0 < seconds <= MAX_WAIT else "later"
        return f"it answers {status}, too many searches; try again {wait}"
    if status >= SERVER_FAULTS:
        return f"it answers {status}, a fault of the service; try again later"
    return f"it answers {status}: {REASONS.get(status, 'it does not search')}"


def _clean(results: Iterable[SearchResult], redactor: Redactor) -> Iterator[SearchResult]:
    """Yield *results* on single lines and within bounds, without the key; leave out those whose address is no page."""
    for result in results:
        if _is_page(result.url) and redactor.text(result.url) == result.url:
            title, snippet, date = map(redactor.text, (result.title, result.snippet, result.date))
            yield SearchResult(
                result.url, one_line(title, MAX_TITLE), one_line(snippet, MAX_SNIPPET), one_line(date, MAX_TITLE)
            )


def _is_page(url: str) -> bool:
    """Whether *url* is an address with `http://` or `https://`, and nothing else beside it."""
    if len(url) > MAX_URL or not url.isprintable() or any(letter in url for letter in ' <>"\\'):
        return False
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False
