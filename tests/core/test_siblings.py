"""Which siblings are stopped and started again with a child, and which approvals stand."""

import pytest

from agentrail import HoldTool
from agentrail.core.supervision_rules import ChildFacts, Ending, Policy, decide
from tests.cells.bench import Bench, call, plug
from tests.kit import ApproveSent

CHILDREN = {
    name: ChildFacts(name, restart) for name, restart in (("a", "permanent"), ("b", "temporary"), ("c", "permanent"))
}


@pytest.mark.parametrize(
    ("key", "strategy", "stop", "start"),
    [
        ("a", "one_for_all", ("c", "b"), ("a", "c")),
        ("c", "one_for_all", ("b", "a"), ("a", "c")),
        ("c", "rest_for_one", (), ("c",)),
        ("a", "one_for_one", (), ("a",)),
    ],
)
def test_a_temporary_sibling_is_stopped_and_not_started_again(
    key: str, strategy: str, stop: tuple[str, ...], start: tuple[str, ...]
) -> None:
    decision = decide(Policy(strategy), CHILDREN, (), key, Ending(crashed=True), now=1.0)
    assert (decision.stop, decision.start) == (stop, start)
    assert decision.forget == tuple(name for name in stop if name == "b")


def test_a_family_that_is_approved_for_always_twice_stands_once() -> None:
    bench = Bench(plug("Guard", before_tool=HoldTool("may it?", family="look")))
    bench.prompt()
    bench.answers("", call("look", path="a"), call("look", path="b"))
    holds = [held.hold for held in bench.state.waiting_calls]
    for hold in holds:
        assert hold is not None
        bench.send(ApproveSent(hold.approval_id, always=True))
    assert [standing.command_family for standing in bench.state.standing_approvals] == ["look"]
