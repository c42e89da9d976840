"""Guards: critical plugins that rule on the final arguments, whatever the order of the plugins."""

from collections.abc import Callable
from functools import partial
from typing import Final

from agentrail import Abort, Ask, BlockTool, Context, Continue, Emit, HoldTool, ReplaceToolArgs, Skip
from agentrail.core.vocabulary.effects import CancelAsk
from agentrail.core.vocabulary.inputs import AskSettled
from agentrail.core.vocabulary.tool_calls import Hold
from agentrail.events import (
    AgentAbort,
    ApprovalRequired,
    ApprovalResolved,
    AskAnswered,
    AskStarted,
    Event,
    PluginError,
    PluginEvent,
    ToolBlocked,
    ToolExecutionEnd,
    ToolExecutionMetrics,
    ToolExecutionStart,
)
from agentrail.hooks.ruling import Decisions, Pause, Position
from agentrail.models import FrozenObject, JsonObject, Text
from agentrail.plugins import Answered, AnyPlugin, BeforeTool, CallService, Failed, Hook, RunTool
from tests.cells.bench import NOW, Bench, call, plug, ruled, with_call
from tests.cells.scenes import failed, holds, limit, path, shown, start, streaming
from tests.kit import DONE, AbortSent, ApproveSent, Phase, Ruling, Verdict

REPLACED: Final = Decisions(args=path("b"), replaced_by=("Changes",), replaced_at=1)
JUDGE: Final = CallService("judge")
CHANGES: Final = plug("Changes", before_tool=ReplaceToolArgs({"path": "b"}), priority=500)


def guard(
    last: object, seen: list[Hook], *, first: object = None, critical: bool = True, name: str = "Guard"
) -> AnyPlugin:
    """Return a guard that gives the answer *last* when it is asked again."""

    def answer(hook: Hook, _state: object, _ctx: Context) -> object:
        seen.append(hook)
        asked_again = isinstance(hook, BeforeTool) and hook.final
        return last if asked_again else first if first is not None else Continue()

    return plug(name, before_tool=answer, priority=10, critical=critical)


def called(*plugins: AnyPlugin) -> Bench:
    bench = streaming(*plugins)
    bench.answers("", call("look", path="a"))
    return bench


def test_a_guard_is_asked_once_more_with_the_final_arguments() -> None:
    seen: list[Hook] = []
    bench = called(guard(Continue(), seen), CHANGES)
    assert seen == [BeforeTool("look", path("a"), "c3"), BeforeTool("look", path("b"), "c3", final=True)]
    assert bench.got[-1].rulings[2] == Ruling("before_tool", decisions=REPLACED)
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path("b")))


def test_a_guard_is_asked_once_more_also_if_a_plugin_skips_the_rest() -> None:
    seen: list[Hook] = []
    bench = called(guard(BlockTool("no"), seen), CHANGES, plug("Skips", before_tool=Skip()))
    assert len(seen) == 2
    assert ToolBlocked("c3", "look", "no", "Guard") in bench.got[-1].events


def test_nobody_else_is_asked_once_more() -> None:
    seen: list[Hook] = []
    called(guard(BlockTool("no"), seen, critical=False), CHANGES)
    assert len(seen) == 1
    following = plug("Behind", before_tool=lambda hook, _s, _c: Emit("asked", hook.args["path"]), critical=True)
    bench = called(CHANGES, following)
    assert [event for event in bench.got[-1].events if isinstance(event, PluginEvent)] == [
        PluginEvent("Behind", "asked", "b")
    ]
    same = plug("Changes", before_tool=ReplaceToolArgs({"path": "a"}), priority=500)
    called(guard(BlockTool("no"), seen), same)
    assert len(seen) == 2


def test_of_several_plugins_only_the_guards_in_front_of_the_last_replacement_are_asked_once_more() -> None:
    seen: list[tuple[str, JsonObject]] = []

    def note(name: str, priority: int, *, critical: bool) -> AnyPlugin:
        def answer(hook: Hook, _state: object, _ctx: Context) -> object:
            assert isinstance(hook, BeforeTool)
            seen.append((f"{name}{' once more' if hook.final else ''}", hook.args))
            return Continue()

        return plug(name, before_tool=answer, priority=priority, critical=critical)

    quiet = note("Quiet", 20, critical=False)
    bench = called(note("Guard", 10, critical=True), quiet, CHANGES, note("Behind", 900, critical=True))
    assert seen == [("Guard", path("a")), ("Quiet", path("a")), ("Behind", path("b")), ("Guard once more", path("b"))]
    assert bench.got[-1].rulings[2] == Ruling("before_tool", decisions=REPLACED.but(replaced_at=2))
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path("b")))


def test_a_guard_that_skips_when_asked_once_more_keeps_no_other_from_ruling() -> None:
    second = guard(BlockTool("no"), [], name="Second")
    bench = called(guard(Skip(), []), second, CHANGES)
    assert bench.got[-1].rulings[2] == Ruling("before_tool", Verdict.BLOCK, "Second", "no")
    assert bench.state.history[-1] == failed("c3", "look", "blocked by Second: no")


def test_a_guard_asked_once_more_may_block() -> None:
    bench = called(guard(BlockTool("no").emitting("shut"), []), CHANGES)
    shut = PluginEvent("Guard", "shut", None)
    decided = Ruling("before_tool", Verdict.BLOCK, "Guard", "no", decisions=Decisions(emits=(shut,)))
    assert bench.got[-1].rulings[2] == decided
    assert bench.got[-1].events[2:4] == [shut, ToolBlocked("c3", "look", "no", "Guard")]
    assert bench.state.history[-1] == failed("c3", "look", "blocked by Guard: no")


def test_a_guard_asked_once_more_may_abort() -> None:
    bench = called(guard(Abort("no"), []), CHANGES)
    assert bench.got[-1].rulings[2] == Ruling("before_tool", Verdict.ABORT, "Guard", "no")
    assert bench.got[-1].events[-1] == AgentAbort("p1", "plugin", "Guard: no")
    assert bench.got[-1].step.effects == ()


def test_a_guard_asked_once_more_may_hold_and_the_person_sees_the_final_arguments() -> None:
    bench = called(guard(HoldTool("sure?"), []), CHANGES)
    pause = Pause(Position(1, final=True), None, 120.0, "sure?")
    decided = Ruling("before_tool", Verdict.HOLD, "Guard", "sure?", decisions=REPLACED, pause=pause)
    assert bench.got[-1].rulings[2] == decided
    required = bench.got[-1].events[-1]
    assert isinstance(required, ApprovalRequired)
    assert required.args == path("b")
    bench.send(ApproveSent("s:a4"))
    assert start("c3", "look", path("b")) in bench.got[-1].step.effects


def test_a_guard_that_was_answered_holds_the_call_again_if_its_arguments_are_others_now() -> None:
    sure = HoldTool("sure?", timeout=None)
    bench = called(guard(sure, [], first=sure), CHANGES)
    old = bench.state
    assert old.batch is not None
    pause = Pause(Position(1, final=True), None, None, "sure?")
    held = bench.call("c3").but(
        args=path("b"),
        approved=path("a"),
        holders=frozenset({"Guard"}),
        position=Position(1),
        hold=Hold("s:a5", "sure?", "Guard", path("b"), pause.position, REPLACED, NOW, None, None),
    )
    bench.send(ApproveSent("s:a4")).expect_only(
        answer=DONE,
        ids=1,
        events=[
            ApprovalResolved("s:a4", "c3", "look", "approved"),
            shown(ApprovalRequired("s:a5", "c3", "look", path("b"), "sure?", "Guard", NOW, None)),
        ],
        rulings=(
            Ruling("before_tool", Verdict.HOLD, "Guard", "sure?", decisions=REPLACED, pause=pause),
            *ruled("check"),
        ),
        batch=with_call(old.batch, held).but(decisions=(("tool_approved", True),)),
    )
    bench.send(ApproveSent("s:a5"))
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path("b")))


def test_a_guard_asked_once_more_is_told_that_a_person_has_approved_these_arguments() -> None:
    seen: list[Hook] = []
    changes = plug("Changes", before_tool=ReplaceToolArgs({"path": "b"}), priority=15)
    bench = called(guard(Continue(), seen), changes, holds(timeout=None))
    bench.send(ApproveSent("s:a4"))
    assert seen == [
        BeforeTool("look", path("a"), "c3"),
        BeforeTool("look", path("b"), "c3", approved=True, final=True),
    ]
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path("b")))


def test_whatever_else_a_guard_answers_then_counts_as_continue_but_what_it_emits_stands() -> None:
    for last in (Skip().emitting("seen"), Emit("seen")):
        bench = called(guard(last, []), CHANGES)
        assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path("b")))
        assert PluginEvent("Guard", "seen", None) in bench.got[-1].events


def test_a_guard_that_asks_when_it_should_only_rule_once_more_has_broken() -> None:
    bench = called(guard(Ask(CallService("x")), []), CHANGES)
    assert bench.state.suspended_runs == ()
    assert isinstance(bench.got[-1].events[2], PluginError)
    assert isinstance(bench.got[-1].events[3], ToolBlocked)
    assert not any(effect == start("c3", "look", path("b")) for effect in bench.got[-1].step.effects)


def test_a_guard_that_replaces_the_arguments_again_blocks_the_call() -> None:
    bench = called(guard(ReplaceToolArgs({"path": "c"}), []), CHANGES)
    why = "its arguments were replaced again after the guards had ruled on them"
    assert bench.got[-1].rulings[2] == Ruling("before_tool", Verdict.BLOCK, "Guard", why)
    assert bench.state.history[-1] == failed("c3", "look", f"blocked by Guard: {why}")


def test_a_guard_that_replaces_at_first_is_asked_once_more_only_about_what_others_replaced() -> None:
    seen: list[Hook] = []
    bench = called(guard(BlockTool("no"), seen, first=ReplaceToolArgs({"path": "c"})))
    assert len(seen) == 1
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "look", path("c")))


# Tools that plugins ask for


def asking(name: str = "look", *, priority: int = 900, **args: str) -> AnyPlugin:
    tool = RunTool(name, FrozenObject(args or {"path": "a"}))
    return plug(
        "Asks",
        before_prompt=lambda hook, _s, _c: Ask(tool) if hook.answer is None else Emit("told", repr(hook.answer)),
        priority=priority,
    )


def payload(bench: Bench) -> object:
    """Return the answer that the asking plugin got, as the `PluginEvent` shows it."""
    event = bench.got[-1].events[-4]
    assert isinstance(event, PluginEvent)
    return event.payload


def test_a_tool_that_a_plugin_asks_for_is_ruled_on_by_the_others() -> None:
    for answer, verdict in (
        (BlockTool("no"), Verdict.BLOCK),
        (HoldTool("no"), Verdict.HOLD),
        (Abort("no"), Verdict.ABORT),
    ):
        bench = Bench(asking(), plug("Guard", before_tool=answer, priority=999))
        bench.prompt()
        assert bench.got[-1].rulings[1].verdict is verdict
        assert bench.got[-1].events[:2] == [
            AskStarted("ask2", "Asks", "before_prompt", "RunTool"),
            AskAnswered("ask2", "Asks", "failed"),
        ]
        assert payload(bench) == repr(Failed("Guard does not let it run: no"))
        assert bench.state.phase is Phase.RUNNING


ASKING_RULE: Final = "RunTool: a plugin that rules on it may ask; the run waits, or is refused"


def judge(answers: Callable[[object], object], request: CallService | RunTool = JUDGE) -> AnyPlugin:
    """Return a plugin, the last of the row, that asks about each tool, and rules by *answers*."""
    return plug(
        "Judge",
        before_tool=lambda hook, _s, _c: Ask(request) if hook.answer is None else answers(hook.answer),
        priority=999,
    )


def _same(answer: object, _: object) -> object:
    return answer


def judged(answers: Callable[[object], object], *plugins: AnyPlugin) -> Bench:
    """Return a session in which the run of a tool for `Asks` waits for what `HookRunner` has asked for."""
    bench = Bench(asking(), judge(answers), *plugins)
    bench.prompt()
    return bench


def test_the_run_of_a_tool_waits_until_a_plugin_that_rules_on_it_has_its_answer() -> None:
    bench = judged(lambda _: Continue())
    got = bench.got[-1]
    assert got.events == [
        AskStarted("ask2", "Asks", "before_prompt", "RunTool"),
        AskStarted("ask3", "Judge", "before_tool", "CallService"),
    ]
    assert [(run.ask_id, run.is_sent, run.run, run.started_at) for run in bench.state.suspended_runs] == [
        ("ask2", False, "", None),
        ("ask3", True, "ask2", None),
    ]
    bench.send(AskSettled("ask3", Answered(True)))
    got = bench.got[-1]
    assert got.events == [
        AskAnswered("ask3", "Judge", "ok"),
        ToolExecutionStart("ask2", "look", path("a")),
    ]
    assert [getattr(effect, "request", None) for effect in got.step.effects][-1] == RunTool("look", path("a"))
    assert [(run_.ask_id, run_.is_sent, run_.run, run_.started_at) for run_ in bench.state.suspended_runs] == [
        ("ask2", True, "", NOW)
    ]


def test_what_a_plugin_rules_on_a_run_after_its_answer_counts() -> None:
    for answer, told_of in (
        (BlockTool("no"), Failed("Judge does not let it run: no")),
        (HoldTool("no"), Failed("Judge does not let it run: no")),
        (Abort("no"), Failed("Judge does not let it run: no")),
    ):
        bench = judged(partial(_same, answer))
        bench.send(AskSettled("ask3", Answered(True)))
        assert payload(bench) == repr(told_of)
        assert bench.state.suspended_runs == ()
    bench = judged(lambda _: ReplaceToolArgs({"path": "b"}))
    bench.send(AskSettled("ask3", Answered(True)))
    assert getattr(bench.got[-1].step.effects[-1], "request", None) == RunTool("look", path("b"))


def test_arguments_that_a_plugin_replaces_after_its_answer_go_back_to_critical_plugins() -> None:
    seen: list[Hook] = []
    first = guard(BlockTool("not b"), seen)
    bench = judged(lambda _: ReplaceToolArgs({"path": "b"}), first)
    bench.send(AskSettled("ask3", Answered(True)))
    assert [getattr(hook, "args", None) for hook in seen] == [path("a"), path("b")]
    assert payload(bench) == repr(Failed("Guard does not let it run: not b"))


def test_a_plugin_that_gets_no_answer_in_time_is_told_and_rules() -> None:
    bench = judged(lambda answer: Continue() if isinstance(answer, Answered) else BlockTool("not sure"))
    bench.fires("ask:ask3")
    assert payload(bench) == repr(Failed("Judge does not let it run: not sure"))


def test_a_plugin_that_rules_on_a_run_cannot_run_a_tool_itself() -> None:
    answers: list[object] = []

    def notes(answer: object) -> BlockTool:
        answers.append(answer)
        return BlockTool("cannot look")

    bench = Bench(asking(), judge(notes, RunTool("look", path("b"))))
    bench.prompt()
    assert answers == [Failed("`look` cannot be run to rule on a tool that a plugin runs")]
    assert payload(bench) == repr(Failed("Judge does not let it run: cannot look"))
    assert bench.state.suspended_runs == ()


def test_if_the_time_of_the_run_is_over_while_it_is_ruled_on_the_ruling_is_dropped() -> None:
    bench = judged(lambda _: Continue())
    bench.fires("ask:ask2")
    assert bench.got[-1].events[:2] == [
        AskAnswered("ask3", "Judge", "dropped"),
        AskAnswered("ask2", "Asks", "timed_out"),
    ]
    assert [effect for effect in bench.got[-1].step.effects if isinstance(effect, CancelAsk)] == [CancelAsk("ask3")]
    assert bench.state.suspended_runs == ()
    bench.send(AskSettled("ask3", Answered(True))).expect_nothing()


def test_an_abort_ends_the_run_and_what_rules_on_it() -> None:
    bench = judged(lambda _: Continue())
    bench.send(AbortSent())
    assert [event for event in bench.got[-1].events if isinstance(event, AskAnswered)] == [
        AskAnswered("ask2", "Asks", "dropped"),
        AskAnswered("ask3", "Judge", "dropped"),
    ]
    assert [effect for effect in bench.got[-1].step.effects if isinstance(effect, CancelAsk)] == [CancelAsk("ask3")]
    assert not any(isinstance(event, ToolExecutionEnd) for event in bench.got[-1].events)


def test_the_asker_is_not_asked_about_its_own_run() -> None:
    def answer(hook: Hook, _s: object, _c: object) -> object:
        return BlockTool("no") if isinstance(hook, BeforeTool) else Continue()

    asker = plug(
        "Asks",
        before_prompt=lambda hook, _s, _c: Ask(RunTool("look")) if hook.answer is None else Continue(),
        before_tool=answer,
        priority=10,
    )
    bench = Bench(asker)
    bench.prompt()
    assert bench.got[-1].rulings[1] == Ruling("before_tool")
    assert bench.state.suspended_runs[0].ask_id == "ask2"
    bench.send(AskSettled("ask2", Answered("text")))
    assert bench.state.suspended_runs == ()


def tool_ended(text: str, *, is_error: bool, after: int = 0) -> list[Event]:
    """Return the events of the end of the tool that `Asks` has asked for."""
    return [
        ToolExecutionEnd("ask2", "look", (Text(text),), is_error),
        ToolExecutionMetrics("ask2", "look", NOW, NOW + after, after),
    ]


def test_a_tool_that_a_plugin_asks_for_is_in_the_record_before_it_starts_and_when_it_has_ended() -> None:
    bench = Bench(plug("Guard", before_tool=ReplaceToolArgs({"path": "b"}), priority=5), asking())
    bench.prompt()
    got = bench.got[-1]
    assert got.events == [
        AskStarted("ask2", "Asks", "before_prompt", "RunTool"),
        ToolExecutionStart("ask2", "look", path("b")),
    ]
    assert [type(effect).__name__ for effect in got.step.effects] == ["CarryOut", "SetTimer"]
    assert bench.state.suspended_runs[0].started_at == NOW
    state = bench.state
    for value, status, text, is_error in (
        (Answered("found"), "ok", "found", False),
        (Failed("no disk"), "failed", "no disk", True),
    ):
        bench.state = state
        bench.send(AskSettled("ask2", value))
        ends = [*tool_ended(text, is_error=is_error), AskAnswered("ask2", "Asks", status)]
        assert bench.got[-1].events[:3] == ends
    bench.send(AskSettled("ask2", Answered("again"))).expect_nothing()


def test_a_tool_that_a_plugin_asks_for_and_waits_for_no_more_has_ended_too() -> None:
    bench = Bench(asking())
    bench.prompt()
    bench.fires("ask:ask2")
    late = "it was stopped after 10 s, the time its plugin gave it"
    assert bench.got[-1].events[:3] == [
        *tool_ended(late, is_error=True, after=10_000),
        AskAnswered("ask2", "Asks", "timed_out"),
    ]
    bench = Bench(asking())
    bench.prompt()
    bench.send(AbortSent())
    dropped = "it was stopped, because nobody waits for it any more"
    assert bench.got[-1].events[:3] == [*tool_ended(dropped, is_error=True), AskAnswered("ask2", "Asks", "dropped")]


def test_a_tool_that_a_plugin_asks_for_runs_with_the_arguments_that_the_guards_left() -> None:
    bench = Bench(plug("Guard", before_tool=ReplaceToolArgs({"path": "b"}), priority=5), asking())
    bench.prompt()
    (expected_effect,) = (effect for effect in bench.got[-1].step.effects if type(effect).__name__ == "CarryOut")
    assert getattr(expected_effect, "request", None) == RunTool("look", path("b"))
    assert [ruling.hook for ruling in bench.got[-1].step.rulings] == ["before_prompt", "before_tool", "check"]


def test_a_tool_that_is_not_there_or_whose_arguments_do_not_fit_is_not_run_for_a_plugin() -> None:
    bench = Bench(asking("jump"))
    bench.prompt()
    assert payload(bench) == repr(Failed("there is no tool `jump`"))
    bench = Bench(asking("look", bad="1"))
    bench.prompt()
    assert payload(bench) == repr(Failed("$.bad: not wanted"))
