"""Reads checklists in Markdown, and moves the steps of a plan by what they say."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Final

from attrs import evolve, frozen

PENDING: Final = "pending"
IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"

MARKS: Final = MappingProxyType(
    {
        " ": PENDING,
        ">": IN_PROGRESS,
        "~": IN_PROGRESS,
        "/": IN_PROGRESS,
        "x": COMPLETED,
        "X": COMPLETED,
        "!": FAILED,
        "-": SKIPPED,
    }
)
"""The status of a step by the mark in its brackets; any other mark counts as pending."""

_BEFORE_THE_END: Final = (PENDING, IN_PROGRESS)
"""The statuses of a step that is not over, in order: a step moves only further."""

MOST_STEPS: Final = 50
"""The most steps of a plan; later ones are left out."""
MOST_TEXT: Final = 200
"""The most characters of a step; a longer one is cut."""
MOST_READ: Final = 100_000
"""The most characters of a response that are read for checklists."""

_ITEM: Final = re.compile(r"[ \t]{0,32}(?:[-*+]|[0-9]{1,4}[.)])[ \t]{1,8}\[(.)\][ \t]+(\S.*)")
_FENCE: Final = re.compile(r"[ \t]{0,32}(`{3,}|~{3,})([^\n]*)")
_HEADING: Final = re.compile(r"[^\w]{0,8}(?:\w{1,20} )?plan[^\w]{0,8}", re.IGNORECASE)


@frozen
class PlanStep:
    """A step of a plan."""

    text: str
    """What is to be done, on one line."""
    status: str = PENDING
    """`pending`, `in_progress`, `completed`, `failed` or `skipped`."""

    @property
    def is_over(self) -> bool:
        """Whether the step is completed, failed or skipped."""
        return self.status not in _BEFORE_THE_END

    @property
    def key(self) -> str:
        """The letters and digits of the text, by which a step is found again."""
        return "".join(filter(str.isalnum, self.text)).casefold() or self.text


@frozen
class Checklist:
    """A list of items with boxes in a text."""

    is_plan: bool
    """Whether the line above says that it is a plan."""
    steps: tuple[PlanStep, ...]
    """Its items, each text once."""


@frozen
class _ListedLines:
    """A checklist, and the lines of the text that it stands on."""

    checklist: Checklist
    """The checklist."""
    lines: tuple[int, ...]
    """Indices of the lines of its items, and of the heading that says it is a plan."""


def checklists(text: str) -> tuple[Checklist, ...]:
    """Return the checklists in *text*, in order; what stands in a block of code is none.

    Empty and indented lines between two items belong to their list.
    """
    return tuple(each.checklist for each in _listed(text[:MOST_READ].splitlines()))


def without_steps(text: str, keys: Collection[str]) -> str:
    """Return *text* without the checklists of which every item is a step with one of *keys*."""
    lines = text.splitlines(keepends=True) if len(text) <= MOST_READ else []
    left_out = {
        index
        for each in _listed(line.rstrip("\r\n") for line in lines)
        if all(step.key in keys for step in each.checklist.steps)
        for index in each.lines
    }
    if not left_out:
        return text
    return "".join(line for index, line in enumerate(lines) if index not in left_out).strip()


def _listed(lines: Iterable[str]) -> Iterator[_ListedLines]:
    items: list[PlanStep] = []
    places: list[int] = []
    fence, heading = "", -1
    for index, line in enumerate(lines):
        if mark := _FENCE.match(line):
            fence = _fenced(fence, mark[1], mark[2])
        elif fence or not line.strip():
            continue
        elif item := _ITEM.fullmatch(line):
            items.append(PlanStep(one_line(item[2]), MARKS.get(item[1], PENDING)))
            places.append(index)
        elif not items or not line[0].isspace():
            if items:
                yield _of(heading, items, places)
            items, places = [], []
            heading = index if _HEADING.fullmatch(line.strip()) else -1
    if items:
        yield _of(heading, items, places)


def _of(heading: int, items: list[PlanStep], places: list[int]) -> _ListedLines:
    """Return the list of *items* below the line *heading*, which is -1 if none says that they are a plan."""
    is_plan = heading >= 0
    return _ListedLines(Checklist(is_plan, _once(items)), (heading, *places) if is_plan else tuple(places))


def _fenced(fence: str, mark: str, after: str) -> str:
    """Return the fence of the block of code after a line of *mark* and *after*; empty if the line ends the block.

    A block ends at a line of the characters with which it began, as many of them or more, and nothing else.
    """
    if not fence:
        return "" if "`" in mark and "`" in after else mark
    return "" if mark.startswith(fence) and not after.strip() else fence


def one_line(text: str) -> str:
    """Return *text* on one line, without invisible characters, cut to `MOST_TEXT` characters."""
    words = "".join(char if char.isprintable() else " " for char in text[: 2 * MOST_TEXT]).split()
    line = " ".join(words)
    return line if len(line) <= MOST_TEXT else f"{line[: MOST_TEXT - 1]}…"


def _once(items: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    kept: dict[str, PlanStep] = {}
    for step in items:
        kept.setdefault(step.key, step)
    return tuple(kept.values())[:MOST_STEPS]


def moved(steps: Sequence[PlanStep], said: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """Return *steps*, each with the status that *said* gives a step of the same text, if it may move there."""
    now = {step.key: step.status for step in said}
    return tuple(_moved(step, now.get(step.key, step.status)) for step in steps)


def revised(old: Iterable[PlanStep], new: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """Return the steps *new*; one that was among *old* is not less far than it was."""
    before = {step.key: step.status for step in old}
    return tuple(_moved(evolve(step, status=before.get(step.key, PENDING)), step.status) for step in new)


def _moved(step: PlanStep, status: str) -> PlanStep:
    return evolve(step, status=status) if _rank(status) > _rank(step.status) else step


def _rank(status: str) -> int:
    return _BEFORE_THE_END.index(status) if status in _BEFORE_THE_END else len(_BEFORE_THE_END)


def shown(steps: Iterable[PlanStep]) -> str:
    """Return *steps* as a checklist, in which nothing looks like the end of the tags around a section."""
    marks = {status: mark for mark, status in reversed(tuple(MARKS.items()))}
    return "\n".join(f"- [{marks[step.status]}] {step.text.replace('</', '< /')}" for step in steps)
