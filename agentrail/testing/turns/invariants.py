"""Invariants: functions that take a trace, and raise `AssertionError` if something in it must never happen.

They hold for every session, whatever its plugins are. Give them to `find_conflict`, or call them with a trace.
"""

# ruff: noqa: S101 - invariants assert

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from agentrail.core.vocabulary.commands import ApproveSent
from agentrail.core.vocabulary.effects import StartCall
from agentrail.core.vocabulary.state import State
from agentrail.hooks.attachments import unkeyed
from agentrail.hooks.plugin import Attachable
from agentrail.plugins.budget import BudgetGuard
from agentrail.testing.turns.trace import Trace, simulate
from agentrail.values.events.life import AgentAbort, AgentEnd, AgentStart
from agentrail.values.events.people import ApprovalRequired, ApprovalResolved
from agentrail.values.events.tools import ToolBlocked
from agentrail.values.json import canonical
from agentrail.values.messages import why_unfit

ROUNDING: Final = 1e-9
"""Tolerance in dollars for rounding errors of sums."""


def blocked_calls_never_run(trace: Trace) -> None:
    """A call that a plugin blocked is never started."""
    blocked = {event.call_id: event for event in trace.events if isinstance(event, ToolBlocked)}
    for start in trace.started:
        assert start.call_id not in blocked, f"{blocked[start.call_id]} was blocked, and {start} runs"


def held_calls_run_once_and_only_after_consent(trace: Trace) -> None:
    """A call that was held runs at most once, after a person approved it, with exactly the approved arguments."""
    waiting: dict[str, ApprovalRequired] = {}
    agreed: dict[str, str] = {}
    ever: set[str] = set()
    ran: Counter[str] = Counter()
    for happened in trace.steps:
        input_ = happened.arrival.input
        if isinstance(input_, ApproveSent):
            for event in (event for event in waiting.values() if event.approval_id == input_.approval_id):
                agreed[event.call_id] = canonical(event.args if input_.args is None else input_.args)
        for envelope in happened.step.events:
            match envelope.event:
                case ApprovalRequired() as required:
                    waiting[required.call_id] = required
                    ever.add(required.call_id)
                    agreed.pop(required.call_id, None)
                case ApprovalResolved(call_id=call_id):
                    waiting.pop(call_id, None)
                case _:
                    pass
        for effect in happened.step.effects:
            if isinstance(effect, StartCall) and effect.call_id in ever:
                ran[effect.call_id] += effect.attempt == 1
                assert ran[effect.call_id] <= 1, f"{effect} was held, and runs twice"
                assert agreed.get(effect.call_id) == canonical(effect.args), (
                    f"{effect} runs without consent to just this"
                )


def each_turn_ends_once(trace: Trace) -> None:
    """Each turn that was started ends once, aborted or not; at the end of the trace one may wait for a person."""
    open_turn: str | None = None
    for event in trace.events:
        match event:
            case AgentStart(ref=ref):
                assert open_turn is None, f"{event} starts while {open_turn} is open"
                open_turn = ref
            case AgentEnd(ref=ref) | AgentAbort(ref=ref) if ref is not None:
                assert open_turn == ref, f"{event} ends what is not open"
                open_turn = None
            case _:
                pass
    waits = bool(trace.state.waiting_calls)
    assert open_turn is None or waits, f"the turn {open_turn} was started and never ended"


def budgets_are_kept(trace: Trace) -> None:
    """No session uses more than its `BudgetGuard` allows; tokens and dollars may exceed it by the use of one step."""
    for plugin in (unkeyed(plugin_)[1] for plugin_ in trace.plugins):
        if isinstance(plugin, BudgetGuard) and plugin.max_tokens is not None:
            biggest = max((_tokens(trace, number) for number in range(len(trace.steps))), default=0)
            used = trace.usage.total_tokens
            assert used <= plugin.max_tokens + biggest, f"{used} tokens were used, {plugin.max_tokens} are allowed"
        if isinstance(plugin, BudgetGuard) and plugin.max_usd is not None:
            dearest = max((_cost(step.step.state) - _cost(step.before) for step in trace.steps), default=0.0)
            spent = _cost(trace.state)
            assert spent <= plugin.max_usd + dearest + ROUNDING, f"${spent} were spent, ${plugin.max_usd} are allowed"
        if isinstance(plugin, BudgetGuard) and plugin.max_calls is not None:
            calls = {start.call_id for start in trace.started}
            assert len(calls) <= plugin.max_calls, f"{len(calls)} calls ran, {plugin.max_calls} are allowed"
        if isinstance(plugin, BudgetGuard) and plugin.max_rounds is not None:
            rounds = len(trace.requests)
            assert rounds <= plugin.max_rounds, f"{rounds} requests were made, {plugin.max_rounds} are allowed"


def _tokens(trace: Trace, number: int) -> int:
    """Return how many tokens the step with this *number* used."""
    happened = trace.steps[number]
    return happened.step.state.usage.total_tokens - happened.before.usage.total_tokens


def _cost(state: State) -> float:
    """Return the known cost of a session, in dollars; 0 if no price is known."""
    return state.usage.cost_usd or 0.0


def requests_are_valid(trace: Trace) -> None:
    """The messages of each request form a conversation that a provider accepts."""
    for request in trace.requests:
        problem = why_unfit(request.messages)
        assert problem is None, f"the request {request.request_id} is not valid: {problem}"


def the_same_again(trace: Trace) -> None:
    """The script of *trace*, played again, gives the same steps and the same state, bit for bit."""
    again = _again(trace, trace.plugins)
    assert again.digest() == trace.digest(), "the same script went another way"
    assert repr(again.state) == repr(trace.state), "the same script leads to another state"


def registration_does_not_matter(trace: Trace) -> None:
    """Registering plugins of different priority in another order changes nothing: the script is played again so."""
    bands = sorted(trace.plugins, key=lambda plugin: -unkeyed(plugin)[1].priority)
    assert _again(trace, bands).digest() == trace.digest(), "registered in another order, the plugins do something else"


def _again(trace: Trace, plugins: Sequence[Attachable]) -> Trace:
    """Play the script of *trace* once more against *plugins*; return the new trace."""
    scene = trace.scene
    return simulate(plugins, trace.script, options=scene.options, tools=scene.tools, user_data=scene.user_data)


INVARIANTS: Final[Mapping[str, Callable[[Trace], None]]] = MappingProxyType(
    {
        check.__name__: check
        for check in (
            blocked_calls_never_run,
            held_calls_run_once_and_only_after_consent,
            each_turn_ends_once,
            budgets_are_kept,
            requests_are_valid,
            the_same_again,
            registration_does_not_matter,
        )
    }
)
"""The invariants by name; each raises `AssertionError`."""
