from agentrail import Abort, Ask, Continue, Options, Priority
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.effects import StartCall
from agentrail.models import FrozenObject
from agentrail.plugins import BeforeTool, Hook, ReadFile, RunTool
from agentrail.testing.probe_plugins import Answering, Asker
from agentrail.tools import ok
from tests.core.driving import ask_for_calls, call, session
from tests.kit import ToolReturned


class SlowOnB(Answering):
    """Asks for a look at a file before it lets a call on `b` run."""

    def answer(self, hook: Hook, state: int) -> object:
        if isinstance(hook, BeforeTool) and hook.args["path"] == "b" and hook.answer is None:
            return Ask(ReadFile("rules"))
        return Continue(state)


def started(step: Step) -> list[str]:
    return [effect.call_id for effect in step.effects if isinstance(effect, StartCall)]


def test_calls_start_when_the_last_one_is_suspended_before_it_runs() -> None:
    world = session(SlowOnB())
    assert started(ask_for_calls(world, call("read", "a"), call("read", "b"))) == ["c3"]


def test_a_slot_is_used_again_while_a_plugin_looks_at_the_result() -> None:
    world = session(Asker("after_tool"), options=Options(max_parallel_tools=1))
    ask_for_calls(world, call("read", "a"), call("read", "b"))
    assert started(world.apply(ToolReturned("c3", 1, ok("done")))) == ["c4"]


class GuardsAsked(Answering):
    """Aborts at a call on `a`, which only another plugin asks for."""

    priority = Priority.SECURITY

    def answer(self, hook: Hook, state: int) -> object:
        return Abort("not that") if isinstance(hook, BeforeTool) and hook.args["path"] == "a" else Continue(state)


def test_calls_start_in_the_step_in_which_a_guard_aborts_what_a_plugin_asks_to_run() -> None:
    world = session(GuardsAsked(), Asker("after_response", RunTool("read", FrozenObject({"path": "a"}))))
    assert started(ask_for_calls(world, call("read", "b"))) == ["c3"]
