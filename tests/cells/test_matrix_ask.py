"""Each hook at which a plugin may ask: the hook waits, and what the step did before stays."""

from collections.abc import Callable, Mapping
from typing import Final

import pytest
from attrs import field, frozen

from agentrail import Accepted, Ask, Continue, Prompt, State
from agentrail.core.context_window import tokens_of
from agentrail.core.vocabulary.commands import Answer
from agentrail.core.vocabulary.effects import AnyEffect, CarryOut, ClearTimer, SetTimer
from agentrail.core.vocabulary.inputs import AskSettled
from agentrail.core.vocabulary.state import Compaction, Suspension
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.events import AgentEnd, AskAnswered, AskStarted, BeforeCompact, Event, ResponseComplete, ToolCalls
from agentrail.hooks.ruling import Decisions, Pause, Position
from agentrail.models import History, Text, ToolCall
from agentrail.plugins import (
    AfterResponse,
    AfterTool,
    AfterToolBatch,
    AfterTurn,
    Answered,
    BeforeCompaction,
    BeforeFinish,
    BeforePrompt,
    BeforeRequest,
    BeforeTool,
    CallService,
    Hook,
    OnToolError,
    SessionStart,
)
from agentrail.tools import ok
from tests.cells.bench import NOW, Now, ruled, with_call
from tests.cells.hook_cells import HOOK_CELLS, Expected, probe
from tests.cells.scenes import path, ran, replied, result, starts, turn, user_message
from tests.cells.tables import ACCEPTED
from tests.kit import DONE, NOTHING_USED, Phase, Ruling, Verdict

LOOKUP: Final = CallService("lookup")
BYE: Final = replied("bye")
SPOKEN: Final = (user_message(), BYE)
CLEARED: Final = (ClearTimer("call:c3"),)


@frozen
class Waiting:
    """A hook that waits, and what the step did before."""

    hook: Hook
    ref: str = ""
    answer: Answer | None = None
    ids: int = 0
    events: tuple[Event | Now, ...] = ()
    effects: tuple[AnyEffect, ...] = ()
    rulings: tuple[Ruling, ...] = ()
    changes: Expected = field(factory=dict)


def _session_start(_: State) -> Waiting:
    first = (Ruling("init", states=((0, 0),)),)
    return Waiting(SessionStart(), answer=DONE, rulings=first, changes={"phase": Phase.RUNNING})


def _after_turn(old: State) -> Waiting:
    return Waiting(
        AfterTurn("finished", None, None, SPOKEN, NOTHING_USED, NOW, NOW),
        events=(ResponseComplete(BYE), AgentEnd("p1", "end", SPOKEN, NOTHING_USED)),
        rulings=ruled("after_response", "before_finish"),
        changes={**_spoken(old), "phase": Phase.RUNNING, "turn": turn(ended="finished")},
    )


def _before_prompt(_: State) -> Waiting:
    taking = Prompt("p1", (Text("hello"),))
    return Waiting(
        BeforePrompt("hello", "p1"),
        answer=Accepted("p1", "started"),
        ids=1,
        changes={"next_prompt": taking, "phase": Phase.RUNNING},
    )


def _before_request(_: State) -> Waiting:
    history = History((user_message(),))
    return Waiting(
        BeforeRequest(history),
        answer=Accepted("p1", "started"),
        ids=1,
        events=tuple(starts("p1", "r2")[:-1]),
        rulings=ruled("before_prompt"),
        changes={"phase": Phase.RUNNING, "turn_count": 1, "round": 1, "turn": turn(), "history": history},
    )


def _after_response(old: State) -> Waiting:
    return Waiting(AfterResponse(BYE), changes=_spoken(old))


def _before_finish(old: State) -> Waiting:
    return Waiting(
        BeforeFinish(),
        events=(ResponseComplete(BYE),),
        rulings=ruled("after_response"),
        changes={**_spoken(old), "phase": Phase.RUNNING},
    )


def _spoken(old: State) -> Expected:
    return {"last_text": "bye", "request": None, "history": old.history.and_(BYE)}


def _before_compact(old: State) -> Waiting:
    return Waiting(
        BeforeCompaction(old.history, "room"),
        answer=DONE,
        ids=1,
        events=(BeforeCompact(2, "room"),),
        changes={"phase": Phase.RUNNING, "compaction": Compaction("k3", "room", tokens=tokens_of(old), by="caller")},
    )


def _before_tool(old: State) -> Waiting:
    asks = replied("", ToolCall("c3", "look", path()))
    ruled_on = HOOK_CELLS["before_tool"].baseline().step.state
    assert ruled_on.batch is not None
    waiting = ruled_on.batch.calls[0].but(status=CallStatus.RULING, started_at=0)
    return Waiting(
        BeforeTool("look", path(), "c3"),
        "c3",
        ids=1,
        events=(ResponseComplete(asks), ToolCalls(1)),
        rulings=ruled("after_response", "check"),
        changes={
            "phase": Phase.EXECUTING_TOOLS,
            "last_text": "",
            "request": None,
            "turn": ruled_on.turn,
            "batch": with_call(ruled_on.batch, waiting),
            "history": old.history.and_(asks),
        },
    )


def _call_is(old: State, **changes: object) -> Expected:
    assert old.batch is not None
    return {"batch": with_call(old.batch, old.batch.calls[0].but(**changes))}


def _on_tool_error(old: State) -> Waiting:
    broken = _call_is(old, status=CallStatus.FAILED, error="OSError: no")
    return Waiting(OnToolError("look", "c3", "OSError: no", 1), "c3", effects=CLEARED, changes=broken)


def _after_tool(old: State) -> Waiting:
    returned = _call_is(old, status=CallStatus.RETURNED, answer=ok("done"))
    report = tuple(ran("c3", "look"))
    return Waiting(
        AfterTool("look", "c3", ok("done"), path("a"), max_result_chars=30_000),
        "c3",
        events=report,
        effects=CLEARED,
        changes=returned,
    )


def _after_tool_batch(old: State) -> Waiting:
    return Waiting(
        AfterToolBatch((result("c3", "look"),)),
        events=tuple(ran("c3", "look")),
        effects=CLEARED,
        rulings=ruled("after_tool"),
        changes=_call_is(old, status=CallStatus.DONE, result=result("c3", "look")),
    )


WAITING: Final[Mapping[str, Callable[[State], Waiting]]] = {
    "session_start": _session_start,
    "after_turn": _after_turn,
    "before_prompt": _before_prompt,
    "before_request": _before_request,
    "after_response": _after_response,
    "before_tool": _before_tool,
    "on_tool_error": _on_tool_error,
    "after_tool": _after_tool,
    "after_tool_batch": _after_tool_batch,
    "before_finish": _before_finish,
    "before_compact": _before_compact,
}


def test_an_ask_may_take_ten_seconds_unless_it_says_otherwise() -> None:
    assert Ask(LOOKUP).deadline == 10.0
    asks = probe("before_prompt", lambda hook, _s, _c: Ask(LOOKUP, deadline=0.5) if hook.answer is None else Continue())
    _, got = HOOK_CELLS["before_prompt"].fire(asks)
    assert got.step.effects[-1] == SetTimer("ask:ask2", NOW + 500)


@pytest.mark.parametrize(("hook", "action"), sorted((hook, action) for hook, action in ACCEPTED if action == "ask"))
def test_a_hook_waits_for_what_its_plugin_asks_for(hook: str, action: str) -> None:
    assert action == "ask"
    cell = HOOK_CELLS[hook]
    asks = probe(hook, lambda request, _s, _c: Ask(LOOKUP, 1) if request.answer is None else Continue(2))
    bench, got = cell.fire(asks)
    waiting = WAITING[hook](got.before)
    ask_id = f"ask{got.before.last_id + waiting.ids + 1}"
    decisions = Decisions(asks=(("P", 1),))
    pause = Pause(Position(0), LOOKUP, 10.0)
    got.expect_only(
        answer=waiting.answer,
        ids=waiting.ids + 1,
        events=[*waiting.events, AskStarted(ask_id, "P", hook, "CallService")],
        effects=[
            *waiting.effects,
            CarryOut(ask_id, "P", LOOKUP, "m", f"s/{ask_id}"),
            SetTimer(f"ask:{ask_id}", NOW + 10_000),
        ],
        rulings=[*waiting.rulings, Ruling(hook, Verdict.ASK, "P", decisions=decisions, states=((0, 1),), pause=pause)],
        plugin_states=(1,),
        suspended_runs=(Suspension(ask_id, waiting.hook, waiting.ref, "P", pause, decisions),),
        **waiting.changes,
    )
    done = bench.send(AskSettled(ask_id, Answered("yes")))
    assert done.events[0] == AskAnswered(ask_id, "P", "ok")
    assert done.step.effects[0] == ClearTimer(f"ask:{ask_id}")
    assert done.step.rulings[0] == Ruling(hook, decisions=decisions, states=((0, 2),))
    base = cell.baseline().step.state
    assert (bench.state.phase, bench.state.suspended_runs) == (base.phase, ())
    assert (bench.state.history, bench.state.plugin_states) == (base.history, (2,))
