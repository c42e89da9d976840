"""What the guards say of the shell lines, by class: for the tests, and for the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from agentrail import Ask, BlockTool, Context, Continue, HoldTool
from agentrail.plugins import BeforeTool, FindFiles, HumanApproval, SecurityGuard
from agentrail.sandboxes import MemorySandbox
from docs.printing.markdown import code, table
from tests.plugins.shell_lines import FORBIDDEN, HARMLESS, Line, read
from tests.plugins.shell_lines.folders import EVERYDAY, WORLD, answered

_VERDICTS: Final[dict[type[object], str]] = {BlockTool: "blocked", HoldTool: "held", Continue: "passed"}
_WORKING: Final = Context(working_dir="/home/someone/work")
COLUMNS: Final = ("blocked", "held", "passed")


def verdict(plugin: SecurityGuard | HumanApproval, line: Line, files: MemorySandbox = WORLD) -> str:
    """Return what *plugin* says of *line* as a command of the tool `shell`, in a session with *files*."""
    hook = BeforeTool("shell", {"command": line.text}, "c1")
    said = plugin.before_tool(hook, None, _WORKING)
    if isinstance(said, Ask):
        assert isinstance(said.request, FindFiles)
        hook = hook.but(asked=said.request, answer=answered(said.request, files))
        said = plugin.before_tool(hook, None, _WORKING)
    return _VERDICTS[type(said)]


def summary() -> list[str]:
    """Return a table of the classes of lines, each with its shortest line, and what `SecurityGuard` says of them."""
    forbidden, harmless = read(*FORBIDDEN), read(*HARMLESS)
    rows = [*_rows("must not pass", forbidden, WORLD), *_rows("harmless", harmless, EVERYDAY)]
    return table(("lines that …", "class", "such as", "lines", *COLUMNS), rows)


def _rows(title: str, lines: tuple[Line, ...], files: MemorySandbox) -> Iterable[tuple[str, ...]]:
    guard = SecurityGuard(confined_tools=("shell",))
    counts = Counter((line.kind, verdict(guard, line, files)) for line in lines)
    for kind in dict.fromkeys(line.kind for line in lines):
        found = [counts[kind, column] for column in COLUMNS]
        shortest = min((line.text for line in lines if line.kind == kind), key=len)
        yield (title, kind, code(shortest.replace("\n", "⏎")), str(sum(found)), *map(str, found))
    total = [sum(number for (_, of), number in counts.items() if of == column) for column in COLUMNS]
    yield (title, "all", "", str(sum(total)), *map(str, total))
