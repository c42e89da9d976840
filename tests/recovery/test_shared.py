"""Two processes share a journal: each session belongs to one of them, and to the other when that is killed."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self, cast

import pytest
import trio

from agentrail.journals import MemoryJournal
from tests.recovery.shared import serve
from tests.recovery.witness import runs

pytestmark = pytest.mark.long

SESSIONS = ("s-1", "s-2", "s-3")
WORK = "pure idempotent checkable unsafe"


class Other:
    """Another process with a supervisor on the shared journal."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._left = b""

    @classmethod
    @asynccontextmanager
    async def started(cls, socket: str, folder: Path, address: str) -> AsyncIterator[Self]:
        command = [sys.executable, "-m", "tests.recovery.shared", socket, str(folder), address]
        process = await trio.lowlevel.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            yield cls(process)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()

    async def do(self, *command: str) -> object:
        await self.send(*command)
        return await self.answer()

    async def send(self, *command: str) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(json.dumps(command).encode() + b"\n")

    async def answer(self) -> object:
        assert self.process.stdout is not None
        while b"\n" not in self._left:
            piece = await self.process.stdout.receive_some()
            assert piece, "the process has ended"
            self._left += piece
        line, _, self._left = self._left.partition(b"\n")
        return cast("object", json.loads(line))

    async def leave(self) -> None:
        """Let the process leave its supervisor and end."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        assert await self.process.wait() == 0


async def test_a_session_goes_to_another_process_when_its_own_is_killed(tmp_path: Path) -> None:
    journal = MemoryJournal()
    socket = str(tmp_path / "socket")
    async with trio.open_nursery() as nursery:
        await nursery.start(serve, journal, socket)
        async with (
            Other.started(socket, tmp_path, "one") as item,
            Other.started(socket, tmp_path, "two") as two,
        ):
            for name in SESSIONS:
                assert await item.do("open", name) == "opened"
                assert await item.do("prompt", name, f"{name} {WORK}")
                assert await item.do("prompt", name, f"{name} again {WORK}")
            for name in SESSIONS:
                held = await two.do("open", name)
                assert isinstance(held, list)
                assert held[:3] == ["SessionHeld", name, "one"]
            item.process.send_signal(signal.SIGKILL)
            await item.process.wait()
            for name in SESSIONS:
                assert await two.do("resume when free", name) == "resumed"
            for name in SESSIONS:
                text, results = cast("tuple[list[str], list[str]]", await two.do("finish", name))
                assert text == [f"{name} {WORK}", f"{name} again {WORK}"]
                assert len(results) == 8
            ran = runs(tmp_path / "witness")
            for tool in ("checkable", "unsafe"):
                keys = [run.key for run in ran if run.tool == tool]
                assert len(keys) == len(set(keys))
            async with Other.started(socket, tmp_path, "three") as three:
                held = await three.do("open", "s-1")
                assert isinstance(held, list)
                assert held[:3] == ["SessionHeld", "s-1", "two"]
                await two.leave()
                assert await three.do("open", "s-1") == "opened"
                await three.leave()
        nursery.cancel_scope.cancel()
    for name in SESSIONS:
        records = await journal.read(name)
        assert [record.number for record in records] == list(range(1, len(records) + 1))
