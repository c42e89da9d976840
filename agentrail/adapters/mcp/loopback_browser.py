"""The person's browser, from the outside: a page is shown as text, and the way back is one request to this machine."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trio

PATH: Final = "/callback"
MAX_HEAD: Final = 16 * 1024
"""The most bytes of the head of the request with which a browser comes back."""

HEAD_WITHIN: Final = 5.0
"""Seconds that a browser has to send its request: other programs of this machine may connect, and send nothing."""

BACK: Final = (
    "HTTP/1.1 {}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n"
    "referrer-policy: no-referrer\r\ncache-control: no-store\r\n\r\n{}"
)


class LoopbackBrowser:
    """Shows the page by a function of the caller, and listens at a port of this machine for the browser to come back.

    Nothing is opened by itself.
    """

    __slots__ = ("_listener", "_show")

    def __init__(self, show: Callable[[str], None], listener: trio.SocketListener) -> None:
        self._show = show
        self._listener = listener

    @property
    def redirect_uri(self) -> str:
        """The address to which the browser is to come back."""
        return f"http://127.0.0.1:{self._listener.socket.getsockname()[1]}{PATH}"

    async def visit(self, page: str) -> str:
        """Show *page*, and return the whole address to which the browser has come back."""
        self._show(page)
        while True:
            stream = await self._listener.accept()
            target = ""
            with trio.move_on_after(HEAD_WITHIN):
                target = await _target(stream)
            if target:
                return f"{self.redirect_uri.removesuffix(PATH)}{target}"


async def _target(stream: trio.SocketStream) -> str:
    """Answer one request; return its target, empty if it is not that of a browser that comes back."""
    head = b""
    try:
        async with stream:
            while b"\r\n\r\n" not in head and len(head) < MAX_HEAD:
                piece = await stream.receive_some(4096)
                if not piece:
                    return ""
                head += piece
            method, _, rest = head.decode("ascii", "replace").partition(" ")
            target = rest.partition(" ")[0]
            is_back = method == "GET" and target.partition("?")[0] == PATH and "?" in target
            words = "You have come back to agentrail; close this page." if is_back else "There is nothing here."
            status = "200 OK" if is_back else "404 Not Found"
            await stream.send_all(BACK.format(status, len(words), words).encode())
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return ""
    return target if is_back else ""


@asynccontextmanager
async def open_browser(show: Callable[[str], None], port: int = 0) -> AsyncGenerator[LoopbackBrowser]:
    """Listen at *port* of this machine, 0 for a free one; *show* shows a person the page at which they sign in."""
    (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
    async with listener:
        yield LoopbackBrowser(show, listener)
