"""A sandbox on a machine elsewhere: E2B's, by the HTTP interface that its documentation describes.

Each session gets a machine of its own at its first call; it is paused while the session sleeps, and ends with it. No
account was at hand: a test runs this against an imitation of that interface (`tests/docs/test_e2b_sandbox.py`).

    SessionSpec(model=…, tools=standard_tools(), sandbox=E2BSandbox(api_key))
"""

import base64
import json
import struct
from collections.abc import AsyncIterator
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import Any

import httpx
import trio

from agentrail.errors import BadEdit, CommandRefused, FileFailed, FileMissing, PathRefused
from agentrail.sandboxes import (
    Command,
    Content,
    Edited,
    Entry,
    Execution,
    Heard,
    Kind,
    Listing,
    Match,
    Matches,
    OnOutput,
    Output,
    Search,
    Written,
)

HOME = "/home/user"
KINDS = {"f": Kind.FILE, "d": Kind.FOLDER, "l": Kind.LINK}


def at_home(path: str) -> str:
    """Return the whole path of *path*; refuse one that leads elsewhere."""
    if path.startswith(("/", "~")) or not path.strip() or ".." in path.split("/") or not path.isprintable():
        raise PathRefused(path, "give one that goes down from the root")
    return str(PurePosixPath(HOME, path))


class E2BSandbox:
    """Files and commands on a machine of E2B, made from *template*; commands reach the network of that machine."""

    def __init__(self, api_key: str, template: str = "base", api: str = "https://api.e2b.app", envd: str = "") -> None:
        self._made_with = (api_key, template, api, envd)
        self._api = httpx.AsyncClient(base_url=api, headers={"X-API-Key": api_key}, timeout=60)
        self._template, self._envd, self._id, self._paused = template, envd, "", False
        self._machine: httpx.AsyncClient | None = None
        self._starting = trio.Lock()

    def __repr__(self) -> str:
        return f"<E2BSandbox {self._id}>"

    def for_session(self) -> "E2BSandbox":
        return E2BSandbox(*self._made_with)

    async def machine(self) -> httpx.AsyncClient:
        """Return the client of the machine, which is started or waked if need be."""
        async with self._starting:
            if self._machine is None:
                body = {"templateID": self._template, "timeout": 3600, "secure": True}
                made = (await self._api.post("/sandboxes", json=body)).raise_for_status().json()
                self._id, base = made["sandboxID"], self._envd or f"https://49983-{made['sandboxID']}.e2b.app"
                self._machine = httpx.AsyncClient(
                    base_url=base, headers={"X-Access-Token": made["envdAccessToken"]}, timeout=60
                )
            elif self._paused:
                (await self._api.post(f"/sandboxes/{self._id}/connect", json={"timeout": 3600})).raise_for_status()
                self._paused = False
            return self._machine

    async def pause(self) -> None:
        if self._id and not self._paused:
            (await self._api.post(f"/sandboxes/{self._id}/pause")).raise_for_status()
            self._paused = True

    async def close(self) -> None:
        if self._id:
            await self._api.delete(f"/sandboxes/{self._id}")
        for client in filter(None, (self._machine, self._api)):
            await client.aclose()

    async def read(self, path: str, offset: int = 0, limit: int = 16 * 1024**2) -> Content:
        answer = await (await self.machine()).get("/files", params={"path": at_home(path)})
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise FileMissing("read", path, "file or folder")
        if answer.is_error:
            raise FileFailed("read", path, answer.text[:200])
        return Content(answer.content[offset : offset + limit], len(answer.content))

    async def write(self, path: str, data: bytes) -> Written:
        there = await self.exists(path)
        files = {"file": (PurePosixPath(path).name, data)}
        answer = await (await self.machine()).post("/files", params={"path": at_home(path)}, files=files)
        if answer.is_error:
            raise FileFailed("write", path, answer.text[:200])
        return Written(len(data), created=not there)

    async def edit(self, path: str, old: bytes, new: bytes, *, every: bool = False) -> Edited:
        data = (await self.read(path)).data
        times = data.count(old) if old else 0
        if not times or (times > 1 and not every):
            raise BadEdit(path, times, "at least 1" if every else "exactly 1")
        written = await self.write(path, data.replace(old, new))
        return Edited(times, written.size)

    async def exists(self, path: str) -> bool:
        return (await self.execute(Command(("test", "-e", at_home(path))))).exit_code == 0

    async def list(self, path: str = ".", limit: int = 1000, *, ignored: bool = True) -> Listing:
        return await self._find(path, ("-maxdepth", "1"), "*", limit)

    async def glob(self, pattern: str, path: str = ".", *, ignored: bool = False, limit: int = 1000) -> Listing:
        return await self._find(path, ("-type", "f"), pattern, limit)

    async def _find(self, path: str, options: tuple[str, ...], pattern: str, limit: int) -> Listing:
        words = ("find", at_home(path), "-mindepth", "1", *options, "-printf", r"%y %s %P\0")
        found = await self.execute(Command(words, keep=4 * 1024**2))
        if found.exit_code:
            raise FileMissing("list", path, "folder")
        entries = []
        for kind, size, name in (row.split(" ", 2) for row in found.stdout.text.split("\0") if row.count(" ") > 1):
            if fnmatch(name if "/" in pattern else PurePosixPath(name).name, pattern):
                inner = str(PurePosixPath(path, name))
                entries.append(Entry(inner, KINDS.get(kind, Kind.OTHER), int(size) if kind == "f" else 0))
        return Listing(tuple(sorted(entries, key=lambda entry: entry.path)[:limit]), cut=len(entries) > limit)

    async def grep(self, search: Search) -> Matches:
        flags = ["-rnIZF" if search.fixed else "-rnIZE", *(["-i"] if search.ignore_case else [])]
        words = ("grep", *flags, "-e", search.pattern, "--", at_home(search.path))
        found = await self.execute(Command(words, keep=4 * 1024**2))
        rows = [row.split("\0", 1) for row in found.stdout.text.splitlines() if "\0" in row]
        matches = [
            Match(str(PurePosixPath(name).relative_to(HOME)), int(number), line)
            for name, rest in rows
            for number, _, line in [rest.partition(":")]
        ]
        return Matches(tuple(matches[: search.limit]), cut=len(matches) > search.limit)

    def prepare(self, command: Command, on_output: OnOutput | None = None) -> "E2BProcess":
        if not command.run or not "".join(command.run).strip() or "\0" in "".join(command.run):
            raise CommandRefused("it is empty, or has a NUL character")
        return E2BProcess(self, command, at_home(command.folder), on_output)

    async def execute(self, command: Command, on_output: OnOutput | None = None) -> Execution:
        return await self.prepare(command, on_output).run()


class E2BProcess:
    """One command. What it starts in the background, and leaves its process group, ends with the machine."""

    def __init__(self, sandbox: E2BSandbox, command: Command, folder: str, on_output: OnOutput | None) -> None:
        self._sandbox, self._command, self._folder, self._on_output = sandbox, command, folder, on_output
        self._texts = {"stdout": bytearray(), "stderr": bytearray()}
        self._scope, self._killed = trio.CancelScope(), False
        self.execution: Execution | None = None

    def heard(self, since: int = 0) -> Heard:
        return Heard(bytes(self._texts["stdout"][since:]), len(self._texts["stdout"]))

    def kill(self) -> None:
        self._killed = True
        self._scope.cancel()

    async def run(self) -> Execution:
        machine, pid, code = await self._sandbox.machine(), 0, -9
        run = self._command.run
        words = ("/bin/bash", "-c", run) if isinstance(run, str) else run
        config = {"cmd": words[0], "args": words[1:], "envs": dict(self._command.env), "cwd": self._folder}
        self._scope.deadline = trio.current_time() + self._command.timeout
        try:
            with self._scope:
                async for event in started(machine, {"process": config, "stdin": False}):
                    if "start" in event:
                        pid = event["start"]["pid"]
                    for name, text in event.get("data", {}).items():
                        self._take("stdout" if self._command.merge else name, base64.b64decode(text))
                    if "end" in event:
                        code = event["end"].get("exitCode", 0)
        finally:
            if code < 0 and pid:
                with trio.CancelScope(shield=True), trio.move_on_after(5):
                    signal = {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}
                    await machine.post("/process.Process/SendSignal", json=signal)
        late = self._scope.cancelled_caught and not self._killed
        out, err = (self._output(name) for name in ("stdout", "stderr"))
        self.execution = Execution(code, out, err, late, self._killed, clean=code >= 0)
        return self.execution

    def _take(self, name: str, piece: bytes) -> None:
        self._texts[name] += piece
        if self._on_output is not None:
            self._on_output(piece)

    def _output(self, name: str) -> Output:
        text, half = bytes(self._texts[name]), max(self._command.keep // 2, 1)
        return Output(text, b"", len(text)) if len(text) <= 2 * half else Output(text[:half], text[-half:], len(text))


async def started(machine: httpx.AsyncClient, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
    """Start a process, and yield its events: messages of the Connect protocol, each with a flag and its length."""
    data = json.dumps(body).encode()
    headers = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}
    content = struct.pack(">BI", 0, len(data)) + data
    async with machine.stream(
        "POST", "/process.Process/Start", content=content, headers=headers, timeout=httpx.Timeout(60, read=None)
    ) as answer:
        answer.raise_for_status()
        held = b""
        async for piece in answer.aiter_bytes():
            held += piece
            while len(held) >= 5 and len(held) >= 5 + (length := struct.unpack(">I", held[1:5])[0]):
                flag, message, held = held[0], json.loads(held[5 : 5 + length]), held[5 + length :]
                if flag & 2 and "error" in message:
                    raise CommandRefused(str(message["error"].get("message"))[:200])
                yield message.get("event", {})
