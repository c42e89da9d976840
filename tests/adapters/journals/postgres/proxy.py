"""A line to a server that a test can cut: what the client sent arrives, what the server answers may not."""

import socket
import threading
from contextlib import suppress


class CutLine:
    """Listens on a port of its own, and passes bytes on in threads, so that a driver that blocks finds it."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lines: list[socket.socket] = []
        self._clients: list[socket.socket] = []
        self.is_down = False
        """Whether new lines are closed at once."""
        self.is_to_lose = False
        """Whether a line is cut in place of the next answer of the server."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Close all lines towards the clients; the server finds out when it next writes."""
        clients, self._clients = self._clients, []
        for client in clients:
            _end(client)

    def close(self) -> None:
        """Close everything."""
        _end(self._listener)
        for line in self._lines:
            _end(line)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._lines.append(client)
                if self.is_down:
                    _end(client)
                    continue
                try:
                    server = socket.create_connection(("127.0.0.1", self._server))
                except OSError:  # the server is down
                    _end(client)
                    continue
                self._lines.append(server)
                self._clients.append(client)
                threading.Thread(target=self._pass, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(server, client), daemon=True).start()

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while piece := client.recv(65536):
                server.sendall(piece)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while piece := server.recv(65536):
                if self.is_to_lose:
                    self.is_to_lose = False
                    break
                client.sendall(piece)
        _end(client)


def _end(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
    line.close()
