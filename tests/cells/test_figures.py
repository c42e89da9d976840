"""Limits and defaults of the design that no other test reaches."""

from agentrail import Intervene, Options
from agentrail.core.vocabulary.effects import ClearTimer, StartCall
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.events import AgentEnd, Intervention, RequestStart, ResponseComplete
from agentrail.models import Origin, ToolMessage
from tests.cells.bench import NOW, call, plug, ruled, with_call
from tests.cells.scenes import executing, failed, limit, path, ran, replied, result, run, start, streaming, user_message
from tests.kit import NOTHING_USED


def test_plugins_may_prolong_a_turn_five_times() -> None:
    for hook in ("after_response", "before_finish"):
        bench = streaming(plug("A", **{hook: Intervene("more")}))  # type: ignore[arg-type]  # a hook
        for number in range(1, 6):
            bench.answers(f"answer {number}")
            assert bench.got[-1].events[1] == Intervention("more", hook)
            assert bench.state.turn is not None
            assert bench.state.turn.interventions == number
        bench.answers("the sixth")
        assert Intervention("more", hook, applied=False) in bench.got[-1].events
        assert isinstance(bench.got[-1].events[-1], AgentEnd)


def test_plugins_never_prolong_a_turn_at_its_last_answer() -> None:
    for hook in ("after_response", "before_finish"):
        bench = streaming(plug("A", **{hook: Intervene("more")}), options=Options(max_rounds=1))  # type: ignore[arg-type]  # a hook
        answer = replied("bye")
        bench.answers("bye")
        assert bench.got[-1].events == [
            ResponseComplete(answer),
            Intervention("more", hook, applied=False),
            AgentEnd("p1", "max_rounds", (user_message(), answer), NOTHING_USED),
        ]


def test_interventions_elsewhere_do_not_count() -> None:
    bench = streaming(plug("A", before_request=Intervene("note")))
    assert bench.state.turn is not None
    assert bench.state.turn.interventions == 0
    assert bench.state.history[-1] == user_message("note", Origin.INTERVENTION)
    assert isinstance(bench.got[1].events[-1], RequestStart)
    assert bench.got[1].step.rulings[0] == ruled("before_prompt")[0]


def test_the_65th_call_of_a_response_gets_an_error_result_and_does_not_run() -> None:
    bench = executing(*(call("store", key=str(number)) for number in range(66)))
    last, over, cut = (bench.call(f"c{number}") for number in (66, 67, 68))
    assert last.status is CallStatus.READY
    why = "it did not run: a response may make at most 64 calls, and this one makes 66; make fewer at once"
    assert [item.result for item in (over, cut)] == [failed("c67", "store", why), failed("c68", "store", why)]
    assert sum(ruling.hook == "before_tool" for ruling in bench.got[-1].step.rulings) == 64
    for number in range(3, 67):
        bench.returns(f"c{number}")
    results = [message.call_id for message in bench.state.history if isinstance(message, ToolMessage)]
    assert results == [f"c{number}" for number in range(3, 69)]
    assert isinstance(bench.got[-1].events[-1], RequestStart)


def test_the_ninth_call_of_a_response_starts_when_one_of_eight_has_ended() -> None:
    bench = executing(*(call("look", path=str(number)) for number in range(9)))
    started = [effect.call_id for effect in bench.got[-1].step.effects if isinstance(effect, StartCall)]
    assert started == [f"c{number}" for number in range(3, 11)]
    old = bench.state
    assert old.batch is not None
    done = bench.call("c3").but(status=CallStatus.DONE, result=result("c3", "look"))
    ninth = bench.call("c11").but(status=CallStatus.RUNNING, started_at=NOW)
    bench.returns("c3").expect_only(
        events=[*ran("c3", "look"), run("c11", "look", path("8"))],
        effects=[ClearTimer("call:c3"), limit("c11"), start("c11", "look", path("8"))],
        rulings=ruled("after_tool"),
        batch=with_call(with_call(old.batch, done), ninth),
    )
