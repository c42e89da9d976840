"""Webhooks: which addresses are refused, when a request is sent again, who holds up whom, and what is told of it."""

from __future__ import annotations

import hmac
import logging
import os
import socket
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import httpx
import pytest
import trio

from agentrail import Secret
from agentrail.adapters.web import HttpxWeb
from agentrail.errors import BadChoice, WebRefused, WrongType
from agentrail.host import Webhooks
from tests.a2a.receiver import answer, receiving
from tests.each_case import each_case
from tests.tools.builtin.test_web import DIRECT, resolve_here

KEY: Final = "a-key-of-thirty-two-characters-or-more"
PUBLIC: Final = "https://receiver.test/hook/own-secret?token=own-secret"
Answer = Callable[[httpx.Request], Coroutine[None, None, httpx.Response]]


def answered(handle: Answer, key: str = KEY) -> Webhooks:
    """Return webhooks for a receiver at a public address, which answers by *handle*."""

    async def resolve(_host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return ("93.184.216.34",)

    webhooks = Webhooks(key)
    webhooks._web = HttpxWeb(resolve=resolve, transport=httpx.MockTransport(handle))  # noqa: SLF001
    return webhooks


@each_case(
    [
        ("", (), WrongType),
        ("x" * 31, (), WrongType),
        (Secret("NO_SUCH_VARIABLE_IS_SET"), (), WrongType),
        (3, (), WrongType),
        (None, (), WrongType),
        (KEY.encode(), (), WrongType),
        (f"{KEY} {KEY} {KEY}", (), WrongType),
        (f"{KEY} short", (), WrongType),
        (KEY, "127.0.0.1", WrongType),
        (KEY, ["10.0.0.1/8"], BadChoice),
        (KEY, ["localhost"], BadChoice),
        (KEY, [3], BadChoice),
        (KEY, [None], BadChoice),
        (KEY, None, WrongType),
    ]
)
def test_odd_options_are_refused(key: Any, allowed: Any, error: type[Exception]) -> None:  # noqa: ANN401 - odd ones
    with pytest.raises(error) as refusal:
        Webhooks(key, allowed=allowed)
    assert KEY not in str(refusal.value)
    assert KEY not in repr(Webhooks(KEY))


def test_each_tenant_has_a_secret_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_KEY", KEY)
    webhooks = Webhooks(Secret("WEBHOOK_KEY"))
    secrets = {webhooks.secret_of(tenant) for tenant in ("", "acme", "evil", "acme ", "é", "\ud800")}
    assert (len(secrets), webhooks.secret_of("acme")) == (6, Webhooks(KEY).secret_of("acme"))
    assert all(secret.startswith("whsec_") and len(b64decode(secret[6:])) == 32 for secret in secrets)


def test_a_key_may_be_of_random_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environb, b"WEBHOOK_KEY", b"\xff\x80" * 16)
    assert Webhooks(Secret("WEBHOOK_KEY")).secret_of("acme").startswith("whsec_")


async def test_two_keys_sign_so_that_a_receiver_may_have_the_secret_of_either() -> None:
    sent: list[httpx.Headers] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        sent.append(request.headers)
        return httpx.Response(200)

    new = KEY.upper()
    webhooks = answered(handle, f"{new} {KEY}")
    assert webhooks.secret_of("acme") == Webhooks(new).secret_of("acme")
    assert await webhooks.send(PUBLIC, b"{}", "acme")
    (headers,) = sent
    content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.{{}}".encode()
    secrets = [b64decode(Webhooks(key).secret_of("acme").removeprefix("whsec_")) for key in (new, KEY)]
    signatures = [b64encode(hmac.digest(secret, content, "sha256")).decode() for secret in secrets]
    assert headers["webhook-signature"].split(" ") == [f"v1,{signature}" for signature in signatures]


async def test_headers_that_are_no_texts_are_refused() -> None:
    odd: list[Any] = [{"x-own": 5}, {5: "own"}, {"x-own": b"own"}, {"x-own": None}]
    for headers in odd:
        with pytest.raises(WrongType, match="headers"):
            await Webhooks(KEY).send(PUBLIC, b"{}", "acme", headers=headers)


@pytest.mark.long
async def test_no_private_address_is_checked_in_or_connected_to() -> None:
    async with receiving("0.0.0.0") as receiver:  # noqa: S104 - every address is the point
        webhooks = Webhooks(KEY)
        webhooks._web = HttpxWeb(resolve=resolve_here)  # noqa: SLF001
        public = "http://93.184.216.34/", "https://user@93.184.216.34/", "\ud800", "https://\ud800.test/", "x" * 9999
        told: set[str] = set()
        for url in (*DIRECT, *public):
            address = url.replace("P", str(receiver.port), 1)
            with pytest.raises(WebRefused) as refusal:
                await webhooks.check(address, "acme")
            told.add(refusal.value.why)
            failed = await webhooks._post(address, b"{}", {})  # noqa: SLF001
            assert failed in {0, 403}, address
        assert len(told) == 1, "nobody learns from it what a name means here"
        assert receiver.connections == []


async def test_an_address_that_means_another_one_later_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    meanings = ["93.184.216.34", "127.0.0.1"]
    system = socket.getaddrinfo

    def look_up(host: str, *args: Any, **more: Any) -> object:  # noqa: ANN401 - passed on
        return system(meanings.pop(0) if host == "rebinding.test" else host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    async with receiving() as receiver:
        webhooks = Webhooks(KEY)
        url = f"https://rebinding.test:{receiver.port}/"
        await webhooks.check(url, "acme")
        assert not await webhooks.send(url, b"{}", "acme")
        assert (receiver.connections, meanings) == ([], []), "it is not tried again"


async def test_a_redirect_is_not_followed() -> None:
    async with receiving() as receiver, receiving() as other:
        receiver.answers.extend([answer(status, f"Location: {other.url}") for status in (301, 302, 307, 308)])
        webhooks = Webhooks(KEY, allowed=["127.0.0.1"])
        for _ in range(4):
            assert not await webhooks.send(receiver.url, b"{}", "acme")
        assert (len(receiver.requests), other.connections) == (4, [])
        assert await webhooks.send(receiver.url, b"{}", "acme")


@pytest.mark.parametrize(
    ("statuses", "taken", "times"),
    [
        ([200], True, [0]),
        ([204], True, [0]),
        ([500, 503, 200], True, [0, 1, 6]),
        ([0, 429, 408, 202], True, [0, 1, 6, 31]),
        ([500, 502, 503, 0], False, [0, 1, 6, 31]),
        ([400], False, [0]),
        ([401], False, [0]),
        ([410], False, [0]),
        ([302], False, [0]),
    ],
)
async def test_a_request_is_sent_again_as_often_as_is_told(
    statuses: list[int],
    taken: bool,
    times: list[float],
    autojump_clock: object,  # noqa: ARG001
) -> None:
    sent: list[tuple[float, str, str, bool]] = []

    async def handle(request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        headers = request.headers
        content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + request.content
        key = b64decode(webhooks.secret_of("acme").removeprefix("whsec_"))
        is_signed = headers["webhook-signature"] == f"v1,{b64encode(hmac.digest(key, content, 'sha256')).decode()}"
        sent.append((trio.current_time(), headers["webhook-id"], headers["x-own"], is_signed))
        if not (status := statuses.pop(0)):
            raise httpx.ConnectError("no")
        return httpx.Response(status)

    webhooks = answered(handle)
    began = trio.current_time()
    assert await webhooks.send(PUBLIC, b'{"a": 1}', "acme", headers={"x-own": "own"}) is taken
    assert [round(at - began) for at, *_ in sent] == times
    assert {(own, is_signed) for *_, own, is_signed in sent} == {("own", True)}
    assert len({number for _, number, *_ in sent}) == 1, "the receiver can tell that it is the same"


async def test_a_receiver_that_never_answers_holds_up_its_own_tenant_alone(
    autojump_clock: object,  # noqa: ARG001
) -> None:
    open_requests = {"acme": 0, "evil": 0}
    most = 0

    async def handle(request: httpx.Request) -> httpx.Response:
        nonlocal most
        tenant = request.headers["x-tenant"]
        open_requests[tenant] += 1
        most = max(most, open_requests["evil"])
        try:
            if tenant == "evil":
                await trio.sleep_forever()
            await trio.lowlevel.checkpoint()
        finally:
            open_requests[tenant] -= 1
        return httpx.Response(200)

    webhooks = answered(handle)
    outcomes: list[bool] = []

    async def send(tenant: str) -> None:
        outcomes.append(await webhooks.send(PUBLIC, b"{}", tenant, headers={"x-tenant": tenant}))

    async with trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(send, "evil")
        await trio.testing.wait_all_tasks_blocked()
        began = trio.current_time()
        await send("acme")
        assert (outcomes, trio.current_time() - began) == ([True], 0)
    assert (most, outcomes.count(False)) == (4, 50)
    assert dict(webhooks._slots_of_tenant) == {}  # noqa: SLF001


@pytest.mark.long
async def test_names_that_get_no_answer_hold_up_no_other_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    system = socket.getaddrinfo

    def look_up(host: str, *args: Any, **more: Any) -> object:  # noqa: ANN401 - passed on
        if host == "slow.test":
            release.wait(60)
        return system(host, *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("agentrail.host.faces.webhooks.SECONDS", 0.2)
    webhooks = Webhooks(KEY)
    refusals: list[WebRefused] = []

    async def check(number: int) -> None:
        with pytest.raises(WebRefused) as refusal:
            await webhooks.check("https://slow.test/", str(number))
        refusals.append(refusal.value)

    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(check, number)
            await trio.sleep(0.1)
            assert await trio.to_thread.run_sync(lambda: True)
    limiter = trio.to_thread.current_default_thread_limiter()
    assert (len(refusals), limiter.borrowed_tokens) == (60, 0)
    release.set()


@pytest.mark.long
async def test_of_an_answer_the_status_alone_is_read() -> None:
    endless = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n" + b"5\r\nwrong\r\n" * 9
    async with receiving() as receiver:
        receiver.answers.extend([endless, b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nx"])
        webhooks = Webhooks(KEY, allowed=["127.0.0.0/8"])
        assert await webhooks.send(receiver.url, b"{}", "acme")
        assert await webhooks.send(receiver.url, b"{}", "acme")


async def test_no_log_has_a_secret_of_the_client(
    autojump_clock: object,  # noqa: ARG001
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handle(_request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        return httpx.Response(404)

    caplog.set_level(logging.DEBUG)
    webhooks = answered(handle)
    assert not await webhooks.send(PUBLIC, b"own-secret", "acme", headers={"authorization": "own-secret"})
    assert "a webhook at 'receiver.test' takes nothing: 404" in caplog.text
    assert not await webhooks.send("https://[::1", b"{}", "acme")
    lines = [record.getMessage() for record in caplog.records if record.name == "agentrail.host"]
    assert not any("own-secret" in line for line in lines), lines
