"""Clients that others have written: curl, httpx, the standard library, a plain socket."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import ssl
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from agentrail.host.http11.listening import UnixSocket
from agentrail.host.requests.http_messages import HttpRequest, HttpResponse, Send
from tests.host.http11.served import Served, echo, served, statuses
from tests.host.http11.test_addresses import Certified
from tests.patience import PATIENCE

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


async def curl(*arguments: str) -> str:
    command = ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", "20", *arguments]
    return (await trio.run_process(command, capture_stdout=True)).stdout.decode()


async def either(http_request: HttpRequest) -> HttpResponse:
    async def write(send: Send) -> None:
        for number in range(3):
            await send(f"id: {number}\n\n".encode())

    return (
        HttpResponse(200, (("content-type", "text/event-stream"),), write)
        if http_request.path == "/s"
        else await echo(http_request)
    )


@pytest.mark.long
@needs_curl
async def test_curl(tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.write_bytes(b"a" * 1_000_000)
    async with served(either) as server:
        url = f"http://127.0.0.1:{server.port}"
        assert json.loads(await curl(f"{url}/a%20b?c=d")) == {
            "method": "GET",
            "path": "/a b",
            "query": "c=d",
            "body": "",
        }
        assert json.loads(await curl("-d", "hello", url))["body"] == "hello"
        assert json.loads(await curl("-X", "POST", url))["method"] == "POST"
        chunked = await curl("-H", "Transfer-Encoding: chunked", "-d", "hello", url)
        assert json.loads(chunked)["body"] == "hello"
        expecting = await curl("-H", "Expect: 100-continue", "--data-binary", f"@{large}", url)
        assert len(json.loads(expecting)["body"]) == 1_000_000
        assert "Content-Type: application/json".lower() in (await curl("-I", url)).lower()
        assert await curl("-N", f"{url}/s") == "id: 0\n\nid: 1\n\nid: 2\n\n"
        assert len((await curl(f"{url}/1", f"{url}/2", f"{url}/3")).split('"path"')) == 4
        large.write_bytes(b"a" * 2_000_000)
        code = await curl("-o", str(tmp_path / "out"), "-w", "%{http_code}", "--data-binary", f"@{large}", url)
        assert (code, json.loads((tmp_path / "out").read_text())["status"]) == ("413", 413)
        assert "400" in await curl("--path-as-is", f"{url}/../x")
        assert json.loads(await curl("--http1.0", url))["path"] == "/"


@pytest.mark.long
@needs_curl
async def test_curl_by_tls_and_by_a_unix_socket(tmp_path: Path) -> None:
    certified = Certified(tmp_path)
    async with served(address=certified.address) as server:
        answer = await curl("--cacert", str(certified.authority), "--http2", f"https://localhost:{server.port}/a")
        assert json.loads(answer)["path"] == "/a"
    path = tmp_path / "socket"
    async with served(address=UnixSocket(path)):
        assert json.loads(await curl("--unix-socket", str(path), "http://localhost/b"))["path"] == "/b"


async def test_httpx() -> None:
    async with (
        served(either) as server,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=PATIENCE) as client,
    ):
        for number in range(5):
            answer = await client.post(f"/{number}?q=ä b", json={"a": number})
            assert answer.json()["path"] == f"/{number}"
        assert (await client.head("/")).headers["content-length"]
        async with client.stream("GET", "/s") as answer:
            assert [line async for line in answer.aiter_lines()] == ["id: 0", "", "id: 1", "", "id: 2", ""]
        assert (await client.options("/")).status_code == 200


async def test_the_client_of_the_standard_library() -> None:
    def talk(server: Served) -> list[object]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        answers: list[object] = []
        for method, body in (("GET", None), ("POST", b"abc"), ("PUT", iter([b"a", b"bc"])), ("HEAD", None)):
            connection.request(method, "/x", body, encode_chunked=True)
            answer = connection.getresponse()
            content = answer.read()
            answers.append((answer.status, json.loads(content)["body"] if content else None))
        connection.close()
        return answers

    async with served() as server:
        answers = await trio.to_thread.run_sync(partial(talk, server))
    assert answers == [(200, ""), (200, "abc"), (200, "abc"), (200, None)]


async def test_a_plain_socket() -> None:
    def talk(server: Served) -> bytes:
        received = b""
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as plain:
            plain.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
            while piece := plain.recv(65536):
                received += piece
        return received

    async with served() as server:
        assert statuses(await trio.to_thread.run_sync(partial(talk, server))) == [200]


async def test_the_standard_library_by_tls(tmp_path: Path) -> None:
    certified = Certified(tmp_path)

    def talk(server: Served) -> tuple[int, str | None]:
        connection = http.client.HTTPSConnection("localhost", server.port, timeout=20, context=certified.client)
        connection.request("GET", "/")
        status = connection.getresponse().status
        assert isinstance(connection.sock, ssl.SSLSocket)
        version = connection.sock.version()
        connection.close()
        return status, version

    async with served(address=certified.address) as server:
        assert await trio.to_thread.run_sync(partial(talk, server)) == (200, "TLSv1.3")
