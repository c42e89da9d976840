"""The tool `read_file`."""

from __future__ import annotations

from typing import Annotated

from agentrail.ports.tool import ToolContext
from agentrail.tools.bounds import Length, Range
from agentrail.tools.builtin.file_lines import MAX_LINE, Lines, lines_of
from agentrail.tools.builtin.workspace import counted, refuse, sandbox_of, told
from agentrail.tools.function import tool
from agentrail.values.tools import Ok, ok


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
    with told():
        found = await lines_of(sandbox_of(ctx), path, offset, limit, MAX_LINE)
    if not found.lines and found.is_whole:
        if found.known == 0:
            return ok(f"[`{path}` is empty]", {"first": 0, "last": 0, "is_whole": True})
        refuse(f"`{path}` has {counted(found.known, 'line')}, so there is no line {offset}; use a smaller `offset`")
    note = _how_to_go_on(path, found)
    details = {"first": found.first, "last": found.last, "is_whole": found.is_whole}
    return ok(f"{found.text}\n\n{note}" if note else found.text, details)


def _how_to_go_on(path: str, found: Lines) -> str:
    if found.is_whole:
        return "" if found.first == 1 else f"[these are the last lines of `{path}`, which has {found.known}]"
    return (
        f"[lines {found.first} to {found.last} of `{path}`, which has {found.size} bytes; "
        f"go on with `offset` {found.last + 1}]"
    )
