"""Figures of the design that no other test meets on its way."""

from agentrail.core.options import Options
from agentrail.hooks.actions import Intervene
from agentrail.values.events import AgentEnd, Intervention, RequestStart, ResponseComplete
from agentrail.values.messages import Origin
from agentrail.values.usage import NOTHING_USED
from tests.cells.bench import plug, ruled
from tests.cells.registry import figure
from tests.cells.scenes import replied, said, streaming


@figure("max_interventions 5")
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


@figure("max_interventions 5", "max_turns 100")
def test_plugins_never_prolong_a_turn_at_its_last_answer() -> None:
    for hook in ("after_response", "before_finish"):
        bench = streaming(plug("A", **{hook: Intervene("more")}), options=Options(max_turns=1))  # type: ignore[arg-type]  # a hook
        answer = replied("bye")
        bench.answers("bye")
        assert bench.got[-1].events == [
            ResponseComplete(answer),
            Intervention("more", hook, applied=False),
            AgentEnd("p1", "max_turns", (said(), answer), NOTHING_USED),
        ]


@figure("max_interventions 5")
def test_interventions_elsewhere_do_not_count() -> None:
    bench = streaming(plug("A", before_request=Intervene("note")))
    assert bench.state.turn is not None
    assert bench.state.turn.interventions == 0
    assert bench.state.history[-1] == said("note", Origin.INTERVENTION)
    assert isinstance(bench.got[1].events[-1], RequestStart)
    assert bench.got[1].step.rulings[0] == ruled("before_prompt")[0]
