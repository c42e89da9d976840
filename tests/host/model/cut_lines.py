"""A client's line to a host that cuts it again and again: calls are carried out once, and no event is missed."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random
from typing import Any, Final

import trio
from wsproto import ConnectionType, WSConnection, events

from agentrail.errors import AgentrailError
from agentrail.events import Cursor
from agentrail.remote.transport.host_connection import HostConnection, open_line
from agentrail.remote.transport.host_subscription import EventFrame
from tests.host.model.expecting import ModelError, expect
from tests.host.model.in_process import first_of

SESSIONS: Final = ("s1", "s2")
SECONDS: Final = 20.0
"""How long all of it may take, however busy the machine is."""


class Cut(Exception):  # noqa: N818 - it is no failure of ours
    """The host cuts the connection now."""


class CuttingHost:
    """Plays the host: it numbers what is prompted in each session, and cuts a connection after some messages."""

    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._cuts = draw.randint(2, 6)
        self.commands: defaultdict[str, list[str | None]] = defaultdict(list)
        self.texts_by_session: dict[str, list[str]] = {name: [] for name in SESSIONS}
        self._answers: dict[str | None, str] = {}
        self._grown = trio.Event()

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve a connection until it is cut, or the client closes."""
        self._cuts -= 1
        connection = _Connection(stream, self._draw.randint(1, 8) if self._cuts >= 0 else None)
        try:
            async with stream, trio.open_nursery() as nursery:
                while (texts := await connection.texts()) is not None:
                    for message in map(json.loads, texts):
                        if "call" in message:
                            await self._carry_out(connection, message)
                        elif "listen" in message:
                            nursery.start_soon(self._tell, connection, message)
                nursery.cancel_scope.cancel()
        except* (Cut, trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def _carry_out(self, connection: _Connection, message: dict[str, Any]) -> None:
        command, text, session = message.get("command"), message["body"]["message"], message["session"]
        self.commands[text].append(command)
        if command not in self._answers:
            self.texts_by_session[session].append(text)
            self._answers[command] = text
            self._grown.set()
            self._grown = trio.Event()
        body = {"session": session, "said": self._answers[command]}
        await connection.say({"id": message["id"], "status": 202, "body": body})

    async def _tell(self, connection: _Connection, message: dict[str, Any]) -> None:
        """Send the events of a session after a cursor, and then those that come."""
        texts = self.texts_by_session[message["session"]]
        index = int(message["since"].partition(".")[0]) if "since" in message else len(texts)
        await connection.say({"id": message["id"], "cursor": f"{index}.0"})
        while True:
            if index == len(texts):
                await self._grown.wait()
                continue
            index += 1
            data = {"session": message["session"], "said": texts[index - 1]}
            await connection.say({"id": message["id"], "cursor": f"{index}.0", "event": "Said", "data": data})


class _Connection:
    """One connection of the host, by wsproto."""

    def __init__(self, stream: trio.SocketStream, bytes_left: int | None) -> None:
        self._stream = stream
        self._left = bytes_left
        self._socket = WSConnection(ConnectionType.SERVER)
        self._turn = trio.Lock()

    async def texts(self) -> list[str] | None:
        """Receive, and return the messages that were whole; `None` at the end."""
        data = await self._stream.receive_some(65536)
        if not data:
            return None
        self._socket.receive_data(data)
        texts: list[str] = []
        for event in self._socket.events():
            match event:
                case events.Request():
                    await self._send(events.AcceptConnection(subprotocol="agentrail.v1"))
                case events.Ping() | events.CloseConnection():
                    await self._send(event.response())
                case events.TextMessage(data=text):
                    texts.append(text)
                case _:
                    pass
        return texts

    async def say(self, message: object) -> None:
        """Send a message, or cut the connection."""
        if self._left == 0:
            await self._stream.aclose()
            raise Cut
        if self._left is not None:
            self._left -= 1
        await self._send(events.TextMessage(data=json.dumps(message)))

    async def _send(self, event: events.Event) -> None:
        async with self._turn:
            await self._stream.send_all(self._socket.send(event))


async def _prompt(line: HostConnection, session: str, text: str) -> None:
    answer = await line.call("prompt", session=session, body={"message": text})
    expect("an answer is that of its call", answer, {"session": session, "said": text})


async def _listen(line: HostConnection, session: str, count: int) -> None:
    heard: list[EventFrame] = []
    async with line.listen("events", session, since=Cursor(0)) as listening:
        async for frame in listening:
            assert isinstance(frame, EventFrame), frame
            heard.append(frame)
            expect(
                "each event comes once, in order",
                [event_frame.cursor.seq for event_frame in heard],
                list(range(1, len(heard) + 1)),
            )
            expect("events are of the session", frame.data["session"], session)  # type: ignore[call-overload, index]
            if len(heard) == count:
                return


async def _live(draw: Random) -> None:
    host = CuttingHost(draw)
    texts_by_session = {name: [f"{name} {number}" for number in range(draw.randint(2, 6))] for name in SESSIONS}
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, host.serve, [listener])
        port = listener.socket.getsockname()[1]
        with trio.move_on_after(SECONDS) as waited:
            async with open_line(f"http://127.0.0.1:{port}", "key") as line, trio.open_nursery() as tasks:
                for name, session_texts in texts_by_session.items():
                    tasks.start_soon(_listen, line, name, len(session_texts))
                await trio.sleep(0.01)
                texts = [(name, text) for name, session_texts in texts_by_session.items() for text in session_texts]
                for session, text in draw.sample(texts, len(texts)):
                    tasks.start_soon(_prompt, line, session, text)
        expect("it all comes to its end", waited.cancelled_caught, False)
        nursery.cancel_scope.cancel()
    expect(
        "each is carried out once",
        {name: sorted(host.texts_by_session[name]) for name in SESSIONS},
        {name: sorted(texts_by_session[name]) for name in SESSIONS},
    )
    ids = {text: set(session_texts) for text, session_texts in host.commands.items()}
    expect(
        "a command keeps its id",
        all(len(session_texts) == 1 and None not in session_texts for session_texts in ids.values()),
        True,
    )


def cut(seed: int) -> None:
    """Cut a line from *seed*; raise `ModelError` if something is lost, or comes twice."""
    try:
        trio.run(_live, Random(seed))
    except* ModelError as group:
        raise first_of(group, ModelError) from None
    except* AgentrailError as group:
        expect("no call fails", first_of(group, AgentrailError), None)
