"""A call that was stopped half-way and is made again: a person decides."""

from collections.abc import Callable

import pytest

from agentrail import Ask, Continue, Emit, HoldTool, Options, Plugin, ReplaceToolArgs
from agentrail.core.machine.approvals import END_DOUBT, STOPPED_CALL
from agentrail.core.machine.in_doubt_calls import HOLDER, MOST, TURNS_KEPT
from agentrail.core.vocabulary.commands import Command, RespondSent
from agentrail.core.vocabulary.effects import ClearTimer, StartCall
from agentrail.core.vocabulary.inputs import ToolRaised, ToolStopped
from agentrail.core.vocabulary.tool_calls import Doubt
from agentrail.errors import AgentrailError, RefusedError, UnknownApproval, WrongDecision
from agentrail.events import ApprovalRequired, ApprovalResolved, Envelope, Event, PluginEvent, ToolExecutionStart
from agentrail.models import FrozenObject, ToolCall
from agentrail.plugins import BeforeTool, Failed, Hook, RunTool
from tests.cells.bench import Bench, call, plug
from tests.cells.scenes import executing, failed, limit, path, run, shown, start, unknown
from tests.kit import DONE, AbortSent, ApproveSent, Phase, Refused, RejectSent, SteerSent, StopSent

EDITING = call("edit", path="a")
DOUBT = unknown("c3", "edit", path())
HINT = "the same call (`c3`) was stopped before, and may have taken effect; find out before you let it run again"


def aborted(bench: Bench) -> None:
    bench.send(AbortSent())
    bench.send(ToolStopped("c3", 1))


def aborted_in_the_background(bench: Bench) -> None:
    bench.send(AbortSent(kill_tools="none"))
    bench.send(AbortSent(kill_tools="all"))


def steered(bench: Bench) -> None:
    bench.send(SteerSent("rather this"))
    bench.answers("as you say")


def timed_out(bench: Bench) -> None:
    bench.fires("call:c3")
    bench.answers("so be it")


def timed_out_in_the_background(bench: Bench) -> None:
    bench.send(AbortSent(kill_tools="none"))
    bench.fires("call:c3")


def cancelled(bench: Bench) -> None:
    bench.send(ToolStopped("c3", 1))
    bench.answers("so be it")


STOPPED = [aborted, aborted_in_the_background, steered, timed_out, timed_out_in_the_background, cancelled]


def again(bench: Bench, *calls: ToolCall) -> list[Event]:
    """Let the model make *calls* in a new turn, and return the events."""
    bench.prompt("once more")
    bench.answers("", *(calls or (EDITING,)))
    return bench.got[-1].events


def asked_of(events: list[Event]) -> list[ApprovalRequired]:
    return [event for event in events if isinstance(event, ApprovalRequired)]


def stopped(stop: Callable[[Bench], None] = aborted, options: Options | None = None) -> Bench:
    bench = executing(EDITING, options=options)
    stop(bench)
    return bench


@pytest.mark.parametrize("stop", STOPPED)
def test_the_same_call_is_held_after_one_that_was_stopped(stop: Callable[[Bench], None]) -> None:
    bench = stopped(stop)
    assert bench.state.in_doubt_calls == (DOUBT,)
    (request,) = asked_of(again(bench))
    assert request == shown(
        ApprovalRequired(
            request.approval_id, request.call_id, "edit", path(), HINT, HOLDER, bench.now, bench.now + 120_000
        )
    )
    assert bench.state.phase is Phase.IDLE


def test_an_approval_lets_it_run_and_ends_the_doubt() -> None:
    bench = stopped()
    (request,) = asked_of(again(bench))
    bench.send(ApproveSent(request.approval_id))
    assert bench.got[-1].events == [
        ApprovalResolved(request.approval_id, request.call_id, "edit", "approved"),
        run(request.call_id, "edit", path()),
    ]
    assert bench.got[-1].step.effects == (
        ClearTimer(f"hold:{request.approval_id}"),
        limit(request.call_id),
        start(request.call_id, "edit", path()),
    )
    assert bench.state.in_doubt_calls == ()
    bench.returns(request.call_id)
    bench.answers("done")
    assert asked_of(again(bench)) == []


def test_one_that_is_stopped_again_is_in_doubt_again() -> None:
    bench = stopped()
    (request,) = asked_of(again(bench))
    bench.send(ApproveSent(request.approval_id))
    bench.send(AbortSent())
    assert bench.state.in_doubt_calls == (unknown(request.call_id, "edit", path(), 2),)


def test_an_approved_one_that_a_critical_listener_keeps_from_starting_stays_in_doubt() -> None:
    class Breaks(Plugin[None]):
        critical = True

        def on_event(self, event: Envelope, state: None, ctx: object) -> None:
            if isinstance(event.event, ApprovalResolved) and event.event.status == "approved":
                raise ValueError("oops")

    bench = executing(EDITING, plugins=(Breaks(),))
    aborted(bench)
    (request,) = asked_of(again(bench))
    bench.send(ApproveSent(request.approval_id))
    assert not any(isinstance(effect, StartCall) for effect in bench.got[-1].step.effects)
    assert bench.state.in_doubt_calls == (DOUBT,)
    assert len(asked_of(again(bench))) == 1


def test_a_refusal_leaves_the_doubt() -> None:
    bench = stopped()
    (request,) = asked_of(again(bench))
    bench.send(RejectSent(request.approval_id, "I have looked"))
    assert bench.state.in_doubt_calls == (DOUBT,)
    assert bench.state.history[-1] == failed(request.call_id, "edit", "rejected by the user: I have looked")
    assert len(asked_of(again(bench))) == 1


def test_nobody_who_decides_is_a_no() -> None:
    bench = stopped()
    (request,) = asked_of(again(bench))
    bench.fires(f"hold:{request.approval_id}")
    assert bench.state.in_doubt_calls == (DOUBT,)
    assert bench.state.history[-1].text == "not approved: nobody decided in time"


def test_edited_arguments_are_another_call() -> None:
    bench = stopped()
    (request,) = asked_of(again(bench))
    bench.send(ApproveSent(request.approval_id, path("b")))
    assert bench.got[-1].events[-1] == run(request.call_id, "edit", path("b"))
    assert bench.state.in_doubt_calls == (DOUBT,)


@pytest.mark.parametrize("other", [call("edit", path="b"), call("keep", path="a"), call("store", path="a")], ids=str)
def test_any_other_call_runs(other: ToolCall) -> None:
    assert asked_of(again(stopped(), other)) == []


@pytest.mark.parametrize("name", ["look", "store", "solo"])
def test_what_may_run_again_or_can_be_checked_is_not_held(name: str) -> None:
    bench = executing(call(name, path="a"))
    bench.send(AbortSent())
    assert bench.state.in_doubt_calls == ()
    assert asked_of(again(bench, call(name, path="a"))) == []


def test_what_never_started_or_has_answered_is_in_no_doubt() -> None:
    bench = executing(call("solo"), EDITING)
    bench.send(AbortSent())
    assert bench.state.in_doubt_calls == ()
    bench = executing(EDITING)
    bench.send(ToolRaised("c3", 1, "OSError: no disk"))
    bench.answers("so be it")
    assert bench.state.in_doubt_calls == ()
    bench = executing(EDITING)
    bench.send(AbortSent(kill_tools="none"))
    bench.returns("c3")
    assert bench.state.in_doubt_calls == ()


def test_it_is_allowed_if_so_chosen() -> None:
    bench = stopped(options=Options(on_repeat_unknown="allow"))
    assert bench.state.in_doubt_calls == ()
    assert asked_of(again(bench)) == []


def test_arguments_that_a_plugin_makes_the_same_are_the_same() -> None:
    def answer(hook: Hook, _s: object, _c: object) -> object:
        assert isinstance(hook, BeforeTool)
        return ReplaceToolArgs({"path": "a"}) if hook.args == path("b") else Continue()

    bench = executing(EDITING, plugins=(plug(before_tool=answer),))
    aborted(bench)
    (request,) = asked_of(again(bench, call("edit", path="b")))
    assert (request.args, request.plugin) == (path("a"), HOLDER)


def test_a_plugin_that_holds_it_asks_with_the_doubt_and_its_approval_is_enough() -> None:
    bench = executing(EDITING, plugins=(plug(before_tool=HoldTool("may it?", timeout=None)),))
    bench.send(ApproveSent("s:a4"))
    aborted(bench)
    (request,) = asked_of(again(bench))
    assert (request.hint, request.plugin) == (f"may it? ({HINT})", "P")
    bench.send(ApproveSent(request.approval_id))
    assert bench.got[-1].events[-1] == run(request.call_id, "edit", path())


def test_always_does_not_pass_it() -> None:
    bench = executing(EDITING, plugins=(plug(before_tool=HoldTool("may it?", family="edits")),))
    bench.send(ApproveSent("s:a4", always=True))
    bench.send(AbortSent())
    (request,) = asked_of(again(bench))
    assert request.plugin == HOLDER


def test_a_plugin_cannot_run_it_either() -> None:
    seen: list[object] = []

    def answer(hook: Hook, _s: object, _c: object) -> object:
        assert isinstance(hook, BeforeTool)
        if hook.name != "look":
            return Continue()
        if hook.answer is None:
            return Ask(RunTool("edit", FrozenObject(path="a")))
        seen.append(hook.answer)
        return Continue()

    bench = executing(EDITING, plugins=(plug(before_tool=answer),))
    aborted(bench)
    again(bench, call("look", path="a"))
    assert seen == [Failed(HINT)]


def test_a_stop_remembers_it_too() -> None:
    bench = executing(EDITING)
    bench.send(StopSent("bye"))
    assert bench.state.in_doubt_calls == (DOUBT,)


def test_a_doubt_is_told_of_once_however_often_the_same_call_was_stopped() -> None:
    bench = executing(EDITING, EDITING)
    aborted(bench)
    assert bench.state.in_doubt_calls == (unknown("c4", "edit", path()),)


def test_an_approval_ends_the_doubt_about_that_tool_only() -> None:
    bench = executing(EDITING, call("keep", path="a"))
    bench.send(AbortSent(kill_tools="all"))
    bench.send(ToolStopped("c3", 1))
    assert [doubt.call_id for doubt in bench.state.in_doubt_calls] == ["c3", "c4"]
    (request,) = asked_of(again(bench))
    bench.send(ApproveSent(request.approval_id))
    assert bench.state.in_doubt_calls == (unknown("c4", "keep", path()),)


def test_what_the_plugins_emitted_is_broadcast_when_it_is_held_and_not_again_when_it_is_decided() -> None:
    bench = executing(EDITING, plugins=(plug("Emits", before_tool=Emit("seen")),))
    aborted(bench)
    events = again(bench)
    assert [event for event in events if isinstance(event, PluginEvent)] == [PluginEvent("Emits", "seen", None)]
    (request,) = asked_of(events)
    bench.send(RejectSent(request.approval_id))
    assert not any(isinstance(event, PluginEvent) for event in bench.got[-1].events)


def stopped_many(count: int, name: str = "edit") -> Bench:
    bench = executing(call(name, path="p0"))
    aborted(bench)
    for number in range(1, count):
        (started,) = (e for e in again(bench, call(name, path=f"p{number}")) if isinstance(e, ToolExecutionStart))
        bench.send(AbortSent())
        bench.send(ToolStopped(started.call_id, 1))
    return bench


def test_as_many_doubts_as_are_kept_are_about_one_call_each() -> None:
    bench = stopped_many(MOST)
    assert [doubt.args for doubt in bench.state.in_doubt_calls] == [path(f"p{number}") for number in range(MOST)]
    assert asked_of(again(bench, call("edit", path="other"))) == []


def test_one_more_drops_the_oldest_and_holds_no_other_call_of_the_tool() -> None:
    bench = stopped_many(MOST + 1)
    assert [doubt.args for doubt in bench.state.in_doubt_calls] == [path(f"p{number}") for number in range(1, MOST + 1)]
    assert asked_of(again(bench, call("edit", path="other"))) == []


def test_a_doubt_ends_so_many_turns_after_its_call() -> None:
    bench = stopped()
    for _ in range(TURNS_KEPT - 1):
        bench.prompt("go on")
        bench.answers("yes")
    (request,) = asked_of(again(bench))
    bench.send(RejectSent(request.approval_id))
    assert bench.state.in_doubt_calls == (DOUBT,)
    assert asked_of(again(bench)) == []
    assert not bench.state.in_doubt_calls


OLD = "may have taken effect; find out before you let it run"
REDACTED_HINT = f"calls of `edit` were stopped before (`c0`, maybe others), maybe this one too; they {OLD}"
REDACTED = Doubt("c0", "edit", None, 1)


def test_the_hint_of_a_redacted_doubt_does_not_say_that_it_was_the_same_call() -> None:
    bench = stopped()
    bench.state = bench.state.but(in_doubt_calls=(REDACTED, DOUBT))
    (other,) = asked_of(again(bench, call("edit", path="b")))
    assert other.hint == REDACTED_HINT
    (same,) = asked_of(again(bench))
    assert same.hint == HINT


def test_a_redacted_doubt_stays_when_a_call_of_its_tool_is_stopped() -> None:
    bench = executing(EDITING)
    bench.state = bench.state.but(in_doubt_calls=(REDACTED,))
    aborted(bench)
    assert bench.state.in_doubt_calls == (REDACTED, DOUBT)
    (other,) = asked_of(again(bench, call("edit", path="b")))
    assert other.hint == REDACTED_HINT


# A call of the handle ends a doubt


def refusal(bench: Bench) -> AgentrailError:
    answer = bench.got[-1].step.answer
    assert isinstance(answer, Refused)
    return answer.error


def test_an_approval_of_the_stopped_call_ends_the_doubt_and_runs_nothing() -> None:
    bench = executing(EDITING, call("keep", path="a"))
    bench.send(AbortSent(kill_tools="all"))
    bench.send(ToolStopped("c3", 1))
    bench.send(ApproveSent("s:c3"))
    assert bench.got[-1].step.answer == DONE
    assert bench.got[-1].events == [ApprovalResolved("s:c3", "c3", "edit", "cleared")]
    assert bench.got[-1].step.effects == ()
    assert bench.state.in_doubt_calls == (unknown("c4", "keep", path()),)
    assert asked_of(again(bench)) == []


def test_it_ends_a_redacted_doubt_by_the_call_that_the_hint_names() -> None:
    bench = stopped()
    bench.state = bench.state.but(in_doubt_calls=(REDACTED,))
    bench.send(ApproveSent("s:c0"))
    assert bench.got[-1].events == [ApprovalResolved("s:c0", "c0", "edit", "cleared")]
    assert asked_of(again(bench)) == []


def test_it_does_so_while_the_model_is_asked() -> None:
    bench = stopped()
    bench.prompt("once more")
    bench.send(ApproveSent("s:c3"))
    assert (bench.state.phase, bench.state.in_doubt_calls) == (Phase.RUNNING, ())
    bench.answers("", EDITING)
    assert asked_of(bench.got[-1].events) == []


def test_a_call_that_is_held_for_it_still_waits() -> None:
    bench = stopped()
    (request,) = asked_of(again(bench))
    bench.send(ApproveSent("s:c3"))
    assert bench.state.phase is Phase.IDLE
    assert [call_.hold.approval_id for call_ in bench.state.waiting_calls if call_.hold] == [request.approval_id]
    bench.send(ApproveSent(request.approval_id))
    assert bench.got[-1].events[-1] == run(request.call_id, "edit", path())


def test_it_ends_once() -> None:
    bench = stopped()
    bench.send(ApproveSent("s:c3"))
    bench.send(ApproveSent("s:c3"))
    assert refusal(bench) == UnknownApproval.among("s:c3", ())


@pytest.mark.parametrize("id_", ["other:c3", "c3", ":c3", "s:c4", "s:"])
def test_no_other_id_ends_it(id_: str) -> None:
    bench = stopped()
    bench.send(ApproveSent(id_))
    assert refusal(bench) == UnknownApproval.among(id_, ())
    assert bench.state.in_doubt_calls == (DOUBT,)


@pytest.mark.parametrize(
    ("command", "verb"),
    [
        (ApproveSent("s:c3", path("b")), "edit or always approve"),
        (ApproveSent("s:c3", always=True), "edit or always approve"),
        (RejectSent("s:c3"), "reject"),
        (RespondSent("s:c3", "yes"), "respond to"),
    ],
    ids=["edited", "always", "rejected", "answered"],
)
def test_what_has_no_sense_for_a_doubt_is_refused_and_leaves_it(command: Command, verb: str) -> None:
    bench = executing(EDITING)
    aborted(bench)
    bench.send(command)
    assert refusal(bench) == WrongDecision("s:c3", verb, STOPPED_CALL, END_DOUBT)
    assert bench.state.in_doubt_calls == (DOUBT,)


def test_where_four_eyes_are_wanted_nobody_ends_a_doubt_alone() -> None:
    bench = stopped()
    bench.send(ApproveSent("s:c3", four_eyes=True))
    advice = "have the same call made, and approve it when it is held"
    assert refusal(bench) == RefusedError("four-eyes-wanted", "the end of a doubt", advice)
    assert bench.state.in_doubt_calls == (DOUBT,)


def test_a_redacted_doubt_ends_when_a_person_lets_a_call_run() -> None:
    bench = stopped()
    bench.state = bench.state.but(in_doubt_calls=(REDACTED,))
    (request,) = asked_of(again(bench))
    bench.send(ApproveSent(request.approval_id))
    assert not bench.state.in_doubt_calls


def test_a_redacted_doubt_holds_no_harmless_call() -> None:
    bench = stopped()
    bench.state = bench.state.but(in_doubt_calls=(REDACTED.but(name="look"),))
    assert asked_of(again(bench, call("look", path="a"))) == []
