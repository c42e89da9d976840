import pytest

from agentrail import Context, Continue, HoldTool, Plugin, ReplaceToolArgs
from agentrail.core.vocabulary.commands import ChangeToolsSent
from agentrail.core.vocabulary.effects import StartCall
from agentrail.events import ApprovalRequired, PluginEvent, SecurityAudit
from agentrail.models import FrozenObject, Text, ToolCall
from agentrail.plugins import BeforeTool, SecurityGuard
from agentrail.testing import Holder
from agentrail.testing.world.random_setups import TOOLS
from agentrail.tools import ok
from agentrail.values.json import canonical
from tests.core.driving import ask_for_calls, call, events, names, results, session
from tests.kit import AbortSent, AnyInput, ApproveSent, PromptSent, RejectSent, StopSent, TimerFired, ToolReturned


class Early(Plugin[None]):
    """Replaces the path before anybody holds the call."""

    priority = 5

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> ReplaceToolArgs[None]:
        return ReplaceToolArgs({**hook.args, "path": 7})


class Telling(Plugin[None]):
    """Replaces the path behind whoever holds the call, and says so."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> ReplaceToolArgs[None]:
        return ReplaceToolArgs({**hook.args, "path": "told"}).emitting("told")


def test_replaced_arguments_that_do_not_fit_are_not_put_before_a_person() -> None:
    world = session(Early(), Holder())
    step = ask_for_calls(world, call("keep"))
    assert not any(isinstance(event, ApprovalRequired) for event in events(step))
    assert results(step.state) == ["the arguments do not fit `keep`: $.path: is not text"]


def test_arguments_replaced_after_approval_are_asked_about_and_the_replacer_is_heard_once() -> None:
    world = session(Holder(), Telling())
    ask_for_calls(world, call("write"))
    (first,) = world.state.waiting_calls
    assert first.hold is not None
    again = world.apply(ApproveSent(first.hold.approval_id))
    assert names(again) == ["ApprovalResolved", "PluginEvent", "ApprovalRequired"]
    (second,) = world.state.waiting_calls
    assert second.hold is not None
    assert (second.hold.plugin, second.hold.args) == ("Telling", {"path": "told"})
    approved = world.apply(ApproveSent(second.hold.approval_id))
    assert not any(isinstance(event, PluginEvent) for event in events(approved))
    assert [effect.args for effect in approved.effects if isinstance(effect, StartCall)] == [{"path": "told"}]


def test_what_was_approved_runs_byte_for_byte_also_where_python_sees_no_difference() -> None:
    world = session(Holder())
    ask_for_calls(world, ToolCall("", "write", FrozenObject({"path": "a", "times": 1})))
    (held,) = world.state.waiting_calls
    assert held.hold is not None
    approved = world.apply(ApproveSent(held.hold.approval_id, FrozenObject({"path": "a", "times": True})))
    (start,) = (effect for effect in approved.effects if isinstance(effect, StartCall))
    assert canonical(start.args) == '{"path":"a","times":true}'


def test_a_call_whose_tool_was_redefined_while_it_waited_for_its_turn_does_not_run() -> None:
    world = session()
    ask_for_calls(world, call("solo", "a"), call("solo", "b"))
    world.apply(ChangeToolsSent(attach=(TOOLS[4],), replace=True, revision=1))
    assert list(world.out.calls) == ["c3"]
    done = world.apply(ToolReturned("c3", 1, ok("done")))
    assert results(done.state) == ["done", "the tool `solo` was redefined before the call ran"]


class Loud(Plugin[None]):
    """Says that it holds a call, as a guard does in its audit."""

    def before_tool(self, hook: BeforeTool, state: None, ctx: Context) -> HoldTool[None] | Continue[None]:
        return Continue() if hook.approved else HoldTool("please look").emitting("held", hook.name)


@pytest.mark.parametrize(
    "decision",
    [
        ApproveSent("s:a4"),
        ApproveSent("s:a4", FrozenObject({"path": "b"})),
        RejectSent("s:a4", "no"),
        TimerFired("hold:s:a4"),
        AbortSent(),
        PromptSent((Text("something else"),)),
        StopSent(),
    ],
    ids=repr,
)
def test_what_a_plugin_emits_with_a_hold_is_heard_when_the_hold_begins_and_not_again(decision: AnyInput) -> None:
    world = session(Loud())
    step = ask_for_calls(world, call("write"))
    assert [event for event in events(step) if isinstance(event, PluginEvent)] == [PluginEvent("Loud", "held", "write")]
    assert names(step)[-2:] == ["PluginEvent", "ApprovalRequired"]
    (held,) = world.state.waiting_calls
    assert held.hold is not None
    assert held.hold.approval_id == "s:a4"
    assert not any(isinstance(event, PluginEvent) for event in events(world.apply(decision)))
    assert world.state.waiting_calls == ()


def test_an_audit_of_a_held_call_can_be_read_before_a_person_decides() -> None:
    world = session(SecurityGuard())
    step = ask_for_calls(world, ToolCall("", "write", FrozenObject({"path": "a", "command": "$X"})))
    (audit,) = (event for event in events(step) if isinstance(event, SecurityAudit))
    assert (audit.call_id, audit.tool, audit.decision) == ("c3", "write", "held")
