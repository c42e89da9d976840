"""One connection never yields two requests where a strict reader sees one, or none."""

from __future__ import annotations

from collections import defaultdict

import h11
import pytest

from agentrail.host.requests.http_messages import HttpRequest, HttpResponse
from tests.host.http11.served import request, served, statuses
from tests.host.http11.strictness import CASES, NEXT, Case

GROUPS = sorted({case.group for case in CASES})


async def read_all(http_request: HttpRequest) -> HttpResponse:
    return HttpResponse(200, (), await http_request.body.read())


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
async def test_what_could_be_understood_in_two_ways_is_refused_and_what_follows_is_not_read(group: str) -> None:
    wrong: dict[str, list[int]] = {}
    async with served(read_all) as value:
        for case in CASES:
            if case.group == group:
                answers = await value.talk(case.sent + NEXT)
                if statuses(answers) != [case.status] or b"connection: close\r\n" not in answers:
                    wrong[str(case)] = statuses(answers)
    assert wrong == {}
    assert {seen.path for seen in value.seen} <= {"/"}


def _is_taken_by_h11(case: Case) -> bool:
    machine = h11.Connection(h11.SERVER)
    machine.receive_data(case.sent)
    try:
        while (event := machine.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.EndOfMessage):
                return True
    except h11.RemoteProtocolError:
        pass
    return False


def test_h11_alone_would_take_many_of_them() -> None:
    """So our parser is one of our own: it refuses these groups, and h11 does not."""
    taken: dict[str, int] = defaultdict(int)
    for case in CASES:
        taken[case.group] += _is_taken_by_h11(case)
    assert {group for group, count in taken.items() if count} >= {"both", "fold", "size of a chunk", "target", "chunk"}


@pytest.mark.parametrize(
    "sent",
    [
        request("GET /a%20b/%C3%A4?x=%2F&y=1 HTTP/1.1", "Connection: close"),
        request("POST / HTTP/1.1", "Content-Length: 0", "Connection: close"),
        request("POST / HTTP/1.1", "Connection: close"),
        request("POST / HTTP/1.1", "Content-Length:5", "Connection: close") + b"hello",
        request("POST / HTTP/1.1", "transfer-encoding: CHUNKED", "Connection: close") + b"5\r\nhello\r\n0\r\n\r\n",
        request("POST / HTTP/1.1", "Transfer-Encoding: chunked", "Connection: close")
        + b"0000000A\r\n0123456789\r\n000\r\n\r\n",
        request("GET / HTTP/1.0"),
        request("GET / HTTP/1.1", "Connection: close", "X-Tab: a\tb", host="[::1]:8080"),
        request("GET / HTTP/1.1", "Connection: close", host="a_b.example.com:65535"),
        request("GET / HTTP/1.1", "Connection: close", "X-Empty:", "X-Wide: \xe4\xff", "X: 1", "X: 2"),
        request("GET / HTTP/1.1", "Connection: upgrade, close", "Upgrade: websocket"),
        request("DELETE /~user/a.b;c=d,e!$&'()*+:@-_ HTTP/1.1", "Connection: close"),
        request("OPTIONS / HTTP/1.1", "Connection: close"),
    ],
    ids=range(13),
)  # fmt: skip
async def test_what_is_valid_is_taken(sent: bytes) -> None:
    async with served(read_all) as value:
        assert statuses(await value.talk(sent)) == [200]


async def test_a_path_is_decoded_once() -> None:
    async with served(read_all) as value:
        await value.talk(request("GET /a%20b/%C3%A4/%2541/%25?q=%2541+b HTTP/1.1"))
    assert [(seen.path, seen.query) for seen in value.seen] == [("/a b/ä/%41/%", "q=%2541+b")]


async def test_a_request_after_an_offer_to_upgrade_is_served_as_http() -> None:
    async with served(read_all) as value:
        answers = await value.talk(request("GET / HTTP/1.1", "Connection: upgrade", "Upgrade: h2c") + request())
    assert statuses(answers) == [200, 200]
