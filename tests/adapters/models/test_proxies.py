"""Proxies and certificates that the environment names: read as the SDKs do, and what is wrong is told at once."""

from __future__ import annotations

import logging
import shutil
import ssl
import subprocess
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import trio
import trustme

from agentrail import SessionSpec, open_supervisor
from agentrail.adapters.models.http import Http, Patience, Post
from agentrail.errors import (
    CertificateRefused,
    ConnectionFailed,
    ModelError,
    PermanentModelError,
    ProxyRefused,
    ServerMissing,
    TurnAborted,
)
from tests.adapters.models.official import PATHS, WRITERS
from tests.adapters.models.server import Asked, Play, Server, refusing, serving
from tests.adapters.models.stories import STORIES
from tests.adapters.models.test_beside_sdks import HOSTS, REFUSED, both_sides, the_world
from tests.cli.test_choosing import pump

PASSWORD: Final = "hunter2-hunter2"
PROXIES: Final = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
NOWHERE: Final = "https://provider.example/v1"
"""An address that is reached by a proxy alone."""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without the proxies and certificates of the machine."""
    for name in (*PROXIES, *map(str.upper, PROXIES), "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)


async def failing(url: str) -> ModelError:
    """Make a request that fails, and return its error."""
    http = Http()
    try:
        with pytest.raises(ModelError) as raised:
            await http.post(Post(url, {}, b"{}", Patience(5, 5, 5)), bool)
    finally:
        await http.close()
    return raised.value


def with_password(server: Server) -> str:
    return f"http://me:{PASSWORD}@127.0.0.1:{server.port}"


# What a proxy answers

ANSWERS: Final = {
    302: ProxyRefused,
    400: ProxyRefused,
    401: ProxyRefused,
    403: ProxyRefused,
    404: ProxyRefused,
    405: ProxyRefused,
    407: ProxyRefused,
    451: ProxyRefused,
    408: ConnectionFailed,
    425: ConnectionFailed,
    429: ConnectionFailed,
    500: ConnectionFailed,
    502: ConnectionFailed,
    503: ConnectionFailed,
    504: ConnectionFailed,
}


@pytest.mark.parametrize(("status", "kind"), ANSWERS.items())
async def test_what_a_proxy_answers_to_connect_is_told_by_what_can_be_done(
    status: int, kind: type[ModelError], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(refusing(status, b"no")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        error = await failing(NOWHERE)
    assert type(error) is kind
    assert f"answers {status}" in str(error)
    assert [asked.method for asked in proxy.asked] == ["CONNECT"]


async def test_a_proxy_that_wants_a_password_says_so_for_plain_http_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(refusing(407, f"no {PASSWORD}".encode())) as proxy:
        monkeypatch.setenv("HTTP_PROXY", with_password(proxy))
        error = await failing("http://provider.example/v1")
    assert isinstance(error, ProxyRefused)
    assert "it answers 407; correct its address, name and password in `HTTPS_PROXY`" in str(error)
    assert PASSWORD not in str(error)


async def test_a_proxy_that_speaks_no_http_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Play((b"SSH-2.0-OpenSSH_9.6\r\n",))) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        assert isinstance(await failing(NOWHERE), ConnectionFailed)


async def test_a_proxy_that_is_not_there_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(REFUSED) as proxy:
        pass
    monkeypatch.setenv("HTTPS_PROXY", with_password(proxy))
    error = await failing(NOWHERE)
    assert isinstance(error, ServerMissing)
    assert "correct `base_url` or the proxy that the environment names" in str(error)
    assert PASSWORD not in str(error)


async def test_a_session_tells_at_once_that_the_proxy_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(refusing(407, b"")) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        async with open_supervisor(secrets={"ANTHROPIC_API_KEY": "sk-ant-0123456789"}.get, seed=1) as supervisor:
            session = await supervisor.spawn(SessionSpec(model="anthropic:claude-sonnet-5"))
            with pytest.raises(TurnAborted, match="it answers 407; correct its address"):
                await session.ask("hello")
    assert len(proxy.asked) == 1


@pytest.mark.parametrize("url", [NOWHERE, "http://provider.example/v1"])
async def test_the_password_of_a_proxy_is_in_no_error_and_no_log(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def echoing(asked: Asked) -> Play:
        said = f"HTTP/1.1 407 {asked.headers['proxy-authorization']} {PASSWORD}\r\n"
        return Play(
            (f"{said}proxy-authenticate: Basic realm={PASSWORD}\r\ncontent-length: 15\r\n\r\n{PASSWORD}".encode(),)
        )

    caplog.set_level(logging.DEBUG)
    async with serving(echoing) as proxy:
        monkeypatch.setenv("ALL_PROXY", with_password(proxy))
        error = await failing(url)
    (asked,) = proxy.asked
    authorization = asked.headers["proxy-authorization"].removeprefix("Basic ")
    shown = "".join(traceback.format_exception(error)) + caplog.text + repr(error)
    assert isinstance(error, ProxyRefused)
    assert caplog.text
    assert [secret for secret in (PASSWORD, authorization) if secret in shown] == []
    assert error.__cause__ is None
    assert error.__context__ is None


# Proxies that cannot be used

UNUSABLE: Final = {
    f"socks9://me:{PASSWORD}@127.0.0.1": "`ALL_PROXY`; a proxy is an address such as",
    f"http://me:{PASSWORD}/@127.0.0.1:3128": "`ALL_PROXY`; a proxy is an address such as",
    f"http://{PASSWORD}@[::1": "`ALL_PROXY`; a proxy is an address such as",
    f"socks5://me:{PASSWORD}@127.0.0.1:1080": "`ALL_PROXY`; a SOCKS proxy needs the package `socksio`",
    f"socks5h://me:{PASSWORD}@127.0.0.1:1080": "`ALL_PROXY`; a SOCKS proxy needs the package `socksio`",
}


@pytest.mark.parametrize("proxy", UNUSABLE)
async def test_a_proxy_that_cannot_be_used_is_told_without_its_password(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    error = await failing(NOWHERE)
    assert type(error) is PermanentModelError
    assert f"the proxy that the environment names cannot be used: look at {UNUSABLE[proxy]}" in str(error)
    assert PASSWORD not in "".join(traceback.format_exception(error))
    assert error.__context__ is None


# Beside the SDKs

ENVIRONMENTS: Final = {
    "HTTP_PROXY": {"HTTP_PROXY": "{proxy}"},
    "http_proxy": {"http_proxy": "{proxy}"},
    "ALL_PROXY": {"ALL_PROXY": "{proxy}"},
    "all_proxy": {"all_proxy": "{proxy}"},
    "without a scheme": {"HTTP_PROXY": "127.0.0.1:{port}"},
    "of another scheme": {"HTTPS_PROXY": "{proxy}"},
    "the nearer one": {"HTTP_PROXY": "{proxy}", "ALL_PROXY": "http://127.0.0.1:9"},
    "the lower case counts": {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "{proxy}"},
    "none": {"HTTP_PROXY": ""},
    "NO_PROXY=*": {"HTTP_PROXY": "{proxy}", "ALL_PROXY": "{proxy}", "NO_PROXY": "*"},
    "no_proxy=*": {"HTTP_PROXY": "{proxy}", "no_proxy": "example.com, *"},
    "a password": {"HTTP_PROXY": "http://me:hunter2%40%2F@127.0.0.1:{port}"},
    "a name alone": {"HTTP_PROXY": "http://me@127.0.0.1:{port}"},
}


@pytest.mark.long
@pytest.mark.parametrize("given", ENVIRONMENTS)
@pytest.mark.parametrize("provider", WRITERS)
async def test_the_proxies_of_the_environment_are_read_alike(
    provider: str, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(REFUSED) as server, serving(REFUSED) as proxy:
        for name, item in ENVIRONMENTS[given].items():
            monkeypatch.setenv(name, item.format(proxy=proxy.url, port=proxy.port))
        async with both_sides(provider, server.url + PATHS[provider]) as side:
            await side.theirs(STORIES["a prompt"])
            theirs = (len(server.asked), len(proxy.asked))
            await side.ours(STORIES["a prompt"])
    assert sum(theirs) == 1
    assert (len(server.asked), len(proxy.asked)) == (2 * theirs[0], 2 * theirs[1])
    first, second = (*server.asked, *proxy.asked)
    assert first.headers.get("proxy-authorization") == second.headers.get("proxy-authorization")
    assert ("proxy-authorization" in first.headers) == given.startswith("a ")


# Certificates


@asynccontextmanager
async def trusted(authority: trustme.CA) -> AsyncIterator[tuple[str, Server]]:
    """Serve a stream by TLS on the loopback, with a certificate of *authority*; give its address, and what records."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)

    async def serve(server: Server, stream: trio.SocketStream) -> None:
        outside = trio.SSLStream(stream, context, server_side=True, https_compatible=True)
        try:
            await outside.do_handshake()
        except trio.BrokenResourceError:
            return  # the client does not trust it
        inside = await trio.open_tcp_stream("127.0.0.1", server.port)
        async with outside, inside, trio.open_nursery() as nursery:
            nursery.start_soon(pump, inside, outside)
            await pump(outside, inside)
            nursery.cancel_scope.cancel()

    async with serving(REFUSED) as server, trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, partial(serve, server), 0, host="127.0.0.1"))
        yield f"https://127.0.0.1:{listener.socket.getsockname()[1]}", server
        nursery.cancel_scope.cancel()


def moved_to(folder: Path, certificate: Path) -> str:
    """Move *certificate* to *folder*, where OpenSSL finds it: under a hash of its name."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("the program `openssl` is not there, which names the files of a folder of certificates")
    command = [openssl, "x509", "-hash", "-noout", "-in", str(certificate)]
    done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 - its own certificate
    folder.mkdir()
    certificate.rename(folder / f"{done.stdout.decode().strip()}.0")
    return str(folder)


EMPTY_NAME: Final = "a folder, and an empty name of a file"
CERTIFICATES: Final = [
    (provider, named)
    for provider in WRITERS
    for named in ("SSL_CERT_FILE", "SSL_CERT_DIR", "both", EMPTY_NAME)
    if (provider, named) != ("gemini", EMPTY_NAME)  # its SDK fails then
]


@pytest.mark.long
@pytest.mark.parametrize(("provider", "named"), CERTIFICATES)
async def test_certificates_of_one_s_own_are_read_alike(
    provider: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, other = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    (other if named == "both" else authority).cert_pem.write_to_path(tmp_path / "moved.pem")
    if named in {"SSL_CERT_FILE", "both"}:
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    if named == EMPTY_NAME:
        monkeypatch.setenv("SSL_CERT_FILE", "")
    if named != "SSL_CERT_FILE":
        monkeypatch.setenv("SSL_CERT_DIR", moved_to(tmp_path / "certificates", tmp_path / "moved.pem"))
    async with trusted(authority) as (url, server), both_sides(provider, url + PATHS[provider]) as side:
        await side.told("a prompt", server)


@pytest.mark.long
async def test_certificates_of_a_folder_count_behind_a_proxy_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with the_world("anthropic", tmp_path, monkeypatch) as server:
        monkeypatch.delenv("SSL_CERT_FILE")
        monkeypatch.setenv("SSL_CERT_DIR", moved_to(tmp_path / "certificates", tmp_path / "ca.pem"))
        async with both_sides("anthropic", None) as side:
            await side.told("a prompt", server)
    assert {asked.headers["host"] for asked in server.asked} == {HOSTS["anthropic"]}


@pytest.mark.parametrize("named", ["SSL_CERT_FILE", "SSL_CERT_DIR", None])
async def test_a_certificate_that_nobody_has_signed_is_told_at_once(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = trustme.CA()
    other.cert_pem.write_to_path(tmp_path / "other.pem")
    places = {"SSL_CERT_FILE": tmp_path / "other.pem", "SSL_CERT_DIR": tmp_path / "nowhere"}
    if named is not None:
        monkeypatch.setenv(named, str(places[named]))
    async with trusted(trustme.CA()) as (url, _):
        error = await failing(f"{url}/v1")
    assert isinstance(error, CertificateRefused)
    assert f"it was in a request to {url}/v1; name the authority that has signed it by `SSL_CERT_FILE`" in str(error)


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_certificates_that_cannot_be_read_are_told_by_their_variable(
    content: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    error = await failing(NOWHERE)
    assert type(error) is PermanentModelError
    assert "the certificates that `SSL_CERT_FILE` names cannot be read" in str(error)
