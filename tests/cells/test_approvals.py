"""Held calls: the approved arguments are those that run, and what a person can decide."""

from typing import Final

import pytest

from agentrail import BlockTool, Continue, HoldTool, Intervene, Options, ReplaceToolArgs
from agentrail.core.vocabulary.effects import ClearTimer
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.errors import UnknownApproval, UsageError, WrongDecision
from agentrail.events import (
    AgentEnd,
    AgentResumed,
    ApprovalRequired,
    ApprovalResolved,
    PluginEvent,
    RequestStart,
    ToolApprovedAlways,
    ToolBlocked,
)
from agentrail.hooks.ruling import Position
from agentrail.models import FrozenObject
from agentrail.plugins import AnyPlugin, BeforeTool, Hook
from tests.cells.bench import NOW, Bench, Now, call, plug, ruled, with_call
from tests.cells.scenes import (
    executing,
    failed,
    holds,
    limit,
    out,
    path,
    ran,
    request,
    resting,
    result,
    run,
    shown,
    start,
    streaming,
)
from tests.kit import DONE, NOTHING_USED, ApproveSent, Phase, Refused, RejectSent, SteerSent, TimerFired


def noting(name: str, seen: list[str], *answers: object, priority: int = 900) -> AnyPlugin:
    """Return a plugin that notes the calls it is asked about, and gives *answers* one after the other."""
    value = iter(answers)

    def answer(hook: Hook, _s: object, _c: object) -> object:
        assert isinstance(hook, BeforeTool)
        seen.append(f"{name}{' approved' if hook.approved else ''}")
        return next(value, Continue())

    return plug(name, before_tool=answer, priority=priority)


def held(*plugins: AnyPlugin, family: str | None = None) -> Bench:
    """Return a session whose call c3 to `edit`, with path a, is held by `Holds` as s:a4; it has *plugins* too."""
    bench = streaming(holds("edit", timeout=None, family=family), *plugins)
    bench.answers("", call("edit", path="a"))
    return bench


# Behind the holder


def test_approval_resumes_the_pipeline_behind_the_holder() -> None:
    seen: list[str] = []
    bench = held(noting("Before", seen, priority=5), noting("Behind", seen))
    assert seen == ["Before"]
    bench.send(ApproveSent("s:a4"))
    assert seen == ["Before", "Behind approved"]
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "edit", path()))


def test_a_later_plugin_may_still_block_an_approved_call() -> None:
    bench = held(plug("Behind", before_tool=BlockTool("no")))
    bench.send(ApproveSent("s:a4"))
    assert ToolBlocked("c3", "edit", "no", "Behind") in bench.got[-1].events
    assert bench.state.history[-1] == failed("c3", "edit", "blocked by Behind: no")


def test_a_later_plugin_may_hold_the_approved_call_again() -> None:
    bench = held(plug("Second", before_tool=HoldTool("sure?", timeout=None)))
    bench.send(ApproveSent("s:a4"))
    assert bench.got[-1].events[-1] == shown(
        ApprovalRequired("s:a5", "c3", "edit", path(), "sure?", "Second", NOW, None)
    )
    assert bench.state.phase is Phase.IDLE
    bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(UnknownApproval("s:a4", "`s:a5`")))
    bench.send(ApproveSent("s:a5"))
    assert bench.got[-1].step.effects == (limit("c3"), start("c3", "edit", path()))


def test_what_was_accumulated_before_a_hold_stands_when_it_goes_on() -> None:
    first = plug("First", before_tool=ReplaceToolArgs({"path": "b"}).emitting("early"), priority=5)
    bench = held(first)
    *_, early, asked_value = bench.got[-1].events
    assert isinstance(asked_value, ApprovalRequired)
    assert asked_value.args == path("b")
    assert early == PluginEvent("First", "early", None)
    bench.send(ApproveSent("s:a4"))
    assert bench.got[-1].events == [
        ApprovalResolved("s:a4", "c3", "edit", "approved"),
        run("c3", "edit", path("b")),
    ]


# Edited arguments


def test_edited_arguments_start_again_at_the_first_plugin_and_the_holder_lets_them_pass() -> None:
    seen: list[str] = []
    bench = held(noting("Before", seen, priority=5), noting("Behind", seen))
    old = bench.state
    assert old.batch is not None
    edited = bench.call("c3").but(
        status=CallStatus.RUNNING,
        hold=None,
        args=path("b"),
        approved=path("b"),
        holders=frozenset({"Holds"}),
        position=Position(),
        started_at=NOW,
    )
    bench.send(ApproveSent("s:a4", path("b"))).expect_only(
        answer=DONE,
        events=[ApprovalResolved("s:a4", "c3", "edit", "approved", edited=True), run("c3", "edit", path("b"))],
        effects=[limit("c3"), start("c3", "edit", path("b"))],
        rulings=ruled("check", "before_tool"),
        phase=Phase.EXECUTING_TOOLS,
        batch=with_call(old.batch.but(decisions=(("tool_approved", True),)), edited),
    )
    assert seen == ["Before", "Before approved", "Behind approved"]


def test_edited_arguments_must_fit_the_schema() -> None:
    bench = held()
    bench.send(ApproveSent("s:a4", FrozenObject(bad=1))).expect_only(
        answer=Refused.of(UsageError("bad-arguments", "edit", "the arguments do not fit `edit`: $.bad: not wanted")),
        rulings=bench.got[-1].step.rulings,
    )
    assert bench.state.phase is Phase.IDLE


def test_a_guard_rules_on_edited_arguments_too() -> None:
    guard = plug(
        "Guard",
        before_tool=lambda hook, _s, _c: BlockTool("no") if hook.args["path"] == "b" else Continue(),
        priority=5,
    )
    bench = held(guard)
    bench.send(ApproveSent("s:a4", path("b")))
    assert ToolBlocked("c3", "edit", "no", "Guard") in bench.got[-1].events


def test_arguments_that_are_the_same_are_not_edited() -> None:
    bench = held()
    bench.send(ApproveSent("s:a4", FrozenObject(path="a")))
    assert bench.got[-1].events[0] == ApprovalResolved("s:a4", "c3", "edit", "approved", edited=False)


# What was approved is what runs


def test_a_call_whose_arguments_were_changed_after_approval_is_held_again() -> None:
    changes = plug("Changes", before_tool=ReplaceToolArgs({"path": "b"}).emitting("changed"))
    bench = held(changes)
    bench.send(ApproveSent("s:a4"))
    assert bench.got[-1].events == [
        ApprovalResolved("s:a4", "c3", "edit", "approved"),
        PluginEvent("Changes", "changed", None),
        shown(
            ApprovalRequired(
                "s:a5", "c3", "edit", path("b"), "Changes changed the arguments after approval", "Changes", NOW, None
            )
        ),
    ]
    assert bench.got[-1].step.effects == ()
    assert bench.state.phase is Phase.IDLE
    bench.send(ApproveSent("s:a5"))
    assert bench.got[-1].events == [
        ApprovalResolved("s:a5", "c3", "edit", "approved"),
        run("c3", "edit", path("b")),
    ]


def test_arguments_that_do_not_fit_are_never_put_before_a_person() -> None:
    changes = plug("Changes", before_tool=ReplaceToolArgs({"bad": 1}).emitting("changed"), priority=5)
    bench = held(changes)
    failure = failed("c3", "edit", "the arguments do not fit `edit`: $.bad: not wanted")
    assert bench.state.history[-1] == failure
    assert PluginEvent("Changes", "changed", None) in bench.got[-1].events


def test_an_approval_is_used_once() -> None:
    bench = held()
    bench.send(ApproveSent("s:a4"))
    bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(UnknownApproval("s:a4", "none")))
    bench.send(RejectSent("s:a4")).expect_only(answer=Refused.of(UnknownApproval("s:a4", "none")))
    bench.returns("c3")
    bench.answers("", call("edit", path="a"))
    assert isinstance(bench.got[-1].events[-1], ApprovalRequired)


# Always


def test_always_adds_the_tool_and_its_family() -> None:
    bench = held(family="git")
    bench.send(ApproveSent("s:a4", always=True))
    assert bench.got[-1].events[:2] == [
        ToolApprovedAlways("edit", "git"),
        ApprovalResolved("s:a4", "c3", "edit", "approved"),
    ]
    assert bench.state.approved_always == {("edit", "git")}
    bench.returns("c3")
    bench.answers("", call("edit", path="z"))
    assert bench.got[-1].step.effects[-1] == start("c6", "edit", path("z"))


def test_a_listed_call_passes_a_hold_never_a_block() -> None:
    bench = held(plug("Blocks", before_tool=BlockTool("no")), family="git")
    bench.send(ApproveSent("s:a4", always=True))
    bench.answers("", call("edit", path="z"))
    assert ToolBlocked("c6", "edit", "no", "Blocks") in bench.got[-1].events


def test_another_tool_or_family_is_still_held() -> None:
    bench = streaming(holds("edit", "store", timeout=None, family="git"))
    bench.answers("", call("edit", path="a"))
    bench.send(ApproveSent("s:a4", always=True))
    bench.returns("c3")
    bench.answers("", call("store"))
    assert isinstance(bench.got[-1].events[-1], ApprovalRequired)


def test_without_a_family_always_is_refused() -> None:
    held().send(ApproveSent("s:a4", always=True)).expect_only(answer=Refused.of(UsageError("no-family", "s:a4")))


def test_edited_arguments_are_not_approved_for_always() -> None:
    what = "a call that would run with other arguments than its family was named for"
    without = "`session.approve` with these arguments, without `always`"
    refused = WrongDecision("s:a4", "always approve", what, without)
    held(family="git").send(ApproveSent("s:a4", path("b"), always=True)).expect_only(answer=Refused.of(refused))


# Time


def test_after_two_minutes_the_call_is_not_approved_and_the_model_goes_on() -> None:
    assert HoldTool("x").timeout == 120.0
    bench = resting(timeout=120.0)
    old = bench.state
    failure = failed("c3", "edit", "not approved: nobody decided in time")
    assert old.timers == (("hold:s:a4", NOW + 120_000),)
    bench.fires("hold:s:a4").expect_only(
        ids=1,
        events=[
            ApprovalResolved("s:a4", "c3", "edit", "timeout", "nobody decided in time"),
            AgentResumed("tool_approval_timeout"),
            Now(1, 2),
            RequestStart("r5", "m", 3, 1),
        ],
        effects=[request(old, "r5", failure)],
        rulings=ruled("after_tool_batch", "before_request"),
        phase=Phase.RUNNING,
        round=2,
        batch=None,
        request=out("r5"),
        history=old.history.and_(failure),
    )
    bench.send(TimerFired("hold:s:a4")).expect_nothing()
    bench.send(ApproveSent("s:a4")).expect_only(answer=Refused.of(UnknownApproval("s:a4", "none")))


def test_a_hold_without_a_limit_waits_for_ever() -> None:
    assert resting(timeout=None).state.timers == ()


# Two held calls


TRIGGERS: Final = {"approve": "tool_approved", "reject": "tool_rejected"}


def decide(bench: Bench, approval: str, how: str, *, resume: bool) -> None:
    if how == "approve":
        bench.send(ApproveSent(approval, auto_resume=resume))
    else:
        bench.send(RejectSent(approval, auto_resume=resume))


def test_the_model_goes_on_if_any_decision_resumes() -> None:
    for first in ("approve", "reject"):
        for second in ("approve", "reject"):
            for resumes in ((False, False), (False, True), (True, False), (True, True)):
                two_decisions(first, second, resumes)


def two_decisions(first: str, second: str, resumes: tuple[bool, bool]) -> None:
    bench = streaming(holds("edit", timeout=None))
    bench.answers("", call("edit", path="a"), call("edit", path="b"))
    decide(bench, "s:a5", first, resume=resumes[0])
    decide(bench, "s:a6", second, resume=resumes[1])
    for call_id, how in (("c3", first), ("c4", second)):
        if how == "approve":
            bench.returns(call_id)
    resumed = [event for got in bench.got for event in got.events if isinstance(event, AgentResumed)]
    ended = [event.reason for got in bench.got for event in got.events if isinstance(event, AgentEnd)]
    if any(resumes):
        assert (resumed, ended) == ([AgentResumed(TRIGGERS[second])], [])
        assert bench.state.phase is Phase.RUNNING
    else:
        assert (resumed, ended) == ([], ["left"])
        assert bench.state.phase is Phase.IDLE
    results = [message.is_error for message in list(bench.state.history)[2:4]]  # type: ignore[union-attr]  # results
    assert results == [first == "reject", second == "reject"]


def test_a_rest_begins_only_when_all_other_calls_have_their_results() -> None:
    bench = executing(call("look", path="a"), call("edit", path="a"), plugins=(holds("edit", timeout=None),))
    assert bench.state.phase is Phase.EXECUTING_TOOLS
    old = bench.state
    assert old.batch is not None
    done = bench.call("c3").but(status=CallStatus.DONE, answer=None, result=result("c3", "look"))
    bench.returns("c3").expect_only(
        events=ran("c3", "look"),
        effects=[ClearTimer("call:c3")],
        rulings=ruled("after_tool"),
        phase=Phase.IDLE,
        batch=with_call(old.batch, done),
    )
    bench.send(RejectSent("s:a5", auto_resume=True))
    assert bench.got[-1].events[1] == AgentResumed("tool_rejected")


def test_a_turn_that_nobody_resumes_is_left_and_the_next_prompt_is_taken() -> None:
    bench = streaming(holds("edit", timeout=None), options=Options(on_prompt_while_held="queue"))
    bench.answers("", call("edit", path="a"))
    bench.prompt("next")
    bench.send(RejectSent("s:a4"))
    events = bench.got[-1].events
    assert events[1] == AgentEnd("p1", "left", tuple(bench.state.history)[:3], NOTHING_USED)
    assert events[-1] == RequestStart("r6", "m", 4, 1)


# Prompts around a rest


def test_prompts_queued_before_the_rest_wait_and_one_sent_during_it_supersedes() -> None:
    bench = streaming(holds("edit", timeout=None))
    bench.prompt("early")
    bench.answers("", call("edit", path="a"))
    assert bench.state.phase is Phase.IDLE
    assert [prompt.text for prompt in bench.state.queue] == ["early"]
    bench.prompt("during")
    assert [prompt.text for prompt in bench.state.queue] == ["during"]
    assert bench.state.history[-1].text == "early"
    assert ApprovalResolved("s:a5", "c4", "edit", "superseded") in bench.got[-1].events


def test_steering_from_before_the_rest_waits_like_a_prompt_and_is_merged_when_all_is_decided() -> None:
    for how, resume in (("approve", True), ("approve", False), ("reject", True), ("reject", False)):
        bench = streaming(holds("edit", timeout=None))
        bench.send(SteerSent("rather this"))
        bench.answers("", call("edit", path="a"))
        assert (bench.state.phase, len(bench.state.steering)) == (Phase.IDLE, 1)
        decide(bench, "s:a5", how, resume=resume)
        if how == "approve":
            bench.returns("c4")
        assert bench.state.history[-1].text == "rather this"
        resumed = [event for event in bench.got[-1].events if isinstance(event, AgentResumed)]
        assert resumed == ([AgentResumed(TRIGGERS[how])] if resume else [])


@pytest.mark.parametrize("how", ["approve", "reject"])
def test_interventions_of_a_held_batch_come_behind_its_results(how: str) -> None:
    bench = held(plug("After", after_tool_batch=Intervene("note")))
    decide(bench, "s:a4", how, resume=True)
    if how == "approve":
        bench.returns("c3")
    assert bench.state.history[-1].text == "note"
