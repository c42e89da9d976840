"""A receiver of push notifications in a thread, for the programs with the official SDKs."""

import queue
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook:
    """Listens at a free port of loopback; *read* reads each notification: its body and headers."""

    def __init__(self, read: Callable[[bytes, dict[str, str]], Any]) -> None:
        self.notifications: queue.Queue[Any] = queue.Queue()
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                try:
                    hook.notifications.put(read(body, headers))
                except Exception as error:  # noqa: BLE001 - the test shows it
                    hook.notifications.put(repr(error))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{server.server_port}/hook"

    def until(self, state: str) -> list[Any]:
        """Return what comes up to the first notification of *state*."""
        rows: list[Any] = []
        while not rows or rows[-1][1] != state:
            rows.append(self.notifications.get(timeout=20))
        return rows
