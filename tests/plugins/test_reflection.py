"""`Reflection`: each turn's answer is reviewed before it is final, by the model itself or by another."""

from __future__ import annotations

import pytest
import trio

from agentrail import Ask, Context, Continue, Intervene, Options, SessionSpec, open_supervisor
from agentrail.codec.plugin_states import storable
from agentrail.errors import BadOptions
from agentrail.events import AskStarted, Intervention, PluginEvent
from agentrail.journals import MemoryJournal
from agentrail.models import AssistantMessage, Json, Text
from agentrail.plugins import (
    AfterResponse,
    Answered,
    AnyPlugin,
    AskAnswer,
    BeforeFinish,
    Failed,
    Reflection,
    SelfVerify,
    TimedOut,
)
from agentrail.plugins.quality.reflection import (
    CRITERIA,
    IN_FORM,
    LOOK_AGAIN,
    MAX_PROBLEM,
    MAX_PROBLEMS,
    NO_REASON,
    SENT_BACK,
    UNKNOWN_TASK,
    VERDICT_WANTED,
    Reviewing,
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
    stall,
    steer,
    tell,
    transient,
)
from tests.each_case import each_case
from tests.kit import Element, freeze
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import quick
from tests.runtime.world import open_world, settle, until

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

ASKED = LOOK_AGAIN.format(criteria="\n".join(f"- {line}" for line in CRITERIA), signal="APPROVED")


def told(trace: Trace) -> list[tuple[str, Json]]:
    """Return the names of the plugin's events, each with the number of the review, or of the reviews."""
    found = [event for event in trace.events if isinstance(event, PluginEvent)]
    return [(one.name, one.payload.get("review", one.payload.get("reviews"))) for one in found]  # type: ignore[union-attr]


def texts(trace: Trace) -> list[str]:
    return [event.text for event in trace.events if isinstance(event, Intervention)]


def last_text(trace: Trace) -> str:
    return trace.messages[-1].text


def played(*script_steps: ScriptStep, plugin: Reflection | None = None, **options: object) -> Trace:
    made = plugin or Reflection(**options)  # type: ignore[arg-type]
    return simulate([made], [prompt("Name a river."), *script_steps])


def verdict(*problems: str, passed: bool = False) -> Answered:
    return Answered(freeze({"passed": passed, "problems": problems}))


PASSED = verdict(passed=True)


# The promise


@in_virtual_time
async def test_the_answers_of_all_turns_are_reviewed_and_a_passed_one_stays_as_it_was() -> None:
    script: list[Element] = ["The Rhine.", "APPROVED", "Berlin.", "Paris.", "**APPROVED**: it is right."]
    async with open_world() as world:
        session = await world.spawn(script, plugins=[Reflection()])
        assert (await session.ask("Name a river.")).text == "The Rhine."
        assert (await session.ask("What is the capital of France?")).text == "Paris."
        await settle()
        heard = world.heard(session)
        assert [event.text for event in heard.of(Intervention)] == [ASKED] * 3
        assert [(event.name, event.payload) for event in heard.of(PluginEvent)] == [
            ("review_passed", {"user_data": {}, "review": 1}),
            ("review_failed", {"user_data": {}, "review": 1, "problems": ()}),
            ("review_passed", {"user_data": {}, "review": 2}),
        ]
        assert [message.text for message in session.messages()] == [
            *("Name a river.", "The Rhine.", ASKED, "The Rhine."),
            *("What is the capital of France?", "Berlin.", ASKED, "Paris.", ASKED, "Paris."),
        ]


@in_virtual_time
async def test_an_answer_in_a_form_is_passed_by_giving_it_again() -> None:
    form: dict[str, Json] = {"type": "object", "properties": {"river": {"type": "string"}}, "required": ["river"]}
    script: list[Element] = ['{"river": "Berlin"}', '{"river": "Rhine"}', '{"river": "Rhine"}']
    async with open_world() as world:
        session = await world.spawn(script, plugins=[Reflection()])
        assert await session.ask("Name a river.", returns=form) == {"river": "Rhine"}
        await settle()
        heard = world.heard(session)
        asked = IN_FORM.format(criteria="\n".join(f"- {line}" for line in CRITERIA))
        assert [event.text for event in heard.of(Intervention)] == [asked] * 2
        assert [event.name for event in heard.of(PluginEvent)] == ["review_failed", "review_passed"]


@in_virtual_time
async def test_a_reviewer_model_gets_task_and_answer_and_its_problems_go_back() -> None:
    reviewer = ScriptedModel(['{"passed": false, "problems": ["It is no river."]}', '{"passed": true, "problems": []}'])
    plugin = Reflection(["It is a river."], reviewer="model", model="judge:1")
    async with open_supervisor(models={"judge": lambda _name: reviewer}) as supervisor:
        spec = SessionSpec(model=ScriptedModel(["Berlin.", "The Rhine."]), plugins=[plugin])
        session = await supervisor.spawn(spec)
        assert (await session.ask("Name a river.")).text == "The Rhine."
        assert session.messages()[2].text == SENT_BACK.format(problems="- It is no river.")
        first, second = reviewer.requests
        assert [message.text for message in first.messages] == ["Name a river.", "Berlin.", VERDICT_WANTED]
        assert [message.text for message in second.messages] == ["Name a river.", "The Rhine.", VERDICT_WANTED]
        assert "- It is a river." in first.system


@in_virtual_time
@pytest.mark.parametrize("comes_back", [False, True])
async def test_the_hooks_that_it_needs_are_those_of_its_options_now(comes_back: bool) -> None:
    reviewer = ScriptedModel(['{"passed": true, "problems": []}'])
    journal = MemoryJournal()
    model = ScriptedModel(["The Rhine.", "APPROVED", "The Po.", "The Rhone.", "APPROVED"])
    async with open_supervisor(journal=journal, models={"judge": lambda _name: reviewer}) as supervisor:
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[Reflection()]), "s1")
        assert (await session.ask("Name a river.")).text == "The Rhine."
        if not comes_back:
            await session.update_plugin(Reflection, reviewer="model", model="judge:1")
            assert (await session.ask("Name another one.")).text == "The Po."
    if comes_back:
        async with open_supervisor(journal=journal, models={"judge": lambda _name: reviewer}) as supervisor:
            spec = SessionSpec(model=model, plugins=[Reflection(reviewer="model", model="judge:1")])
            session = await supervisor.resume("s1", spec)
            assert (await session.ask("Name another one.")).text == "The Po."
    (request,) = reviewer.requests
    assert [message.text for message in request.messages] == ["Name another one.", "The Po.", VERDICT_WANTED]
    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.resume("s1", SessionSpec(model=model, plugins=[Reflection()]))
        await session.update_plugin(Reflection, reviewer="conversation")
        assert (await session.ask("Name a third one.")).text == "The Rhone."


@in_virtual_time
async def test_a_reviewer_model_gets_steering_that_came_before_a_retry() -> None:
    reviewer = ScriptedModel(['{"passed": true, "problems": []}'])
    plugin = Reflection(reviewer="model", model="judge:1")
    async with open_supervisor(models={"judge": lambda _name: reviewer}) as supervisor:
        model = ScriptedModel([transient("no capacity"), "The Po."])
        session = await supervisor.spawn(SessionSpec(model=model, plugins=[plugin], retry_base=5.0))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "Name a river.")
            await trio.sleep(0.5)
            await session.steer("One in Italy.")
        (request,) = reviewer.requests
        assert request.messages[0].text == "Name a river.\n\nOne in Italy."


@pytest.mark.parametrize("most", [1, 3])
def test_at_the_limit_the_answer_is_final_and_the_event_says_so(most: int) -> None:
    trace = played(say("Berlin."), *[say(f"City {n}.") for n in range(most)], max_reviews=most)
    assert told(trace) == [*[("review_failed", n + 1) for n in range(most)], ("review_given_up", most)]
    assert (trace.outcomes, last_text(trace)) == (("finished",), f"City {most - 1}.")
    assert len(texts(trace)) == most


@pytest.mark.parametrize("most", [1, 3])
def test_so_it_is_with_a_reviewer_model(most: int) -> None:
    script_steps = [script_step for n in range(most) for script_step in (say(f"City {n}."), tell(verdict("No river.")))]
    trace = played(*script_steps, say("never"), max_reviews=most, reviewer="model")
    assert told(trace) == [*[("review_failed", n + 1) for n in range(most - 1)], ("review_given_up", most)]
    assert (trace.outcomes, last_text(trace)) == (("finished",), f"City {most - 1}.")
    last = [event for event in trace.events if isinstance(event, PluginEvent)][-1]
    assert last.payload == {"user_data": {}, "reviews": most, "problems": ("No river.",), "reason": "max_reviews"}


def test_each_turn_has_all_reviews() -> None:
    red = (say("Berlin."), tell(verdict("No river.")), say("Bonn."), tell(verdict("No river.")))
    trace = played(*red, prompt("Once more."), *red, max_reviews=2, reviewer="model")
    assert told(trace) == [("review_failed", 1), ("review_given_up", 2)] * 2


@in_virtual_time
async def test_a_turn_that_ends_at_its_limit_of_rounds_is_told_as_given_up() -> None:
    async with open_world() as world:
        session = await world.spawn(["Berlin."], plugins=[Reflection()], max_rounds=1)
        assert (await session.ask("Name a river.")).text == "Berlin."
        await settle()
        payload = world.heard(session).only(PluginEvent).payload
        assert payload == {"user_data": {}, "reviews": 1, "problems": (), "reason": "turn_ended"}
        (state,) = session.inspect().plugin_states
        assert state == Reviewing(turn=1, reviews=1)


# What comes between


def test_the_model_may_call_tools_while_it_reviews() -> None:
    look = say("I look it up.", calls=[call("look")])
    trace = played(say("The Rhine."), look, say("APPROVED"))
    assert (told(trace), last_text(trace)) == ([("review_passed", 1)], "The Rhine.")


def test_steering_during_a_review_needs_another_one() -> None:
    trace = played(say("The Rhine."), steer("In French."), say("APPROVED"), say("Le Rhin."), say("APPROVED"))
    assert told(trace) == [("review_passed", 2)]
    assert [message.text for message in trace.messages] == [
        *("Name a river.", "The Rhine.", ASKED, "The Rhine.", "In French.", "Le Rhin.", ASKED, "Le Rhin."),
    ]


def test_steering_while_a_reviewer_model_works_has_its_answer_reviewed_with_it() -> None:
    trace = played(
        *(say("The Rhine."), steer("In French."), tell(PASSED), say("Le Rhin."), tell(PASSED)), reviewer="model"
    )
    assert told(trace) == [("review_passed", 1), ("review_passed", 2)]
    state = trace.plugin_state("Reflection")
    assert isinstance(state, Reviewing)
    assert (state.reviews, state.task) == (2, "Name a river.\n\nIn French.")


@pytest.mark.parametrize("reviewer", ["model", "conversation"])
def test_an_abort_during_a_review_leaves_nothing_behind(reviewer: str) -> None:
    trace = played(say("The Rhine."), abort(), prompt("Go on."), say("APPROVED"), abort(), reviewer=reviewer)
    assert trace.outcomes == ("aborted", "aborted")
    assert told(trace) == []
    state = trace.plugin_state("Reflection")
    assert isinstance(state, Reviewing)
    assert (state.candidate, state.sent_back) == (None, False)


def test_a_compaction_during_a_review_changes_nothing() -> None:
    trace = played(say("The Rhine."), compact(), say("APPROVED"))
    assert (told(trace), last_text(trace)) == ([("review_passed", 1)], "The Rhine.")


@in_virtual_time
async def test_a_review_that_a_restart_interrupts_goes_on() -> None:
    journal = MemoryJournal()

    def spec(plugin: Reflection, *script: Element) -> SessionSpec:
        return SessionSpec(model=ScriptedModel(script), plugins=[plugin], name="n")

    for plugin, rest in ((Reflection(), "APPROVED"), (Reflection(reviewer="model"), '{"passed":true,"problems":[]}')):
        key = plugin.reviewer
        async with open_supervisor(journal=journal) as supervisor:
            session = await supervisor.spawn(spec(plugin, "The Rhine.", stall(after=0, delay=None)), key)
            await session.prompt("Name a river.")
            await until(lambda session=session: len(session.messages()) > 1)  # type: ignore[misc]
            await settle()
        async with open_supervisor(journal=journal) as supervisor:
            back = await supervisor.resume(key, spec(plugin, rest))
            await until(lambda back=back: not back.status().turn_open)  # type: ignore[misc]
            assert back.messages()[-1].text == "The Rhine."
            (state,) = back.inspect().plugin_states
            assert isinstance(state, Reviewing)
            assert (state.reviews, state.candidate, bool(state.settled)) == (1, None, True)


# What a reviewer may answer


def judged(answer: AskAnswer, state: Reviewing | None = None) -> Continue[Reviewing] | Intervene[Reviewing]:
    ctx = Context(turn=1, last_assistant_reply="Berlin.")
    hook = BeforeFinish(answer=answer)
    action = Reflection(reviewer="model").before_finish(hook, state or Reviewing(), ctx)
    assert not isinstance(action, Ask)
    assert isinstance(action.state, Reviewing)
    assert storable(action.state) is None
    return action


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answered(None), "the review has not the form that was asked for"),
        (Answered("passed"), "the review has not the form that was asked for"),
        (Answered(freeze({"passed": "true", "problems": ()})), "the review has not the form that was asked for"),
        (Answered(freeze({"passed": True})), "the review has not the form that was asked for"),
        (Answered(freeze({"passed": True, "problems": "x"})), "the review has not the form that was asked for"),
        (Failed("no such model"), "no such model"),
        (Failed("x" * 501), "x" * 249 + "…" + "x" * 250),
        (TimedOut(60.0), "the review did not end within 60 seconds"),
    ],
)
def test_without_a_review_the_answer_is_final_and_the_event_says_why(answer: AskAnswer, problem: str) -> None:
    action = judged(answer)
    assert isinstance(action, Continue)
    (event,) = action.emits
    assert event == Continue(0).emitting("review_skipped", freeze({"review": 1, "problem": problem})).emits[0]


@pytest.mark.parametrize(
    ("problems", "listed"),
    [
        ([], [NO_REASON]),
        (["  \n\x00", 5], [NO_REASON]),
        (["one\n- APPROVED\x1b[2J\u202e"], ["one - APPROVED [2J"]),
        (["x" * 10_000_000], ["x" * 249 + "…" + "x" * 250]),
        ([str(n) for n in range(1000)], [str(n) for n in range(MAX_PROBLEMS)]),
        (["{0} %s"], ["{0} %s"]),
    ],
)
def test_problems_go_back_as_a_few_short_lines(problems: list[object], listed: list[str]) -> None:
    action = judged(Answered(freeze({"passed": False, "problems": problems})))
    assert isinstance(action, Intervene)
    assert action.text == SENT_BACK.format(problems="\n".join(f"- {line}" for line in listed))
    assert max(map(len, listed)) <= MAX_PROBLEM


@each_case(
    [
        ("APPROVED", True),
        ("\n  **APPROVED**\n\nIt is right.", True),
        ("APPROVED: it is right", True),
        ("`APPROVED` — well done", True),
        ("approved", False),
        ("APPROVED by the board, the plan is …", False),
        ("APPROVEDLY", False),
        ("I cannot say APPROVED.", False),
        ("Not yet.\nAPPROVED", False),
        ("", False),
        ("***", False),
        ("!" * 1_000_000 + "APPROVED", True),
    ]
)
def test_only_the_signal_at_the_beginning_passes_the_answer(said: str, passes: bool) -> None:
    hook = AfterResponse(AssistantMessage((Text(said),)))
    action = Reflection().after_response(hook, Reviewing(1, 1, sent_back=True, candidate="x"), Context(turn=1))
    assert (action.kind == "replace_response") is passes


@pytest.mark.parametrize("plugin", [Reflection(), Reflection(reviewer="model")], ids=lambda one: one.reviewer)
def test_an_answer_that_says_nothing_is_not_reviewed_nor_one_that_is_sent_back_already(plugin: Reflection) -> None:
    for reply in (None, " \n"):
        ctx = Context(turn=1, last_assistant_reply=reply)
        assert plugin.before_finish(BeforeFinish(), Reviewing(), ctx) == Continue(Reviewing())
    ctx = Context(turn=2, last_assistant_reply="x")
    sent_back = Reviewing(turn=2, sent_back=True)
    assert plugin.before_finish(BeforeFinish(("again",)), Reviewing(1, 3), ctx) == Continue(sent_back)
    assert plugin.before_finish(BeforeFinish(("again",)), sent_back, ctx) == Continue(sent_back)


def test_an_answer_that_was_sent_back_in_vain_is_told_as_not_reviewed() -> None:
    plugins: list[AnyPlugin] = [SelfVerify("run_tests"), Reflection()]
    script = [prompt("Go."), say(calls=[call("edit")]), say("Done."), tell(Failed("red")), say("Done again.")]
    tools = [quick(name).spec for name in ("edit", "run_tests")]
    trace = simulate(plugins, script, tools=tools, options=Options(max_rounds=2))
    assert told(trace)[1:] == [("verify_given_up", None), ("review_given_up", 0)]


@pytest.mark.long
@pytest.mark.parametrize(("size", "skipped"), [(59_998, False), (59_999, True), (20_000_000, True)])
def test_an_answer_that_the_state_cannot_keep_is_not_reviewed_in_the_conversation(size: int, skipped: bool) -> None:
    action = Reflection().before_finish(BeforeFinish(), Reviewing(), Context(turn=1, last_assistant_reply="x" * size))
    assert isinstance(action, Continue) is skipped
    assert not isinstance(action, Ask)
    assert storable(action.state) is None


@pytest.mark.parametrize("char", ["x", "\x00", "ü", "\U0001f600", '"'])
def test_the_longest_answers_and_tasks_can_be_stored(char: str) -> None:
    for size in (10_000, 15_000, 60_000):
        ctx = Context(turn=1, last_assistant_reply=char * size)
        action = Reflection().before_finish(BeforeFinish(), Reviewing(), ctx)
        assert not isinstance(action, Ask)
        assert storable(action.state) is None
    trace = simulate([Reflection(reviewer="model")], [prompt(char * 70_000), say("x"), tell(PASSED)])
    assert storable(trace.plugin_state("Reflection")) is None
    assert told(trace) == [("review_passed", 1)]


def test_a_reviewer_model_is_told_if_the_task_is_not_known() -> None:
    ctx = Context(turn=1, last_assistant_reply="x" * 50_000)
    action = Reflection(reviewer="model").before_finish(BeforeFinish(), Reviewing(), ctx)
    assert isinstance(action, Ask)
    assert action.deadline == 60
    task, answer = action.request.messages  # type: ignore[union-attr]
    assert (task.text, answer.text) == (UNKNOWN_TASK, "x" * 19_999 + "…" + "x" * 20_000)


def test_a_session_that_says_nothing_asks_nobody() -> None:
    trace = simulate([Reflection(reviewer="model")], [prompt("hi"), abort()])
    assert not [event for event in trace.events if isinstance(event, AskStarted)]


# Options, laws, description


@each_case(
    [
        ({"criteria": 5}, "its `criteria` is 5; give a list of texts"),
        ({"criteria": []}, "its `criteria` is empty; give at least one"),
        ({"reviewer": "agent"}, "its `reviewer` is 'agent'; it must be one of conversation, model"),
        ({"reviewer": None}, "its `reviewer` is None; it must be one of conversation, model"),
        ({"model": ""}, "its `model` is ''; give the name of a model, or a pair of name and options"),
        ({"max_reviews": 0}, "its `max_reviews` is 0; it must be a whole number from 1 on"),
        ({"max_reviews": True}, "its `max_reviews` is True; it must be a whole number from 1 on"),
        (
            {"pass_signal": ""},
            "its `pass_signal` is ''; give one line of at most 100 characters, which begins and ends",
        ),
        ({"pass_signal": "a\nb"}, "its `pass_signal` is 'a.*nb'; give one line"),
        ({"pass_signal": "*"}, "its `pass_signal` is '.'; give one line"),
        ({"pass_signal": "*A"}, "its `pass_signal` is '.A'; give one line"),
        ({"pass_signal": "A*"}, "its `pass_signal` is 'A.'; give one line"),
        ({"pass_signal": "x" * 101}, "its `pass_signal` is .*; give one line"),
        ({"deadline": 0}, "its `deadline` is 0; it must be seconds above 0"),
    ]
)
def test_an_option_that_cannot_be_is_refused_with_its_name(options: dict[str, object], problem: str) -> None:
    with pytest.raises(BadOptions, match=f"`Reflection` does not take these options: {problem}"):
        Reflection(**options)  # type: ignore[arg-type]


def test_a_lone_criterion_and_a_long_signal_are_taken() -> None:
    plugin = Reflection("Be short.", pass_signal="x" * 100)
    assert (plugin.criteria, plugin.pass_signal) == (("Be short.",), "x" * 100)


@pytest.mark.long
@pytest.mark.parametrize("plugin", [Reflection(), Reflection(reviewer="model")], ids=lambda one: one.reviewer)
def test_it_obeys_the_laws_and_says_what_it_does(plugin: Reflection) -> None:
    check_plugin(plugin, examples=8)
    assert str(plugin.describe()).startswith("Have each answer reviewed before it is final")
    assert plugin.priority == 400
