"""`web_fetch`: nothing private is connected to, nothing takes long or is large, and HTML becomes Markdown."""

import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

import httpx  # noqa: ASYNC127 - the client that pyproject.toml names
import pytest
import trio

from agentrail.adapters.html_to_markdown import to_markdown
from agentrail.adapters.web import HttpxWeb, resolve
from agentrail.ports.tool import MAX_PAGE
from tests.kit import freeze_object
from tests.tools.builtin.rig import call, called

# Addresses that must not be connected to: `P` stands for the port of a listener, `D` for the same in other forms

NAMES = {
    "local.test": ("127.0.0.1",),
    "local6.test": ("::1",),
    "both.test": ("93.184.216.34", "127.0.0.1"),
    "mapped.test": ("::ffff:127.0.0.1",),
    "private.test": ("10.0.0.1",),
    "metadata.test": ("169.254.169.254",),
    "nothing.test": (),
}
"""What names lead to."""

DIRECT = (
    # loopback, plainly and in disguise
    "http://127.0.0.1:P/",
    "http://127.0.0.2:P/",
    "http://127.255.255.254:P/",
    "http://localhost:P/",
    "http://LOCALHOST:P/",
    "http://localhost.:P/",
    "http://127.0.0.1.:P/",
    "http://[::1]:P/",
    "http://[0:0:0:0:0:0:0:1]:P/",
    "http://0.0.0.0:P/",
    "http://[::]:P/",
    # one number, octal, hexadecimal, short
    "http://2130706433:P/",
    "http://017700000001:P/",
    "http://0x7f000001:P/",
    "http://0x7f.0.0.1:P/",
    "http://0177.0.0.1:P/",
    "http://0177.0.0.01:P/",
    "http://127.1:P/",
    "http://127.0.1:P/",
    "http://0:P/",
    "http://0x0:P/",
    "http://00000177.0.0.1:P/",
    "http://127.0.0.0x1:P/",
    "http://4294967295:P/",
    # IPv6 that carries IPv4
    "http://[::ffff:127.0.0.1]:P/",
    "http://[::ffff:7f00:1]:P/",
    "http://[::127.0.0.1]:P/",
    "http://[64:ff9b::7f00:1]:P/",
    "http://[64:ff9b::10.0.0.1]:P/",
    "http://[64:ff9b:1::7f00:1]:P/",
    "http://[2002:7f00:1::]:P/",
    "http://[2001:0:7f00:1::]:P/",
    "http://[::ffff:0:127.0.0.1]:P/",
    # private, link-local, shared, special
    "http://10.0.0.1:P/",
    "http://172.16.0.1:P/",
    "http://172.31.255.255:P/",
    "http://192.168.1.1:P/",
    "http://169.254.169.254:P/latest/meta-data/",
    "http://100.64.0.1:P/",
    "http://192.0.0.192:P/",
    "http://198.18.0.1:P/",
    "http://224.0.0.1:P/",
    "http://255.255.255.255:P/",
    "http://[fe80::1]:P/",
    "http://[fe80::1%25lo]:P/",
    "http://[fc00::1]:P/",
    "http://[fd00:ec2::254]:P/",
    "http://[ff02::1]:P/",
    # characters that look like others, user names, other schemes, oddities
    "http://①②⑦.⓪.⓪.①:P/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:P/",
    "http://\uff11\uff12\uff17.\uff10.\uff10.\uff11:P/",
    "http://127。0。0。1:P/",
    "http://user:secret@127.0.0.1:P/",
    "http://example.com@127.0.0.1:P/",
    "http://127.0.0.1:P\\@example.com/",
    "http://example.com\\@127.0.0.1:P/",
    "http://%31%32%37.0.0.1:P/",
    "http:127.0.0.1:P/",
    "http:///127.0.0.1:P/",
    "//127.0.0.1:P/",
    "127.0.0.1:P",
    "ftp://127.0.0.1:P/",
    "gopher://127.0.0.1:P/_x",
    "file:///etc/passwd",
    "https://127.0.0.1:P/",
    "HTTP://127.0.0.1:P/",
    " http://127.0.0.1:P/ ",
    "http://127.0.0.1\x00:P/",
    "http://127.0.0.1\r\n:P/",
    "http://",
    # names that lead there
    "http://local.test:P/",
    "http://local6.test:P/",
    "http://both.test:P/",
    "http://mapped.test:P/",
    "http://private.test:P/",
    "http://metadata.test:P/",
    "http://nothing.test:P/",
)

REDIRECTS = (
    "http://127.0.0.1:P/",
    "http://localhost:P/",
    "//127.0.0.1:P/",
    "http://2130706433:P/",
    "http://[::1]:P/",
    "http://[::ffff:127.0.0.1]:P/",
    "http://local.test:P/",
    "http://both.test:P/",
    "https://127.0.0.1:P/",
    "file:///etc/passwd",
    "http://user@127.0.0.1:P/",
    "/again?to=http://127.0.0.1:P/",
)


HOST = "127.0.0.9"
"""Where the one server is that the tests allow."""

Serve = Callable[[bytes], Awaitable[int]]


async def resolve_here(host: str, port: int) -> Sequence[str]:
    """Look names up in a table, and let the system read only what needs no network."""
    known = NAMES.get(host)
    if known is None and not host.lower().startswith(("localhost", "0", "1", "2", "4")):
        raise OSError(host)
    return await resolve(host, port) if known is None else known


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start servers that answer everything with the same bytes; `?to=` sends on to somewhere else."""
    async with trio.open_nursery() as nursery:

        async def start(answer: bytes) -> int:
            async def talk(stream: trio.SocketStream) -> None:
                async with stream:
                    asked = b""
                    while b"\r\n\r\n" not in asked:
                        piece = await stream.receive_some()
                        if not piece:
                            return
                        asked += piece
                    to = asked.split(b" ")[1].partition(b"?to=")[2]
                    moved = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % to
                    try:
                        await stream.send_all(moved if to else answer)
                        if answer.endswith(b"hang"):
                            await trio.sleep_forever()
                    except trio.BrokenResourceError:
                        pass

            listeners = await trio.open_tcp_listeners(0, host=HOST)
            nursery.start_soon(trio.serve_listeners, talk, listeners)
            return int(listeners[0].socket.getsockname()[1])

        yield start
        nursery.cancel_scope.cancel()


class Listener:
    """Counts who connects."""

    def __init__(self) -> None:
        self.connections = 0
        self.port = 0

    async def hear(self, _: trio.SocketStream) -> None:
        self.connections += 1


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    """Listen on every address of this machine."""
    heard = Listener()
    async with trio.open_nursery() as nursery:
        first = await trio.open_tcp_listeners(0, host="0.0.0.0")  # noqa: S104 - every address is the point
        heard.port = first[0].socket.getsockname()[1]
        listeners = [*first]
        with suppress(OSError):  # a machine without IPv6
            listeners += await trio.open_tcp_listeners(heard.port, host="::1")
        nursery.start_soon(trio.serve_listeners, heard.hear, listeners)
        yield heard
        nursery.cancel_scope.cancel()


async def test_the_listener_hears_who_is_let_through(listener: Listener) -> None:
    web = HttpxWeb(allowed=("127.0.0.0/8",))
    answer = await call("web_fetch", web=web, url=f"http://127.0.0.1:{listener.port}/")
    assert answer.startswith("✗ cannot fetch")
    assert listener.connections == 1


async def test_no_private_address_is_connected_to(listener: Listener) -> None:
    web = HttpxWeb(resolve=resolve_here)
    for url in DIRECT:
        answer = await call("web_fetch", web=web, url=url.replace("P", str(listener.port), 1))
        assert answer.startswith(("✗ the address ", "✗ cannot fetch ")), url
        assert "attempts failed" not in answer, url
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert listener.connections == 0


@pytest.mark.long
async def test_no_redirect_leads_there(listener: Listener, serve: Serve) -> None:
    port = await serve(b"")
    web = HttpxWeb(allowed=(HOST,), resolve=resolve_here)
    for to in REDIRECTS:
        url = f"http://{HOST}:{port}/?to={to.replace('P', str(listener.port), 1)}"
        answer = await call("web_fetch", web=web, url=url)
        assert answer.startswith("✗ the address "), to
    await trio.testing.wait_all_tasks_blocked(0.01)
    assert listener.connections == 0


async def test_a_name_is_resolved_once_and_the_connection_goes_where_it_was_checked() -> None:
    answers = [("93.184.216.34",), ("127.0.0.1",)]
    connected: list[tuple[str, str, object]] = []

    async def rebinding(_host: str, _port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        return answers.pop(0)

    async def answer(request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        connected.append((request.url.host, request.headers["host"], request.extensions["sni_hostname"]))
        return httpx.Response(302, headers={"location": "/again"})

    web = HttpxWeb(resolve=rebinding, transport=httpx.MockTransport(answer))
    assert await call("web_fetch", web=web, url="https://rebinding.test/") == (
        "✗ the address 'https://rebinding.test/again' is refused: it leads to 127.0.0.1, which is no public address"
    )
    assert connected == [("93.184.216.34", "rebinding.test", "rebinding.test")]


def page(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


HTML = "Content-Type: text/html; charset=utf-8"
PLAIN = "Content-Type: text/plain"


async def fetched(serve: Serve, answer: bytes, **args: int) -> str:
    """Return what the model gets, with the address of the server taken out."""
    url = f"http://{HOST}:{await serve(answer)}/x"
    return (await called("web_fetch", freeze_object({"url": url, **args}), web=HttpxWeb(allowed=(HOST,)))).replace(
        url, "URL"
    )


async def test_html_becomes_markdown(serve: Serve) -> None:
    html = "<title>Tea</title><h1>Green</h1><p>is <b>good</b> &amp; hé <a href='http://e.x/a'>more</a></p>".encode()
    wanted = "[URL · 200 · text/html]\n\n# Tea\n\n# Green\n\nis **good** & hé [more](http://e.x/a)"
    assert await fetched(serve, page(html, HTML)) == wanted.replace("# Tea\n\n", "")
    assert await fetched(serve, page(html, HTML), raw=True) == f"[URL · 200 · text/html]\n\n{html.decode()}"
    assert await fetched(serve, page(gzip.compress(html), HTML, "Content-Encoding: gzip")) == wanted.replace(
        "# Tea\n\n", ""
    )


async def test_a_long_page_says_how_to_go_on(serve: Serve) -> None:
    text = await fetched(serve, page(b"y" * 28_001, PLAIN))
    assert text == f"[URL · 200 · text/plain]\n\n{'y' * 28_000}\n\n[1 more characters; go on with `offset` 28000]"
    assert await fetched(serve, page(b"y" * 28_001, PLAIN), offset=28_000) == "[URL · 200 · text/plain]\n\ny"
    assert await fetched(serve, page(b"", PLAIN)) == "[URL · 200 · text/plain]\n\n[there is no text]"


@pytest.mark.long
async def test_what_is_no_text_or_failed_is_told(serve: Serve) -> None:
    assert await fetched(serve, page(b"no", PLAIN, status="404 Not Found")) == "✗ [URL · 404 · text/plain]\n\nno"
    assert await fetched(serve, page(b"\x89PNG", "Content-Type: image/png")) == (
        "✗ cannot fetch `URL`: it is no text but image/png, 4 bytes or more"
    )
    assert (await fetched(serve, page(b"x", PLAIN, "Content-Encoding: br"))).startswith("✗ cannot fetch `URL`: ")
    assert (await fetched(serve, b"rubbish\r\n\r\n")).startswith("✗ cannot fetch `URL`: ")


@pytest.mark.long
async def test_no_page_is_too_large(serve: Serve) -> None:
    web = HttpxWeb(allowed=(HOST,))
    bomb = gzip.compress(b"z" * (40 * MAX_PAGE))
    for body, *headers in ((b"z" * (MAX_PAGE + 10), PLAIN), (bomb, PLAIN, "Content-Encoding: gzip")):
        found = await web.fetch(f"http://{HOST}:{await serve(page(body, *headers))}/", timeout=20)
        assert (len(found.text), found.cut) == (MAX_PAGE, True)


async def test_no_page_takes_too_long(serve: Serve) -> None:
    port = await serve(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 99\r\n\r\nhang")
    url = f"http://{HOST}:{port}/"
    with pytest.raises(Exception, match=r"took longer than 0\.2 seconds"):
        await HttpxWeb(allowed=(HOST,)).fetch(url, timeout=0.2)


@pytest.mark.long
async def test_a_page_that_always_sends_on_is_given_up(serve: Serve) -> None:
    port = await serve(page(b"", "Location: /round", status="302 Found"))
    answer = await call("web_fetch", web=HttpxWeb(allowed=(HOST,)), url=f"http://{HOST}:{port}/")
    assert answer.endswith("it redirects more than 5 times")


def test_a_long_run_of_spaces_takes_no_time() -> None:
    assert to_markdown(f"<pre>a{' ' * 300_000}b \t \nc</pre>", "http://a.example").count(" ") >= 300_000
