"""Who a client is, and which id its request has: told by a proxy that is named, and by nobody else."""

from __future__ import annotations

import logging
import re

import pytest
import trio

from agentrail.errors import BadChoice
from agentrail.host.http11.http_server import HttpServer
from agentrail.host.http11.listening import Tcp
from agentrail.host.requests.http_messages import Headers
from agentrail.host.requests.proxies import Proxies
from tests.each_case import each_case
from tests.host.http11.served import NOW_MS, Served, echo, request

PROXIES = Proxies.named(["10.0.0.0/8", "127.0.0.1", "2001:db8::/32"])
XFF, FORWARDED = "x-forwarded-for", "forwarded"


@each_case(
    [
        ((), "10.0.0.1"),
        (((XFF, "192.0.2.1"),), "192.0.2.1"),
        (((XFF, "6.6.6.6, 192.0.2.1"),), "192.0.2.1"),
        (((XFF, "6.6.6.6"), (XFF, "192.0.2.1, 10.0.0.2")), "192.0.2.1"),
        (((XFF, "10.0.0.3, 10.0.0.2"),), "10.0.0.3"),
        (((XFF, "192.0.2.1:4711"),), "192.0.2.1"),
        (((XFF, "::ffff:192.0.2.1"),), "192.0.2.1"),
        (((XFF, "6.6.6.6, nonsense"),), "10.0.0.1"),
        (((XFF, "6.6.6.6, nonsense, 10.0.0.2"),), "10.0.0.2"),
        (((FORWARDED, 'for=6.6.6.6, for="[2001:db9::1]:80";proto=https'),), "2001:db9::1"),
        (((FORWARDED, "proto=https; For=192.0.2.1"),), "192.0.2.1"),
        (((FORWARDED, "for=unknown"),), "10.0.0.1"),
        (((FORWARDED, "for=6.6.6.6;for=192.0.2.1"),), "10.0.0.1"),
        (((XFF, "192.0.2.1"), (FORWARDED, "for=192.0.2.1")), "192.0.2.1"),
        (((XFF, "192.0.2.1"), (FORWARDED, "for=6.6.6.6")), "10.0.0.1"),
    ]
)
def test_the_client_is_the_last_address_that_no_proxy_has(headers: Headers, client: str) -> None:
    assert PROXIES.client("10.0.0.1", headers) == client


def test_who_is_no_named_proxy_is_not_believed() -> None:
    claims = ((XFF, "192.0.2.1"), (FORWARDED, "for=192.0.2.1"), ("x-request-id", "abc"))
    for proxies, peer in ((PROXIES, "192.0.2.9"), (PROXIES, "unix"), (PROXIES, ""), (Proxies(), "10.0.0.1")):
        assert proxies.client(peer, claims) == peer
        assert proxies.request_id(peer, claims) is None


def test_a_unix_socket_and_mapped_addresses_may_be_those_of_a_proxy() -> None:
    assert Proxies.named(["unix"]).client("unix", ((XFF, "192.0.2.1"),)) == "192.0.2.1"
    assert PROXIES.knows("::ffff:10.0.0.1")


@pytest.mark.parametrize("sent", ["", "a b", "a" * 65, 'a"', "ä"])
def test_an_id_that_is_not_valid_is_not_taken(sent: str) -> None:
    assert PROXIES.request_id("10.0.0.1", (("x-request-id", sent),)) is None


def test_of_two_ids_none_is_taken() -> None:
    assert PROXIES.request_id("10.0.0.1", (("x-request-id", "a"), ("x-request-id", "b"))) is None


@pytest.mark.parametrize("name", ["10.0.0.1/8", "proxy.example.com", ""])
def test_what_is_no_address_is_refused(name: str) -> None:
    with pytest.raises(BadChoice, match="proxies"):
        Proxies.named([name])


@pytest.mark.parametrize(("proxies", "client"), [(PROXIES, "192.0.2.1"), (Proxies(), "127.0.0.1")])
async def test_answer_log_and_handler_have_the_same_id(
    proxies: Proxies, client: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agentrail.access")
    server = HttpServer(echo, lambda: NOW_MS, proxies=proxies)
    async with trio.open_nursery() as nursery:
        (listening,) = await nursery.start(server.serve, [Tcp()])
        http_server = Served(server, listening.port)
        sent = request("GET / HTTP/1.1", "X-Request-Id: mine-1", "X-Forwarded-For: 192.0.2.1") + b"nonsense\r\n\r\n"
        answers = await http_server.talk(sent)
        nursery.cancel_scope.cancel()
    ids = re.findall(rb"x-request-id: (\S+)", answers)
    assert len(set(ids)) == len(ids) == 2  # also of what is refused
    assert (ids[0] == b"mine-1") == proxies.knows("127.0.0.1")
    lines = [record.getMessage() for record in caplog.records]
    assert [line.rpartition("request=")[2].encode() for line in lines] == ids
    assert lines[0].startswith(f"{client} GET / 200 ")
