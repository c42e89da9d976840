"""What works on Windows too, and what is refused there, as a program that a test runs where that is simulated."""

import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import httpx
import pytest
import trio

from agentrail import SessionSpec, open_supervisor, tool
from agentrail.cli.folder.surface import Surface
from agentrail.cli.trust.trust_store import allow, forget, unallowed, withdraw
from agentrail.errors import CannotListen, FileFailed, PathRefused, UsageError
from agentrail.host import ApiKeys, Host, Identity, Profile
from agentrail.host.authentication.api_keys import ApiKey, KeyFile
from agentrail.journals import Lease, SqliteJournal
from agentrail.mcp import McpServer
from agentrail.sandboxes import Command, LocalSandbox, MemorySandbox
from tests.coded import coded

SIMULATED = (sys.executable, "-m", "tests.platforms.simulated", "win32")
SCENES: dict[str, Callable[[Path], Awaitable[None]]] = {}


def scene(function: Callable[[Path], Awaitable[None]]) -> Callable[[Path], Awaitable[None]]:
    SCENES[function.__name__] = function
    return function


@tool
async def add(first: int, second: int) -> int:
    """Add two numbers."""
    return first + second


SPEC = SessionSpec(model="demo", tools=(add,))


@scene
async def a_session_comes_back_from_its_journal(folder: Path) -> None:
    journal = SqliteJournal(folder / "sessions.db")
    async with open_supervisor(journal=journal) as supervisor:
        await (await supervisor.spawn(SPEC, id="s")).ask("Who are you?")
    await journal.close()
    journal = SqliteJournal(folder / "sessions.db")
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s", SPEC)
        assert session.messages()[0].text == "Who are you?"
        await session.ask("Who are you?")
        await session.stop()
        await supervisor.delete("s")
    await journal.close()


@scene
async def a_session_has_one_writer(folder: Path) -> None:
    journal = SqliteJournal(folder / "sessions.db")
    await journal.claim("s", "one", Lease(0, 10**15))
    command = [*SIMULATED, "tests.platforms.other_writer", str(journal.path)]
    # Not by Trio: its processes have other pipes on Windows
    other = await trio.to_thread.run_sync(partial(subprocess.run, command, check=True, capture_output=True, text=True))
    assert "session `s` is held by `one`" in other.stdout
    await journal.close()


@scene
async def files_in_memory_are_worked_with(_: Path) -> None:
    sandbox = MemorySandbox()
    await sandbox.write("a/b.txt", b"tea\r\n")
    assert (await sandbox.read("a/b.txt")).data == b"tea\r\n"
    for path in ("..\\x", "a\\..\\..\\x"):
        with pytest.raises(PathRefused):
            await sandbox.read(path)


@scene
async def files_of_the_machine_are_refused_in_words(folder: Path) -> None:
    sandbox = LocalSandbox(folder)
    with pytest.raises(FileFailed, match="Windows Subsystem for Linux"):
        await sandbox.write("a.txt", b"tea")
    with pytest.raises(FileFailed, match="Windows Subsystem for Linux"):
        await sandbox.execute(Command("echo tea"))
    async with open_supervisor() as supervisor:
        spec = SPEC.but(working_dir=str(folder), memory=("AGENTS.md",), skills=(".agents/skills",))
        session = await supervisor.spawn(spec)
        assert "demo model" in (await session.ask("Who are you?")).text


@scene
async def a_server_that_is_a_command_is_refused_in_words(_: Path) -> None:
    server = McpServer((sys.executable, "-c", "pass"), name="here")
    async with open_supervisor() as supervisor:
        with pytest.raises(UsageError, check=coded("bad-mcp-server"), match="reach it by a `url`"):
            await supervisor.spawn(SPEC.but(tools=(server,)))


@scene
async def a_host_serves_at_the_loopback_address(folder: Path) -> None:
    journal = SqliteJournal(folder / "hosted.db")
    host = Host([Profile("desk", SPEC)], journal=journal)
    async with host.serving() as serving:
        token = serving.entry.partition("#token=")[2]
        async with httpx.AsyncClient(base_url=serving.url) as client:
            assert (await client.get("/v1/sessions")).status_code == 401
            client.headers["authorization"] = f"Bearer {token}"
            assert (await client.get("/v1/sessions")).status_code == 200
    with pytest.raises(CannotListen, match="none that Python can use"):
        async with host.serving(unix=folder / "host.sock"):
            pass
    await journal.close()


@scene
async def keys_are_made_and_withdrawn(folder: Path) -> None:
    file, key = (
        KeyFile(folder / "keys"),
        ApiKey("k1", "0" * 64, Identity("acme", "ada", frozenset({"talk"})), "2026-11-26"),
    )
    file.add(key)
    file.add(key.but(id="k2"))
    assert repr(ApiKeys(folder / "keys")) == "<ApiKeys, 2 keys>"
    file.withdraw("k1")
    assert {*file.keys()} == {"k2"}


@scene
async def what_is_allowed_is_stored_and_forgotten(folder: Path) -> None:
    surfaces = [Surface("mode", '"yes"'), Surface("system", '"Be quick"')]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTRAIL_HOME", str(folder / "home"))
        allow(folder, surfaces[:1])
        allow(folder, surfaces[1:])
        assert unallowed(folder, surfaces) == ()
        withdraw(folder, surfaces[:1])
        assert unallowed(folder, surfaces) == (surfaces[0],)
        assert forget(folder) == 1


if __name__ == "__main__":
    for name, play in SCENES.items():
        with tempfile.TemporaryDirectory() as folder:
            trio.run(play, Path(folder))
        sys.stdout.write(f"{name}\n")
