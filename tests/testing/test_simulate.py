from agentrail.models import FrozenObject
from agentrail.plugins import BudgetGuard
from agentrail.testing import approve, call, prompt, returns, say, simulate, stop
from tests.testing.candidates import Cap, SpendCounter

SCRIPT = [
    prompt("pay them"),
    say(calls=[call("pay", {"amount": 500}), call("pay", {"amount": 6})]),
    approve(),
    returns("paid"),
    say("All is paid."),
    stop(),
]


def test_a_script_plays_whole_turns() -> None:
    trace = simulate([SpendCounter(), Cap(), BudgetGuard(max_calls=1)], SCRIPT)
    assert trace.outcomes == ("finished",)
    assert [(start.name, start.args) for start in trace.started] == [("pay", FrozenObject({"amount": 100}))]
    assert [blocked.reason for blocked in trace.blocked] == ["max_calls=1 is used up"]
    assert trace.plugin_state("SpendCounter") == 500
    assert trace.ended
    assert trace.void == (2,)


def test_a_story_tells_what_each_plugin_decided() -> None:
    text = str(simulate([SpendCounter(), Cap()], [prompt("go"), say(calls=[call("pay", {"amount": 500})])]))
    assert text.splitlines() == [
        '  1  prompt("go")',
        '  2  say(calls=[call("pay", {"amount": 500})])',
        '       before_tool pay {"amount":500}',
        "         SpendCounter: continue, state 0 → 500",
        '         Cap: replace_tool_args, {"amount":100}',
        '       => pay runs with {"amount":100}',
        "     then the model says 'done'",
        "       => the turn ends: end",
    ]
