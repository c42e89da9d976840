"""A sandbox of your own: files on the other side of a pipe, for a machine that you reach by `ssh` or a container.

`serve` runs there and has the files; `PipeSandbox` runs here and passes each call on, as a line of JSON with a number.
It passes `SandboxConformance`, the tests of what every sandbox must do. The other side is not trusted: what comes back
is read by the types that are expected, an error has to be one that a sandbox may raise, and a side that does not read
keeps nobody who is cancelled.

    created `notes.txt`: 1 line, 4 bytes
    4 bytes on the other side
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, suppress
from functools import partial
from subprocess import PIPE
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec
import trio

from agentrail import SessionSpec, open_supervisor
from agentrail.errors import (
    AgentrailError,
    BadEdit,
    BadPattern,
    CommandRefused,
    FileFailed,
    FileMissing,
    PathRefused,
    SearchTooSlow,
)
from agentrail.sandboxes import Content, Edited, Listing, Matches, MemorySandbox, Sandbox, Search, Written
from agentrail.testing import ScriptedModel, call, say
from agentrail.tools import standard_tools

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from agentrail.sandboxes import Command, Execution, OnOutput, Process

T = TypeVar("T")

LONGEST: Final = 64 * 1024 * 1024
"""The most bytes of a line."""


class Called(msgspec.Struct):
    """A call, on its way to the files."""

    number: int
    method: str
    args: msgspec.Raw


class Answer(msgspec.Struct):
    """An answer, on its way back: a value or an error."""

    number: int
    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    facts: tuple[str | int, ...] = ()


ARGS: Final = {
    "read": tuple[str, int, int],
    "write": tuple[str, bytes],
    "edit": tuple[str, bytes, bytes, bool],
    "exists": tuple[str],
    "list": tuple[str, int, bool],
    "glob": tuple[str, str, bool, int],
    "grep": tuple[Search],
}


ERRORS: Final = {
    kind.__name__: kind for kind in (BadEdit, BadPattern, FileFailed, FileMissing, PathRefused, SearchTooSlow)
}
"""The errors that the other side may answer with."""

GRACE: Final = 1.0
"""Seconds that a line has to be whole after its task was cancelled."""


class Lines:
    """A stream, read and written line by line."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._held = b""
        self._broken = False

    async def send(self, value: object) -> None:
        """Send a line, whole even if the task is cancelled; if `GRACE` is too short for that, no other is sent."""
        if not self._broken:
            sent, scope = trio.Event(), trio.CancelScope(shield=True)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._send_all, msgspec.json.encode(value) + b"\n", scope, sent)
                try:
                    await sent.wait()
                finally:
                    scope.deadline = trio.current_time() + GRACE
        if self._broken:
            raise trio.BrokenResourceError("it takes no more lines")

    async def _send_all(self, line: bytes, scope: trio.CancelScope, sent: trio.Event) -> None:
        self._broken = True
        with scope, suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._stream.send_all(line)
            self._broken = False
        sent.set()

    async def next(self) -> bytes:
        """Return the next line; empty at the end."""
        while b"\n" not in self._held:
            piece = await self._stream.receive_some(65536)
            if not piece or len(self._held) > LONGEST:
                return b""
            self._held += piece
        line, _, self._held = self._held.partition(b"\n")
        return line


async def serve(stream: trio.abc.Stream, files: Sandbox) -> None:
    """Carry out the calls that come through *stream*, one after the other, until it ends."""
    lines = Lines(stream)
    while line := await lines.next():
        called = msgspec.json.decode(line, type=Called)
        try:
            value = await carried_out(files, called.method, msgspec.json.decode(called.args, type=ARGS[called.method]))
        except AgentrailError as error:
            facts = tuple(fact if isinstance(fact, str | int) else str(fact) for fact in error.args)
            await lines.send(Answer(called.number, error=type(error).__name__, facts=facts))
        else:
            await lines.send(Answer(called.number, msgspec.Raw(msgspec.json.encode(value))))


async def carried_out(files: Sandbox, method: str, args: tuple[object, ...]) -> object:
    """Carry out one call."""
    match method, args:
        case "edit", (str(path), bytes(old), bytes(new), bool(every)):
            return await files.edit(path, old, new, every=every)
        case "list", (str(path), int(limit), bool(ignored)):
            return await files.list(path, limit, ignored=ignored)
        case "glob", (str(pattern), str(path), bool(ignored), int(limit)):
            return await files.glob(pattern, path, ignored=ignored, limit=limit)
        case _:
            return await getattr(files, method)(*args)


class PipeSandbox:
    """Files that `serve` has, at the other end of *stream*."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._lines = Lines(stream)
        self._lock = trio.Lock()
        self._number = 0

    async def _call(self, kind: type[T], method: str, *args: object) -> T:
        try:
            content = msgspec.json.encode(args)
        except (TypeError, UnicodeEncodeError):
            raise PathRefused(str(args[0]).encode(errors="replace").decode(), "no text") from None
        try:
            answer = await self._answer(method, content)
            if not answer.error:
                return msgspec.json.decode(answer.value, type=kind)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise FileFailed(method, str(args[0]), "the other side of the pipe has gone") from None
        except msgspec.MsgspecError:
            raise FileFailed(method, str(args[0]), "the other side of the pipe answers with something else") from None
        raise told(answer)

    async def _answer(self, method: str, args: bytes) -> Answer:
        """Send a call and return its answer."""
        async with self._lock:
            self._number += 1
            await self._lines.send(Called(self._number, method, msgspec.Raw(args)))
            while line := await self._lines.next():
                answer = msgspec.json.decode(line, type=Answer)
                if answer.number == self._number:  # an answer to a call that was cancelled is passed over
                    return answer
        raise trio.BrokenResourceError("it has ended")

    async def read(self, path: str, offset: int = 0, limit: int = 16 * 1024 * 1024) -> Content:
        return await self._call(Content, "read", path, offset, limit)

    async def write(self, path: str, data: bytes) -> Written:
        if not isinstance(data, bytes):
            raise FileFailed("write", path, "it wants bytes; give `text.encode()`")
        return await self._call(Written, "write", path, data)

    async def edit(self, path: str, old: bytes, new: bytes, *, every: bool = False) -> Edited:
        return await self._call(Edited, "edit", path, old, new, every)

    async def exists(self, path: str) -> bool:
        return await self._call(bool, "exists", path)

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        return await self._call(Listing, "list", path, limit, ignored)

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        return await self._call(Listing, "glob", pattern, path, ignored, limit)

    async def grep(self, search: Search) -> Matches:
        return await self._call(Matches, "grep", search)

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> Process:
        raise CommandRefused("this sandbox has files alone")

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:
        await trio.lowlevel.checkpoint()
        raise CommandRefused("this sandbox has files alone")


def told(answer: Answer) -> AgentrailError:
    """Return the error of the other side, if a sandbox may raise it; else one that says so."""
    try:
        return ERRORS[answer.error](*answer.facts)  # type: ignore[arg-type]  # if they do not fit, that is a `TypeError`
    except (KeyError, TypeError):
        pass
    return FileFailed("reach", "the other side", f"it answers with `{answer.error}`")


@asynccontextmanager
async def far_away() -> AsyncGenerator[PipeSandbox]:
    """Start the other side; in its place, a command such as `ssh host python pipe_sandbox.py serve` may stand."""
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, stdin=PIPE, stdout=PIPE, check=False)
        process = await nursery.start(run, [sys.executable, __file__, "serve"])
        async with trio.StapledStream(process.stdin, process.stdout) as pipe:
            yield PipeSandbox(pipe)


async def main() -> None:
    """Let a model write a file on the other side."""
    model = ScriptedModel([say(calls=[call("write_file", {"path": "notes.txt", "content": "Tea\n"})]), "Done."])
    async with far_away() as files, open_supervisor() as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, tools=standard_tools(), sandbox=files))
        await session.ask("Note: tea.")
        print(session.messages()[2].text)
        print(f"{(await files.read('notes.txt')).size} bytes on the other side")


async def serve_here() -> None:
    """Serve what is said to this process."""
    stdin, stdout = (trio.lowlevel.FdStream(stream.fileno()) for stream in (sys.stdin, sys.stdout))
    await serve(trio.StapledStream(stdout, stdin), MemorySandbox())


if __name__ == "__main__":
    trio.run(serve_here if sys.argv[1:] == ["serve"] else main)
