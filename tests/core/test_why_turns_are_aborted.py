"""An abort names its kind and its reason: in the event, in `after_turn`, and in the error that `ask` raises."""

from typing import Final

import pytest

from agentrail import Abort, Context, Continue, Options
from agentrail.api.turn_ends import turn_end
from agentrail.core.vocabulary.inputs import StreamCut
from agentrail.errors import TurnAborted
from agentrail.events import AgentAbort
from agentrail.models import Failure, FailureKind
from agentrail.plugins import AfterTurn, AnyPlugin, BeforeFinish
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, plug
from tests.kit import AbortSent, AnyInput, StopSent, TimerFired

KEY: Final = Failure(FailureKind.PERMANENT, "KeyRefused", "the key is wrong")

GIVEN: Final[tuple[tuple[AnyInput, str, str | None], ...]] = (
    (AbortSent("that is the wrong file"), "user", "that is the wrong file"),
    (AbortSent(), "user", None),
    (AbortSent("plugin"), "user", "plugin"),
    (StopSent("the house closes"), "stopped", "the house closes"),
    (TimerFired("turn"), "deadline", "the turn took longer than 60 s"),
    (StreamCut("r2", NOTHING_YET, KEY), "provider_error", "the key is wrong"),
)


def watcher(seen: list[AfterTurn]) -> AnyPlugin:
    """Return a plugin that appends what `after_turn` shows it to *seen*."""

    def after_turn(hook: AfterTurn, _state: object, _ctx: Context) -> Continue[object]:
        seen.append(hook)
        return Continue()

    return plug("Watcher", after_turn=after_turn)


def aborted(input_: AnyInput | None, *plugins: AnyPlugin) -> tuple[AgentAbort, AfterTurn]:
    """Return the event of a turn that is aborted, and what plugins are shown in `after_turn`."""
    seen: list[AfterTurn] = []
    bench = Bench(*plugins, watcher(seen), options=Options(max_turn_seconds=60.0))
    bench.prompt()
    bench.answers("hi") if input_ is None else bench.send(input_, after=60_000)
    (abort,) = (event for event in bench.got[-1].events if isinstance(event, AgentAbort))
    (visible,) = seen
    return abort, visible


@pytest.mark.parametrize(("input_", "kind", "reason"), GIVEN, ids=lambda value: str(value)[:30])
def test_an_abort_carries_the_words_of_its_caller(input_: AnyInput, kind: str, reason: str | None) -> None:
    abort, visible = aborted(input_)
    assert abort == AgentAbort("p1", kind, reason)
    assert (visible.outcome, visible.abort_kind, visible.abort_reason) == ("aborted", kind, reason)


def test_an_abort_of_a_plugin_carries_its_name_and_its_words() -> None:
    abort, visible = aborted(None, plug("Guard", before_finish=Abort("not like this")))
    assert abort == AgentAbort("p1", "plugin", "Guard: not like this")
    assert (visible.abort_kind, visible.abort_reason) == (abort.kind, abort.reason)


def test_a_critical_plugin_that_breaks_is_a_kind_of_its_own() -> None:
    def broken(_hook: BeforeFinish, _state: object, _ctx: Context) -> Continue[object]:
        raise ZeroDivisionError

    abort, visible = aborted(None, plug("Guard", critical=True, before_finish=broken))
    assert abort.kind == "critical"
    assert "critical plugin `Guard` broke: ZeroDivisionError" in (abort.reason or "")
    assert (visible.abort_kind, visible.abort_reason) == (abort.kind, abort.reason)


def test_a_turn_that_ends_by_itself_has_neither() -> None:
    seen: list[AfterTurn] = []
    bench = Bench(watcher(seen))
    bench.prompt()
    bench.answers("hi")
    assert [(hook.outcome, hook.abort_kind, hook.abort_reason) for hook in seen] == [("finished", None, None)]


def test_who_waits_for_the_turn_hears_both() -> None:
    assert turn_end(AgentAbort("p1", "user", "enough")) == ("p1", TurnAborted("p1", "user", "enough"))
