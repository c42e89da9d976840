"""`Planning`, `SelfVerify` and `Reflection` together: plan, work, check, review, plan again; in any order."""

from __future__ import annotations

from itertools import permutations

import pytest
import trio

from agentrail.events import Intervention, PlanGenerated, PlanStepCompleted, PluginEvent
from agentrail.models import JsonObject
from agentrail.plugins import Answered, AnyPlugin, Failed, Planning, Reflection, SelfVerify
from agentrail.plugins.quality.planning import DIRECTIVE, GO_ON, CurrentPlan, PlanStep
from agentrail.plugins.quality.self_verify import SENT_BACK as CHECK_FAILED
from agentrail.testing import ScriptedModel, call, prompt, say, simulate, tell
from agentrail.tools import EffectClass, ToolContext, ToolResult, err, ok
from tests.kit import Element
from tests.machinery.checks.trace_invariants import ALL_INVARIANTS
from tests.plugins.test_reflection import ASKED, PASSED, verdict
from tests.runtime.conftest import run_in_virtual_time
from tests.runtime.tools import fake, quick
from tests.runtime.world import open_world, settle

in_virtual_time = pytest.mark.trio(run=run_in_virtual_time)

FIRST = "## Plan\n- [ ] Write the sum"
SECOND = "## Revised plan\n- [x] Write the sum\n- [ ] Write a test"


@pytest.mark.parametrize("order", tuple(permutations(range(3))))
@in_virtual_time
async def test_a_turn_is_planned_carried_out_checked_reviewed_and_planned_again(order: tuple[int, ...]) -> None:
    results: list[ToolResult] = [err("1 failed: there is no test"), ok("all passed"), ok("all passed")]

    async def body(_args: JsonObject, _ctx: ToolContext) -> ToolResult:
        await trio.lowlevel.checkpoint()
        return results.pop(0)

    script: list[Element] = [
        FIRST,
        say("- [>] Write the sum", calls=[call("edit")]),
        "I have written it.\n- [x] Write the sum",
        say(SECOND, calls=[call("edit")]),
        "Sum and test are written.\n- [x] Write a test",
        say("I look at it again.", calls=[call("edit")]),
        "The sum and its test are written, and pass.",
        "APPROVED",
    ]
    model = ScriptedModel(script)
    plugins: list[AnyPlugin] = [Planning(), SelfVerify("run_tests"), Reflection()]
    async with open_world() as world:
        tools = [quick("edit"), fake("run_tests", body, effect=EffectClass.IDEMPOTENT)]
        session = await world.spawn(model, tools=tools, plugins=[plugins[at] for at in order])
        reply = await session.ask("Write the sum, please.")
        await settle()
        heard = world.heard(session)
        assert reply.text == "The sum and its test are written, and pass."
        assert [event.text for event in heard.of(Intervention)] == [
            DIRECTIVE,
            GO_ON,
            CHECK_FAILED.format(tool="run_tests", problem="1 failed: there is no test"),
            ASKED,
            ASKED,
        ]
        kinds = PlanGenerated | PlanStepCompleted | PluginEvent
        assert [
            one.name if isinstance(one, PluginEvent) else one for one in heard.events if isinstance(one, kinds)
        ] == [
            PlanGenerated(("Write the sum",)),
            PlanStepCompleted(0, "Write the sum"),
            "verify_failed",
            PlanGenerated(("Write the sum", "Write a test")),
            PlanStepCompleted(1, "Write a test"),
            "verify_passed",
            "review_failed",
            "verify_passed",
            "review_passed",
        ]
        assert results == []
        states = {type(state): state for state in session.inspect().plugin_states}
        assert states[CurrentPlan] == CurrentPlan(
            (PlanStep("Write the sum", "completed"), PlanStep("Write a test", "completed"))
        )


TOOLS = [quick(name).spec for name in ("edit", "run_tests")]


def test_no_order_of_registration_decides_otherwise() -> None:
    rows: list[AnyPlugin] = [Planning(), SelfVerify("run_tests"), Reflection(reviewer="model")]
    script = [
        *(prompt("Write the sum, please."), say(FIRST), say("Done.", calls=[call("edit")]), say("Done.")),
        *(
            tell(Failed("red")),
            say("Again."),
            tell(Answered("ok")),
            tell(verdict("No test.")),
            say("Now."),
            tell(PASSED),
        ),
    ]
    traces = [simulate([rows[at] for at in order], script, tools=TOOLS) for order in permutations(range(3))]
    assert {str(trace.events) for trace in traces} == {str(traces[0].events)}
    assert all(not trace.void for trace in traces)
    for trace in traces:
        for check in ALL_INVARIANTS.values():
            check(trace)
