"""Clients of a host that is deployed again and again, and what must be true of their logs and the journal."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from subprocess import DEVNULL

import trio
from attrs import define

from agentrail.events import AgentAbort, Envelope, PromptReceived, ToolUnknown
from agentrail.journals import Journal, SqliteJournal
from tests.host.commanded import SERVE, Served, commanded
from tests.host.deployed import desk
from tests.host.deployed.client import Client
from tests.host.hosted import KEYS, LINES
from tests.patience import within

BACKLOG = 4096

REST = within(30.0)
"""The most seconds in which all turns end once nothing ends the process."""


def bytecode_in(folder: Path) -> dict[str, str]:
    """Return an environment whose processes keep bytecode in *folder*, as an installed package has it."""
    return {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


@define
class Deployment:
    """The folder and the listening socket of a host, whichever process serves there."""

    folder: Path
    listener: socket.socket

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    @property
    def env(self) -> dict[str, str]:
        """The environment of its processes."""
        return bytecode_in(self.folder)

    @asynccontextmanager
    async def process(self) -> AsyncGenerator[Served]:
        """Serve by a process; it is killed at the end if it still runs."""
        number = self.listener.fileno()
        command = [*SERVE, desk.__file__, "--descriptor", str(number)]
        async with commanded(command, self.folder, descriptors=[number], env=self.env) as process:
            yield process

    def clients(self, count: int, seed: int, longest: float, kinds: Sequence[type[Client]] = (Client,)) -> list[Client]:
        """Return clients of these kinds, in turn."""
        pairs = zip((f"s{number}" for number in range(count)), cycle(kinds), strict=False)
        return [kind(self.port, KEYS["ann"], name, Random(f"{seed} {name}"), longest) for name, kind in pairs]

    async def kill(self, chance: Random) -> None:
        """Serve by a process that is killed at some moment: in a quarter of the cases while it starts."""
        if chance.random() < 0.25:
            number = self.listener.fileno()
            command = [*SERVE, desk.__file__, "--descriptor", str(number)]
            run = partial(
                trio.run_process, cwd=self.folder, stdout=DEVNULL, stderr=DEVNULL, pass_fds=[number], env=self.env
            )
            with trio.move_on_after(chance.uniform(0.2, 1.2)):
                await run(command, deliver_cancel=_kill)
        else:
            async with self.process() as served:
                await trio.sleep(chance.uniform(0, 0.8))
                served.process.kill()
                assert await served.process.wait() == -signal.SIGKILL

    def calls(self, what: str) -> list[tuple[str, float]]:
        """Return the keys of the calls that have `began`, or `ended`, and when."""
        file = self.folder / desk.WITNESS
        lines = [line.split() for line in file.read_text().splitlines()] if file.exists() else []
        return [(key, float(time)) for which, key, time in lines if which == what]

    def times(self, what: str) -> list[float]:
        """Return the times at which calls have `began`, or `ended`."""
        return sorted(time for _, time in self.calls(what))


async def _kill(process: trio.Process) -> None:
    process.kill()
    await process.wait()


@asynccontextmanager
async def deployment(folder: Path) -> AsyncGenerator[Deployment]:
    """Keep a socket that listens, whichever process accepts."""
    folder.mkdir()  # noqa: ASYNC240 - nothing else runs yet
    (folder / "keys.txt").write_text(LINES, encoding="utf-8")
    (folder / "keys.txt").chmod(0o600)
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        yield Deployment(folder, listener)


async def stored(journal: Journal) -> dict[str, list[Envelope]]:
    """Return the durable events of all sessions."""
    try:
        return {
            session.session_id.rpartition(".")[2]: [
                envelope
                for record in await journal.read(session.session_id, 0, 1_000_000)
                for envelope in record.events
            ]
            for session in await journal.sessions()
        }
    finally:
        await journal.close()


async def checked(hosts: Deployment, clients: Sequence[Client], journal: Journal | None = None) -> Counter[str]:
    """Check that nothing acknowledged is lost, and nothing doubled; return some figures."""
    figures = Counter[str]()
    sessions = await stored(journal or SqliteJournal(hosts.folder / "kept.db"))
    began = Counter(key for key, _ in hosts.calls("began"))
    assert [key for key, count in began.items() if count > 1] == []
    for client in clients:
        events = sessions[client.session]
        received = [event.event.ref for event in events if isinstance(event.event, PromptReceived)]
        assert len(received) == len(set(received))
        assert set(client.acknowledged.values()) <= set(received)
        prompts = [event.event.text for event in events if isinstance(event.event, PromptReceived)]
        texts = [text for text in prompts if text.startswith(client.session)]  # others steered when no turn was open
        assert texts == list(client.acknowledged)  # each was sent until it was acknowledged
        durable = [frame.cursor for frame in client.heard if frame.cursor[1] == 0]
        assert durable == [(event.seq, 0) for event in events[: len(durable)]]
        assert [frame.cursor for frame in client.heard] == sorted({frame.cursor for frame in client.heard})
        figures["aborted"] += sum(isinstance(event.event, AgentAbort) for event in events)
        figures["acknowledged"] += len(client.acknowledged)
        figures["unknown"] += sum(isinstance(event.event, ToolUnknown) for event in events)
        figures["events"] += len(client.heard)
        figures["cuts"] += len(client.cuts)
        figures["refused"] += client.refused
        figures["told to come again"] += client.statuses[503]
    return figures


async def ended(server: Served) -> float:
    """End a process by SIGTERM, and return when it had ended."""
    server.process.send_signal(signal.SIGTERM)
    assert await server.process.wait() == 0
    return time.monotonic()


async def come_to_rest(clients: Sequence[Client]) -> None:
    """Have each client take the turn that is under way to its end, and wait for that."""
    for client in clients:
        client.over = True
    with trio.fail_after(REST):
        for client in clients:
            await client.rests.wait()
