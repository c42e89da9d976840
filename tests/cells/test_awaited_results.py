"""Calls of a tool that is elsewhere: none is started, and each waits for its result until its time is over."""

from agentrail.core.vocabulary.commands import ResultSent
from agentrail.core.vocabulary.effects import SetTimer, StartCall
from agentrail.core.vocabulary.tool_calls import CallStatus, Question
from agentrail.errors import ResultNotWanted
from agentrail.events import ApprovalResolved, ResultRequired, ToolExecutionStart
from agentrail.models import FrozenObject, ToolSpec
from agentrail.tools import ok
from tests.cells.bench import NOW, Bench, call
from tests.kit import DONE, AbortSent, Phase, Refused

AWAY = ToolSpec("away", "is made elsewhere", elsewhere=True, timeout=5.0)
LIMIT = 5_000
"""Milliseconds that a call of `away` waits."""

REF = "s:r4"


def awaiting() -> Bench:
    """Return a session whose only call, c3 to `away`, waits for its result, with the ref s:r4."""
    bench = Bench(tools=(AWAY,))
    bench.prompt()
    bench.answers("", call("away", path="a"))
    return bench


def test_nothing_is_started_and_the_session_rests() -> None:
    bench = awaiting()
    effects, events = bench.got[-1].step.effects, bench.got[-1].events
    assert not any(isinstance(effect, StartCall) for effect in effects)
    assert SetTimer("call:c3", NOW + LIMIT) in effects
    assert [type(event) for event in events[-2:]] == [ToolExecutionStart, ResultRequired]
    assert bench.state.phase is Phase.IDLE
    assert bench.call("c3").status is CallStatus.ASKING
    assert bench.call("c3").question == Question(REF, "", (), NOW, expires_at=NOW + LIMIT)


def test_it_is_taken_until_its_time_is_over_also_if_the_timer_is_late() -> None:
    late = awaiting().send(ResultSent(REF, ok("late")), after=LIMIT)
    assert late.step.answer == Refused.of(ResultNotWanted(REF, f"`{REF}`"))
    assert awaiting().send(ResultSent(REF, ok("in time")), after=LIMIT - 1).step.answer == DONE


def test_its_time_is_over() -> None:
    bench = awaiting()
    over = bench.fires("call:c3")
    assert ApprovalResolved(REF, "c3", "away", "timeout") in over.events
    assert [doubt.name for doubt in bench.state.in_doubt_calls] == ["away"]
    assert bench.send(ResultSent(REF, ok("late"))).step.answer == Refused.of(ResultNotWanted(REF, "none"))


def test_an_abort_leaves_a_doubt_and_no_timer() -> None:
    bench = awaiting()
    bench.send(AbortSent())
    assert bench.state.timers == ()
    assert [doubt.args for doubt in bench.state.in_doubt_calls] == [FrozenObject({"path": "a"})]
