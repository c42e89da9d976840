"""The tools `grep`, `glob` and `list_dir`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Final

from agentrail.ports.sandbox import Entry, Kind, Match, Matches, Search
from agentrail.ports.tool import ToolContext
from agentrail.tools.bounds import Length, Range
from agentrail.tools.builtin.workspace import MAX_TEXT, counted, cut_text, report_errors, sandbox_of
from agentrail.tools.function import tool
from agentrail.values.tools import Ok, ok

MAX_LINE: Final = 500
"""The most characters of a matching line, or of one around it, that the model gets; the rest is cut."""

UNLESS: Final = "; what `.gitignore` names is left out unless `include_ignored` is set"
"""A hint that is added to an answer without results."""

NOT_ALL: Final = "it has too many files and folders to look at all; use a folder further down"
"""What an answer says of a folder of which only a part was searched."""

MARKS: Final = {Kind.FOLDER: "/", Kind.LINK: "@", Kind.OTHER: "?"}
"""The characters that `list_dir` appends to names of entries that are no files."""


@tool(timeout=60, effect="pure", subject="pattern", requires=("files",))
async def grep(  # noqa: D417, PLR0913, PLR0917 - the model does not see `ctx`; a search has many settings
    pattern: Annotated[str, Length(min=1, max=1000)],
    ctx: ToolContext,
    path: Annotated[str, Length(min=1)] = ".",
    glob: Annotated[str, Length(min=1, max=1000)] = "**",
    context: Annotated[int, Range(ge=0, le=20)] = 0,
    ignore_case: bool = False,
    literal: bool = False,
    include_ignored: bool = False,
    limit: Annotated[int, Range(ge=1, le=1000)] = 200,
) -> Ok:
    """Search the lines of files for a regular expression; a match is shown as `path:line:text`.

    Args:
        pattern: A regular expression, as Python reads it.
        path: A file, or a folder to search with all below it.
        glob: Which files, such as `*.py` or `src/**/*.py`.
        context: How many lines around each match to show as well, as `path-line-text`.
        ignore_case: Whether capital and small letters are the same.
        literal: Whether the pattern is plain text.
        include_ignored: Whether to search also files that `.gitignore` names.
        limit: How many matches to show at most.
    """
    search = Search(pattern, path, glob, literal, ignore_case, context, context, include_ignored, limit)
    with report_errors():
        matches = await sandbox_of(ctx).grep(search)
    details = {"matches": len(matches.matches), "searched": matches.searched, "cut": matches.cut}
    if not matches.matches:
        hint = f"; {NOT_ALL}" if matches.cut else "" if include_ignored else UNLESS
        return ok(f"nothing matches {pattern!r} in `{path}` ({_searched_text(matches)}){hint}", details)
    text, left_out = _fitting(_show_matches(matches, context))
    notes = [
        f"[stopped at {counted(limit, 'match')}; use a narrower pattern, path or glob]".replace("matchs", "matches")
        if len(matches.matches) >= limit
        else f"[{NOT_ALL}]"
    ]
    if left_out:
        notes = [f"[{counted(left_out, 'more line')} did not fit; use a narrower pattern, path or glob]"]
    return ok("\n".join([text, *(notes if matches.cut or left_out else [])]), details)


def _searched_text(matches: Matches) -> str:
    skipped = f", {matches.skipped} skipped: no text, or too large" if matches.skipped else ""
    return f"{counted(matches.searched, 'file')} searched{skipped}"


def _show_matches(result: Matches, context: int) -> Iterator[str]:
    """Yield the matching lines in order, each once; with *context*, `--` marks gaps between them."""
    last: tuple[str, int] | None = None
    for path, matches in groupby(result.matches, lambda match: match.path):
        for number, (mark, line) in sorted(_around(matches).items()):
            if context and last is not None and last != (path, number - 1):
                yield "--"
            last = (path, number)
            yield f"{path}{mark}{number}{mark}{cut_text(line, MAX_LINE)}"


def _around(matches: Iterable[Match]) -> dict[int, tuple[str, str]]:
    lines: dict[int, tuple[str, str]] = {}
    for match in matches:
        for number, line in enumerate(match.before, match.number - len(match.before)):
            lines.setdefault(number, ("-", line))
        lines[match.number] = (":", match.line)
        for number, line in enumerate(match.after, match.number + 1):
            lines.setdefault(number, ("-", line))
    return lines


@tool(timeout=60, effect="pure", subject="pattern", requires=("files",))
async def glob(  # noqa: D417 - the model does not see `ctx`
    pattern: Annotated[str, Length(min=1, max=1000)],
    ctx: ToolContext,
    path: Annotated[str, Length(min=1)] = ".",
    include_ignored: bool = False,
    limit: Annotated[int, Range(ge=1, le=2000)] = 500,
) -> Ok:
    """Find files by their names, in all folders below a folder.

    Args:
        pattern: Which files, such as `*.py`, `src/**/*.py` or `*.{md,txt}`.
        path: The folder.
        include_ignored: Whether to find also files that `.gitignore` names.
        limit: How many files to show at most.
    """
    with report_errors():
        listing = await sandbox_of(ctx).glob(pattern, path, ignored=include_ignored, limit=limit)
    details = {"found": len(listing.entries), "cut": listing.cut}
    if not listing.entries:
        hint = f"; {NOT_ALL}" if listing.cut else "" if include_ignored else UNLESS
        return ok(f"no file below `{path}` matches {pattern!r}{hint}", details)
    return ok(_names((entry.path for entry in listing.entries), cut=listing.cut), details)


@tool(timeout=30, effect="pure", subject="path", requires=("files",))
async def list_dir(  # noqa: D417 - the model does not see `ctx`
    ctx: ToolContext,
    path: Annotated[str, Length(min=1)] = ".",
    include_ignored: bool = False,
    limit: Annotated[int, Range(ge=1, le=2000)] = 500,
) -> Ok:
    """List what stands in a folder: folders end in `/`, links in `@`, files come with their size.

    Args:
        path: The folder.
        include_ignored: Whether to list also what `.gitignore` names.
        limit: How many to show at most.
    """
    with report_errors():
        listing = await sandbox_of(ctx).list(path, limit, ignored=include_ignored)
    details = {"found": len(listing.entries), "cut": listing.cut}
    if not listing.entries:
        return ok(f"[nothing stands in `{path}`{'' if include_ignored else UNLESS}]", details)
    return ok(_names(map(_entry_text, listing.entries), cut=listing.cut), details)


def _entry_text(entry: Entry) -> str:
    name = entry.path.rpartition("/")[2]
    return f"{name}  {counted(entry.size, 'byte')}" if entry.kind is Kind.FILE else f"{name}{MARKS[entry.kind]}"


def _names(names: Iterable[str], *, cut: bool) -> str:
    text, left_out = _fitting(names)
    if left_out:
        return f"{text}\n[{left_out} more did not fit; use a narrower pattern, or a folder further down]"
    return (
        f"{text}\n[there are more; use a narrower pattern, a folder further down, or a higher limit]" if cut else text
    )


def _fitting(lines: Iterable[str]) -> tuple[str, int]:
    """Return those of *lines* that fit into an answer as one text, and the number of lines left out."""
    fitting: list[str] = []
    room, left_out = MAX_TEXT, 0
    for line in lines:
        room -= len(line) + 1
        if room >= 0:
            fitting.append(line)
        else:
            left_out += 1
    return "\n".join(fitting), left_out
