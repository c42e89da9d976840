"""The tools of the conversation in the terminal: files below one folder, a few commands, facts, and a slow one.

They are small on purpose. A path is resolved, links included, and refused outside of the working directory; between the
check and the use somebody else may change the folder, so this keeps a model in bounds, not an attacker on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Final, TypeVar

import trio

from agentrail.cli.programs import argv_of, output_of, refuse
from agentrail.ports.tool import Tool, ToolContext
from agentrail.tools import Range, tool
from agentrail.values.tools import EffectClass

T = TypeVar("T")

MAX_BYTES: Final = 100_000
"""Bytes of a file that are read or searched."""

MAX_FOUND: Final = 200
"""Names or lines that a listing or a search answers."""

MAX_SEEN: Final = 20_000
"""Files that a listing or a search looks at."""


def inside(root: str, path: str) -> Path:
    """Return *path*, absolute and without links, below *root*; refuse it anywhere else."""
    folder = Path(root).resolve()
    if "\0" in path or path.startswith("~"):
        refuse(f"not a path here: {path!r}; give one relative to the working directory")
    found = (folder / path).resolve()
    if found.parts[: len(folder.parts)] != folder.parts:
        refuse(f"{path!r} is outside of the working directory; give a path inside of it")
    return found


async def _in_thread(work: Callable[[], T]) -> T:
    try:
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True)
    except OSError as error:
        refuse(f"{error.strerror or error}: {Path(str(error.filename or '')).name}")


@tool(effect=EffectClass.PURE, subject="path", requires=frozenset({"files"}))
async def list_files(ctx: ToolContext, path: str = ".", glob: str = "*") -> str:  # noqa: D417 - the model does not see `ctx`
    """List the files below a folder.

    Args:
        path: The folder.
        glob: Which files, such as `*.py`.
    """
    folder = inside(ctx.working_dir, path)
    found = await _in_thread(lambda: _listed(folder, glob))
    return "\n".join(found) or f"nothing in {path} matches {glob}"


def _listed(folder: Path, glob: str) -> list[str]:
    if not folder.is_dir():
        refuse(f"there is no folder {folder.name!r}")
    wanted = (file.relative_to(folder) for file in _files(folder))
    return _first(str(name) for name in wanted if name.match(glob))


@tool(effect=EffectClass.PURE, subject="path", requires=frozenset({"files"}))
async def read_file(path: str, ctx: ToolContext) -> str:  # noqa: D417 - the model does not see `ctx`
    """Read a text file.

    Args:
        path: The file, relative to the working directory.
    """
    file = inside(ctx.working_dir, path)
    return await _in_thread(lambda: _text(file))


def _text(file: Path) -> str:
    if not file.is_file():
        refuse(f"there is no file {file.name!r}; list the files to see those there are")
    with file.open("rb") as opened:
        content = opened.read(MAX_BYTES + 1)
    if b"\0" in content:
        refuse(f"{file.name!r} is no text")
    cut = f"\n[cut: only the first {MAX_BYTES} bytes]" if len(content) > MAX_BYTES else ""
    return content[:MAX_BYTES].decode(errors="replace") + cut


@tool(subject="path", requires=frozenset({"files"}))
async def write_file(path: str, content: str, ctx: ToolContext) -> str:  # noqa: D417 - the model does not see `ctx`
    """Write a text file; one that is there is overwritten.

    Args:
        path: The file, relative to the working directory.
        content: All that it is to hold.
    """
    file = inside(ctx.working_dir, path)
    await _in_thread(lambda: _write(file, content))
    return f"wrote {len(content)} characters to {path}"


def _write(file: Path, content: str) -> None:
    if file.is_dir():
        refuse(f"{file.name!r} is a folder")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content, encoding="utf-8")


@tool(effect=EffectClass.PURE, requires=frozenset({"files"}))
async def search(pattern: str, ctx: ToolContext, path: str = ".") -> str:  # noqa: D417 - the model does not see `ctx`
    """Search files for a text, in capital or small letters, and answer the lines that hold it.

    Args:
        pattern: The text.
        path: A file or folder to search.
    """
    place = inside(ctx.working_dir, path)
    root = inside(ctx.working_dir, ".")
    found = await _in_thread(lambda: _first(_matches(pattern.casefold(), place, root)))
    return "\n".join(found) or f"nothing holds {pattern!r}"


def _matches(wanted: str, place: Path, root: Path) -> Iterator[str]:
    for file in [place] if place.is_file() else _files(place):
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES)
        for number, line in enumerate(content.decode(errors="replace").splitlines(), 1):
            if wanted in line.casefold() and "\0" not in line:
                yield f"{file.relative_to(root)}:{number}: {line.strip()[:200]}"


def _files(folder: Path) -> Iterator[Path]:
    """Yield the plain files below *folder*, in order, but none of hidden folders; links are not followed."""
    seen = 0
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            seen += 1
            if seen > MAX_SEEN:
                return
            file = Path(here, name)
            if file.is_file() and not file.is_symlink():
                yield file


def _first(found: Iterator[str]) -> list[str]:
    kept = [text for text, _ in zip(found, range(MAX_FOUND + 1), strict=False)]
    return kept if len(kept) <= MAX_FOUND else [*kept[:MAX_FOUND], f"[cut: only the first {MAX_FOUND}]"]


@tool(timeout=60, requires=frozenset({"files", "shell"}))
async def run(command: str, ctx: ToolContext) -> str:  # noqa: D417 - the model does not see `ctx`
    """Run one of a few commands that only look: cat, date, echo, head, ls, pwd, sleep, tail, uname, wc, whoami.

    Args:
        command: The command and its arguments; there is no shell, so no pipes, variables or wild cards.
    """
    return await output_of(argv_of(command, ctx.working_dir, inside), ctx.working_dir)


@tool(effect=EffectClass.PURE, timeout=3700)
async def count(to: Annotated[int, Range(ge=1, le=3600)], ctx: ToolContext) -> str:  # noqa: D417 - the model does not see `ctx`
    """Count, one number a second.

    Args:
        to: How far.
    """
    for number in range(1, to + 1):
        ctx.report(f"{number} of {to}")
        await trio.sleep(1)
    return f"counted to {to}"


def remembering() -> Tool:
    """Return a tool that remembers facts for as long as it lives."""
    facts: list[str] = []

    @tool
    async def remember(fact: str) -> str:
        """Remember a fact for the rest of the conversation.

        Args:
            fact: What to remember.
        """
        await trio.lowlevel.checkpoint()
        if fact not in facts:
            facts.append(fact)
        return f"remembered ({len(facts)} in all): {'; '.join(facts)}"

    return remember


def terminal_tools() -> tuple[Tool, ...]:
    """Return the tools of a conversation in the terminal."""
    return (list_files, read_file, write_file, search, run, count, remembering())
