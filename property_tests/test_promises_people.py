"""What people are promised: what they approved is what runs, their words keep their order, their decisions count."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrail import Abort, BlockTool, Continue, Emit, HoldTool, Options, ReplaceToolArgs, Skip
from agentrail.core.vocabulary.effects import StartCall
from agentrail.events import AgentEnd, AgentResumed, ApprovalRequired, ApprovalResolved, PromptReceived, RequestStart
from agentrail.models import FrozenObject, JsonObject
from agentrail.plugins import AnyPlugin
from agentrail.values.json import canonical
from tests.cells.bench import Bench, Got, call, plug
from tests.cells.scenes import holds, streaming
from tests.kit import ApproveSent, Phase, RejectSent

ANSWERS: Final = (
    Continue(),
    HoldTool("a", timeout=None),
    HoldTool("b", timeout=None, family="f"),
    ReplaceToolArgs({"path": "b"}),
    ReplaceToolArgs({"path": "c"}),
    ReplaceToolArgs({"path": 1}),
    ReplaceToolArgs({"path": True}),
    ReplaceToolArgs({"bad": 1}),
    Emit("seen"),
    Skip(),
    BlockTool("no"),
    Abort("no"),
)
EDITS: Final[tuple[JsonObject | None, ...]] = (
    None,
    None,
    FrozenObject(path="a"),
    FrozenObject(path="b"),
    FrozenObject(path="edited"),
    FrozenObject(path=1),
    FrozenObject(path=1.0),
    FrozenObject(bad=1),
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[AnyPlugin, ...]:
    """A row of plugins that rule on calls, guards among them; each gives its answers in turn."""

    def plugin(number: int) -> AnyPlugin:
        answers = draw(st.lists(st.sampled_from(ANSWERS), min_size=1, max_size=3))

        def answer(_hook: object, state: object, _ctx: object) -> object:
            assert isinstance(state, int)
            return answers[state % len(answers)].but(state=state + 1)

        return plug(
            f"P{number}",
            before_tool=answer,
            first=0,
            priority=draw(st.sampled_from((5, 150, 900))),
            critical=draw(st.booleans()),
        )

    return tuple(plugin(number) for number in range(draw(st.integers(1, 4))))


class Consent:
    """Keeps which arguments people approved for which call, and checks each step against that."""

    def __init__(self) -> None:
        self.held: dict[str, tuple[str, JsonObject]] = {}
        self.agreed: dict[str, str] = {}
        self.ever: set[str] = set()

    def decides(self, approval: str, args: JsonObject | None) -> None:
        """Note that a person approved the call *approval*, with *args* if they were edited."""
        call_id, asked = self.held[approval]
        self.agreed[call_id] = canonical(asked if args is None else args)

    def sees(self, got: Got) -> None:
        """Check that a held call starts only with the arguments that were approved."""
        for event in got.events:
            if isinstance(event, ApprovalRequired):
                self.held[event.approval_id] = (event.call_id, event.args)
                self.ever.add(event.call_id)
                self.agreed.pop(event.call_id, None)
            elif isinstance(event, ApprovalResolved):
                self.held.pop(event.approval_id)
        for effect in got.step.effects:
            if isinstance(effect, StartCall) and effect.call_id in self.ever:
                assert self.agreed.get(effect.call_id) == canonical(effect.args), f"{effect} was not approved"


@given(rows(), st.lists(st.tuples(st.integers(0, 9), st.sampled_from(EDITS), st.booleans()), max_size=12))
def test_what_was_approved_is_what_ran(
    plugins: tuple[AnyPlugin, ...], decisions: list[tuple[int, JsonObject | None, bool]]
) -> None:
    bench = streaming(*plugins)
    consent = Consent()
    consent.sees(bench.answers("", call("look", path="a"), call("edit", path="a")))
    for which, edit, approves in decisions:
        waiting = [c.hold.approval_id for c in bench.state.waiting_calls if c.hold is not None]
        if not waiting:
            break
        approval = waiting[which % len(waiting)]
        if approves:
            consent.decides(approval, edit)
            consent.sees(bench.send(ApproveSent(approval, edit)))
        else:
            consent.sees(bench.send(RejectSent(approval)))


@pytest.mark.parametrize(
    ("first", "second", "resume_first", "resume_second"),
    list(product(("approve", "reject"), ("approve", "reject"), (False, True), (False, True))),
)
def test_two_held_calls_and_two_decisions(first: str, second: str, resume_first: bool, resume_second: bool) -> None:
    bench = streaming(holds(timeout=None))
    bench.answers("", call("look", path="a"), call("edit", path="b"))
    for approval, how, resume in (("s:a5", first, resume_first), ("s:a6", second, resume_second)):
        if how == "approve":
            bench.send(ApproveSent(approval, auto_resume=resume))
            bench.returns("c3" if approval == "s:a5" else "c4")
        else:
            bench.send(RejectSent(approval, auto_resume=resume))
    events = [event for got in bench.got for event in got.events]
    resumed = [event.trigger for event in events if isinstance(event, AgentResumed)]
    stops = [event.reason for event in events if isinstance(event, AgentEnd)]
    requests = sum(isinstance(event, RequestStart) for event in events)
    if resume_first or resume_second:
        trigger = "tool_approved" if second == "approve" else "tool_rejected"
        assert (resumed, stops, requests, bench.state.phase) == ([trigger], [], 2, Phase.RUNNING)
    else:
        assert (resumed, stops, requests, bench.state.phase) == ([], ["left"], 1, Phase.IDLE)


@given(st.integers(0, 4), st.integers(0, 4), st.booleans(), st.sampled_from(("supersede", "queue")))
def test_prompts_queued_before_and_sent_during_a_rest_keep_their_order(
    before: int, during: int, resumes: bool, how: str
) -> None:
    bench = streaming(holds(timeout=None), options=Options(on_prompt_while_held=how))
    texts = [f"early {number}" for number in range(before)]
    for text in texts:
        bench.prompt(text)
    bench.answers("", call("look", path="a"))
    assert bench.state.phase is Phase.IDLE, "whoever sent a prompt has not seen the question"
    assert [prompt.text for prompt in bench.state.queue] == texts
    for number in range(during):
        texts.append(f"late {number}")
        bench.prompt(texts[-1])
    held = [c.hold.approval_id for c in bench.state.waiting_calls if c.hold is not None]
    assert bool(held) == (how == "queue" or not during)
    for approval in held:
        bench.send(RejectSent(approval, auto_resume=resumes))
    while bench.state.request is not None:
        bench.answers("done")
    assert [event.text for got in bench.got for event in got.events if isinstance(event, PromptReceived)][1:] == texts
    assert (bench.state.phase, bench.state.queue) == (Phase.IDLE, ())


def test_the_bench_of_these_promises_is_the_one_of_the_cells() -> None:
    assert isinstance(streaming(), Bench)
