"""`Planning`: asks for a plan as a Markdown checklist, keeps it in the system prompt, and moves its steps."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Final, TypeVar

import attrs
from attrs import evolve, frozen

from agentrail.hooks.actions import Action, Continue, Emission, Emit, Intervene, ReplaceResponse, SetSection
from agentrail.hooks.context import Context
from agentrail.hooks.hook_types import AfterResponse, AfterToolBatch, AfterTurn, BeforePrompt, BeforeRequest
from agentrail.hooks.plugin import Plugin, Priority
from agentrail.plugins.options import check_count, check_flag, check_positive, check_text
from agentrail.plugins.short_texts import one_line
from agentrail.values.code_fences import open_fence
from agentrail.values.events.context import PlanGenerated, PlanStepCompleted
from agentrail.values.events.envelope import Event
from agentrail.values.json import freeze

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

MAX_STEPS: Final = 50
"""The most steps of a plan; later ones are left out."""
MAX_TEXT: Final = 200
"""The most characters of a step; a longer one is cut."""
MAX_READ: Final = 100_000
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
        """The letters and digits of the text; two steps with the same key are the same step."""
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
    """A checklist, with the indices of its lines in the text."""

    checklist: Checklist
    """The checklist."""
    lines: tuple[int, ...]
    """Indices of the lines of its items, and of the heading that says it is a plan."""


def checklists(text: str) -> tuple[Checklist, ...]:
    """Return the checklists in *text*, in order; those in blocks of code do not count.

    Empty and indented lines between two items belong to their list.
    """
    return tuple(listed_step.checklist for listed_step in _listed(text[:MAX_READ].splitlines()))


def without_steps(text: str, keys: Collection[str]) -> str:
    """Return *text* without each checklist all of whose items have a key in *keys*."""
    lines = text.splitlines(keepends=True) if len(text) <= MAX_READ else []
    left_out = {
        index
        for listed_step in _listed(line.rstrip("\r\n") for line in lines)
        if all(step.key in keys for step in listed_step.checklist.steps)
        for index in listed_step.lines
    }
    if not left_out:
        return text
    return "".join(line for index, line in enumerate(lines) if index not in left_out).strip()


def _listed(lines: Iterable[str]) -> Iterator[_ListedLines]:
    items: list[PlanStep] = []
    item_lines: list[int] = []
    fence, heading = "", -1
    for index, line in enumerate(lines):
        if mark := _FENCE.match(line):
            fence = open_fence(fence, mark[1], mark[2])
        elif fence or not line.strip():
            continue
        elif item := _ITEM.fullmatch(line):
            items.append(PlanStep(one_line(item[2], MAX_TEXT), MARKS.get(item[1], PENDING)))
            item_lines.append(index)
        elif not items or not line[0].isspace():
            if items:
                yield _of(heading, items, item_lines)
            items, item_lines = [], []
            heading = index if _HEADING.fullmatch(line.strip()) else -1
    if items:
        yield _of(heading, items, item_lines)


def _of(heading: int, items: list[PlanStep], item_lines: list[int]) -> _ListedLines:
    """Return the list of *items*; *heading* is the index of the line that calls them a plan, -1 if there is none."""
    is_plan = heading >= 0
    return _ListedLines(Checklist(is_plan, _once(items)), (heading, *item_lines) if is_plan else tuple(item_lines))


def _once(items: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    steps_by_key: dict[str, PlanStep] = {}
    for step in items:
        steps_by_key.setdefault(step.key, step)
    return tuple(steps_by_key.values())[:MAX_STEPS]


def moved(steps: Sequence[PlanStep], marked: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """Return *steps* with the statuses in *marked*; a step never moves back to an earlier status."""
    now = {step.key: step.status for step in marked}
    return tuple(_moved(step, now.get(step.key, step.status)) for step in steps)


def revised(old: Iterable[PlanStep], new: Iterable[PlanStep]) -> tuple[PlanStep, ...]:
    """Return the steps *new*; a step that is also in *old* does not move back to an earlier status."""
    old_statuses = {step.key: step.status for step in old}
    return tuple(_moved(evolve(step, status=old_statuses.get(step.key, PENDING)), step.status) for step in new)


def _moved(step: PlanStep, status: str) -> PlanStep:
    return evolve(step, status=status) if _rank(status) > _rank(step.status) else step


def _rank(status: str) -> int:
    return _BEFORE_THE_END.index(status) if status in _BEFORE_THE_END else len(_BEFORE_THE_END)


def checklist(steps: Iterable[PlanStep]) -> str:
    """Return *steps* as a Markdown checklist; it cannot contain the end tag of its section."""
    marks = {status: mark for mark, status in reversed(tuple(MARKS.items()))}
    return "\n".join(f"- [{marks[step.status]}] {step.text.replace('</', '< /')}" for step in steps)


A = TypeVar("A", bound=Action[object])

SECTION: Final = "plan"
"""Name of the section of the system prompt."""

DIRECTIVE: Final = """\
Before you do anything else, write a plan for this: the line `## Plan`, and below it a checklist in Markdown, one step \
a line, such as `- [ ] Read the code`. Do not put it in a block of code. A task of one step has a list of one item."""
"""The text for the model after a prompt that is long enough."""

STILL: Final = "\n\nIf the plan that you have still fits, write it again, with its marks."
"""What is added to the directive if steps of a plan are open."""

AGAIN: Final = """\
There was no plan in your answer. Write the line `## Plan` now, and below it one step a line, such as `- [ ] Read the \
code`, not in a block of code."""
"""The text for the model if its answer had no plan."""

GO_ON: Final = "Now carry out the plan, step by step, and give your answer at the end."
"""The text for the model after a response with a plan and nothing else."""

HOW: Final = """\
This is your plan. When a step begins or is over, write its line again with another mark, or use the same texts in \
your list of things to do: `[>]` in progress, `[x]` completed, `[!]` failed, `[-]` skipped. To change the plan, write \
all of it again below the line `## Plan`. These lines are taken out of your final answer: to show steps to people, \
write them without boxes. If an answer has a form, write none of them.
"""
"""The beginning of the section."""

_TODO: Final = {"done": COMPLETED, "in_progress": IN_PROGRESS}.get


@frozen
class CurrentPlan:
    """The state of `Planning`."""

    steps: tuple[PlanStep, ...] = ()
    """The steps of the plan, in order; empty if there is none."""
    asked: int = 0
    """How often the model was asked for a plan in this turn; 0 if none is waited for."""
    stale: bool = False
    """Whether the section of the system prompt must be set anew."""
    has_worked: bool = False
    """Whether calls have run in this turn while a plan is waited for."""

    @property
    def is_open(self) -> bool:
        """Whether the plan has a step that is not over."""
        return not all(step.is_over for step in self.steps)


@frozen
class Planning(Plugin[CurrentPlan]):
    """Ask the model for a plan first, keep the plan in the system prompt, and tell when its steps are over.

    The plan is a checklist below the line `## Plan`. The model reports progress by writing lines of it again with
    another mark, or by the same texts in the session's list of things to do; a final answer has these lines no more.
    No plan is asked for if the answer has a form, which cannot hold one. Events tell of the plan: `PlanGenerated`,
    `PlanStepCompleted`, `plan_step_failed`, `plan_step_skipped`, and `plan_missing` if the model gave none.
    """

    plan_first: bool = attrs.field(default=True, validator=check_flag)
    """Whether to ask for a plan; if not, one that the model writes of its own accord is kept."""
    min_prompt_length: int = attrs.field(default=20, validator=check_count)
    """The fewest characters of a prompt after which to ask for a plan."""
    directive: str = attrs.field(default=DIRECTIVE, validator=check_text)
    """The text that asks for a plan."""
    max_plan_attempts: int = attrs.field(default=2, validator=check_positive)
    """How often in one turn to ask for a plan; `plan_first=False`: never."""

    priority = Priority.QUALITY

    def init(self, ctx: Context) -> CurrentPlan:
        """Return the first state: no plan."""
        return CurrentPlan()

    def before_prompt(
        self, hook: BeforePrompt, state: CurrentPlan, ctx: Context
    ) -> Continue[CurrentPlan] | Intervene[CurrentPlan]:
        """Drop a finished plan; ask for a new one if the prompt is long enough."""
        new = state if not state.steps or state.is_open else CurrentPlan(stale=True)
        if not self.plan_first or ctx.returns or len(hook.text.strip()) < self.min_prompt_length:
            return Continue(_asking(new, 0))
        return Intervene(self.directive + (STILL if new.steps else ""), _asking(new, 1))

    def before_request(
        self, hook: BeforeRequest, state: CurrentPlan, ctx: Context
    ) -> Continue[CurrentPlan] | SetSection[CurrentPlan]:
        """Update the section of the system prompt if the plan has changed."""
        if not state.stale:
            return Continue(state)
        return SetSection(SECTION, HOW + checklist(state.steps) if state.steps else None, evolve(state, stale=False))

    def after_response(
        self, hook: AfterResponse, state: CurrentPlan, ctx: Context
    ) -> Continue[CurrentPlan] | Intervene[CurrentPlan] | ReplaceResponse[CurrentPlan]:
        """Read a plan, or marks of steps, in the response; ask again for a missing plan, or to carry out a new one."""
        text, is_last = hook.message.text, not hook.message.calls
        if (is_last and ctx.returns) or ("[" not in text and not state.asked):
            return Continue(state)
        lists = checklists(text)
        plan = next((checklist for checklist in lists if checklist.is_plan), None)
        may_ask = state.asked > 0 and not (is_last and state.has_worked)
        if plan is None and may_ask and lists:
            plan = lists[0]
        if plan is None:
            new = _with(state, moved(state.steps, [step for checklist in lists for step in checklist.steps]))
            if may_ask and state.asked < self.max_plan_attempts:
                return _telling(Intervene(AGAIN, _asking(new, state.asked + 1)), state, new)
            return self._going_on(text, state, new, is_last=is_last)
        new = _with(state, revised(state.steps, plan.steps))
        is_new = _texts(new) != _texts(state)
        if self.plan_first and (is_new or state.asked) and new.is_open and is_last:
            return _telling(Intervene(GO_ON, _asking(new, 0)), state, new)
        return self._going_on(text, state, new, is_last=is_last, has_plan=True)

    def _going_on(
        self, text: str, state: CurrentPlan, new: CurrentPlan, *, is_last: bool, has_plan: bool = False
    ) -> Continue[CurrentPlan] | ReplaceResponse[CurrentPlan]:
        """Return the action for a response after which the turn goes on, or (*is_last*) ends: without the plan's lines.

        A plan that the model has written of its own accord in this response stays: it may be what was asked for.
        """
        keys = {step.key for step in (new if state.asked else state).steps}
        rest = without_steps(text, keys) if is_last and keys else text
        now = _asking(new, 0)
        action: Continue[CurrentPlan] | ReplaceResponse[CurrentPlan] = (
            Continue(now) if rest == text or not rest.strip() else ReplaceResponse(rest, now)
        )
        if state.asked and not has_plan:
            action = action.emitting("plan_missing", freeze({"attempts": state.asked}))
        return _telling(action, state, new)

    def after_tool_batch(self, hook: AfterToolBatch, state: CurrentPlan, ctx: Context) -> Continue[CurrentPlan]:
        """Move the steps that are also in the session's list of things to do to the status which they have there."""
        begun = evolve(state, has_worked=True) if state.asked and not state.has_worked else state
        if not state.steps or not ctx.todos:
            return Continue(begun)
        todos = [PlanStep(one_line(todo.text, MAX_TEXT), _TODO(todo.status, PENDING)) for todo in ctx.todos]
        new = _with(begun, moved(state.steps, todos))
        return _telling(Continue(new), state, new)

    def after_turn(
        self, hook: AfterTurn, state: CurrentPlan, ctx: Context
    ) -> Continue[CurrentPlan] | Emit[CurrentPlan]:
        """Emit an event if the turn has ended before the model gave a plan."""
        if not state.asked:
            return Continue(state)
        new = _asking(state, 0)
        if hook.outcome != "finished":
            return Continue(new)
        return Emit("plan_missing", freeze({"attempts": state.asked}), state=new)


def _texts(plan: CurrentPlan) -> tuple[str, ...]:
    return tuple(step.text for step in plan.steps)


def _asking(plan: CurrentPlan, attempts: int) -> CurrentPlan:
    """Return *plan* with the number of *attempts* to get a plan; 0 means that none is waited for."""
    if attempts:
        return evolve(plan, asked=attempts)
    return evolve(plan, asked=0, has_worked=False) if plan.asked or plan.has_worked else plan


def _with(plan: CurrentPlan, steps: tuple[PlanStep, ...]) -> CurrentPlan:
    """Return *plan* with *steps*; *plan* itself if its steps are equal."""
    return plan if steps == plan.steps else evolve(plan, steps=steps, stale=True)


def _telling(action: A, old: CurrentPlan, new: CurrentPlan) -> A:
    """Return *action*, which also emits the events for the change from plan *old* to *new*."""
    if new.steps is old.steps:
        return action
    events: list[Event | Emission] = [PlanGenerated(_texts(new))] if _texts(new) != _texts(old) else []
    old_steps = {step.key: step for step in old.steps}
    for index, step in enumerate(new.steps):
        if step.is_over and not old_steps.get(step.key, PlanStep("")).is_over:
            data = freeze({"index": index, "text": step.text})
            events.append(
                PlanStepCompleted(index, step.text)
                if step.status == COMPLETED
                else Emission(f"plan_step_{step.status}", data)
            )
    return action.but(emits=(*action.emits, *events))
