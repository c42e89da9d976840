"""The tools `read_file`, `write_file` and `edit_file`.

Lines are read piece by piece, so that neither a long file nor a long line takes much memory. If `edit_file` does not
find the text to replace, it shows the most similar lines, so that the model can correct itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

from agentrail.errors import BadEdit
from agentrail.ports.sandbox import MAX_FILE, Sandbox
from agentrail.ports.tool import ToolContext
from agentrail.tools.bounds import Length, Range
from agentrail.tools.builtin.file_changes import difference_made, text_before
from agentrail.tools.builtin.workspace import MAX_TEXT, counted, cut_text, refuse, report_errors, sandbox_of
from agentrail.tools.function import tool
from agentrail.values.tools import Ok, ok
from agentrail.values.value import Value

PIECE: Final = 64 * 1024
"""The most bytes of the file that one call of the sandbox reads."""

MAX_LINE: Final = 2000
"""The most characters of a line that the model gets; the rest is cut."""

WIDEST: Final = 20_000
"""The most characters of a line if none is to be cut that an answer has room for."""


class Lines(Value):
    """Some lines of a file that follow each other."""

    first: int
    """The number of the first line in `lines`, counted from 1."""
    lines: tuple[str, ...]
    """The lines, without their line ends."""
    known: int
    """The number of lines from the beginning of the file that were read."""
    is_whole: bool
    """Whether the file was read to its end, so that `known` is its number of lines."""
    size: int
    """The size of the file in bytes."""

    @property
    def last(self) -> int:
        """The number of the last line in `lines`."""
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        """The lines with their numbers, as `cat -n` shows them."""
        return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(self.lines, self.first))


class _Window:
    """Collects up to *most* lines of a file from line *first* on, each cut to *widest*, until an answer is full."""

    def __init__(self, first: int, most: int, widest: int) -> None:
        self._skip = first - 1
        self._most = most
        self._widest = widest
        self._room = MAX_TEXT
        self._open = bytearray()
        self._is_open = False
        self.passed = 0
        self.kept: list[str] = []
        self.is_full = False

    def add(self, piece: bytes) -> None:
        """Take the next piece of the file's bytes."""
        if self._skip:
            ends = piece.count(b"\n")
            passed = min(ends, self._skip)
            self._skip -= passed
            self.passed += passed
            piece = b"" if self._skip or not passed else piece.split(b"\n", passed)[-1]
        *ended, rest = piece.split(b"\n")
        for line in ended:
            self._open += line[: 4 * self._widest]
            self._end()
            if self.is_full:
                return
        if rest:
            self._open += rest[: max(4 * self._widest - len(self._open), 0)]
            self._is_open = True

    def close(self) -> None:
        """Finish at the end of the file; take a last line that lacks a line end."""
        if self._is_open and not self.is_full and not self._skip:
            self._end()

    def _end(self) -> None:
        """Take the open line, or set `is_full` if there is no room for it."""
        line = cut_text(self._open.removesuffix(b"\r").decode(errors="replace"), self._widest)
        self._open.clear()
        self._is_open = False
        if len(self.kept) >= self._most or self._room < len(line) + 8:
            self.is_full = True
            return
        self._room -= len(line) + 8
        self.kept.append(line)
        self.passed += 1


async def lines_of(sandbox: Sandbox, path: str, first: int, most: int, widest: int) -> Lines:
    """Return up to *most* lines from line *first* on, fewer if they are long; raise `ToolError` if it is no text.

    A line of more than *widest* characters is cut.
    """
    window = _Window(first, most, widest)
    position, size = 0, 0
    while not window.is_full:
        content = await sandbox.read(path, position, PIECE)
        size = content.size
        if not content.data:
            window.close()
            break
        if position == 0 and b"\0" in content.data:
            refuse(f"`{path}` is no text: it has {size} bytes, and some of them are zero; use `shell` to look into it")
        position += len(content.data)
        window.add(content.data)
    return Lines(first, tuple(window.kept), window.passed, not window.is_full, size)


def line_numbers(data: bytes, part: bytes) -> Iterator[int]:
    """Yield the numbers of the lines in which *part* begins."""
    number, position = 1, 0
    while (offset := data.find(part, position)) >= 0:
        number += data.count(b"\n", position, offset)
        yield number
        number += data.count(b"\n", offset, offset + len(part))
        position = offset + len(part)


@tool(timeout=30, effect="pure", subject=("path", "offset"), requires=("files",))
async def read_file(  # noqa: D417 - the model does not see `ctx`
    path: Annotated[str, Length(min=1)],
    ctx: ToolContext,
    offset: Annotated[int, Range(ge=1, le=2**53)] = 1,
    limit: Annotated[int, Range(ge=1, le=2000)] = 2000,
) -> Ok:
    """Read a text file; each line comes with its number and a tab, which are not part of the file.

    Args:
        path: The file, relative to the working directory.
        offset: The first line to read, from 1.
        limit: How many lines to read at most.
    """
    with report_errors():
        part = await lines_of(sandbox_of(ctx), path, offset, limit, MAX_LINE)
    if not part.lines and part.is_whole:
        if part.known == 0:
            return ok(f"[`{path}` is empty]", {"first": 0, "last": 0, "is_whole": True})
        refuse(f"`{path}` has {counted(part.known, 'line')}, so there is no line {offset}; use a smaller `offset`")
    note = _how_to_go_on(path, part)
    details = {"first": part.first, "last": part.last, "is_whole": part.is_whole}
    return ok(f"{part.text}\n\n{note}" if note else part.text, details)


def _how_to_go_on(path: str, part: Lines) -> str:
    if part.is_whole:
        return "" if part.first == 1 else f"[these are the last lines of `{path}`, which has {part.known}]"
    return (
        f"[lines {part.first} to {part.last} of `{path}`, which has {part.size} bytes; "
        f"go on with `offset` {part.last + 1}]"
    )


SEARCHED_BYTES: Final = 16 * 1024
"""How many bytes of the file are read and searched for similar lines at once; other tasks run in between."""

MAX_COMPARED: Final = 1024 * 1024
"""The most bytes of a file that are searched for similar lines."""

MAX_ANCHOR: Final = 200
"""The most characters of a line, without spaces, by which it is compared; the rest does not count."""

MAX_SHOWN: Final = 12
"""The most lines that are shown, of the one place of a file that is most like the text."""

NEAR: Final = 0.5
"""The similarity, from 0 to 1, that the most similar line must exceed to be shown."""


async def nearest(sandbox: Sandbox, path: str, text: str) -> str:
    """Return the lines of the file that are most like *text*, numbered; empty if none is similar enough."""
    lines = text.splitlines() or [text]
    anchor_index, anchor = max(enumerate(lines), key=lambda pair: len(pair[1].strip()))
    anchor_pairs = _pairs(anchor)
    if not anchor_pairs:
        return ""
    best, best_number, number = NEAR, 0, 0
    position, rest = 0, b""
    while position < MAX_COMPARED:
        data = (await sandbox.read(path, position, SEARCHED_BYTES)).data
        position += len(data)
        *ended, rest = (rest[: 16 * MAX_ANCHOR] + data).split(b"\n")  # the bytes of a line that `_pairs` reads
        for line in ended if data else [rest]:
            number += 1
            alike = likeness(anchor_pairs, _pairs(line.decode(errors="replace")))
            if alike > best:
                best, best_number = alike, number
        if not data:
            break
    if not best_number:
        return ""
    return (
        await lines_of(sandbox, path, max(best_number - anchor_index, 1), min(len(lines), MAX_SHOWN), MAX_LINE)
    ).text


def likeness(pairs: frozenset[str], other_pairs: frozenset[str]) -> float:
    """Return the similarity of two lines, given by their pairs of characters, from 0 to 1."""
    return 2 * len(pairs & other_pairs) / (len(pairs) + len(other_pairs)) if pairs or other_pairs else 0.0


def _pairs(line: str) -> frozenset[str]:
    """Return the pairs of neighbouring characters of a line, by which lines are compared; without spaces and case."""
    bare = f"^{''.join(line[: 4 * MAX_ANCHOR].split()).casefold()[:MAX_ANCHOR]}$"
    return frozenset(bare[start : start + 2] for start in range(len(bare) - 1)) if len(bare) > 2 else frozenset()  # noqa: PLR2004 - more than the marks of both ends


SHOWN_LINES = 10
"""The most line numbers that are shown if the text to replace occurs more than once."""


@tool(timeout=30, effect="idempotent", parallel=False, subject="path", requires=("files",))
async def write_file(path: Annotated[str, Length(min=1)], content: str, ctx: ToolContext) -> Ok:  # noqa: D417 - the model does not see `ctx`
    """Write a text file, with the folders above it; a file that is there is replaced.

    Use `edit_file` to change a part of one.

    Args:
        path: The file, relative to the working directory.
        content: All that the file is to hold.
    """
    sandbox = sandbox_of(ctx)
    with report_errors():
        text = await text_before(sandbox, path)
        result = await sandbox.write(path, content.encode())
    lines = counted(content.count("\n") + (not content.endswith("\n") and content != ""), "line")
    summary = f"{'created' if result.created else 'replaced'} `{path}`: {lines}, {counted(result.size, 'byte')}"
    difference = difference_made("" if result.created else text, content, result.size)
    return ok(summary, {"created": result.created, "size": result.size, **difference})


@tool(timeout=30, parallel=False, subject="path", requires=("files",))
async def edit_file(  # noqa: D417 - the model does not see `ctx`
    path: Annotated[str, Length(min=1)],
    old_text: Annotated[str, Length(min=1)],
    new_text: str,
    ctx: ToolContext,
    replace_all: bool = False,
) -> Ok:
    """Replace a text in a file; it must be there exactly as given, and only once unless all are to be replaced.

    Args:
        path: The file, relative to the working directory.
        old_text: The text to replace, with all its spaces and line ends, and without line numbers.
        new_text: What comes in its place; may be empty.
        replace_all: Whether to replace it wherever it occurs.
    """
    if old_text == new_text:
        refuse(f"`old_text` and `new_text` are the same, so nothing in `{path}` would change")
    sandbox = sandbox_of(ctx)
    with report_errors():
        text = await text_before(sandbox, path)
        try:
            edited = await sandbox.edit(path, old_text.encode(), new_text.encode(), every=replace_all)
        except BadEdit:
            refuse(await _help(sandbox, path, old_text))
    changed_text = "" if text is None else text.replace(old_text, new_text)
    difference = difference_made(text, changed_text, edited.size)
    summary = f"edited `{path}`: {counted(edited.replaced, 'place')}"
    return ok(summary, {"replaced": edited.replaced, "size": edited.size, **difference})


async def _help(sandbox: Sandbox, path: str, old: str) -> str:
    """Return advice on why *old* cannot be replaced, with the lines where it occurs, or the most similar lines."""
    data = (await sandbox.read(path, 0, MAX_FILE)).data
    numbers = list(line_numbers(data, old.encode()))
    if numbers:
        lines = ", ".join(map(str, numbers[:SHOWN_LINES])) + (", …" if len(numbers) > SHOWN_LINES else "")
        return (
            f"cannot edit `{path}`: the text occurs {counted(len(numbers), 'time')}, in lines {lines}; nothing was "
            "changed. Give more of the lines around the one that is meant, or set `replace_all`."
        )
    problem = f"cannot edit `{path}`: the text to replace does not occur; nothing was changed."
    if b"\r\n" in data and old.replace("\r\n", "\n").replace("\n", "\r\n").encode() in data:
        return f"{problem} The lines of the file end in `\\r\\n`: write these ends in `old_text` and `new_text`."
    near = await nearest(sandbox, path, old)
    if not near:
        return f"{problem} Nothing in it looks like it; read the file first."
    return (
        f"{problem} These lines come closest:\n{near}\nCopy the text exactly as it is there, without the line numbers."
    )
