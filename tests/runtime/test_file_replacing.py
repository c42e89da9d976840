"""`replace_file`: of several writers that have read the same text, none takes away what another has written."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

from agentrail.errors import FileFailed
from agentrail.runtime.work.plugin_files import replace_file
from agentrail.sandboxes import CompositeSandbox, LocalSandbox, MemorySandbox, Sandbox

KINDS = ("memory", "local", "composite")


def made(kind: str, folder: Path) -> Sandbox:
    match kind:
        case "memory":
            return MemorySandbox({})
        case "local":
            return LocalSandbox(folder)
        case _:
            return CompositeSandbox({"other": MemorySandbox({})}, MemorySandbox({}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("old_data", [None, b"[]"])
def test_of_writers_at_the_same_moment_one_wins_and_the_others_are_told(
    kind: str, old_data: bytes | None, tmp_path: Path
) -> None:
    sandbox = made(kind, tmp_path)
    won, lost = trio.run(written_by_five, sandbox, old_data)  # in real time: a disk needs threads
    text = "cannot write `notes`: it does not hold the text that is to be replaced; read it again"
    assert (won, lost) == ([trio.run(sandbox.read, "notes").data], [text] * 4)


async def written_by_five(sandbox: Sandbox, old_data: bytes | None) -> tuple[list[bytes], list[str]]:
    """Return what five writers at the same moment have written, and the errors of the others."""
    if old_data is not None:
        await sandbox.write("notes", old_data)
    won: list[bytes] = []
    lost: list[str] = []

    async def write(data: bytes) -> None:
        try:
            await replace_file(sandbox, "notes", data, old_data)
            won.append(data)
        except FileFailed as error:
            lost.append(str(error))

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(write, f"[{number}]".encode())
    return won, lost


async def test_what_is_added_at_the_same_moment_stays() -> None:
    sandbox = MemorySandbox({"notes": b"# Memory\n"})
    async with trio.open_nursery() as nursery:
        for number in range(3):
            nursery.start_soon(replace_file, sandbox, "notes", f"# Memory\n- {number}\n".encode(), b"# Memory\n")
    assert sorted(sandbox.files["notes"].splitlines()) == [b"# Memory", b"- 0", b"- 1", b"- 2"]


async def test_a_sandbox_that_takes_no_uploads_gets_a_new_file_all_the_same() -> None:
    class Plain:
        """Has all of `MemorySandbox` but what makes a `Receiver` of it."""

        def __init__(self) -> None:
            inner = MemorySandbox({})
            self.read, self.write, self.edit = inner.read, inner.write, inner.edit

    for sandbox, path in ((Plain(), "notes"), (CompositeSandbox({"plain": Plain()}, MemorySandbox({})), "plain/notes")):  # type: ignore[dict-item] # pyright: ignore[reportArgumentType]
        await replace_file(sandbox, path, b"text", None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        assert (await sandbox.read(path)).data == b"text"


@pytest.mark.parametrize("held", [None, b"", b"more than before", b"befor"])
async def test_a_file_that_holds_something_else_stays(held: bytes | None) -> None:
    sandbox = MemorySandbox({} if held is None else {"notes": held})
    with pytest.raises(FileFailed, match="read it again"):
        await replace_file(sandbox, "notes", b"after", b"before")
    assert sandbox.files == ({} if held is None else {"notes": held})


@pytest.mark.parametrize("old_data", [None, b"", b"before"])
@pytest.mark.parametrize("after", [b"", b"after"])
async def test_what_is_replaced_holds_the_new_text(old_data: bytes | None, after: bytes) -> None:
    sandbox = MemorySandbox({} if old_data is None else {"notes": old_data})
    await replace_file(sandbox, "notes", after, old_data)
    assert sandbox.files == {"notes": after}
