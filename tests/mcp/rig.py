"""Sessions that call what they are told to, and servers to be called."""

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeAlias

import trio

from agentrail import SessionHandle
from agentrail.mcp import McpServer
from agentrail.models import Json, Model, ModelRequest, ToolMessage
from agentrail.testing import ScriptedModel, call, say
from tests.free_port import free_port
from tests.kit import Element
from tests.patience import PATIENCE, within

HERE = Path(__file__).parent
SMALL = (sys.executable, str(HERE / "small.py"))
LIBRARY = (sys.executable, str(HERE / "library.py"))
ASKING = (sys.executable, str(HERE / "asking.py"))
SHOP = (sys.executable, str(HERE / "shop.py"))
PLAIN_SHOP = (sys.executable, "-I", "-S", str(HERE / "plain_shop.py"))
RAW = (sys.executable, "-I", "-S", str(HERE / "raw.py"))

NO_EXTRA = "the extra `mcp` is not installed"

NUMBERS = count()

AT_ONCE = within(5.0)
"""Seconds that nothing takes which waits for no server: such a wait is given up after 10 s."""


def obedient() -> Model:
    """A model that calls the tool which the prompt names."""

    def obey(request: ModelRequest) -> Element:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return "done"
        wanted = json.loads(last.text)
        return say(calls=[call(wanted["tool"], wanted["args"])])

    return ScriptedModel([obey], repeat_last=True)


def asked(tool: str, args: Mapping[str, Json]) -> str:
    return json.dumps({"tool": tool, "args": args})


async def use(session: SessionHandle, tool: str, **args: Json) -> ToolMessage:
    """Have the session call a tool; return what came of it."""
    with trio.fail_after(PATIENCE):
        await session.ask(asked(tool, args))
    last = session.messages()[-2]
    assert isinstance(last, ToolMessage)
    return last


async def until(holds: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Wait until something *holds* of the world outside."""
    with trio.fail_after(seconds):
        while not holds():  # noqa: ASYNC110 - only the system knows
            await trio.sleep(0.005)


def processes(marked: str) -> list[int]:
    """Return the processes whose command or environment has a text in it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            said = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if marked.encode() in said and state != "Z" and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


class Marked:
    """A command whose processes, and whatever they start, can be told from others."""

    def __init__(self) -> None:
        self.mark = f"mcp-mark-{os.getpid()}-{next(NUMBERS)}"
        self.forked: list[int] = []
        """Processes that were forked: what they were given is not seen from outside."""

    def server(self, command: Sequence[str], **options: object) -> McpServer:
        return McpServer(command, env={"MARK": self.mark}, **options)  # type: ignore[arg-type]  # a test may give any

    def alive(self) -> list[int]:
        return [*processes(self.mark), *(pid for pid in self.forked if _command(pid))]

    def named(self, part: str) -> list[int]:
        return [pid for pid in self.alive() if part in _command(pid)]

    def only(self, part: str) -> int:
        """Return the one process of a command itself, not that which launches it."""
        (found,) = (pid for pid in self.named(part) if "launcher.py" not in _command(pid))
        return found


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").replace("\0", " ")
    except OSError:
        return ""


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Keep a process from doing anything: who waits for it would wait to the end of the block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Forked:
    """A process that another one has forked for a test, as much as there is to do with it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ends = os.pidfd_open(pid)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._ends, signal.SIGKILL)

    def wait(self) -> None:
        assert select.select([self._ends], [], [], PATIENCE)[0]
        os.close(self._ends)


class Forking:
    """A process that has imported the package `mcp` once, and forks a server by HTTP for each test."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> Forked:
        """Start a server of ours."""
        if self._process is None:
            self._process = subprocess.Popen(  # noqa: S603 - our own
                [sys.executable, str(HERE / "forking.py"), SMALL[1], SHOP[1], ASKING[1], LIBRARY[1]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        given, told = self._process.stdin, self._process.stdout
        assert given
        assert told
        given.write(json.dumps({"words": command[1:], "env": env}) + "\n")
        given.flush()
        return Forked(int(told.readline()))

    def end(self) -> None:
        if self._process is not None:
            self._process.communicate()


def started(command: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start a server of any kind, with an interpreter of its own."""
    return subprocess.Popen(  # noqa: S603 - one of ours or from npm
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


Start: TypeAlias = "Callable[[Sequence[str], Mapping[str, str]], Forked | subprocess.Popen[bytes]]"


class Remote:
    """A server that is called by HTTP, and that can be ended and started again."""

    def __init__(self, start: Start, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.port = free_port()
        self._start = start
        self._command = [word.replace("{port}", str(self.port)) for word in command]
        self._env = {**os.environ, **env, "PORT": str(self.port)}
        self._process: Forked | subprocess.Popen[bytes] | None = None
        self.url = f"http://127.0.0.1:{self.port}/mcp"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        self._process = self._start(self._command, self._env)
        await until(self._accepts)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()


@asynccontextmanager
async def remote(*command: str, start: Start = started, **env: str) -> AsyncIterator[Remote]:
    made = Remote(start, command, env)
    await made.start()
    try:
        yield made
    finally:
        made.kill()


def node_server(name: str) -> tuple[str, ...] | None:
    """Return the command of a server from npm, if it and node are there."""
    folder = HERE.parents[1] / "build" / "mcp" / "node_modules" / "@modelcontextprotocol" / f"server-{name}"
    node = shutil.which("node")
    return (node, str(folder / "dist" / "index.js")) if node and folder.is_dir() else None
