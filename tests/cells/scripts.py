"""Recorded scripts: whole sessions, each through a state in which an abort is difficult."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from attrs import frozen

from agentrail import Ask, Context, Continue, HoldTool, Options
from agentrail.core.vocabulary.commands import AttachPluginSent, RespondSent, UpdatePluginSent
from agentrail.core.vocabulary.inputs import (
    AskSettled,
    CompactionEnded,
    SessionOpened,
    StreamCut,
    StreamStalled,
    ToolRaised,
    ToolStopped,
)
from agentrail.models import Failure, FailureKind, FrozenObject, Partial
from agentrail.plugins import AfterTurn, Answered, AnyPlugin, CallService, Hook, RunTool
from agentrail.tools import AskPerson, Effect
from agentrail.values.stream import NOTHING_YET
from tests.cells.bench import Bench, call, plug
from tests.cells.scenes import holds, path, user_message
from tests.kit import AbortSent, ApproveSent, Arrival, CompactSent, RejectSent, SteerSent

Play: TypeAlias = Callable[[Bench], None]

BUSY: Final = Failure(FailureKind.TRANSIENT, "Busy", "try later")
TOO_LONG: Final = Failure(FailureKind.OVERFLOW, "TooLong", "too many tokens")
LOOKUP: Final = CallService("lookup")
OTHER: Final = plug("Other", first=0)


def _outcomes(hook: Hook, state: object, _ctx: Context) -> object:
    assert isinstance(hook, AfterTurn)
    assert isinstance(state, tuple)
    return Continue((*state, hook.outcome))


def recorder() -> AnyPlugin:
    """Return the plugin that remembers the outcome of each turn from `after_turn`."""
    return plug("Recorder", priority=-1, first=(), after_turn=_outcomes)


def asks_at(*hooks: str) -> AnyPlugin:
    """Return a plugin that asks once at each of *hooks*."""

    def answer(hook: Hook, _state: object, _ctx: Context) -> object:
        return Ask(LOOKUP) if hook.answer is None else Continue()

    return plug("Asks", **dict.fromkeys(hooks, answer))  # type: ignore[arg-type]  # hooks


@frozen
class Script:
    """A session, and the inputs that it gets."""

    play: Play
    """Gives the session its inputs, one by one."""
    plugins: Callable[[], tuple[AnyPlugin, ...]] = tuple
    """Returns the session's plugins, apart from the recorder."""
    options: Options = Options()  # noqa: RUF009 - a frozen value

    def bench(self) -> Bench:
        """Return the session, not yet opened; its hook runner knows the plugin `Other`, which may be attached."""
        bench = Bench(recorder(), *self.plugins(), options=self.options, opened=False)
        for revision in range(2):
            bench.attach(OTHER, revision)
        return bench

    def record(self) -> list[Arrival | None]:
        """Play the script, and return its inputs in order, with `None` where the awaited response begins."""
        bench = self.bench()
        bench.send(SessionOpened())
        self.play(bench)
        return bench.moves


def settles(bench: Bench) -> None:
    """Apply the answer for the oldest hook that waits for one."""
    bench.send(AskSettled(bench.state.suspended_runs[0].ask_id, Answered("yes")))


def _text(b: Bench) -> None:
    b.prompt()
    b.begins()
    b.answers("that is all")
    b.prompt("and now?")
    b.begins()
    b.answers("nothing")


def _tools(b: Bench) -> None:
    b.prompt()
    b.begins()
    b.answers("I will look", call("look", path="a"), call("edit", path="a"), call("solo"))
    b.returns("c4")
    b.returns("c3")
    b.returns("c5")
    b.begins()
    b.answers("that is all")


def _queued(b: Bench) -> None:
    b.prompt("one")
    b.prompt("two")
    b.begins()
    b.prompt("three")
    b.answers("", call("look", path="a"))
    b.prompt("four")
    b.returns("c5")
    b.answers("first")
    b.answers("second")


def _held(b: Bench) -> None:
    b.prompt()
    b.prompt("later")
    b.begins()
    b.answers("", call("look", path="a"), call("edit", path="a"), call("edit", path="b"))
    b.returns("c4")
    b.send(ApproveSent("s:a7", path("c")))
    b.send(RejectSent("s:a8"))
    b.returns("c5")
    b.answers("that is all")


def _asked(b: Bench) -> None:
    b.prompt()
    settles(b)
    settles(b)
    b.begins()
    b.answers("", call("look", path="a"), call("edit", path="a"))
    for _ in range(3):
        settles(b)
    b.send(ToolRaised(b.state.batch.calls[0].call_id, 1, "OSError") if b.state.batch else CompactSent())
    settles(b)
    b.returns(_calls(b)[0], attempt=2)
    b.returns(_calls(b)[1])
    while b.state.suspended_runs:
        settles(b)
    b.begins()
    b.answers("that is all")
    while b.state.suspended_runs:
        settles(b)


def _calls(b: Bench) -> list[str]:
    return [c.call_id for c in b.state.batch.calls] if b.state.batch is not None else []


def _starting(b: Bench) -> None:
    b.prompt("early")
    settles(b)
    b.answers("that is all")


def _after_turn(b: Bench) -> None:
    b.prompt("one")
    b.prompt("two")
    b.answers("first")
    b.send(SteerSent("rather this"))
    settles(b)
    b.answers("second")
    settles(b)


def _retried(b: Bench) -> None:
    b.prompt()
    b.begins()
    b.send(StreamCut(b.request_id, Partial("so"), BUSY))
    b.send(SteerSent("rather this"))
    b.fires("retry")
    b.send(StreamCut(b.request_id, NOTHING_YET, BUSY))
    b.fires("retry")
    b.begins()
    b.answers("that is all")


def _stalled(b: Bench) -> None:
    b.prompt()
    b.send(StreamStalled(b.request_id, 30.0))
    b.begins()
    b.send(StreamStalled(b.request_id, 30.0, Partial("so")))
    b.fires("retry")
    b.answers("")
    b.answers("that is all")


def _overflowed(b: Bench) -> None:
    b.prompt("one")
    b.answers("first")
    b.prompt("two")
    b.send(StreamCut(b.request_id, NOTHING_YET, TOO_LONG))
    b.send(CompactionEnded(_compaction(b), (user_message("two"),), 2, "shorter"))
    b.answers("second")


def _compaction(b: Bench) -> str:
    assert b.state.compaction is not None
    return b.state.compaction.compaction_id


def _compacted(b: Bench) -> None:
    b.prompt("one")
    b.answers("first")
    b.send(CompactSent())
    settles(b)
    b.prompt("two")
    b.send(CompactionEnded(_compaction(b), (user_message("two"),), 2, "shorter"))
    b.send(CompactSent())
    b.answers("", call("look", path="a"))
    b.returns(_calls(b)[0])
    settles(b)
    b.send(SteerSent("rather this"))
    b.send(CompactionEnded(_compaction(b), tuple(b.state.history), 0, "nothing"))
    b.answers("second")


def _steered(b: Bench) -> None:
    b.prompt()
    b.begins()
    b.send(SteerSent("rather this", "now", Partial("so")))
    b.begins()
    b.send(SteerSent("and that"))
    b.answers("", call("edit", path="a"), call("keep"), call("solo"))
    b.send(SteerSent("no, this"))
    b.send(ToolStopped(_calls(b)[0], 1))
    b.returns(_calls(b)[1])
    b.answers("that is all")


def _immune(b: Bench) -> None:
    b.prompt("one")
    b.answers("", call("keep"), call("edit", path="a"), call("keep"))
    first = _calls(b)
    b.send(AbortSent())
    b.fires("grace")
    b.prompt("two")
    b.begins()
    b.returns(first[0])
    b.answers("", call("keep"), call("edit", path="b"))
    b.send(ToolStopped(first[1], 1))
    b.returns(_calls(b)[0])
    b.returns(first[2])
    b.returns(_calls(b)[1])
    b.answers("that is all")


def _question(b: Bench) -> None:
    b.prompt()
    b.answers("", call("keep"), call("look", path="a"))
    b.returns("c3", Effect(AskPerson("which?")))
    b.returns("c4")
    b.prompt("later")
    b.send(RespondSent("s:q5", "that"))
    b.answers("that is all")
    b.answers("that too")


def _superseded(b: Bench) -> None:
    b.prompt()
    b.answers("", call("edit", path="a"))
    b.prompt("never mind")
    b.answers("", call("edit", path="a"))
    b.fires("hold:s:a8")
    b.answers("that is all")


def _crowded(b: Bench) -> None:
    b.prompt()
    b.answers("", call("look", path="a"), call("edit", path="a"), call("store"))
    b.send(ToolRaised("c3", 1, "OSError"))
    b.returns("c3", attempt=2)
    b.returns("c4")
    b.returns("c5")
    b.answers("that is all")


def _changed(b: Bench) -> None:
    b.prompt()
    b.send(AttachPluginSent(b.attach(OTHER)))
    b.send(UpdatePluginSent(b.attach(OTHER, 1), FrozenObject(level=1)))
    b.prompt("two")
    b.answers("first")
    b.answers("second")


def _timed(b: Bench) -> None:
    b.prompt()
    b.begins()
    b.answers("", call("edit", path="a"), call("look", path="a"))
    b.returns("c4")
    b.send(ApproveSent("s:a5"))
    b.fires("call:c3")
    b.answers("", call("look", path="b"))
    b.fires("turn")


def _tool_for_a_plugin(b: Bench) -> None:
    b.prompt()
    settles(b)
    b.answers("that is all")


SCRIPTS: Final[Mapping[str, Script]] = {
    "text": Script(_text),
    "tools": Script(_tools),
    "queue waiting": Script(_queued),
    "held": Script(_held, lambda: (holds("edit"),), Options(on_prompt_while_held="queue")),
    "asked in one turn": Script(
        _asked,
        lambda: (
            asks_at(
                "before_prompt",
                "before_request",
                "after_response",
                "before_tool",
                "on_tool_error",
                "after_tool",
                "after_tool_batch",
                "before_finish",
            ),
        ),
    ),
    "asked at the start": Script(_starting, lambda: (asks_at("session_start"),)),
    "asked after a turn": Script(_after_turn, lambda: (asks_at("after_turn"),)),
    "asked for a tool": Script(
        _tool_for_a_plugin,
        lambda: (plug("Runs", before_prompt=lambda hook, _s, _c: Continue() if hook.answer else Ask(RunTool("look"))),),
    ),
    "retry": Script(_retried),
    "stalled": Script(_stalled),
    "overflow": Script(_overflowed),
    "compaction": Script(_compacted, lambda: (asks_at("before_compact"),)),
    "steer": Script(_steered),
    "immune and lingering": Script(_immune),
    "question": Script(_question, options=Options(on_prompt_while_held="queue")),
    "superseded": Script(_superseded, lambda: (holds("edit"),)),
    "crowded": Script(_crowded, options=Options(max_parallel_tools=1)),
    "plugins waiting": Script(_changed),
    "time limits": Script(
        _timed,
        lambda: (plug("Holds", before_tool=lambda h, _s, _c: HoldTool("?") if h.name == "edit" else Continue()),),
        Options(max_turn_seconds=300.0),
    ),
}
