"""`difference_of`: compares two texts line by line, and lines that are alike word by word.

It takes some milliseconds whatever the texts are, so an event loop may call it: lines are compared with each other only
as far as `MOST_PAIRS` goes, and beyond it only those are taken for the same that both texts have once.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple

from agentrail.insight.text_difference import Hunk, HunkRow, TextDifference

AROUND: Final = 3
"""Lines that are shown above and below those that change."""

MOST_PAIRS: Final = 10_000
"""Pairs of lines that are compared, of one difference: the time for like lines grows by a higher power."""

MOST_MARKED: Final = 100
"""Pairs of an old and a new line in which what changed is looked for, of one difference."""

MOST_WORD_PAIRS: Final = 1_600
"""Pairs of words up to which those of two lines are compared; beyond it, all between equal ends has changed."""

ALIKE: Final = 0.4
"""The part of two lines that must be the same in both, from 0 to 1; else one is not told to be the other, changed."""

END: Final = "\n"
"""Behind the last line of a text that lacks its end, where only one of both texts does: it is another line then."""

WORDS: Final = re.compile(r"\w+|\s+|.")


class _Change(NamedTuple):
    """Lines of the old text, from `start` to `end`, in whose place come those of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def difference_of(old: str, new: str, around: int = AROUND) -> TextDifference:
    """Return what differs between *old* and *new*, with *around* lines above and below what changes."""
    old_lines, new_lines = _lines_of(old), _lines_of(new)
    if old_lines and new_lines and old.endswith("\n") is not new.endswith("\n"):
        (new_lines if old.endswith("\n") else old_lines)[-1] += END
    changes = _changes(old_lines, new_lines)
    return TextDifference(
        sum(change.end - change.start for change in changes),
        sum(change.new_end - change.new_start for change in changes),
        len(old_lines),
        0,
        tuple(_hunks(old_lines, new_lines, changes, around)),
    )


def _lines_of(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


# Which lines change


def _changes(old: Sequence[str], new: Sequence[str]) -> list[_Change]:
    """Return what changes, from the first line to the last."""
    least = min(len(old), len(new))
    head = next((index for index in range(least) if old[index] != new[index]), least)
    tail = next((index for index in range(least - head) if old[-1 - index] != new[-1 - index]), least - head)
    inner = _Change(head, len(old) - tail, head, len(new) - tail)
    changes, room = list[_Change](), MOST_PAIRS
    for gap in _gaps(old, new, inner):
        pairs = (gap.end - gap.start) * (gap.new_end - gap.new_start)
        changes += _compared(old, new, gap) if 0 < pairs <= room else [gap]
        room -= pairs if pairs <= room else 0
    return [change for change in changes if change.start < change.end or change.new_start < change.new_end]


def _compared(old: Sequence[str], new: Sequence[str], gap: _Change) -> Iterator[_Change]:
    """Yield what changes in a *gap*, as `difflib` tells it."""
    lines, new_lines = old[gap.start : gap.end], new[gap.new_start : gap.new_end]
    for kind, start, end, new_start, new_end in SequenceMatcher(None, lines, new_lines, autojunk=False).get_opcodes():
        if kind != "equal":
            yield _Change(gap.start + start, gap.start + end, gap.new_start + new_start, gap.new_start + new_end)


def _gaps(old: Sequence[str], new: Sequence[str], gap: _Change) -> Iterator[_Change]:
    """Yield what is between the lines that are taken for the same; of a small *gap*, that."""
    start, new_start = gap.start, gap.new_start
    if (gap.end - start) * (gap.new_end - new_start) > MOST_PAIRS:
        for index, new_index in _same_lines(old, new, gap):
            yield _Change(start, index, new_start, new_index)
            start, new_start = index + 1, new_index + 1
    yield _Change(start, gap.end, new_start, gap.new_end)


def _same_lines(old: Sequence[str], new: Sequence[str], gap: _Change) -> list[tuple[int, int]]:
    """Return the indices of lines that both texts have once, as many as stand in the same order in both."""
    once = {line for line, count in Counter(old[gap.start : gap.end]).items() if count == 1}
    once &= {line for line, count in Counter(new[gap.new_start : gap.new_end]).items() if count == 1}
    old_index = {old[index]: index for index in range(gap.start, gap.end) if old[index] in once}
    pairs = [(old_index[new[index]], index) for index in range(gap.new_start, gap.new_end) if new[index] in once]
    # The longest run of growing old indices: for each length, the pair with the least one that ends a run of it
    ends, last, previous = list[int](), list[int](), list[int]()
    for number, (index, _) in enumerate(pairs):
        length = bisect_left(ends, index)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1], last[length : length + 1] = [index], [number]
    run, number = list[tuple[int, int]](), last[-1] if last else -1
    while number >= 0:
        run.append(pairs[number])
        number = previous[number]
    return run[::-1]


# How they are shown


def _hunks(old: Sequence[str], new: Sequence[str], changes: Sequence[_Change], around: int) -> Iterator[Hunk]:
    """Yield the *changes* with the lines around them; those that are near each other stand in one."""
    room, rows, index = MOST_MARKED, list[HunkRow](), 0
    start = new_start = 0
    for number, change in enumerate(changes):
        if not rows:
            index = max(change.start - around, 0)
            start, new_start = index, change.new_start - (change.start - index)
        rows += _staying(old, index, change.start)
        rows += _marked(old[change.start : change.end], new[change.new_start : change.new_end], room)
        room -= min(change.end - change.start, change.new_end - change.new_start)
        index = change.end
        following = changes[number + 1].start if number + 1 < len(changes) else len(old) + 2 * around + 2
        if following - index > 2 * around + 1:
            yield Hunk(start + 1, new_start + 1, (*rows, *_staying(old, index, index + around)))
            rows = []


def _staying(lines: Sequence[str], start: int, end: int) -> list[HunkRow]:
    return [HunkRow(" ", (line,), lacks_end=False) for line in lines[start:end]]


def _marked(old: Sequence[str], new: Sequence[str], room: int) -> list[HunkRow]:
    """Return the rows of lines that go and come; at most *room* pairs of them are compared by their words."""
    going = [HunkRow("-", (line.removesuffix(END),), line.endswith(END)) for line in old]
    coming = [HunkRow("+", (line.removesuffix(END),), line.endswith(END)) for line in new]
    for index, new_index in _pairs(old, new, room):
        parts, new_parts = _words_marked(going[index].text, coming[new_index].text)
        going[index], coming[new_index] = going[index].but(parts=parts), coming[new_index].but(parts=new_parts)
    return [*going, *coming]


def _pairs(old: Sequence[str], new: Sequence[str], room: int) -> Iterator[tuple[int, int]]:
    """Yield the indices of an old line and of the new one that is most like it, in the order of both."""
    more = len(new) - len(old)
    if min(len(old), len(new)) > room or abs(more) * min(len(old), len(new)) > MOST_MARKED:
        return
    index = new_index = 0
    while index < len(old) and new_index < len(new):
        surplus = (len(new) - new_index) - (len(old) - index)
        if surplus > 0:
            new_index += _nearest(old[index], new[new_index : new_index + surplus + 1])
        elif surplus < 0:
            index += _nearest(new[new_index], old[index : index - surplus + 1])
        yield index, new_index
        index, new_index = index + 1, new_index + 1


def _nearest(line: str, others: Sequence[str]) -> int:
    """Return the index of the one of *others* that has most words in common with *line*."""
    words = set(WORDS.findall(line))
    return max(range(len(others)), key=lambda index: (len(words & set(WORDS.findall(others[index]))), -index))


def _words_marked(old: str, new: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the pieces of both lines, of which each second one changes; the lines alone if they are hardly alike."""
    words, new_words = WORDS.findall(old), WORDS.findall(new)
    parts, new_parts, shared = [""], [""], 0
    for kind, start, end, new_start, new_end in _word_changes(words, new_words):
        text, new_text = "".join(words[start:end]), "".join(new_words[new_start:new_end])
        if kind == "equal":
            parts[-1] += text
            new_parts[-1] += text
            shared += len(text.strip())
        else:
            parts += [text, ""]
            new_parts += [new_text, ""]
    most = max(len(old.strip()), len(new.strip()))
    return (tuple(parts), tuple(new_parts)) if most and shared >= ALIKE * most else ((old,), (new,))


def _word_changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """Return what changes between two lines, as `difflib` does; of long ones, all between ends that are the same."""
    if len(old) * len(new) <= MOST_WORD_PAIRS:
        return list(SequenceMatcher(None, old, new, autojunk=False).get_opcodes())
    least = min(len(old), len(new))
    head = next((index for index in range(least) if old[index] != new[index]), least)
    tail = next((index for index in range(least - head) if old[-1 - index] != new[-1 - index]), least - head)
    end, new_end = len(old) - tail, len(new) - tail
    return [
        ("equal", 0, head, 0, head),
        ("replace", head, end, head, new_end),
        ("equal", end, len(old), new_end, len(new)),
    ]
