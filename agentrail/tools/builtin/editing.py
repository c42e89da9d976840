"""The tools `write_file` and `edit_file`.

If `edit_file` does not find the text to replace, it shows the most similar lines, so that the model can correct itself.
"""

from __future__ import annotations

from typing import Annotated, Final

from agentrail.errors import BadEdit
from agentrail.ports.sandbox import MAX_FILE, Sandbox
from agentrail.ports.tool import ToolContext
from agentrail.tools.bounds import Length
from agentrail.tools.builtin.file_lines import MAX_LINE, lines_of, numbered
from agentrail.tools.builtin.workspace import counted, refuse, sandbox_of, told
from agentrail.tools.function import tool
from agentrail.values.tools import Ok, ok

PIECE: Final = 16 * 1024
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
    place, anchor = max(enumerate(lines), key=lambda pair: len(pair[1].strip()))
    wanted = _pairs(anchor)
    if not wanted:
        return ""
    best, at, number = NEAR, 0, 0
    position, rest = 0, b""
    while position < MAX_COMPARED:
        data = (await sandbox.read(path, position, PIECE)).data
        position += len(data)
        *ended, rest = (rest[: 16 * MAX_ANCHOR] + data).split(b"\n")  # as many bytes of a line as `_pairs` looks at
        for line in ended if data else [rest]:
            number += 1
            alike = likeness(wanted, _pairs(line.decode(errors="replace")))
            if alike > best:
                best, at = alike, number
        if not data:
            break
    if not at:
        return ""
    return (await lines_of(sandbox, path, max(at - place, 1), min(len(lines), MAX_SHOWN), MAX_LINE)).text


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the similarity of two lines, given by their pairs of characters, from 0 to 1."""
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 0.0


def _pairs(line: str) -> frozenset[str]:
    """Return all pairs of neighbouring characters of a line, without spaces and case: lines are compared by these."""
    bare = f"^{''.join(line[: 4 * MAX_ANCHOR].split()).casefold()[:MAX_ANCHOR]}$"
    return frozenset(bare[at : at + 2] for at in range(len(bare) - 1)) if len(bare) > 2 else frozenset()  # noqa: PLR2004 - more than the marks of both ends


SHOWN_PLACES = 10
"""The most line numbers that are shown if the text to replace occurs more than once."""


@tool(timeout=30, effect="idempotent", parallel=False, subject="path", requires=("files",))
async def write_file(path: Annotated[str, Length(min=1)], content: str, ctx: ToolContext) -> Ok:  # noqa: D417 - the model does not see `ctx`
    """Write a text file, with the folders above it; a file that is there is replaced.

    Use `edit_file` to change a part of one.

    Args:
        path: The file, relative to the working directory.
        content: All that the file is to hold.
    """
    with told():
        written = await sandbox_of(ctx).write(path, content.encode())
    lines = counted(content.count("\n") + (not content.endswith("\n") and content != ""), "line")
    said = f"{'created' if written.created else 'replaced'} `{path}`: {lines}, {counted(written.size, 'byte')}"
    return ok(said, {"created": written.created, "size": written.size})


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
    with told():
        try:
            edited = await sandbox.edit(path, old_text.encode(), new_text.encode(), every=replace_all)
        except BadEdit:
            refuse(await _help(sandbox, path, old_text))
    return ok(
        f"edited `{path}`: {counted(edited.replaced, 'place')}", {"replaced": edited.replaced, "size": edited.size}
    )


async def _help(sandbox: Sandbox, path: str, old: str) -> str:
    """Return why *old* cannot be replaced, with the lines where it occurs, or the most similar lines."""
    data = (await sandbox.read(path, 0, MAX_FILE)).data
    places = list(numbered(data, old.encode()))
    if places:
        lines = ", ".join(map(str, places[:SHOWN_PLACES])) + (", …" if len(places) > SHOWN_PLACES else "")
        return (
            f"cannot edit `{path}`: the text occurs {counted(len(places), 'time')}, in lines {lines}; nothing was "
            "changed. Give more of the lines around the one that is meant, or set `replace_all`."
        )
    said = f"cannot edit `{path}`: the text to replace does not occur; nothing was changed."
    if b"\r\n" in data and old.replace("\r\n", "\n").replace("\n", "\r\n").encode() in data:
        return f"{said} The lines of the file end in `\\r\\n`: write these ends in `old_text` and `new_text`."
    near = await nearest(sandbox, path, old)
    if not near:
        return f"{said} Nothing in it looks like it; read the file first."
    return f"{said} These lines come closest:\n{near}\nCopy the text exactly as it is there, without the line numbers."
