"""Calls that outlive their turn: lingering ones go on, quarantined ones were cancelled and have not ended."""

from typing import Final

from agentrail import Options
from agentrail.core.vocabulary.effects import CancelCalls, ClearTimer, SetTimer
from agentrail.core.vocabulary.inputs import ToolRaised, ToolStopped
from agentrail.core.vocabulary.tool_calls import CallStatus, DetachedCall
from agentrail.events import AgentAbort, SessionEnded, ToolAbandoned
from agentrail.models import Origin
from agentrail.tools import Effect, SetTodos, Todo, ToolResult, err, ok
from tests.cells.bench import NOW, Bench, call, ruled
from tests.cells.scenes import STARTED, executing, out, ran, request, starts, turn, unknown, user_message
from tests.kit import DONE, AbortSent, Phase, StopSent, ToolReturned

DOUBT: Final = unknown("c3", "keep")
LINGERS: Final = DetachedCall("c3", "keep", NOW, NOW, doubt=DOUBT)


def lingering(options: Options | None = None) -> Bench:
    """Return an idle session whose call c3, to `keep`, goes on in the background."""
    bench = executing(call("keep"), options=options)
    bench.send(AbortSent())
    assert bench.state.lingering_calls == (LINGERS,)
    assert bench.state.timers == (("call:c3", NOW + 60_000),)
    return bench


def notice(how: str, text: str) -> str:
    return f"The call c3 of `keep`, which went on in the background, {how}: {text}"


def test_its_end_is_reported_and_named_in_the_next_request() -> None:
    bench = lingering()
    report = notice("has ended", "done")
    bench.returns("c3").expect_only(
        events=ran("c3", "keep", late=True), effects=[ClearTimer("call:c3")], lingering_calls=(), notices=(report,)
    )
    old = bench.state
    line = user_message(report, Origin.NOTICE)
    bench.prompt("next").expect_only(
        answer=bench.got[-1].step.answer,
        ids=2,
        events=starts("p4", "r5", "next", turns=2, messages=5),
        effects=[request(old, "r5", user_message("next"), line)],
        rulings=ruled(*STARTED),
        phase=Phase.RUNNING,
        turn_count=2,
        round=1,
        turn=turn("p4", mark=3),
        notices=(),
        request=out("r5"),
        history=old.history.and_(user_message("next"), line),
    )


def test_its_failure_is_reported_too() -> None:
    for value, answer, doubts in (
        (ToolReturned("c3", 1, err("no disk")), err("no disk"), ()),
        (ToolRaised("c3", 1, "OSError: no disk"), err("OSError: no disk"), ()),
        (ToolStopped("c3", 1), err("it was cancelled"), (DOUBT,)),
    ):
        bench = lingering()
        text = answer.content[0]
        bench.send(value).expect_only(
            events=ran("c3", "keep", answer, late=True),
            effects=[ClearTimer("call:c3")],
            lingering_calls=(),
            notices=(notice("has failed", getattr(text, "text", "")),),
            in_doubt_calls=doubts,
        )


def test_what_it_wants_of_the_session_is_not_done() -> None:
    bench = lingering()
    wants: ToolResult = Effect(SetTodos((Todo("more"),)))
    bench.returns("c3", wants).expect_only(
        events=ran("c3", "keep", ok("it is done"), late=True),
        effects=[ClearTimer("call:c3")],
        lingering_calls=(),
        notices=(notice("has ended", "it is done"),),
    )


def test_only_two_hundred_characters_of_its_outcome_are_told() -> None:
    bench = lingering()
    bench.returns("c3", ok("x" * 500))
    assert bench.state.notices == (notice("has ended", "x" * 200),)


def test_it_dies_with_an_abort_of_all() -> None:
    text = "stopped: enough; it may have taken effect; find out before calling it again"
    bench = lingering()
    bench.send(AbortSent("enough", kill_tools="all")).expect_only(
        answer=DONE,
        events=[*ran("c3", "keep", err(text), late=True), AgentAbort(None, "user", "enough")],
        effects=[CancelCalls(("c3",)), SetTimer("grace", NOW + 250), ClearTimer("call:c3")],
        lingering_calls=(),
        quarantined_calls=(LINGERS,),
        in_doubt_calls=(DOUBT,),
        notices=(notice("has failed", text),),
    )
    bench.send(ToolStopped("c3", 1)).expect_only(effects=[ClearTimer("grace")], quarantined_calls=())
    for kill in ("killable", "none"):
        lingering().send(AbortSent(kill_tools=kill)).expect_only(answer=DONE, events=[AgentAbort(None, "user")])


def test_it_dies_with_a_stop() -> None:
    bench = lingering()
    bench.send(StopSent("bye"))
    text = "stopped: bye; it may have taken effect; find out before calling it again"
    assert bench.got[-1].events == [*ran("c3", "keep", err(text), late=True), SessionEnded("bye")]
    assert bench.got[-1].step.effects[0] == CancelCalls(("c3",))
    assert (bench.state.lingering_calls, bench.state.timers) == ((), ())


def test_it_counts_towards_the_calls_that_may_run_at_once() -> None:
    bench = lingering(Options(max_parallel_tools=2))
    bench.prompt("next")
    bench.answers("", call("look", path="a"), call("store"))
    assert [c.status for c in bench.state.batch.calls] == [CallStatus.RUNNING, CallStatus.READY]  # type: ignore[union-attr]  # there
    bench.returns("c3")
    assert bench.call("c7").status is CallStatus.RUNNING


def test_it_is_stopped_at_the_limit_of_its_tool() -> None:
    bench = lingering()
    late = "it ran too long and was stopped"
    bench.fires("call:c3").expect_only(
        events=ran("c3", "keep", err(late), at_ms=NOW + 60_000, late=True),
        effects=[CancelCalls(("c3",)), SetTimer("grace", NOW + 60_250)],
        lingering_calls=(),
        quarantined_calls=(LINGERS.but(since=NOW + 60_000),),
        in_doubt_calls=(DOUBT,),
        notices=(notice("has failed", late),),
    )
    bench.send(ToolStopped("c3", 1)).expect_only(effects=[ClearTimer("grace")], quarantined_calls=())


def test_each_detached_call_is_reported_after_its_own_grace() -> None:
    bench = executing(call("edit", path="a"))
    bench.send(AbortSent())
    bench.prompt("next")
    bench.answers("", call("look", path="a"))
    bench.send(AbortSent(), after=100)
    assert bench.state.timers == (("grace", NOW + 250),)
    first, second = DetachedCall("c3", "edit", NOW, NOW, writes=True), DetachedCall("c6", "look", NOW + 100, NOW)
    bench.fires("grace").expect_only(
        events=[ToolAbandoned("c3", "edit")],
        effects=[SetTimer("grace", NOW + 350)],
        quarantined_calls=(first.but(reported=True), second),
    )
    bench.fires("grace").expect_only(
        events=[ToolAbandoned("c6", "look")],
        quarantined_calls=(first.but(reported=True), second.but(reported=True)),
    )


def test_the_first_closing_input_of_a_call_wins() -> None:
    bench = executing(call("look", path="a"), call("store"))
    bench.returns("c3")
    bench.send(ToolReturned("c3", 1, ok("again"))).expect_nothing()
    bench.send(ToolRaised("c3", 1, "OSError")).expect_nothing()
    bench.send(ToolStopped("c3", 1)).expect_nothing()
    bench.send(ToolReturned("c4", 2, ok("of another attempt"))).expect_nothing()
    bench.send(ToolReturned("c99", 1, ok("of nobody"))).expect_nothing()
