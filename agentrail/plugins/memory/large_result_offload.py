"""`LargeResultOffload`: writes large tool results to files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

import attrs
from attrs import frozen

from agentrail.errors import BadOptions
from agentrail.hooks.actions import Answered, Ask, Continue, ReplaceToolResult, WriteFile
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import AfterTool
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.memory.unanswered import why_unanswered
from agentrail.plugins.options import NO_NAMES, as_set, check_count, check_path, check_texts
from agentrail.values.content import Data, Part, Text
from agentrail.values.events.tools import LargeResultOffloaded
from agentrail.values.stream import CHARS_PER_TOKEN
from agentrail.values.tools import result_text

EXCLUDED_TOOLS: Final = frozenset(
    {"edit_file", "glob", "grep", "list_dir", "read_file", "read_history", "shell_output", "write_file"}
)
"""Names of tools whose results stay as they are, because they are bounded or can be asked for in pieces."""

MAX_LINE: Final = 1_000
"""The most characters of a line in the file: `read_file` cuts lines that are longer than 2,000."""

GAP: Final = "\n\n"
"""What stands between the beginning, the note and the end."""

_ODD: Final = re.compile(r"[^A-Za-z0-9_-]")


@frozen
class LargeResultOffload(Plugin[None]):
    """Write a tool result that is too large to a file, and give the model its beginning, its end and the path.

    The model reads the rest with `read_file`, in pieces. The result is replaced only when the file is written: if that
    fails or takes too long, it stays, and an event `large_result_kept` says why. Results are counted in characters, of
    text and JSON; images stay beside the preview. A result that its tool's `max_result_chars` would cut is too large as
    well, and the preview is short enough for it. The file has the whole text, with lines of more than 1,000 characters
    broken, because `read_file` would cut them. Equal results of a tool share a file. The event `LargeResultOffloaded`
    names call, tool and path. Nothing removes the files, which sessions may share: do so when none needs them.
    """

    max_tokens: int = attrs.field(default=20_000, validator=check_count)
    """The most tokens of a result that stays, with four characters to a token."""
    folder: str = attrs.field(default="large_results", validator=check_path)
    """Folder of the files, below the working directory."""
    excluded_tools: frozenset[str] = attrs.field(default=NO_NAMES, converter=as_set, validator=check_texts)
    """Names of tools whose results stay, in addition to `EXCLUDED_TOOLS`."""
    head: int = attrs.field(default=2_000, validator=check_count)
    """Characters of the beginning that the model gets."""
    tail: int = attrs.field(default=1_000, validator=check_count)
    """Characters of the end that the model gets."""

    priority = Priority.CORE + 90

    def __attrs_post_init__(self) -> None:
        """Raise `BadOptions` if a preview could be as long as a result that is not offloaded."""
        if self.head + self.tail >= self._most:
            problem = f"`head` and `tail` are {self.head + self.tail} characters, and `max_tokens` allows {self._most}"
            raise BadOptions("LargeResultOffload", f"{problem}; make them shorter together")

    @property
    def tools_named(self) -> tuple[str, ...]:
        """Names in `excluded_tools`; the session refuses to start if it has no such tool."""
        return tuple(sorted(self.excluded_tools))

    @property
    def _most(self) -> int:
        return self.max_tokens * CHARS_PER_TOKEN

    def after_tool(
        self, hook: AfterTool, state: None, ctx: Context
    ) -> Continue[None] | Ask[None] | ReplaceToolResult[None]:
        """Request a file for a result that is too large; when it is written, replace the result by a preview."""
        if hook.name in EXCLUDED_TOOLS or hook.name in self.excluded_tools:
            return Continue()
        text = result_text(hook.result)
        limit = self._most if hook.max_result_chars is None else min(self._most, hook.max_result_chars)
        if len(text) <= limit:
            return Continue()
        digest = sha256(text.encode()).hexdigest()[:16]
        name = _ODD.sub("_", hook.name)[:40]
        lines = _broken(text)
        request = WriteFile(f"{self.folder}/{name}-{digest}.txt", "\n".join(lines))
        if hook.asked != request or hook.answer is None:
            return Ask(request)
        if not isinstance(hook.answer, Answered):
            why = {"call_id": hook.call_id, "name": hook.name, "error": why_unanswered(hook.answer)}
            return Continue().emitting("large_result_kept", why)
        size = len(request.text.encode())
        preview = self._preview(text, _whereabouts(request.path, size, len(lines)), hook.max_result_chars)
        rest: tuple[Part, ...] = tuple(part for part in hook.result.content if not isinstance(part, (Text, Data)))
        result = hook.result.but(content=(Text(preview), *rest))
        return ReplaceToolResult(result).reporting(LargeResultOffloaded(hook.call_id, hook.name, request.path, size))

    def _preview(self, text: str, where: str, most: int | None) -> str:
        """Return beginning and end of *text* with a note between them, shortened to at most *most* characters."""
        shown_chars = self.head + self.tail
        room = shown_chars if most is None else max(0, most - len(_note(len(text), where)) - 2 * len(GAP))
        first, last = self.head, self.tail
        if shown_chars > room:
            first = room * self.head // shown_chars
            last = room - first
        head, tail = text[:first], text[len(text) - last :]
        left_out = len(text) - len(head) - len(tail)
        return GAP.join(part for part in (head, _note(left_out, where), tail) if part)


def _note(left_out: int, where: str) -> str:
    return f"[{left_out} characters are left out here. {where}]"


def _whereabouts(path: str, size: int, lines: int) -> str:
    sentence = f"The whole result is in the file `{path}`: {size} bytes in {lines} lines."
    return f"{sentence} Read it with `read_file`, with `offset` and `limit`."


def _broken(text: str) -> Sequence[str]:
    """Return the lines of *text*; lines that are too long are broken into several."""
    lines = text.split("\n")
    if max(map(len, lines)) <= MAX_LINE:
        return lines
    return [line[start : start + MAX_LINE] for line in lines for start in range(0, len(line) or 1, MAX_LINE)]
