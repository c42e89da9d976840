"""The browser client in Debian's chromium, which Playwright drives; the host is a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

from tests.docs.sources import ROOT
from tests.machinery.forked import Forked

CLIENT: Final = ROOT / "docs" / "examples" / "browser"
CHROMIUM: Final = Path("/usr/bin/chromium")
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SECONDS: Final = 60
"""How long a step may take, however busy the machine is."""


class Quiet(SimpleHTTPRequestHandler):
    """Serves the files of the client, and logs nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """No-op: the tests look at the browser."""


@contextmanager
def static_site(folder: Path = CLIENT) -> Generator[str]:
    """Serve the files of a client, and yield their origin."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    with server, _running(server.serve_forever):
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def _running(function: Callable[[], object]) -> Generator[None]:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    yield
    thread.join(SECONDS)


@contextmanager
def host_process(program: Path | str, folder: Path, *arguments: str) -> Generator[tuple[str, str]]:
    """Serve *program* by `agentrail serve` in *folder*, and yield the port and the token; SIGTERM ends it.

    A host with keys prints no token, and it is empty.
    """
    command = ["serve", str(program), "--port", "0", *arguments]
    with (
        (folder / "log").open("wb") as log,
        Forked(command, env=dict(os.environ), cwd=folder, stdout=subprocess.PIPE, stderr=log.fileno()) as process,
    ):
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        match = re.search(r"http://127\.0\.0\.1:(\d+)(?:/#token=(\S+))?", line)
        assert match is not None, line
        try:
            yield match[1], match[2] or ""
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0


class Wire:
    """A line between the browser and the host that can be cut."""

    def __init__(self, port: int) -> None:
        self._to = "127.0.0.1", port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self.is_cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return "http://{}:{}".format(*self._listener.getsockname())

    @property
    def beside(self) -> str:
        """The address of the host, without the line."""
        return "http://{}:{}".format(*self._to)

    def cut(self) -> None:
        """Close all connections, and refuse further ones."""
        self.is_cut = True
        for stream in tuple(self._open):
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)

    def lead_to(self, port: int) -> None:
        """Lead to a host at another port, from the next connection on."""
        self._to = "127.0.0.1", port

    def mend(self) -> None:
        self.is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self.is_cut:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(self._to)
                except ConnectionRefusedError:  # the host is not there
                    near.close()
                    continue
                self._open |= {near, far}
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(65536):
                target.sendall(piece)
        for stream in (source, target):
            with suppress(OSError):
                stream.shutdown(socket.SHUT_RDWR)
            self._open.discard(stream)
        source.close()


@frozen
class Desk:
    """The client, a host for it, and the browser that opens both."""

    browser: Browser
    site: str
    token: str
    wire: Wire

    @contextmanager
    def tab(self) -> Generator[Page]:
        """Open the client as a new person would, by the address with the token, and begin a session.

        Whatever the page throws, logs as an error or is refused by its policy fails the test.
        """
        with self.browser.new_context() as context:
            wrong: list[str] = []
            context.on("weberror", lambda event: wrong.append(str(event.error)))
            context.on("console", lambda event: wrong.append(event.text) if event.type == "error" else None)
            page = context.new_page()
            page.set_default_timeout(SECONDS * 1000)
            page.goto(f"{self.site}/#host={self.wire.address}&token={self.token}")
            page.click("#new")
            page.wait_for_selector("#text:enabled")
            yield page
            assert [text for text in wrong if "net::ERR" not in text] == []
