"""What a person is asked about a call that waits, with its arguments exactly as they are: the person decides by them.

A character that nobody sees is escaped as in JSON, and nothing is shortened. Texts of several lines are shown as such,
and the replacement of one by another as the lines that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import SequenceMatcher
from json import loads
from typing import Final

from agentrail.api.session_values import HeldCall
from agentrail.cli.output.screen import ScreenText, Tone, escaped, line
from agentrail.plugins.arguments import shown_as_json
from agentrail.tools.builtin.file_changes import FileChange, Unseen
from agentrail.values.json import Json, JsonObject, canonical

AROUND: Final = 3
"""Lines that are shown above and below those that change in a file."""

CONTENT: Final = "content"
"""The argument that takes the place of all that a file has."""

OLD: Final = "old_text"
NEW: Final = "new_text"
"""Arguments of which the second takes the place of the first."""

NO_END: Final = "(no end of line)"
"""Behind the last line of a text if it has none."""

MOST_COMPARED: Final = 40_000
"""Pairs of lines up to which each is compared with each: beyond it, like lines take seconds, and all else waits."""

TONES_OF_MARKS: Final = {"-": Tone.BAD, "+": Tone.GOOD}


def question_about(
    call: HeldCall, change: FileChange | Unseen | None = None, *, by_key: bool = False
) -> tuple[ScreenText, ...]:
    """Return the text that asks a person about a held call: question or exact arguments, and possible answers.

    *change* is what the call changes in a file that is there, or why that is not shown. *by_key*: an answer is a single
    key, so that there is one for an answer with a text, too.
    """
    if call.kind == "question":
        options = tuple(line(f"    {number}. {escaped(option)}") for number, option in enumerate(call.options, 1))
        return (line(f"? {escaped(call.hint, keep_lines=True)}", Tone.ASKING), *options)
    always = "" if call.family is None else f" / [a]lways (all of `{escaped(call.family)}`)"
    by = " (a sub-agent's)" if call.path else ""
    return (
        line(f"? {escaped(call.tool)} waits for your approval{by}", Tone.ASKING),
        *(exact_args(call.args) if not isinstance(change, FileChange) else _changed_file(call.args, change)),
        *((line(f"    {escaped(change)}", Tone.BAD),) if isinstance(change, Unseen) else ()),
        *((line(f"    {escaped(reason)}", Tone.DIM),) if (reason := _reason(call)) else ()),
        line(f"  [y]es / [n]o{always} / [e]dit{' / [r]eason against it' if by_key else ''}", Tone.ASKING),
    )


def about_always(family: str) -> str:
    """Return what an approval for always of *family* lets pass, in a sentence."""
    return f"Always: all of `{escaped(family)}` runs in this session without asking you again."


def _reason(call: HeldCall) -> str:
    """Return why a call is held, and what else a person should know besides its name and arguments."""
    head = f"`{call.tool}` wants to run with {shown_as_json(call.args)}"
    return call.hint.removeprefix(head).removeprefix("; ")


def _changed_file(args: JsonObject, change: FileChange) -> Iterator[ScreenText]:
    """Yield the rows of a call that changes a file: its arguments, with the change in the place of the texts."""
    yield from exact_args({name: arg for name, arg in args.items() if name not in {OLD, NEW, CONTENT}})
    yield from numbered_changes(change.old_text or "", change.new_text)


def numbered_changes(old: str, new: str) -> Iterator[ScreenText]:
    """Yield what differs between two texts, with the numbers of old and new lines, and some lines around."""
    old_lines, new_lines = _lines(old), _lines(new)
    width = len(str(max(len(old_lines), len(new_lines))))
    changes = _changes(old_lines, new_lines)
    if all(kind == "equal" for kind, *_ in changes):
        yield line("    nothing in the file changes", Tone.DIM)
    for index, (kind, start, end, new_start, new_end) in enumerate(changes):
        if kind == "equal":
            rows = [
                line(f"    {start + row + 1:>{width}} {new_start + row + 1:>{width}}   {text}", Tone.DIM)
                for row, text in enumerate(old_lines[start:end])
            ]
            yield from _folded(rows, AROUND * (index > 0), AROUND * (index < len(changes) - 1))
            continue
        for row in range(start, end):
            yield line(f"    {row + 1:>{width}} {'':>{width}} - {old_lines[row]}", Tone.BAD)
        for row in range(new_start, new_end):
            yield line(f"    {'':>{width}} {row + 1:>{width}} + {new_lines[row]}", Tone.GOOD)


def _folded(rows: Sequence[ScreenText], above: int, below: int) -> Iterator[ScreenText]:
    """Yield the first and last *rows*, which do not change, and how many are between, if that saves a row."""
    between = len(rows) - above - below
    if between <= 1:
        yield from rows
        return
    yield from rows[:above]
    yield line(f"    … {between} lines stay as they are", Tone.DIM)
    yield from rows[len(rows) - below :]


def exact_args(args: JsonObject) -> Iterator[ScreenText]:
    """Yield the rows that show the arguments of a call, unshortened."""
    for name, arg in args.items():
        rows = _text_rows(args, name)
        if rows is None:
            yield line(f"    {escaped(name)}: {_exact(arg)}")
            continue
        if not _is_replaced(args, name):
            yield line(f"    {escaped(name)}:")
        yield from rows


def changed_lines(args: JsonObject) -> tuple[ScreenText, ...]:
    """Return the rows of a call's changes: a replaced text as a diff, a new text by lines; empty for other calls."""
    return tuple([row for name in args for row in _text_rows(args, name) or ()])


def _text_rows(args: JsonObject, name: str) -> Sequence[ScreenText] | None:
    """Return the rows of an argument that is a text of several lines, or is replaced; `None` if it is neither.

    A replacement has its rows with the text that goes.
    """
    arg = args[name]
    if _is_replaced(args, name):
        return list(replaced_lines(str(args[OLD]), str(args[NEW]))) if name == OLD else []
    if isinstance(arg, str) and "\n" in arg.rstrip("\n"):
        return [line(f"    │ {row}") for row in _lines(arg)]
    return None


def _is_replaced(args: JsonObject, name: str) -> bool:
    """Whether *name* is one of the two texts of a replacement."""
    return name in {OLD, NEW} and isinstance(args.get(OLD), str) and isinstance(args.get(NEW), str)


def replaced_lines(old: str, new: str) -> Iterator[ScreenText]:
    """Yield the lines of *old* and *new* as a diff: removed and added lines have a mark."""
    old_lines, new_lines = _lines(old), _lines(new)
    for kind, start, end, new_start, new_end in _changes(old_lines, new_lines):
        if kind == "equal":
            yield from (line(f"      {row}", Tone.DIM) for row in old_lines[start:end])
            continue
        yield from (_changed_line("-", row) for row in old_lines[start:end])
        yield from (_changed_line("+", row) for row in new_lines[new_start:new_end])


def _changes(old_lines: Sequence[str], new_lines: Sequence[str]) -> Sequence[tuple[str, int, int, int, int]]:
    """Return what changes, as `difflib` tells it; of large texts what differs between their beginnings and ends."""
    if len(old_lines) * len(new_lines) <= MOST_COMPARED:
        return SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes()
    least = min(len(old_lines), len(new_lines))
    head = next((index for index in range(least) if old_lines[index] != new_lines[index]), least)
    tail = next(
        (index for index in range(least - head) if old_lines[-1 - index] != new_lines[-1 - index]), least - head
    )
    end, new_end = len(old_lines) - tail, len(new_lines) - tail
    inner: list[tuple[str, int, int, int, int]] = [("replace", head, end, head, new_end)]
    if (end - head) * (new_end - head) <= MOST_COMPARED:
        codes = SequenceMatcher(None, old_lines[head:end], new_lines[head:new_end], autojunk=False).get_opcodes()
        inner = [(kind, head + a, head + b, head + c, head + d) for kind, a, b, c, d in codes]
    ends = [("equal", 0, head, 0, head), *inner, ("equal", end, len(old_lines), new_end, len(new_lines))]
    return [change for change in ends if change[1] < change[2] or change[3] < change[4]]


def _changed_line(mark: str, row: str) -> ScreenText:
    return line(f"    {mark} {row}", TONES_OF_MARKS[mark])


def _lines(text: str) -> list[str]:
    *lines, last = text.split("\n")
    return [escaped(row) for row in lines] + ([f"{escaped(last)} {NO_END}"] if last else [])


def _exact(arg: Json) -> str:
    """Return a value on one line: JSON, or a text without quotes if it cannot be mistaken for another value."""
    if isinstance(arg, str) and arg.strip() == arg and arg:
        with suppress(ValueError):
            loads(arg)
            return escaped(canonical(arg))
        return escaped(arg)
    return escaped(canonical(arg))
