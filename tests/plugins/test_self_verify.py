"""`SelfVerify`: no answer is final while the check fails, up to a limit, whatever comes between."""

from __future__ import annotations

import pytest
import trio

from agentrail import Ask, Context, Continue, Intervene, SessionSpec, open_supervisor
from agentrail.codec.plugin_states import storable
from agentrail.errors import BadOptions
from agentrail.events import AskStarted, Intervention, PluginEvent
from agentrail.journals import MemoryJournal
from agentrail.models import Json, JsonObject
from agentrail.plugins import (
    AfterTool,
    Answered,
    AnyPlugin,
    AskAnswer,
    BeforeFinish,
    BudgetGuard,
    Failed,
    Reflection,
    RunTool,
    SecurityGuard,
    SelfVerify,
    TimedOut,
)
from agentrail.plugins.quality.self_verify import MAX_HEAD, MAX_TAIL, SENT_BACK, Verification
from agentrail.testing import (
    ScriptedModel,
    ScriptStep,
    Trace,
    abort,
    call,
    compact,
    prompt,
    say,
    simulate,
    steer,
    tell,
)
from agentrail.tools import EffectClass, ToolContext, ToolResult, err, ok
from tests.kit import Element
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import Fake, fake, quick, slow
from tests.runtime.world import open_world, settle, until

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

TOOLS = [quick(name).spec for name in ("edit", "run_tests")]
EDIT = say("I edit.", calls=[call("edit")])


def told(trace: Trace) -> list[tuple[str, Json]]:
    """Return the names of the plugin's events, each with the attempt."""
    found = [event for event in trace.events if isinstance(event, PluginEvent)]
    return [(event.name, event.payload["attempt"]) for event in found if isinstance(event.payload, dict)]


def texts(trace: Trace) -> list[str]:
    return [event.text for event in trace.events if isinstance(event, Intervention)]


def played(*script_steps: ScriptStep, max_repairs: int = 3) -> Trace:
    return simulate(
        [SelfVerify("run_tests", max_repairs=max_repairs)], [prompt("Repair it."), *script_steps], tools=TOOLS
    )


def checking(results: list[ToolResult]) -> Fake:
    """Return a check that gives one result after the other."""

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return results.pop(0)

    return fake("run_tests", body, effect=EffectClass.IDEMPOTENT)


# The promise


@in_virtual_time
async def test_the_answer_is_final_only_when_the_check_passes() -> None:
    check = checking([err("1 failed: test_sum"), ok("all passed")])
    script: list[Element] = [EDIT, "Done.", EDIT, "Now it is done."]
    async with open_world() as world:
        plugin = SelfVerify("run_tests", {"path": "tests"})
        session = await world.spawn(script, tools=[quick("edit"), check], plugins=[plugin])
        reply = await session.ask("Repair the sum.")
        await settle()
        heard = world.heard(session)
        assert reply.text == "Now it is done."
        assert len(check.calls) == 2
        assert heard.only(Intervention).text == SENT_BACK.format(tool="run_tests", problem="1 failed: test_sum")
        assert [(event.name, event.payload) for event in heard.of(PluginEvent)] == [
            (
                "verify_failed",
                {"user_data": {}, "tool": "run_tests", "attempt": 1, "problem": "1 failed: test_sum"},
            ),
            ("verify_passed", {"user_data": {}, "tool": "run_tests", "attempt": 2}),
        ]
        assert session.inspect().plugin_states == (Verification(turn=1, failures=1),)


def test_nothing_is_checked_if_no_call_has_run() -> None:
    trace = played(say("Hello."), prompt("And?"), say("Nothing."))
    assert trace.outcomes == ("finished", "finished")
    assert not [event for event in trace.events if isinstance(event, AskStarted | PluginEvent)]


def test_after_a_check_that_passed_only_further_calls_need_another() -> None:
    trace = played(EDIT, say("Done."), tell(Answered("fine")), prompt("Thanks."), say("You are welcome."))
    assert told(trace) == [("verify_passed", 1)]
    assert trace.outcomes == ("finished", "finished")


@pytest.mark.parametrize("most", [2, 3])
def test_at_the_limit_the_answer_is_final_and_the_event_says_so(most: int) -> None:
    again = (say("Done."), tell(Failed("red")))
    trace = played(EDIT, *(again * (most + 1)), max_repairs=most)
    failed = [("verify_failed", attempt) for attempt in range(1, most + 1)]
    assert told(trace) == [*failed, ("verify_given_up", most + 1)]
    assert trace.outcomes == ("finished",)
    assert texts(trace) == [SENT_BACK.format(tool="run_tests", problem="red")] * most
    assert trace.plugin_state("SelfVerify") == Verification(turn=1, failures=most)


def test_failures_count_through_the_turn_whatever_sends_the_model_back() -> None:
    again = (EDIT, say("Done."), tell(Failed("red")))
    plugins: list[AnyPlugin] = [SelfVerify("run_tests", max_repairs=1), Reflection(max_reviews=2)]
    trace = simulate(plugins, [prompt("Repair it."), *again, *again, *again, say("Done.")], tools=TOOLS)
    found = [event for event in trace.events if isinstance(event, PluginEvent)]
    assert [event.name for event in found] == [
        *("verify_failed", "verify_given_up"),
        *("review_failed", "verify_given_up"),
        *("review_failed", "review_given_up"),
    ]
    assert trace.outcomes == ("finished",)


@in_virtual_time
async def test_a_check_that_takes_too_long_has_failed() -> None:
    async with open_world() as world:
        tools = [quick("edit"), slow("run_tests", 59.9), slow("slower", 60.1, timeout=100.0)]
        for tool, problem in (("run_tests", None), ("slower", "it did not end within 60 seconds")):
            session = await world.spawn([EDIT, "Done."], tools=tools, plugins=[SelfVerify(tool, max_repairs=0)])
            await session.ask("Repair it.")
            await settle()
            payload = world.heard(session).only(PluginEvent).payload
            assert isinstance(payload, dict)
            assert payload.get("problem") == problem


def test_each_turn_has_the_whole_limit() -> None:
    again = (say("Done."), tell(Failed("red")))
    trace = played(EDIT, *again, *again, prompt("Once more."), EDIT, *again, *again, max_repairs=1)
    assert told(trace) == [("verify_failed", 1), ("verify_given_up", 2)] * 2


def test_without_repairs_the_check_is_only_told() -> None:
    trace = played(EDIT, say("Done."), tell(Failed("red")), max_repairs=0)
    assert (told(trace), texts(trace), trace.outcomes) == ([("verify_given_up", 1)], [], ("finished",))


@in_virtual_time
async def test_a_turn_that_ends_at_its_limit_of_rounds_is_told_as_given_up() -> None:
    check = checking([err("red"), err("red")])
    async with open_world() as world:
        tools = [quick("edit"), check]
        session = await world.spawn([EDIT, "Done."], tools=tools, plugins=[SelfVerify("run_tests")], max_rounds=2)
        assert (await session.ask("Repair it.")).stop_reason == "max_rounds"
        await settle()
        events = world.heard(session).of(PluginEvent)
        assert [event.name for event in events] == ["verify_failed", "verify_given_up"]
        assert events[-1].payload == {
            "user_data": {},
            "tool": "run_tests",
            "attempt": 1,
            "problem": "",
            "reason": "turn_ended",
        }


# What comes between


def test_an_abort_while_the_check_runs_leaves_the_work_unchecked() -> None:
    trace = played(EDIT, say("Done."), abort(), prompt("Go on."), say("It was done."), tell(Answered("fine")))
    assert trace.outcomes == ("aborted", "finished")
    assert told(trace) == [("verify_passed", 1)]


def test_so_does_an_abort_after_a_check_that_failed_and_failures_count_anew() -> None:
    red = (say("Done."), tell(Failed("red")))
    trace = played(EDIT, *red, abort(), prompt("Go on."), *red, *red, max_repairs=1)
    assert told(trace) == [("verify_failed", 1), ("verify_failed", 1), ("verify_given_up", 2)]


def test_steering_while_the_check_runs_has_its_answer_checked_too_if_calls_ran() -> None:
    trace = played(
        EDIT, say("Done."), steer("And the docs."), tell(Answered("ok")), EDIT, say("Both."), tell(Answered("ok"))
    )
    assert told(trace) == [("verify_passed", 1), ("verify_passed", 1)]
    assert trace.outcomes == ("finished",)


def test_a_compaction_changes_nothing() -> None:
    trace = played(EDIT, compact(), say("Done."), tell(Failed("red")), compact(), say("Done."), tell(Answered("")))
    assert told(trace) == [("verify_failed", 1), ("verify_passed", 2)]


@in_virtual_time
async def test_a_check_that_a_restart_interrupts_is_run_again() -> None:
    journal, runs = MemoryJournal(), []

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        runs.append(trio.current_time())
        await trio.sleep(5 if len(runs) == 1 else 0)
        return err("red") if len(runs) == 2 else ok("green")

    def spec(*script: Element) -> SessionSpec:
        check = fake("run_tests", body, effect=EffectClass.IDEMPOTENT)
        plugins: list[AnyPlugin] = [SelfVerify("run_tests", max_repairs=1)]
        return SessionSpec(model=ScriptedModel(script), tools=[quick("edit"), check], plugins=plugins, name="n")

    async with open_supervisor(journal=journal) as supervisor:
        session = await supervisor.spawn(spec(EDIT, "Done."), "s")
        await session.prompt("Repair it.")
        await until(lambda: len(runs) == 1)
    async with open_supervisor(journal=journal, specs={"n": lambda: spec("Now it is.")}) as supervisor:
        await until(supervisor.sessions)
        back = supervisor.session("s")
        await until(lambda: not back.status().turn_open)
        assert len(runs) == 3
        assert back.messages()[-1].text == "Now it is."


@in_virtual_time
async def test_a_check_that_a_guard_blocks_has_failed() -> None:
    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        raise AssertionError

    async with open_world() as world:
        tools = [quick("edit"), fake("shell", body)]
        plugins = [SecurityGuard(), SelfVerify("shell", {"command": "rm -rf /"}, max_repairs=0)]
        session = await world.spawn([EDIT, "Done."], tools=tools, plugins=plugins)
        await session.ask("Repair it.")
        await settle()
        (event,) = [one for one in world.heard(session).of(PluginEvent) if one.name == "verify_given_up"]
        assert isinstance(event.payload, dict)
        assert str(event.payload["problem"]).startswith("SecurityGuard does not let it run: ")


# Single hooks


def test_only_calls_of_the_named_tools_make_the_check_needed() -> None:
    plugin = SelfVerify("run_tests", after=["write_*", "edit"])
    names = ["read", "edit", "edits", "write_file", "run_tests"]
    states = [plugin.after_tool(AfterTool(name, "c1", ok("x")), Verification(), Context()).state for name in names]
    assert states == [Verification(unchecked) for unchecked in (False, True, False, True, False)]
    assert plugin.tools_named == ("run_tests", "edit")


def test_an_answer_that_another_plugin_has_sent_back_is_not_checked() -> None:
    plugin, state = SelfVerify("run_tests"), Verification(unchecked=True)
    assert plugin.before_finish(BeforeFinish(("again",)), state, Context()) == Continue(state)
    assert plugin.before_finish(BeforeFinish(), state, Context()) == Ask(RunTool("run_tests"), deadline=60.0)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Failed("  red\n"), "red"),
        (Failed(" \n"), "it gave no reason"),
        (TimedOut(2.5), "it did not end within 2.5 seconds"),
        (
            Failed("a" * MAX_HEAD + "b" * 7 + "c" * MAX_TAIL),
            f"{'a' * MAX_HEAD}\n… (7 characters left out) …\n{'c' * MAX_TAIL}",
        ),
        (Failed("x" * (MAX_HEAD + MAX_TAIL)), "x" * (MAX_HEAD + MAX_TAIL)),
        (Failed("{tool} {0} %s \x00"), "{tool} {0} %s \x00"),
    ],
)
def test_the_model_gets_the_reason_cut(answer: AskAnswer, problem: str) -> None:
    hook = BeforeFinish(asked=RunTool("run_tests"), answer=answer)
    action = SelfVerify("run_tests").before_finish(hook, Verification(unchecked=True), Context(turn=4))
    assert isinstance(action, Intervene)
    assert action.text == SENT_BACK.format(tool="run_tests", problem=problem)
    assert action.state == Verification(unchecked=True, turn=4, failures=1)
    assert storable(action.state) is None


# Options, laws, description


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"tool": ""}, "its `tool` is ''; give a text"),
        ({"tool": 5}, "its `tool` is 5; give a text"),
        ({"args": ["x"]}, r"its `args` is a `list`; give a mapping of texts to JSON"),
        ({"args": {"x": object}}, "its `args` is .*; give a mapping of texts to JSON"),
        ({"after": 5}, "its `after` is 5; give a list of texts"),
        ({"max_repairs": -1}, "its `max_repairs` is -1; it must be a whole number from 0 on"),
        ({"max_repairs": 1.5}, "its `max_repairs` is 1.5; it must be a whole number from 0 on"),
        ({"deadline": 0}, "its `deadline` is 0; it must be seconds above 0"),
        ({"deadline": None}, "its `deadline` is None; it must be seconds above 0"),
    ],
)
def test_an_option_that_cannot_be_is_refused_with_its_name(options: dict[str, object], problem: str) -> None:
    with pytest.raises(BadOptions, match=f"`SelfVerify` does not take these options: {problem}"):
        SelfVerify(**{"tool": "run_tests", **options})  # type: ignore[arg-type]


@in_virtual_time
async def test_a_session_without_the_tool_is_refused() -> None:
    async with open_world() as world:
        with pytest.raises(BadOptions, match="did you mean `run_tests`"):
            await world.spawn(["hi"], tools=[checking([])], plugins=[SelfVerify("run_test")])


def test_one_tool_after_which_it_checks_may_be_given_alone() -> None:
    assert SelfVerify("run_tests", after="edit").after == ("edit",)


def test_it_is_asked_after_guards_and_before_a_review() -> None:
    assert BudgetGuard.priority < SelfVerify.priority < 400
