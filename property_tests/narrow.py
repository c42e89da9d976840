"""Sessions by hand to where chance seldom comes, for promises of the table that it would take too long to see kept."""

from __future__ import annotations

from agentrail.core.inputs import AskSettled, TimerFired, ToolRaised, ToolReturned
from agentrail.core.sent import AbortSent, ApproveSent, CompactSent, RespondSent, StopSent
from agentrail.hooks.asks import Ok
from agentrail.testing.plugins import Asker, Holder, Scripted
from agentrail.testing.tally import Tally
from agentrail.testing.world import World
from agentrail.values.tools import AskPerson, Effect
from tests.core.driving import answer, asked, begin, call, hello, session


def _held(world: World) -> str:
    (held,) = (call.hold for call in world.state.waiting_calls if call.hold is not None)
    return held.approval_id


def _an_answer_ends_a_turn_in_which_other_calls_run(tally: Tally, *, compact: bool) -> None:
    world = session(Scripted({"after_tool": ("abort",)}), Asker("on_tool_error"), tally=tally)
    asked(world, call("talk"), call("write"), call("fix"))
    world.apply(ToolRaised("c5", 1, "Oops"))
    world.apply(ToolReturned("c3", 1, Effect(AskPerson("which?"))))
    world.apply(hello("and then"))
    if compact:
        world.apply(CompactSent())
    (question,) = (call.question for call in world.state.waiting_calls if call.question is not None)
    world.apply(RespondSent(question.ref, "that one"))


def _a_plugin_aborts_beside_a_suspended_call(tally: Tally, *, began: bool) -> None:
    world = session(Scripted({"after_response": ("ask", "continue"), "before_tool": ("ask", "abort")}), tally=tally)
    world.apply(hello())
    if began:
        begin(world)
    answer(world, call("read"), call("write"))
    (ask_id,) = world.out.live_asks
    world.apply(AskSettled(ask_id, Ok("yes")))


def _something_goes_on_while_the_next_response_streams(tally: Tally) -> World:
    world = session(tally=tally)
    asked(world, call("keep"))
    world.apply(AbortSent())
    world.apply(hello())
    begin(world)
    return world


def _a_plugin_aborts_what_a_person_has_approved(tally: Tally, *, beside: bool) -> None:
    script = ("continue", "abort") if beside else ("abort",)
    world = session(Holder(frozenset({"write"})), Scripted({"before_tool": script}), tally=tally)
    world.apply(hello())
    world.apply(hello("and then"))
    world.apply(CompactSent())
    answer(world, *((call("read"), call("write")) if beside else (call("write"),)))
    world.apply(ApproveSent(_held(world)))


def narrow_paths(tally: Tally) -> None:
    """Go all of them."""
    for either in (False, True):
        _an_answer_ends_a_turn_in_which_other_calls_run(tally, compact=either)
        _a_plugin_aborts_beside_a_suspended_call(tally, began=either)
        _a_plugin_aborts_what_a_person_has_approved(tally, beside=either)
    _something_goes_on_while_the_next_response_streams(tally).apply(AbortSent(kill_tools="all"))
    _something_goes_on_while_the_next_response_streams(tally).apply(StopSent())
    _something_goes_on_while_the_next_response_streams(tally).apply(TimerFired("call:c3"))
