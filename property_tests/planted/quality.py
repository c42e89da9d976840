"""Plays random turns with `Planning`, `SelfVerify` and `Reflection` in a row, from a seed; each keeps its promises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Final

from agentrail import Options
from agentrail.events import (
    AgentEnd,
    AgentStart,
    AskStarted,
    Event,
    Intervention,
    PlanGenerated,
    PlanStepCompleted,
    PluginEvent,
    ToolExecutionEnd,
)
from agentrail.models import AssistantMessage, Origin, UserMessage
from agentrail.plugins import Answered, AskAnswer, Failed, Planning, Reflection, SelfVerify, TimedOut
from agentrail.plugins.quality.planning import AGAIN, DIRECTIVE, HOW, CurrentPlan, checklist
from agentrail.plugins.quality.reflection import CONVERSATION, MODEL
from agentrail.testing import Choose, ScriptStep, Trace, abort, call, compact, prompt, say, simulate, steer, tell
from agentrail.tools import ToolSpec
from tests.kit import freeze

SIGNAL: Final = "APPROVED"
TASKS: Final = ("Go on.", "Write the sum, please.")
SAID: Final = (
    "Done.",
    "It is done.",
    SIGNAL,
    "## Plan\n- [ ] a\n- [ ] b",
    "## Plan\n- [x] a\n- [ ] c",
    "- [x] a",
    "- [ ] a\n- [>] b",
    "- [!] a\n- [x] b",
)
TOOLS: Final = tuple(ToolSpec(name, name) for name in ("edit", "run_tests"))
TOLD: Final[tuple[AskAnswer, ...]] = (
    Answered("fine"),
    Answered(freeze({"passed": True, "problems": ()})),
    Answered(freeze({"passed": False, "problems": ("too short",)})),
    Failed("red"),
    TimedOut(60.0),
)


def draw_script(choose: Choose) -> list[ScriptStep]:
    """Draw some turns of responses, with calls and without, answers to plugins, steering, aborts and compactions."""
    script_steps: list[ScriptStep] = []
    for _ in range(choose.number(1, 4)):
        script_steps.append(prompt(choose.pick(TASKS)))
        for _ in range(choose.number(0, 8)):
            said = say(choose.pick(SAID), calls=[call("edit")] if choose.percent(30) else ())
            other = choose.pick((abort(), compact(), steer("In French.")))
            script_steps.append(
                said if choose.percent(55) else tell(choose.pick(TOLD)) if choose.percent(80) else other
            )
    return script_steps


def turns_of(trace: Trace) -> Iterator[list[Event]]:
    """Yield the events of each turn, with those that come after its end."""
    turn: list[Event] = []
    for event in trace.events:
        if isinstance(event, AgentStart):
            if turn:
                yield turn
            turn = []
        turn.append(event)
    yield turn


def is_finished(turn: list[Event]) -> bool:
    """Whether the turn has ended with an answer."""
    return any(isinstance(event, AgentEnd) and event.reason != "superseded" for event in turn)


def told(turn: list[Event], beginning: str) -> list[PluginEvent]:
    return [event for event in turn if isinstance(event, PluginEvent) and event.name.startswith(beginning)]


def work_is_checked(trace: Trace, most: int) -> None:
    """Whatever was done is checked before an answer is final, or given up; nothing else is checked."""
    dirty = False
    for turn in turns_of(trace):
        for event in turn:
            if isinstance(event, ToolExecutionEnd) and event.name == "edit":
                dirty = True
            elif isinstance(event, AskStarted) and event.plugin == "SelfVerify":
                assert dirty, "nothing had to be checked"
            elif isinstance(event, PluginEvent) and event.name in ("verify_passed", "verify_given_up"):
                dirty = False
        assert not (dirty and is_finished(turn)), "an answer is final, and the work was not checked"
        failed = told(turn, "verify_failed")
        assert len(failed) <= most, f"sent back {len(failed)} times"


def answers_are_reviewed(trace: Trace, plugin: Reflection) -> None:
    """Each turn that finishes has a review, and not too many; reviews count from 1 in each turn."""
    for turn in turns_of(trace):
        reviews = told(turn, "review_")
        assert reviews or not is_finished(turn), "an answer is final, and was not reviewed"
        numbers = [number for one in reviews if (number := number_of(one))]
        assert numbers == sorted(set(numbers)), f"reviews {numbers}"
        assert all(number <= plugin.max_reviews for number in numbers), f"reviews {numbers}"
        assert not numbers or plugin.reviewer == CONVERSATION or numbers[0] == 1, f"reviews {numbers}"
        failed = [number_of(one) for one in reviews if one.name == "review_failed"]
        assert plugin.reviewer == CONVERSATION or plugin.max_reviews not in failed, "sent back after the last review"


def number_of(event: PluginEvent) -> int:
    """Return the number of the review that *event* tells of; 0 if it tells of none."""
    found = event.payload.get("review") if isinstance(event.payload, Mapping) else None
    return found if isinstance(found, int) else 0


def signal_is_no_answer(trace: Trace) -> None:
    """The signal that follows the question for a review is not in the history."""
    asked, answer = False, SIGNAL  # not known after a compaction
    for message in trace.messages:
        if "reply with this one word" in message.text:
            asked = answer != SIGNAL  # an answer may have the words of the signal
        elif isinstance(message, UserMessage) and message.origin is Origin.PROMPT:
            asked = False  # the turn of the review was aborted
        elif isinstance(message, AssistantMessage):
            assert not asked or message.calls or message.interrupted or message.text != SIGNAL, (
                "the signal is an answer"
            )
            asked, answer = asked and bool(message.calls), message.text


def plans_are_kept(trace: Trace, most: int) -> None:
    """A plan is asked for not too often; steps that are over stay so; requests show what was told."""
    for turn in turns_of(trace):
        texts = [event.text for event in turn if isinstance(event, Intervention)]
        asked = [text for text in texts if text.startswith(DIRECTIVE) or AGAIN in text]
        assert len(asked) <= most, f"a plan was asked for {len(asked)} times"
    over: dict[str, str] = {}
    for request in trace.requests:
        lines = dict(request.sections).get("plan", "").splitlines()
        now = {line[6:]: line[3] for line in lines if line.startswith("- [")}
        for text, mark in over.items():
            assert now.get(text, mark) == mark, f"`{text}` has moved from {mark} to {now[text]}"
        over = {text: mark for text, mark in now.items() if mark in "x!-"}
    completed = {event.text for event in trace.events if isinstance(event, PlanStepCompleted)}
    planned = {text for event in trace.events if isinstance(event, PlanGenerated) for text in event.steps}
    assert completed <= planned, f"{completed - planned} were not planned"
    state = trace.plugin_state("Planning")
    assert isinstance(state, CurrentPlan)
    if trace.requests and not state.stale:
        wanted = HOW + checklist(state.steps) if state.steps else None
        assert dict(trace.requests[-1].sections).get("plan") == wanted, "the plan that the model has is an old one"


def broken_quality(seed: int) -> str | None:
    """Play random turns with all three plugins; return what is wrong, or `None`."""
    choose = Choose(Random(seed).randrange)
    reflection = Reflection(reviewer=choose.pick((CONVERSATION, MODEL)), max_reviews=choose.number(1, 3))
    repairs, attempts = choose.number(0, 2), choose.number(1, 2)
    rows = (Planning(max_plan_attempts=attempts), SelfVerify("run_tests", max_repairs=repairs), reflection)
    options = Options(max_interventions=choose.pick((2, 20)))
    trace = simulate(rows, draw_script(choose), tools=TOOLS, options=options)
    try:
        work_is_checked(trace, repairs)
        answers_are_reviewed(trace, reflection)
        signal_is_no_answer(trace)
        plans_are_kept(trace, attempts)
    except AssertionError as error:
        return str(error).partition("\n")[0].partition(":")[0]
    return None
