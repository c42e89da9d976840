"""What the guards say of the shell lines, by class: for the tests, and for the reference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from agentrail.catalog.markdown import code, table
from agentrail.hooks.actions import BlockTool, Continue, HoldTool
from agentrail.hooks.context import Context
from agentrail.hooks.moments import BeforeTool
from agentrail.plugins import HumanApproval, SecurityGuard
from tests.plugins.shell_lines import FORBIDDEN, HARMLESS, PASSING, Line, read

_VERDICTS: Final[dict[type[object], str]] = {BlockTool: "blocked", HoldTool: "held", Continue: "passed"}
_WORKING: Final = Context(working_dir="/home/someone/work")
COLUMNS: Final = ("blocked", "held", "passed")


def verdict(plugin: SecurityGuard | HumanApproval, line: Line) -> str:
    """Return what *plugin* says of *line* as a command of the tool `shell`."""
    hook = BeforeTool("shell", {"command": line.text}, "c1")
    return _VERDICTS[type(plugin.before_tool(hook, None, _WORKING))]


def summary() -> list[str]:
    """Return a table of the classes of lines, each with its shortest line, and what `SecurityGuard` says of them."""
    forbidden, harmless = read(*FORBIDDEN), read(*HARMLESS)
    known = read(*PASSING)
    rows = [*_rows("must not pass", forbidden), *_rows("may do harm", known), *_rows("harmless", harmless)]
    return table(("lines that …", "class", "such as", "lines", *COLUMNS), rows)


def _rows(title: str, lines: tuple[Line, ...]) -> Iterable[tuple[str, ...]]:
    guard = SecurityGuard()
    counts = Counter((line.kind, verdict(guard, line)) for line in lines)
    for kind in dict.fromkeys(line.kind for line in lines):
        found = [counts[kind, column] for column in COLUMNS]
        shortest = min((line.text for line in lines if line.kind == kind), key=len)
        yield (title, kind, code(shortest.replace("\n", "⏎")), str(sum(found)), *map(str, found))
    total = [sum(number for (_, of), number in counts.items() if of == column) for column in COLUMNS]
    yield (title, "all", "", str(sum(total)), *map(str, total))
