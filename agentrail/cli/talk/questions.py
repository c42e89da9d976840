"""What a person is asked about a call that waits, with its arguments exactly as they are: the person decides by them.

A character that nobody sees is escaped as in JSON, and nothing is shortened. Texts of several lines are shown as such,
and the replacement of one by another as the lines that differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from json import loads
from typing import Final

from agentrail.api.session_values import HeldCall
from agentrail.cli.output.screen import ScreenText, Tone, escaped, line
from agentrail.cli.talk.difference_rows import difference_rows
from agentrail.insight.text_comparison import difference_of
from agentrail.insight.text_difference import difference_in
from agentrail.plugins.arguments import shown_as_json
from agentrail.tools.builtin.file_changes import FileChange, Unseen
from agentrail.values.json import Json, JsonObject, canonical

CONTENT: Final = "content"
"""The argument that takes the place of all that a file has."""

OLD: Final = "old_text"
NEW: Final = "new_text"
"""Arguments of which the second takes the place of the first."""

NO_END: Final = "(no end of line)"
"""Behind the last line of an argument of several lines if it has none."""

NEW_FILE: Final = "    a new file:"
NEW_EMPTY_FILE: Final = "    a new file with nothing in it"
EMPTIED: Final = "    nothing is left of the file:"


def question_about(
    call: HeldCall, change: FileChange | Unseen | None = None, *, by_key: bool = False
) -> tuple[ScreenText, ...]:
    """Return the text that asks a person about a held call: question or exact arguments, and possible answers.

    *change* is what the call changes in a file, or why that is not shown. *by_key*: an answer is a single
    key, so that there is one for an answer with a text, too.
    """
    if call.kind == "question":
        options = tuple(line(f"    {number}. {escaped(option)}") for number, option in enumerate(call.options, 1))
        return (line(f"? {escaped(call.hint, keep_lines=True)}", Tone.ASKING), *options)
    by = " (a sub-agent's)" if call.path else ""
    return (
        line(f"? {escaped(call.tool)} waits for your approval{by}", Tone.ASKING),
        *(exact_args(call.args) if not isinstance(change, FileChange) else _changed_file(call.args, change)),
        *end_of_question(call, change, by_key=by_key),
    )


def end_of_question(
    call: HeldCall, change: FileChange | Unseen | None = None, *, by_key: bool = False
) -> tuple[ScreenText, ...]:
    """Return the last rows of the text about a held call, which are always in sight: why it waits, and the answers."""
    always = "" if call.family is None else f" / [a]lways (all of `{escaped(call.family)}`)"
    return (
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
    if change.old_text is None:
        yield line(NEW_FILE if change.new_text else NEW_EMPTY_FILE, Tone.DIM)
        if not change.new_text:
            return
    elif change.old_text and not change.new_text:
        yield line(EMPTIED, Tone.BAD)
    yield from difference_rows(difference_of(change.old_text or "", change.new_text))


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


def made_changes(args: JsonObject, details: object) -> tuple[ScreenText, ...]:
    """Return the rows of what a call of `write_file` or `edit_file` has changed, by the *details* of its result."""
    difference = difference_in(details)
    return changed_lines(args) if difference is None else tuple(difference_rows(difference))


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
    """Yield the rows that show what differs between two texts of which nobody knows where they stand."""
    yield from difference_rows(difference_of(old, new, around=len(old)), has_numbers=False)


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
