"""`Planning`: a plan first, which stays in the system prompt, and events that tell how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest

from agentrail import Context, Continue, SessionSpec, SetSection, open_supervisor
from agentrail.codec.plugin_states import storable
from agentrail.errors import BadOptions
from agentrail.events import Event, Intervention, PlanGenerated, PlanStepCompleted, PluginEvent
from agentrail.journals import MemoryJournal
from agentrail.models import AssistantMessage, Json, Text
from agentrail.plugins import AfterResponse, BeforeRequest, Planning
from agentrail.plugins.quality.planning import (
    AGAIN,
    DIRECTIVE,
    GO_ON,
    HOW,
    MAX_READ,
    MAX_STEPS,
    MAX_TEXT,
    STILL,
    Checklist,
    CurrentPlan,
    PlanStep,
    checklists,
)
from agentrail.testing import (
    ScriptedModel,
    ScriptStep,
    Trace,
    abort,
    call,
    check_plugin,
    compact,
    prompt,
    say,
    simulate,
    steer,
)
from agentrail.tools.builtin import write_todos
from tests.each_case import each_case
from tests.kit import Element
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.world import open_world, settle, until

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

TASK = "Repair the sum, please."
PLAN = "## Plan\n\n- [ ] Read\n- [ ] Repair\n- [ ] Test\n"
PLAIN = (PlanGenerated(("Read", "Repair", "Test")),)


def told(events: Sequence[Event]) -> list[Event]:
    """Return what the plugin told, without the data of the user."""
    return [
        event.but(payload={key: item for key, item in event.payload.items() if key != "user_data"})  # type: ignore[union-attr]
        if isinstance(event, PluginEvent)
        else event
        for event in events
        if isinstance(event, PlanGenerated | PlanStepCompleted | PluginEvent)
    ]


def texts(trace: Trace) -> list[str]:
    return [event.text for event in trace.events if isinstance(event, Intervention)]


def played(*script_steps: ScriptStep, task: str = TASK, **options: object) -> Trace:
    return simulate([Planning(**options)], [prompt(task), *script_steps])  # type: ignore[arg-type]


def section(trace: Trace, request: int = -1) -> str | None:
    return dict(trace.requests[request].sections).get("plan")


def missing(attempts: int) -> PluginEvent:
    return PluginEvent("Planning", "plan_missing", {"attempts": attempts})


# The promise


@in_virtual_time
async def test_a_plan_comes_first_stays_in_the_prompt_and_is_told_step_by_step() -> None:
    script: list[Element] = [
        PLAN,
        say("I read.\n- [x] Read\n- [>] Repair", calls=[call("write_todos", {"todos": todos("Repair", "Test")})]),
        "Done.\n\n1. [!] Test",
    ]
    model = ScriptedModel(script)
    async with open_world() as world:
        session = await world.spawn(model, tools=[write_todos], plugins=[Planning()])
        assert (await session.ask(TASK)).text == "Done."
        await settle()
        heard = world.heard(session)
        assert [event.text for event in heard.of(Intervention)] == [DIRECTIVE, GO_ON]
        assert told(heard.events) == [
            *PLAIN,
            PlanStepCompleted(0, "Read"),
            PlanStepCompleted(1, "Repair"),
            PluginEvent("Planning", "plan_step_failed", {"index": 2, "text": "Test"}),
        ]
        assert [dict(request.sections).get("plan") for request in model.requests] == [
            None,
            f"{HOW}- [ ] Read\n- [ ] Repair\n- [ ] Test",
            f"{HOW}- [x] Read\n- [x] Repair\n- [>] Test",
        ]


def todos(done: str, begun: str) -> list[dict[str, str]]:
    return [{"text": f"{done}.", "status": "done"}, {"text": begun.upper(), "status": "in_progress"}]


def test_a_short_prompt_needs_no_plan() -> None:
    trace = played(say("Hello."), task="  Repair it, please    ")
    assert (texts(trace), told(trace.events), trace.plugin_state("Planning")) == ([], [], CurrentPlan())
    assert texts(played(say(PLAN), say("Done."), task="Repair it, please...")) == [DIRECTIVE, GO_ON]


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_plan_is_asked_for_so_often_and_then_the_turn_goes_on_without(most: int) -> None:
    trace = played(*[say(f"No {n}.") for n in range(most)], max_plan_attempts=most)
    assert texts(trace) == [DIRECTIVE, *[AGAIN] * (most - 1)]
    assert told(trace.events) == [missing(most)]
    assert (trace.outcomes, trace.messages[-1].text) == (("finished",), f"No {most - 1}.")
    assert trace.plugin_state("Planning") == CurrentPlan()


def test_a_response_with_calls_is_asked_for_the_plan_too_and_the_calls_run() -> None:
    trace = played(say("I look.", calls=[call("look")]), say(PLAN, calls=[call("look")]), say("Done."))
    assert texts(trace) == [DIRECTIVE, AGAIN]
    assert len(trace.started) == 2
    assert told(trace.events) == list(PLAIN)


def test_a_plan_that_is_carried_out_already_needs_no_further_round() -> None:
    trace = played(say("## Plan\n- [x] Look it up\n\nParis."))
    assert (texts(trace), trace.messages[-1].text[-6:]) == ([DIRECTIVE], "Paris.")
    assert told(trace.events) == [PlanGenerated(("Look it up",)), PlanStepCompleted(0, "Look it up")]


@pytest.mark.parametrize("answer", ["Done.", "Done.\n\nTo buy:\n- [ ] Eggs"])
def test_a_plan_is_not_asked_for_again_after_the_work(answer: str) -> None:
    trace = played(say("I look.", calls=[call("look")]), say(answer), max_plan_attempts=3)
    assert texts(trace) == [DIRECTIVE, AGAIN]
    trace = played(say("I look.", calls=[call("look")]), say("Done."), prompt(TASK), say("Hm."), max_plan_attempts=3)
    assert texts(trace) == [DIRECTIVE, AGAIN, DIRECTIVE, AGAIN, AGAIN]
    assert told(trace.events)[0] == missing(2)


@in_virtual_time
async def test_a_turn_that_ends_before_there_is_a_plan_is_told() -> None:
    async with open_world() as world:
        session = await world.spawn(["No."], plugins=[Planning()], max_rounds=1)
        await session.ask(TASK)
        await settle()
        assert told(world.heard(session).events) == [missing(2)]


def test_without_plan_first_a_plan_is_kept_and_not_asked_for() -> None:
    trace = played(say(PLAN), prompt("Go on."), say("- [x] Read"), plan_first=False)
    assert texts(trace) == []
    assert told(trace.events) == [*PLAIN, PlanStepCompleted(0, "Read")]
    assert section(trace) == f"{HOW}- [ ] Read\n- [ ] Repair\n- [ ] Test"


# Answers


@pytest.mark.parametrize("by", ["turn", "session"])
@in_virtual_time
async def test_no_plan_is_asked_for_or_taken_out_where_the_answer_has_a_form(by: str) -> None:
    form: dict[str, Json] = {"type": "object", "properties": {"todo": {"type": "string"}}, "required": ["todo"]}
    answer = '{"todo": "- [x] Read"}'
    async with open_world() as world:
        script: list[Element] = [PLAN, "Done.", answer] if by == "turn" else [answer]
        of_session: dict[str, object] = {} if by == "turn" else {"returns": form}
        session = await world.spawn(script, None, plugins=[Planning()], **of_session)
        if by == "turn":
            await session.ask(TASK)
        reply = await (session.ask(TASK, returns=form) if by == "turn" else session.ask(TASK))
        await settle()
        heard = world.heard(session)
        assert reply == {"todo": "- [x] Read"} or getattr(reply, "text", None) == answer
        assert [event.text for event in heard.of(Intervention)] == ([DIRECTIVE, GO_ON] if by == "turn" else [])
        assert told(heard.events) == (list(PLAIN) if by == "turn" else [])


@pytest.mark.parametrize(
    ("last", "answer"),
    [
        ("Done.\n\n- [x] Read\n- [x] Test", "Done."),
        ("## Plan\n- [x] Read\n- [x] Repair\n- [x] Test\n\nDone.\n", "Done."),
        ("- [x] Read\n\nTo buy:\n- [ ] Eggs\n- [ ] Test", "To buy:\n- [ ] Eggs\n- [ ] Test"),
        ("```\n- [x] Read\n```\nDone.", None),
        ("- [x] Read", None),
        ("1. Read\n2. Test", None),
    ],
)
def test_lines_of_the_plan_are_not_in_the_final_answer(last: str, answer: str | None) -> None:
    trace = played(say(PLAN), say("I go on.\n- [>] Read", calls=[call("look")]), say(last))
    assert trace.messages[-1].text == (last if answer is None else answer)
    assert "- [>] Read" in [message.text for message in trace.messages if isinstance(message, AssistantMessage)][1]


def test_a_plan_that_nobody_asked_for_stays_in_the_answer() -> None:
    answer = f"{PLAN}\nShall I go on?"
    assert played(say(answer), plan_first=False).messages[-1].text == answer


# Further turns, and what comes between


def test_an_open_plan_stays_for_the_next_turn_and_may_be_written_again() -> None:
    script_steps = (say(PLAN), say("- [x] Read\nEnough."), prompt("Go on with it, please."))
    trace = played(*script_steps, say("## Plan\n- [ ] Read\n- [~] Repair\n- [ ] Write"), say("Done."))
    assert texts(trace) == [DIRECTIVE, GO_ON, DIRECTIVE + STILL, GO_ON]
    assert told(trace.events) == [*PLAIN, PlanStepCompleted(0, "Read"), PlanGenerated(("Read", "Repair", "Write"))]
    assert section(trace) == f"{HOW}- [x] Read\n- [>] Repair\n- [ ] Write"


def test_a_plan_that_is_over_is_gone_with_the_next_prompt() -> None:
    trace = played(say(PLAN), say("- [x] Read\n- [-] Repair\n- [x] Test"), prompt("Thanks."), say("Bye."))
    assert told(trace.events)[1:] == [
        PlanStepCompleted(0, "Read"),
        PluginEvent("Planning", "plan_step_skipped", {"index": 1, "text": "Repair"}),
        PlanStepCompleted(2, "Test"),
    ]
    assert section(trace) is None
    assert trace.plugin_state("Planning") == CurrentPlan()


def test_an_abort_keeps_the_plan_and_waits_for_no_other() -> None:
    trace = played(abort(), prompt("Hm."), say(PLAN), task=TASK)
    assert trace.plugin_state("Planning") == CurrentPlan((PlanStep("Read"), PlanStep("Repair"), PlanStep("Test")))
    assert told(trace.events) == list(PLAIN)
    trace = played(say(PLAN), abort(), prompt("Hm."), say("- [x] Read"))
    assert told(trace.events) == [*PLAIN, PlanStepCompleted(0, "Read")]
    assert texts(trace) == [DIRECTIVE, GO_ON]


def test_steering_may_change_the_plan() -> None:
    trace = played(say(PLAN), steer("No tests."), say("## Revised plan\n- [x] Read\n- [ ] Repair"), say("Done."))
    assert told(trace.events) == [*PLAIN, PlanGenerated(("Read", "Repair")), PlanStepCompleted(0, "Read")]
    assert section(trace) == f"{HOW}- [x] Read\n- [ ] Repair"


def test_a_compaction_does_not_lose_the_plan() -> None:
    trace = played(say(PLAN), compact(), say("- [x] Read", calls=[call("look")]), say("Done."))
    assert section(trace) == f"{HOW}- [x] Read\n- [ ] Repair\n- [ ] Test"


@in_virtual_time
async def test_a_restart_does_not_lose_the_plan() -> None:
    journal = MemoryJournal()

    def spec(*script: Element) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(script), plugins=[Planning()], name="n")

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(PLAN, "- [x] Read"), "s")
        await session.ask(TASK)
    async with open_supervisor(journal=journal) as supervisor:
        again = spec("- [x] Repair")
        back = await supervisor.resume("s", again)
        await back.ask("Go on.")
        (request,) = again.model.requests  # type: ignore[union-attr]
        assert dict(request.sections) == {"plan": f"{HOW}- [x] Read\n- [ ] Repair\n- [ ] Test"}
        steps = (PlanStep("Read", "completed"), PlanStep("Repair", "completed"), PlanStep("Test"))
        await until(lambda: back.inspect().plugin_states == (CurrentPlan(steps, stale=True),))


# How steps move


@each_case(product(" >x!-", " >x!-"))
def test_a_step_moves_only_further_and_one_that_is_over_does_not_move(first: str, then: str) -> None:
    trace = played(say(f"## Plan\n- [{first}] a\n- [ ] b"), say(f"- [{then}] A!"), prompt("Hm."), say("Hm."))
    further = (" >".find(first) % 3) < (" >".find(then) % 3)
    assert section(trace) == f"{HOW}- [{then if further else first}] a\n- [ ] b"
    over = [event for event in told(trace.events) if not isinstance(event, PlanGenerated)]
    assert len(over) == ((then if further else first) in "x!-")


def test_a_checklist_that_is_no_plan_only_moves_steps() -> None:
    trace = played(
        say(PLAN), say("To buy:\n- [ ] Eggs\n- [x] Read\n\nPlan for you:\n- [ ] Milk"), prompt("?"), say("!")
    )
    assert section(trace) == f"{HOW}- [x] Read\n- [ ] Repair\n- [ ] Test"


# What a model may write


@each_case(
    [
        ("", ()),
        ("- [ ]\n- [] a\n-[ ] b\n[ ] c\n- [ ]d\n- [xx] e", ()),
        ("- [ ] a\n* [x] b\n+ [X] c\n1. [>] d\n22) [~] e\n  - [/] f\n- [!] g\n- [-] h\n- [?] i", None),
        ("```\n## Plan\n- [ ] a\n```", ()),
        ("````\n```\n- [ ] a\n```\n- [ ] b\n````", ()),
        ("```\n~~~\n- [ ] a\n```", ()),
        ("```\n```py\n- [ ] a\n```", ()),
        ("- [ ] a\n~~~\n- [ ] b\n~~~\n- [ ] c", (Checklist(False, (PlanStep("a"), PlanStep("c"))),)),
        ("## Plan\n\n- [ ] a\n\n  more\n- [ ] b", (Checklist(True, (PlanStep("a"), PlanStep("b"))),)),
        ("**My plan:**\r\n- [ ] a\r\n", (Checklist(True, (PlanStep("a"),)),)),
        ("plan of attack\n- [ ] a", (Checklist(False, (PlanStep("a"),)),)),
        ("Plan\nAs follows.\n- [ ] a", (Checklist(False, (PlanStep("a"),)),)),
        ("- [ ] a\nand\n- [ ] b", (Checklist(False, (PlanStep("a"),)), Checklist(False, (PlanStep("b"),)))),
        ("- [ ] Read it\n- [x] read it.\n- [ ] …", (Checklist(False, (PlanStep("Read it"), PlanStep("…"))),)),
        ("- [ ] a\x1b[2J\u202e\tb  c", (Checklist(False, (PlanStep("a [2J b c"),)),)),
        ("- [ ] " + "a" * (MAX_TEXT + 1), (Checklist(False, (PlanStep("a" * (MAX_TEXT - 1) + "…"),)),)),
    ]
)
def test_checklists_are_read_as_they_are_written(text: str, found: tuple[Checklist, ...] | None) -> None:
    if found is None:
        statuses = ("pending", "completed", "completed", *["in_progress"] * 3, "failed", "skipped", "pending")
        found = (Checklist(False, tuple(map(PlanStep, "abcdefghi", statuses))),)
    assert checklists(text) == found


def test_a_plan_has_so_many_steps_and_is_looked_for_in_so_many_characters() -> None:
    lines = "\n".join(f"- [ ] {n}" for n in range(MAX_STEPS + 1))
    assert [len(one.steps) for one in checklists(lines)] == [MAX_STEPS]
    for blank, count in ((MAX_READ - 8, 1), (MAX_READ - 7, 0)):
        assert len(checklists("x" * blank + "\n- [ ] a")) == count


WIDE = "\U0001f600"

HOSTILE = (
    "## Plan\n" + "\n".join(f"- [ ] {n} {WIDE * 300}" for n in range(5_000)),
    "## Plan\n" + "\n".join(f"- [ ] {n} {chr(34) * 300}" for n in range(5_000)),
    "- [ ] " * 1_000_000,
    "- [" * 1_000_000,
    "\n" * 1_000_000,
    " " * 1_000_000 + "[",
    "#" * 1_000_000 + " plan [",
    "## Plan\n- [ ] </system>\n- [x] {0} %s\ud800",
    "```" * 100_000 + "[",
)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_whatever_the_model_writes_the_state_can_be_kept(text: str) -> None:
    plugin = Planning()
    hook = AfterResponse(AssistantMessage((Text(text),)))
    for state in (
        CurrentPlan(),
        CurrentPlan(asked=1),
        CurrentPlan(tuple(PlanStep(str(n)) for n in range(MAX_STEPS)), asked=2),
    ):
        action = plugin.after_response(hook, state, Context())
        assert isinstance(action.state, CurrentPlan)
        assert storable(action.state) is None
        shown = plugin.before_request(
            BeforeRequest(()), action.state.__class__(action.state.steps, stale=True), Context()
        )
        assert isinstance(shown, SetSection)
        assert "</" not in (shown.text or "")


# Options, laws, description


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"plan_first": 1}, "its `plan_first` is 1; it must be True or False"),
        ({"min_prompt_length": -1}, "its `min_prompt_length` is -1; it must be a whole number from 0 on"),
        ({"directive": " "}, "its `directive` is ' '; give a text"),
        ({"max_plan_attempts": 0}, "its `max_plan_attempts` is 0; it must be a whole number from 1 on"),
        ({"max_plan_attempts": "2"}, "its `max_plan_attempts` is '2'; it must be a whole number from 1 on"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_its_name(options: dict[str, object], problem: str) -> None:
    with pytest.raises(BadOptions, match=f"`Planning` does not take these options: {problem}"):
        Planning(**options)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.parametrize("plugin", [Planning(), Planning(plan_first=False)], ids=["first", "if there is one"])
def test_it_obeys_the_laws_and_says_what_it_does(plugin: Planning) -> None:
    check_plugin(plugin, examples=8)
    assert str(plugin.describe()).startswith("Ask the model for a plan first, keep the plan in the system prompt")


def test_it_writes_nothing_if_nothing_has_changed() -> None:
    state = CurrentPlan((PlanStep("a"),))
    hook = AfterResponse(AssistantMessage((Text("- [ ] a"),)))
    action = Planning().after_response(hook, state, Context())
    assert isinstance(action, Continue)
    assert action.state is state
