"""A journal that several processes share: one serves it over a socket, and the others use it from there.

`python -m tests.recovery.shared SOCKET FOLDER ADDRESS` is such a process, with a supervisor. It reads a command from
each line of its standard input, and answers with a line.
"""

from __future__ import annotations

import copyreg
import json
import os
import pickle
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

import trio

from agentrail import Supervisor, open_supervisor
from agentrail.errors import AgentrailError, SessionHeld
from agentrail.journals import Journal
from agentrail.models import FrozenObject, ToolMessage, UserMessage
from tests.kit import EMPTY
from tests.recovery.victim import spec
from tests.recovery.witness import Witness

LEASE: Final = 1.0


def _frozen(frozen_object: FrozenObject) -> tuple[Callable[..., FrozenObject], tuple[dict[str, object], ...]]:
    return (FrozenObject, (dict(frozen_object),)) if frozen_object else (_empty, ())


def _empty() -> FrozenObject:
    return cast("FrozenObject", EMPTY)  # the object itself: digests leave out fields that have their default


copyreg.pickle(FrozenObject, _frozen)  # a dictionary would be filled item by item

SIZE: Final = 8
"""Bytes of the length of a message."""


async def _send(stream: trio.SocketStream, value: object) -> None:
    content = pickle.dumps(value)
    await stream.send_all(len(content).to_bytes(SIZE, "big") + content)


async def _receive(stream: trio.SocketStream) -> object:
    """Return the next message; raise `EndOfChannel` if the other side has gone."""
    return pickle.loads(await _exactly(stream, int.from_bytes(await _exactly(stream, SIZE), "big")))  # noqa: S301 - ours


async def _exactly(stream: trio.SocketStream, count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = await stream.receive_some(count - len(content))
        if not piece:
            raise trio.EndOfChannel
        content += piece
    return content


async def serve(journal: Journal, path: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
    """Carry out on *journal* what processes ask for at the socket *path*, until cancelled."""
    socket = trio.socket.socket(trio.socket.AF_UNIX)
    await socket.bind(path)
    socket.listen()
    task_status.started()
    await trio.serve_listeners(partial(_serve_one, journal), [trio.SocketListener(socket)])


async def _serve_one(journal: Journal, stream: trio.SocketStream) -> None:
    try:
        while True:
            name, args, more = cast("tuple[str, tuple[object, ...], dict[str, object]]", await _receive(stream))
            try:
                answer: object = await getattr(journal, name)(*args, **more)
            except AgentrailError as error:
                answer = error
            await _send(stream, answer)
    except (trio.EndOfChannel, trio.BrokenResourceError):
        return


class SharedJournal:
    """Passes each call on to the process that serves the journal, over one connection, one at a time."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._lock = trio.Lock()

    async def _ask(self, name: str, *args: object, **more: object) -> object:
        answer: object = None
        with trio.CancelScope(shield=True):  # what is under way is not cancelled: its answer would be that of the next
            async with self._lock:
                await _send(self._stream, (name, args, more))
                answer = await _receive(self._stream)
        if isinstance(answer, AgentrailError):
            raise answer
        return answer


def _passed(name: str) -> Callable[..., object]:
    async def passed(self: SharedJournal, *args: object, **more: object) -> object:
        return await self._ask(name, *args, **more)

    return passed


for _name in [name for name in vars(Journal) if not name.startswith("_")]:
    if _name != "close":
        setattr(SharedJournal, _name, _passed(_name))


async def _close(_: SharedJournal) -> None:
    """No-op: the connection ends with the process."""


SharedJournal.close = _close  # type: ignore[attr-defined]


class Process:
    """Carries out the commands of a test."""

    def __init__(self, supervisor: Supervisor, witness: Witness) -> None:
        self._supervisor = supervisor
        self._spec = spec(witness).but(hibernate_after=None, context_window=1_000_000)  # all results stay

    async def do(self, command: Sequence[str]) -> object:
        """Carry out one command; return its answer."""
        match command:
            case ["open", name]:
                await self._supervisor.open(name, self._spec)
                return "opened"
            case ["resume when free", name]:
                while True:
                    try:
                        await self._supervisor.resume(name, self._spec)
                    except SessionHeld as held:
                        await trio.sleep(held.left / 1000 + 0.01)
                    else:
                        return "resumed"
            case ["prompt", name, text]:
                return (await self._supervisor.session(name).prompt(text, command=text)).ref
            case ["finish", name]:
                session = self._supervisor.session(name)
                while session.status().turn_open or session.queued():  # noqa: ASYNC110 - nobody sets an event for it
                    await trio.sleep(0.01)
                messages = session.messages()
                texts = [message.text for message in messages if isinstance(message, UserMessage)]
                return [texts, [message.text[:100] for message in messages if isinstance(message, ToolMessage)]]
            case _:
                raise ValueError(command)


async def main(path: str, folder: Path, address: str) -> None:
    journal = cast("Journal", SharedJournal(await trio.open_unix_socket(path)))
    async with open_supervisor(journal=journal, address=address, lease=LEASE) as supervisor:
        process = Process(supervisor, Witness(folder / "witness"))
        lines = trio.lowlevel.FdStream(os.dup(0))
        data = b""
        while piece := await lines.receive_some():
            *full, data = (data + piece).split(b"\n")
            for line in full:
                try:
                    answer = await process.do(json.loads(line))
                except AgentrailError as error:
                    answer = [type(error).__name__, *map(str, error.args)]
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    # what is pickled names this module, which is not `__main__` in the process that reads it
    from tests.recovery import shared  # noqa: PLW0406

    trio.run(shared.main, sys.argv[1], Path(sys.argv[2]), sys.argv[3])
