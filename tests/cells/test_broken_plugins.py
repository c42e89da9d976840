"""A plugin that fails: the error is contained and reported, unless the plugin is critical."""

import math
from collections.abc import Callable
from typing import Final

import pytest

from agentrail import (
    Abort,
    AddContext,
    Ask,
    BlockTool,
    Continue,
    Emit,
    HoldTool,
    Intervene,
    Plugin,
    ReplaceMessages,
    ReplacePrompt,
    ReplaceResponse,
    ReplaceToolResult,
    SetSection,
    SwitchModel,
)
from agentrail.core.vocabulary.effects import CloseSession, ReportStart, StartCall, WriteLog
from agentrail.core.vocabulary.inputs import HooksWereSlow, SessionOpened, ToolRaised
from agentrail.errors import BrokenPlugin, PluginRefused, StateNotStorable
from agentrail.events import (
    AgentAbort,
    Envelope,
    Event,
    PluginError,
    PluginEvent,
    PluginSlow,
    RequestStart,
    ResponseComplete,
    SessionEnded,
    ToolCalls,
    ToolExecutionStart,
)
from agentrail.hooks.ruling import Decisions
from agentrail.models import FrozenObject, Partial, Usage
from agentrail.plugins import AnyPlugin, CallService, Log
from tests.cells.bench import UNUSABLE, Bench, call, plug, usable
from tests.cells.hook_cells import HOOK_CELLS, Refusal, probe, refused
from tests.cells.scenes import executing, idle, running, streaming
from tests.cells.tables import HOOKS
from tests.cells.test_matrix import WHEN_BROKEN, blocked
from tests.each_case import each_case
from tests.kit import DONE, Phase, Refused, Ruling, SteerSent, StopSent, Verdict

OOPS: Final = "ValueError: oops"


def oops(_hook: object, _state: object, _ctx: object) -> object:
    raise ValueError("oops")


def broken_at(hook: str) -> tuple[PluginError, str]:
    return PluginError("P", hook, OOPS), f"critical plugin `P` broke: {OOPS}"


def test_a_plugin_that_raises_is_reported_and_the_next_ones_are_asked() -> None:
    for hook in HOOKS:
        error, _ = broken_at(hook)
        _, got = HOOK_CELLS[hook].fire(probe(hook, oops))
        HOOK_CELLS[hook].differs(got, Ruling(hook, errors=(error,)), [error])
    bench = Bench(plug("A", before_prompt=oops), plug("B", before_prompt=Emit("asked")))
    assert bench.prompt().events[:2] == [PluginError("A", "before_prompt", OOPS), PluginEvent("B", "asked", None)]


def test_a_critical_plugin_that_raises_counts_as_an_abort() -> None:
    for hook in HOOKS:
        verdict = WHEN_BROKEN.get(hook, Verdict.ABORT)
        error, reason = broken_at(hook)
        _, got = HOOK_CELLS[hook].fire(probe(hook, oops, critical=True))
        if verdict is Verdict.PASS:
            HOOK_CELLS[hook].differs(got, Ruling(hook, errors=(error,)), [error], critical=True)
        elif verdict is not Verdict.BLOCK:
            decided = Ruling(hook, verdict, "P", reason, critical=True, errors=(error,))
            refused(HOOK_CELLS[hook], got, Refusal(decided, (error,)))


def test_a_critical_plugin_that_raises_blocks_the_call() -> None:
    error, reason = broken_at("before_tool")
    _, got = HOOK_CELLS["before_tool"].fire(probe("before_tool", oops, critical=True))
    blocked(got, Ruling("before_tool", Verdict.BLOCK, "P", reason, critical=True, errors=(error,)), [error])


def test_what_was_accumulated_before_a_critical_plugin_broke_is_dropped_but_for_emits() -> None:
    first = plug("A", before_request=Intervene("note").emitting("early"))
    bench = Bench(first, plug("P", before_request=oops, critical=True))
    early = PluginEvent("A", "early", None)
    error, reason = broken_at("before_request")
    got = bench.prompt()
    decided = Ruling("before_request", Verdict.ABORT, "P", reason, critical=True, errors=(error,))
    assert got.rulings[1] == decided.but(decisions=Decisions(emits=(early,)))
    assert got.events[2:] == [error, early, AgentAbort("p1", "critical", f"P: {reason}")]


# Answers that are not what their types say


def untyped(kind: Callable[..., object], *fields: object, **more: object) -> object:
    """Return an action that a type checker would not accept."""
    return kind(*fields, **more)


MALFORMED: Final[tuple[tuple[str, object, str], ...]] = (
    ("before_prompt", untyped(Intervene, 5), "its `intervene` has 5 for `text`"),
    ("before_prompt", untyped(Abort, None), "its `abort` has None for `reason`"),
    ("before_tool", untyped(BlockTool, 5), "its `block_tool` has 5 for `reason`"),
    ("before_tool", untyped(HoldTool, "may it?", timeout=math.inf), "its `hold_tool` has inf for `timeout`"),
    ("before_tool", untyped(HoldTool, "may it?", timeout=-1.0), "its `hold_tool` has -1.0 for `timeout`"),
    ("before_request", untyped(SwitchModel, 5), "its `switch_model` has 5 for `model`"),
    ("before_prompt", untyped(ReplacePrompt, " "), "its `replace_prompt` has ' ' for `text`"),
    ("before_steering", untyped(ReplacePrompt, 5), "its `replace_prompt` has 5 for `text`"),
    ("before_request", untyped(AddContext, " "), "its `add_context` has ' ' for `text`"),
    ("after_response", untyped(ReplaceResponse, ""), "its `replace_response` has '' for `text`"),
    ("before_request", untyped(ReplaceMessages, ()), "its `replace_messages` has a `tuple` for `messages`"),
    ("before_compact", untyped(ReplaceMessages, ("text",)), "its `replace_messages` has a `tuple` for `messages`"),
    ("after_tool", untyped(ReplaceToolResult, "text"), "its `replace_tool_result` has 'text' for `result`"),
    ("session_start", untyped(SetSection, "mood", 5), "its `set_section` has 5 for `text`"),
    ("after_turn", untyped(Ask, "what?"), "its `ask` has 'what?' for `request`"),
    ("after_turn", untyped(Ask, CallService("x"), deadline="soon"), "its `ask` has 'soon' for `deadline`"),
    (
        "session_end",
        untyped(Emit, 5),
        "it emits 5, which is neither a name nor pairs nor an event of its own to report",
    ),
)
"""Hook, answer, and what is wrong with the answer."""


@each_case(MALFORMED)
def test_a_malformed_answer_is_reported_and_nothing_comes_of_it(hook: str, answer: object, why: str) -> None:
    error = PluginError("P", hook, why)
    _, got = HOOK_CELLS[hook].fire(probe(hook, answer))
    HOOK_CELLS[hook].differs(got, Ruling(hook, errors=(error,)), [error])


@pytest.mark.parametrize(("hook", "answer", "why"), [case for case in MALFORMED if case[0] == "before_tool"])
def test_a_malformed_answer_of_a_critical_plugin_blocks_the_call(hook: str, answer: object, why: str) -> None:
    error = PluginError("P", hook, why)
    reason = f"critical plugin `P` broke: {why}"
    _, got = HOOK_CELLS[hook].fire(probe(hook, answer, critical=True))
    blocked(got, Ruling(hook, Verdict.BLOCK, "P", reason, critical=True, errors=(error,)), [error])


def test_a_model_that_cannot_be_used_is_not_switched_to() -> None:
    problem = f"it chose a model that cannot be used: {usable(UNUSABLE)}"
    error = PluginError("P", "before_request", str(BrokenPlugin("P", "before_request", problem)))
    _, got = HOOK_CELLS["before_request"].fire(probe("before_request", SwitchModel(UNUSABLE, 1)))
    HOOK_CELLS["before_request"].differs(got, Ruling("before_request", errors=(error,)), [error])


# States


TOO_BIG: Final = "x" * 70_000


def test_a_state_of_more_than_64_kib_is_a_crash_of_that_hook() -> None:
    fits = "x" * (64 * 1024 - 2)
    bench = Bench(probe("before_prompt", Continue(fits)))
    bench.prompt()
    assert bench.state.plugin_states == (fits,)
    bench = Bench(probe("before_prompt", Continue(f"{fits}x")))
    error = bench.prompt().events[0]
    why = "its state cannot be stored: it takes 65,537 bytes when it is written; at most 65,536 are kept"
    assert error == PluginError("P", "before_prompt", why)
    assert bench.state.plugin_states == (0,)


def test_a_first_state_that_cannot_be_stored_is_refused_at_spawn() -> None:
    for first, why in (
        (TOO_BIG, "it takes 70,002 bytes when it is written; at most 65,536 are kept"),
        ([], "it is a `list`, which can change; keep a tuple"),
    ):
        bench = Bench(plug("P", first=first), opened=False)
        reason = f"its state cannot be stored: {why}"
        error = StateNotStorable("P", reason, 64 * 1024)
        bench.send(SessionOpened()).expect_only(
            answer=DONE,
            events=[SessionEnded(str(error))],
            effects=[ReportStart(Refused.of(error)), CloseSession(str(error))],
            rulings=(Ruling("init", Verdict.ABORT, "P", reason, critical=True),),
            phase=Phase.ENDED,
            is_starting=False,
            stop_reason=str(error),
        )


def test_a_state_that_cannot_be_stored_is_named_by_its_field() -> None:
    bench = Bench(probe("before_prompt", Continue((1, {"a": 2}))))
    error = bench.prompt().events[0]
    assert isinstance(error, PluginError)
    assert error.error.startswith("its state cannot be stored: its `[1]` is a `dict`")


def test_a_plugin_may_refuse_the_session() -> None:
    class Refuses(Plugin[None]):
        def init(self, ctx: object) -> None:
            raise PluginRefused("no price", str(ctx is None))

    bench = Bench(Refuses(), opened=False)
    error = PluginRefused("no price", "Refuses")
    bench.send(SessionOpened()).expect_only(
        answer=DONE,
        events=[SessionEnded(str(error))],
        effects=[ReportStart(Refused.of(error)), CloseSession(str(error))],
        rulings=(Ruling("init", Verdict.ABORT, "Refuses", "no price"),),
        phase=Phase.ENDED,
        is_starting=False,
        stop_reason=str(error),
    )


# on_event


def listener(*, broken: type[Event] | None = None, critical: bool = False, logs: bool = False) -> AnyPlugin:
    """Return a plugin that counts the events it gets, and raises at some."""

    class Listens(Plugin[int]):
        def init(self, ctx: object) -> int:
            return 0

        def on_event(self, event: Envelope, state: int, ctx: object) -> int | Log[int]:
            if broken is not None and isinstance(event.event, broken):
                raise ValueError("oops")
            return Log("info", "heard", {"seq": event.seq}, state + 1) if logs else state + 1

    Listens.critical = critical
    return Listens()


def test_a_listener_is_off_after_three_failures_until_the_next_turn() -> None:
    bench = streaming(listener(broken=Event), plug("Other"))
    error = PluginError("Listens", "on_event", OOPS)
    errors = [[event for event in got.events if event == error] for got in bench.got]
    assert [len(found_error) for found_error in errors] == [1, 3]
    bench.answers("", call("look", path="a"))
    assert error not in bench.got[-1].events
    bench.returns("c3")
    bench.answers("bye")
    bench.prompt("next")
    assert bench.got[-1].events.count(error) == 3


def test_a_listener_hears_every_event_once_behind_the_hooks_of_the_step_and_not_what_it_causes() -> None:
    bench = executing(plugins=(listener(), plug("Emits", before_tool=Emit("noted"))))
    bench.returns("c3")
    assert bench.state.plugin_states[0] == bench.state.last_seq


def test_what_a_listener_logs_is_written_by_the_shell() -> None:
    bench = idle(listener(logs=True))
    assert bench.got[-1].step.effects[-1] == WriteLog("info", "heard", FrozenObject(seq=1))
    assert bench.got[-1].rulings[-1] == Ruling(
        "on_event", states=((0, 1),), logs=(("info", "heard", FrozenObject(seq=1)),)
    )


def test_a_critical_listener_that_breaks_aborts_the_turn() -> None:
    bench = running(listener(broken=RequestStart, critical=True))
    error = PluginError("Listens", "on_event", OOPS)
    why = "Listens: its `on_event` failed"
    assert bench.got[-1].events[-2:] == [error, AgentAbort("p1", "critical", why)]
    assert bench.state.phase is Phase.IDLE
    bench = streaming(listener(broken=ResponseComplete, critical=True))
    bench.answers("", call("look", path="a"))
    assert bench.got[-1].events[-1] == AgentAbort("p1", "critical", why)


def test_a_critical_listener_that_breaks_at_the_start_of_a_call_lets_none_start() -> None:
    for broken in (ToolCalls, ToolExecutionStart):
        bench = streaming(listener(broken=broken, critical=True))
        bench.answers("", call("look", path="a"), call("edit", path="a"))
        assert not any(isinstance(effect, StartCall) for effect in bench.got[-1].step.effects)
        assert (bench.state.phase, bench.state.quarantined_calls, bench.state.timers) == (Phase.IDLE, (), ())
        results = [message.text for message in list(bench.state.history)[-2:]]
        assert results == ["aborted before it ran: Listens: its `on_event` failed"] * 2


def test_what_was_received_is_kept_once_if_steering_cuts_it_and_the_next_request_is_aborted() -> None:
    class Breaks(Plugin[None]):
        critical = True

        def on_event(self, event: Envelope, state: None, ctx: object) -> None:
            if isinstance(event.event, RequestStart) and event.round > 1:
                raise ValueError("oops")

    bench = streaming(Breaks())
    bench.send(SteerSent("rather that", "now", Partial("so far", usage=Usage(7, 1))))
    assert bench.got[-1].events[-1] == AgentAbort("p1", "critical", "Breaks: its `on_event` failed")
    assert [message.text for message in bench.state.history] == ["hello", "so far", "rather that"]
    assert bench.state.usage == Usage(7, 1)


def test_a_call_that_had_run_before_is_not_told_as_one_that_had_not() -> None:
    class Breaks(Plugin[None]):
        critical = True

        def on_event(self, event: Envelope, state: None, ctx: object) -> None:
            if isinstance(event.event, ToolExecutionStart) and event.event.attempt > 1:
                raise ValueError("oops")

    bench = streaming(Breaks())
    bench.answers("", call("store"))
    bench.send(ToolRaised("c3", 1, "OSError: away"))
    assert not any(isinstance(effect, StartCall) for effect in bench.got[-1].step.effects)
    why = "Breaks: its `on_event` failed"
    assert bench.state.history[-1].text == f"stopped: {why}; it can safely be called again"


def test_a_listener_that_breaks_at_the_last_events_is_logged() -> None:
    bench = idle(listener(broken=SessionEnded))
    bench.send(StopSent())
    fields = FrozenObject(plugin="Listens", hook="on_event", error=OOPS)
    line = WriteLog("error", "a plugin broke when the session had ended", fields)
    assert bench.got[-1].events == [SessionEnded("stopped")]
    assert bench.got[-1].step.effects[-1] == line


def test_slow_hooks_are_reported() -> None:
    for bench in (idle(), running(), streaming(), executing()):
        bench.send(HooksWereSlow(("A", "B"), 70)).expect_only(events=[PluginSlow(("A", "B"), 70)])
