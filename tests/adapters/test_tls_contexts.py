"""No client makes a TLS context in the event loop, and one of a kind is shared."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from agentrail.adapters import tls_contexts
from agentrail.adapters.models.http import Http, Patience, Post
from agentrail.adapters.web import HttpxWeb
from agentrail.errors import ModelError, WebFailed
from agentrail.remote.transport import host_address
from agentrail.remote.transport.host_address import CutError, HostAddress, dial_address
from tests.adapters.models.server import refusing, serving


@pytest.fixture(autouse=True)
def threads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads in which contexts are made; none is there from before."""
    made_in: list[int] = []
    original: Callable[..., ssl.SSLContext] = ssl.create_default_context

    def made(*args: object, **options: object) -> ssl.SSLContext:
        made_in.append(threading.get_ident())
        return original(*args, **options)

    monkeypatch.setattr(ssl, "create_default_context", made)
    monkeypatch.setattr(tls_contexts, "_CONTEXTS", {})
    host_address._system_context.cache_clear()  # noqa: SLF001 - the contexts of other tests
    for name in tls_contexts.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return made_in


async def test_requests_to_models_share_one_that_was_made_in_a_thread(threads: list[int]) -> None:
    async with serving(refusing(400, b"{}")) as server, trio.open_nursery() as nursery:
        patience = Patience(5, 5, 5)

        async def ask(http: Http) -> None:
            await http.post(Post(server.url, {}, b"{}", patience), lambda _: True)

        clients = [Http(), Http()]
        for http in clients:
            nursery.start_soon(ask, http)
            nursery.start_soon(ask, http)
    assert threads
    assert threading.get_ident() not in threads
    made = len(threads)
    for http in clients:
        await http.close()
    assert await tls_contexts.of_httpx() is await tls_contexts.of_httpx()
    http = Http()
    with pytest.raises(ModelError):
        await http.post(Post("https://127.0.0.1:9/", {}, b"{}", patience), lambda _: True)
    await http.close()
    assert len(threads) == made


async def test_pages_and_hosts_get_theirs_from_a_thread(threads: list[int]) -> None:
    with pytest.raises(WebFailed):
        await HttpxWeb(allowed=["127.0.0.1/32"]).fetch("https://127.0.0.1:9/", timeout=5)
    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, trio.SocketStream.aclose, 0, host="127.0.0.1"))
        port = listener.socket.getsockname()[1]
        for _ in range(2):
            with pytest.raises((CutError, OSError)):
                await dial_address(HostAddress("127.0.0.1", port, tls=True), None)
        nursery.cancel_scope.cancel()
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_other_certificates_are_taken_when_a_variable_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = await tls_contexts.of_httpx()
    authority = Path(__file__).parents[1] / "authority.pem"
    own = tmp_path / "own.pem"
    own.write_bytes(authority.read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(own))
    first = await tls_contexts.of_httpx()
    assert len(first.get_ca_certs()) == 1
    assert first is not usual
    assert await tls_contexts.of_httpx(trust_env=False) is not first
    own.write_bytes(authority.read_bytes() * 2)
    assert await tls_contexts.of_httpx() is not first
