"""The client of the victim: it notes what it was told, to be compared with the journal after a crash."""

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import trio
from attrs import define, field

SESSIONS = ("s-1", "s-2", "s-3", "s-4")

CLEARS = 0.05
"""How often a user aborts with a cleared queue, instead of sending one command."""

GONE = (trio.BrokenResourceError, trio.ClosedResourceError, trio.EndOfChannel)


@define
class Sent:
    """A command that was sent, and its answer, if there was one."""

    session: str
    asked: dict[str, str]
    ref: str | None = None
    refused: str | None = None
    again: int = 0

    @property
    def acknowledged(self) -> bool:
        return self.ref is not None

    @property
    def answered(self) -> bool:
        return self.acknowledged or self.refused is not None


@define
class Doomed:
    """A session that was written, and may be erased."""

    canary: str
    """A text that only this session has."""
    asked: str = ""
    """`delete` or `redact`, if that was asked for."""
    is_done: bool = False
    """Whether that was acknowledged."""


@define
class Log:
    """All that a client knows; nothing of it comes from the journal."""

    sent: dict[str, Sent] = field(factory=dict)
    heard: dict[str, dict[int, str]] = field(factory=lambda: {session: {} for session in SESSIONS})
    held: dict[str, list[str]] = field(factory=lambda: {session: [] for session in SESSIONS})
    kinds: Counter[str] = field(factory=Counter)
    changed: list[str] = field(factory=list)
    doomed: dict[str, Doomed] = field(factory=dict)

    def since(self, session: str) -> int:
        return max(self.heard[session], default=0)

    def hear(self, values: dict[str, str]) -> None:
        """Note an event; one that comes again must be the same."""
        session, seq, digest = values["event"], int(values["seq"]), values["digest"]
        heard = self.heard[session]
        if seq != len(heard) + 1 and heard.get(seq) != digest:
            self.changed.append(f"{session} event {seq}")
        heard[seq] = digest
        self.kinds[values["name"]] += 1
        if values["name"] == "ApprovalRequired":
            self.held[session].append(values["approval"])
        elif values["name"] == "ApprovalResolved":
            with suppress(ValueError):
                self.held[session].remove(values["approval"])


class Connection:
    """The client's connection to one life of the victim."""

    def __init__(self, stream: trio.SocketStream, log: Log) -> None:
        self._stream = stream
        self._log = log
        self._sending = trio.Lock()
        self._asked = 0
        self._waiting: dict[str, trio.MemorySendChannel[dict[str, str]]] = {}

    async def listen(self) -> None:
        """Note what the victim sends until it is gone; then end all waiting requests."""
        buffer = b""
        try:
            async for received in self._stream:
                *lines, buffer = (buffer + received).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        except GONE:
            pass
        finally:
            for channel in self._waiting.values():
                channel.close()

    def _take(self, values: dict[str, str]) -> None:
        if "event" in values:
            self._log.hear(values)
        else:
            self._waiting.pop(values["answer"]).send_nowait(values)

    async def ask(self, **asked: str) -> dict[str, str]:
        """Send a request and return the answer; raise one of `GONE` if there will be none."""
        self._asked += 1
        number = str(self._asked)
        sending, receiving = trio.open_memory_channel[dict[str, str]](1)
        self._waiting[number] = sending
        async with self._sending:
            await self._stream.send_all(json.dumps({"id": number, **asked}).encode() + b"\n")
        with receiving:
            return await receiving.receive()

    async def open(self, session: str) -> None:
        """Open a session, hear its events from now on, and note which of its calls are held."""
        reply = await self.ask(do="open", session=session, since=str(self._log.since(session)))
        assert "ref" in reply, reply
        self._log.held[session] = json.loads(reply["ref"])

    async def rest(self, session: str) -> None:
        """Return when no work of a session is under way; calls that are held are rejected."""
        while held := json.loads((await self.ask(do="rest", session=session))["ref"]):
            await self.ask(do="reject", session=session, approval=held[0])

    async def command(self, name: str, sent: Sent) -> None:
        """Send a command, the first time or again, and note the answer."""
        reply = await self.ask(session=sent.session, command=name, **sent.asked)
        old = (sent.ref, sent.refused)
        sent.ref, sent.refused = reply.get("ref"), reply.get("error")
        if old not in ((None, None), (sent.ref, sent.refused)):
            self._log.changed.append(f"the answer to {name}: {old}, then {reply}")


class Victim:
    """The process that forks a process for each life."""

    def __init__(self, folder: Path, program: str = "tests.recovery.victim") -> None:
        self.folder = folder
        self.log = Log()
        self._program = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-m", program, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    async def _line(self) -> int:
        assert self._program.stdout is not None
        return int(await trio.to_thread.run_sync(self._program.stdout.readline))

    @asynccontextmanager
    async def life(self, *, arm: str = "") -> AsyncIterator[tuple[Connection, int]]:
        """Start one life, and kill it when the block is left."""
        with tempfile.TemporaryDirectory() as temporary_directory:
            socket = trio.socket.socket(trio.socket.AF_UNIX)
            await socket.bind(f"{temporary_directory}/s")
            socket.listen()
            assert self._program.stdin is not None
            self._program.stdin.write(f"{temporary_directory}/s {arm}\n")
            self._program.stdin.flush()
            pid = await self._line()
            with socket:
                accepted, _ = await socket.accept()
            async with trio.SocketStream(accepted) as stream, trio.open_nursery() as nursery:
                connection = Connection(stream, self.log)
                nursery.start_soon(connection.listen)
                try:
                    yield connection, pid
                finally:
                    os.kill(pid, signal.SIGKILL)
            self.status = await self._line()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.communicate(timeout=60)
        assert self._program.returncode == 0


class User:
    """Uses one session, as long as the victim lives."""

    def __init__(self, victim: Victim, session: str, chance: random.Random) -> None:
        self._log = victim.log
        self._session = session
        self._chance = chance
        self._count = 0

    async def use(self, connection: Connection) -> None:
        """Send again all commands without an answer and some with one, then new commands."""
        with suppress(*GONE):
            await connection.open(self._session)
            await self.repeat(connection)
            while True:
                await trio.sleep(self._chance.random() * 0.01)
                if self._chance.random() < CLEARS:
                    await self._clear(connection)
                else:
                    await connection.command(*self._next())

    async def repeat(self, connection: Connection) -> None:
        """Send again all commands without an answer, and some with one."""
        for name, sent in self._doubtful():
            sent.again += 1
            await connection.command(name, sent)

    async def _clear(self, connection: Connection) -> None:
        """Send prompts, new ones and some that were answered before, together with an abort that clears the queue."""
        answered = [pair for pair in self._mine() if pair[1].asked["do"] == "prompt" and pair[1].answered]
        again = self._chance.sample(answered, min(2, len(answered)))
        new = [self._new(self._prompt) for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for name, sent in (*new, *again, self._new(lambda _: {"do": "abort", "clear": "yes"})):
                sent.again += (name, sent) in again
                nursery.start_soon(self._command, connection, name, sent)
        for name, sent in (*new, *again):
            sent.again += 1
            await connection.command(name, sent)

    async def _command(self, connection: Connection, name: str, sent: Sent) -> None:
        with suppress(*GONE):
            await connection.command(name, sent)

    def _mine(self) -> list[tuple[str, Sent]]:
        return [(name, sent) for name, sent in self._log.sent.items() if sent.session == self._session]

    def _doubtful(self) -> list[tuple[str, Sent]]:
        mine = self._mine()
        done = [pair for pair in mine if pair[1].answered]
        open_ = [pair for pair in mine if not pair[1].answered]
        return open_ + self._chance.sample(done, min(3, len(done)))

    def _new(self, make: Callable[[str], dict[str, str]]) -> tuple[str, Sent]:
        """Return a command with a new id."""
        self._count += 1
        name = f"{self._session}-{self._count}"
        sent = self._log.sent[name] = Sent(self._session, make(name))
        return name, sent

    def _next(self) -> tuple[str, Sent]:
        held = self._log.held[self._session]
        if held and self._chance.random() < 0.8:
            decided = {"do": self._chance.choice(("approve", "approve", "reject")), "approval": held[0]}
            return self._new(lambda _: decided)
        makes = (self._prompt, self._steering, lambda _: {"do": "abort"})
        return self._new(self._chance.choices(makes, (10, 3, 1))[0])

    def _prompt(self, name: str) -> dict[str, str]:
        tools = ("pure", "idempotent", "checkable", "unsafe", "risky")
        text = " ".join(self._chance.choices(tools, k=self._chance.randrange(4)))
        return {"do": "prompt", "text": f"[{name}] {text}"}

    def _steering(self, name: str) -> dict[str, str]:
        return {"do": "steer", "text": f"[{name}]", "when": self._chance.choice(("gap", "now"))}


class Eraser:
    """Writes sessions, and erases most of them as long as the victim lives."""

    def __init__(self, victim: Victim, chance: random.Random) -> None:
        self._log = victim.log
        self._chance = chance
        self._left: list[str] = []

    async def prepare(self, connection: Connection, count: int) -> None:
        """Write *count* sessions, one of which is kept."""
        for _ in range(count):
            name = f"d-{len(self._log.doomed) + 1}"
            doomed = Doomed(f"canary-{name}-{self._chance.random()} ")
            text = doomed.canary * self._chance.choice((1, 3, 1_500))
            reply = await connection.ask(do="write", session=name, text=text)
            assert "error" not in reply, reply
            self._log.doomed[name] = doomed
            self._left.append(name)
        self._left.pop(0)

    async def use(self, connection: Connection) -> None:
        """Ask again for what was not acknowledged, then erase what is left."""
        with suppress(*GONE):
            await self.repeat(connection)
            while self._left:
                await trio.sleep(self._chance.random() * 0.1)
                doomed = self._log.doomed[name := self._left.pop()]
                doomed.asked = self._chance.choice(("delete", "redact"))
                await self._erase(connection, name, doomed)

    async def repeat(self, connection: Connection) -> None:
        """Ask again for what was asked for before, and not acknowledged."""
        for name, doomed in self._log.doomed.items():
            if doomed.asked and not doomed.is_done:
                await self._erase(connection, name, doomed)

    async def _erase(self, connection: Connection, name: str, doomed: Doomed) -> None:
        reply = await connection.ask(do=doomed.asked, session=name)
        is_gone = doomed.asked == "delete" and reply.get("error") == "SessionNotStored"
        assert is_gone or "error" not in reply, reply
        doomed.is_done = True
