"""For each hook, a session with one plugin and the input at which the hook runs.

A step is described by how it differs from the same step with a plugin that only continues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from attrs import frozen

from agentrail import Accepted, Continue, State
from agentrail.core.machine.step import Step
from agentrail.core.machine.tool_results import doubt
from agentrail.core.vocabulary.commands import UpdatePluginSent
from agentrail.core.vocabulary.effects import AnyEffect, CancelCalls, ClearTimer, CloseSession, ReportStart, SetTimer
from agentrail.core.vocabulary.inputs import SessionOpened, StreamEnded, ToolRaised
from agentrail.core.vocabulary.tool_calls import DetachedCall
from agentrail.errors import PluginRefused, SessionRefused
from agentrail.events import (
    AgentAbort,
    BeforeCompact,
    Envelope,
    Event,
    PluginOptsUpdated,
    PromptRejected,
    ResponseComplete,
    SessionEnded,
    SteeringReceived,
    ToolCalls,
    ToolKilled,
)
from agentrail.models import FrozenObject, Text, ToolCall
from agentrail.plugins import AnyPlugin
from agentrail.tools import ok
from tests.cells.bench import LOOK, NOW, STORE, Bench, Got, call, demand_same, plug, response, ruled
from tests.cells.scenes import (
    LOOKING,
    executing,
    failed,
    path,
    ran,
    replied,
    result,
    running,
    starts,
    streaming,
    user_message,
)
from tests.kit import DONE, AnyInput, CompactSent, Phase, PromptSent, Refused, Ruling, SteerSent, StopSent, ToolReturned

Expected: TypeAlias = "dict[str, object]"


@frozen
class Refusal:
    """The ruling that ended a pipeline early, and the events before it."""

    ruling: Ruling
    """The ruling that ended the pipeline."""
    errors: tuple[Event, ...] = ()
    """Events that were reported before: `plugin_error`, or what plugins emitted."""

    @property
    def why(self) -> str:
        return "critical" if self.ruling.critical else "plugin"

    @property
    def detail(self) -> str:
        return f"{self.ruling.by}: {self.ruling.reason}"


@frozen
class HookCell:
    """A session just before a hook runs, and the input that makes it run."""

    hook: str
    """Name of the hook."""
    begin: Callable[[AnyPlugin], Bench]
    """Return the session, with the given plugin."""
    next_input: Callable[[Bench], AnyInput]
    """Return the input at which the hook runs."""
    event_count: int
    """How many events the step reports before the hook is done, if its plugin only continues."""
    turn: int = 1
    """Number of the open turn when the hook is done; 0: none."""
    round: int = 1
    """Number of the round when the hook is done."""

    def fire(self, plugin: AnyPlugin) -> tuple[Bench, Got]:
        """Begin the session, and apply the input at which the hook runs."""
        bench = self.begin(plugin)
        return bench, bench.send(self.next_input(bench))

    def baseline(self, *, critical: bool = False) -> Got:
        """Return the step of the cell with a plugin that only continues."""
        return self.fire(probe(self.hook, Continue(), critical=critical))[1]

    def differs(
        self,
        got: Got,
        ruling: Ruling,
        events: Sequence[Event] = (),
        *,
        critical: bool = False,
        effects: Sequence[AnyEffect] | None = None,
        **changes: object,
    ) -> None:
        """Check that *got* is the step of `baseline`, apart from the ruling, *events* and *changes*."""
        base = self.baseline(critical=critical).step
        old = got.before
        mine = [ruling if other.hook == self.hook else other for other in base.rulings]
        new = [Envelope("s", 0, 0, got.arrival.at, self.turn, self.round, event, old.setup.path) for event in events]
        reported = (*base.events[: self.event_count], *new, *base.events[self.event_count :])
        numbered = tuple(envelope.but(seq=old.last_seq + number) for number, envelope in enumerate(reported, start=1))
        state = base.state.but(last_seq=old.last_seq + len(numbered), **changes)
        step = Step(state, base.effects if effects is None else tuple(effects), numbered, tuple(mine), base.answer)
        demand_same(step, got.step)


def probe(hook: str, answer: object, *, critical: bool = False) -> AnyPlugin:
    """Return the plugin `P`, which gives *answer* at *hook*; its state is 0."""
    return plug("P", critical=critical, first=0, **{hook: answer})  # type: ignore[arg-type]  # no other keyword is a hook


def _other_updated(bench: Bench) -> AnyInput:
    return UpdatePluginSent(bench.attach(plug("Other"), 1), FrozenObject(level=2))


def _spoken(plugin: AnyPlugin) -> Bench:
    bench = Bench(plugin)
    bench.prompt()
    bench.answers("hi")
    return bench


HOOK_CELLS: Final[Mapping[str, HookCell]] = {
    cell.hook: cell
    for cell in (
        HookCell("session_start", lambda p: Bench(p, opened=False), lambda _: SessionOpened(), 0, 0, 0),
        HookCell("session_end", Bench, lambda _: StopSent(), 0, 0, 0),
        HookCell("after_turn", streaming, lambda _: StreamEnded("r2", response("bye")), 2),
        HookCell("before_prompt", Bench, lambda _: PromptSent((Text("hello"),)), 0, 0, 0),
        HookCell("before_request", Bench, lambda _: PromptSent((Text("hello"),)), 2),
        HookCell("after_response", streaming, lambda _: StreamEnded("r2", response("bye")), 0),
        HookCell("before_tool", streaming, lambda _: StreamEnded("r2", response("", LOOKING)), 2),
        HookCell("on_tool_error", lambda p: executing(plugins=(p,)), lambda _: ToolRaised("c3", 1, "OSError: no"), 0),
        HookCell(
            "after_tool",
            lambda p: executing(LOOKING, call("store"), plugins=(p,)),
            lambda _: ToolReturned("c3", 1, ok("done")),
            2,
        ),
        HookCell("after_tool_batch", lambda p: executing(plugins=(p,)), lambda _: ToolReturned("c3", 1, ok("done")), 2),
        HookCell("before_finish", streaming, lambda _: StreamEnded("r2", response("bye")), 1),
        HookCell("before_compact", _spoken, lambda _: CompactSent("room"), 1, 0, 0),
        HookCell("before_steering", running, lambda _: SteerSent("rather this"), 0),
        HookCell("before_plugin_opts_update", lambda p: Bench(p, plug("Other")), _other_updated, 0, 0, 0),
    )
}


# How a step ends where its hook says no


def refused(cell: HookCell, got: Got, no: Refusal, **changes: object) -> None:
    """Check that *got* is the step that is expected when the hook of the cell refuses."""
    expected = REFUSED[cell.hook](got.before, no)
    got.expect_only(**{**expected, **changes})  # type: ignore[arg-type]  # the keywords of `only`


def _aborted(old: State, **changes: object) -> Expected:
    return {
        "phase": Phase.IDLE,
        "round": 0,
        "turn": None,
        "request": None,
        "history": old.history,
        **changes,
    }


def _session_start(_: State, no: Refusal) -> Expected:
    error = SessionRefused("s", "plugin `P`", no.ruling.reason)
    return {
        "answer": DONE,
        "events": [*no.errors, SessionEnded(str(error))],
        "effects": [ReportStart(Refused.of(error)), CloseSession(str(error))],
        "rulings": (Ruling("init", states=((0, 0),)), no.ruling),
        "phase": Phase.ENDED,
        "is_starting": False,
        "plugin_states": (0,),
        "stop_reason": str(error),
    }


def _before_prompt(_: State, no: Refusal) -> Expected:
    return {
        "answer": Accepted("p1", "started"),
        "ids": 1,
        "events": [*no.errors, PromptRejected("p1", no.ruling.reason, "P")],
        "rulings": (no.ruling,),
    }


def _before_request(old: State, no: Refusal) -> Expected:
    return {
        "answer": Accepted("p1", "started"),
        "ids": 1,
        "events": [*starts("p1", "r2")[:-1], *no.errors, AgentAbort("p1", no.why, no.detail)],
        "rulings": (*ruled("before_prompt"), no.ruling, *ruled("after_turn")),
        "turn_count": 1,
        "history": old.history.and_(user_message()),
    }


def _after_response(old: State, no: Refusal) -> Expected:
    message = replied("bye")
    return _aborted(
        old,
        events=[*no.errors, ResponseComplete(message), AgentAbort("p1", no.why, no.detail)],
        rulings=(no.ruling, *ruled("after_turn")),
        last_text="bye",
        history=old.history.and_(message),
    )


def _before_tool(old: State, no: Refusal) -> Expected:
    message = replied("", ToolCall("c3", "look", path()))
    return _aborted(
        old,
        ids=1,
        events=[
            ResponseComplete(message),
            ToolCalls(1),
            *no.errors,
            ToolKilled("c3", "look", no.detail),
            AgentAbort("p1", no.why, no.detail),
        ],
        rulings=(*ruled("after_response", "check"), no.ruling, *ruled("after_turn")),
        last_text="",
        history=old.history.and_(message, failed("c3", "look", f"aborted before it ran: {no.detail}")),
    )


def _on_tool_error(old: State, no: Refusal) -> Expected:
    failure = failed("c3", "look", f"stopped: {no.detail}; {doubt(LOOK)}")
    return _aborted(
        old,
        events=[*no.errors, ToolKilled("c3", "look", no.detail), AgentAbort("p1", no.why, no.detail)],
        effects=[ClearTimer("call:c3")],
        rulings=(no.ruling, *ruled("after_turn")),
        batch=None,
        history=old.history.and_(failure),
    )


def _after_tool(old: State, no: Refusal) -> Expected:
    failure = failed("c3", "look", f"it ended, but its result was withheld: {no.ruling.reason}")
    return _aborted(
        old,
        events=[
            *ran("c3", "look"),
            *no.errors,
            ToolKilled("c4", "store", no.detail),
            AgentAbort("p1", no.why, no.detail),
        ],
        effects=[
            ClearTimer("call:c3"),
            CancelCalls(("c4",)),
            SetTimer("grace", NOW + 250),
            ClearTimer("call:c4"),
        ],
        rulings=(no.ruling, *ruled("after_turn")),
        batch=None,
        history=old.history.and_(failure, failed("c4", "store", f"stopped: {no.detail}; {doubt(STORE)}")),
        quarantined_calls=(DetachedCall("c4", "store", NOW, NOW),),
    )


def _after_tool_batch(old: State, no: Refusal) -> Expected:
    return _aborted(
        old,
        events=[*ran("c3", "look"), *no.errors, AgentAbort("p1", no.why, no.detail)],
        effects=[ClearTimer("call:c3")],
        rulings=(*ruled("after_tool"), no.ruling, *ruled("after_turn")),
        batch=None,
        history=old.history.and_(result("c3", "look")),
    )


def _before_finish(old: State, no: Refusal) -> Expected:
    message = replied("bye")
    return _aborted(
        old,
        events=[ResponseComplete(message), *no.errors, AgentAbort("p1", no.why, no.detail)],
        rulings=(*ruled("after_response"), no.ruling, *ruled("after_turn")),
        last_text="bye",
        history=old.history.and_(message),
    )


def _before_compact(_: State, no: Refusal) -> Expected:
    return {
        "answer": DONE,
        "ids": 1,
        "events": [BeforeCompact(2, "room"), *no.errors],
        "rulings": (no.ruling,),
    }


def _before_steering(_: State, no: Refusal) -> Expected:
    return {
        "answer": Refused.of(PluginRefused(no.ruling.reason, "P")),
        "ids": 1,
        "events": [*no.errors, SteeringReceived("s3", "rather this", "rejected_plugin", no.ruling.reason)],
        "rulings": (no.ruling,),
    }


def _before_opts_update(_: State, no: Refusal) -> Expected:
    error = f"P refused: {no.ruling.reason}" if no.ruling.reason else "P refused"
    return {
        "answer": DONE,
        "events": [*no.errors, PluginOptsUpdated("Other", success=False, error=error)],
        "rulings": (no.ruling,),
    }


REFUSED: Final[Mapping[str, Callable[[State, Refusal], Expected]]] = {
    "session_start": _session_start,
    "before_prompt": _before_prompt,
    "before_request": _before_request,
    "after_response": _after_response,
    "before_tool": _before_tool,
    "on_tool_error": _on_tool_error,
    "after_tool": _after_tool,
    "after_tool_batch": _after_tool_batch,
    "before_finish": _before_finish,
    "before_compact": _before_compact,
    "before_steering": _before_steering,
    "before_plugin_opts_update": _before_opts_update,
}
"""What each step must do if its hook refuses; `session_end` and `after_turn` cannot refuse."""
