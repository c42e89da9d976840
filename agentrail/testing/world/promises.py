"""Rules for single steps, as the guide states them: each checks one step by its input, states, events and effects.

The ledger checks that a session is consistent; these rules check that a step did what its input asks for. They share no
code with the machine's handlers, so that a mistake there shows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from agentrail.core.machine.endings import RETRY_TIMER, TURN_TIMER
from agentrail.core.machine.tool_results import call_timer, hold_timer
from agentrail.core.vocabulary.inputs import (
    SubagentReported,
    TimerFired,
)
from agentrail.core.vocabulary.state import Phase
from agentrail.core.vocabulary.tool_calls import CallStatus
from agentrail.hooks.moments import HOOK_NAMES
from agentrail.hooks.pipeline import MAX_ASKS
from agentrail.hooks.ruling import NOTHING_GATHERED, Verdict
from agentrail.testing.world.choose import Seen
from agentrail.testing.world.outstanding import demand
from agentrail.testing.world.promises_people import PEOPLE
from agentrail.testing.world.promises_seen import SEEN
from agentrail.testing.world.promises_work import WORK
from agentrail.values.events.people import ApprovalRequired, ApprovalResolved, AskUser, UserResponded

# Plugins


def _rules(seen: Seen) -> None:
    """Check the plugins' rulings: an abort or a block drops what was gathered, except events; new states are kept.

    Plugins must stay in the order of their priorities, and may not ask too often.
    """
    before, after = seen.before, seen.after
    for ruling in seen.step.rulings:
        if ruling.verdict in (Verdict.ABORT, Verdict.BLOCK):
            left = ruling.gathered.but(emits=())
            demand(left == NOTHING_GATHERED, "{} ends with {}, and keeps {}", ruling.hook, ruling.verdict, left)
    if before.seats is after.seats and all(r.hook in HOOK_NAMES | {"on_event", "check"} for r in seen.step.rulings):
        states = list(before.plugin_states)
        for ruling in seen.step.rulings:
            for seat, state in ruling.states:
                states[seat] = state
        demand(tuple(states) == after.plugin_states, "what a plugin remembers is not what it has said")
    row, old = ([seat.priority for seat in seats] for seats in (after.seats, before.seats))
    demand(old != sorted(old) or row == sorted(row), "plugins stand in the order {}", row)
    updates = [change.key for change in after.changes if change.kind == "update"]
    demand(len(updates) == len(set(updates)), "of {} more than the last one waits", updates)
    asks = [count for waiting in after.suspended for _, count in waiting.gathered.asks]
    demand(max(asks, default=0) <= MAX_ASKS, "a plugin asks too often")


# Time, sleep and sub-agents


def _keeps_time(seen: Seen) -> None:
    """Check the timers: each running call and each hold with a limit has one; none of a turn or retry is left over."""
    before, after, given = seen.before, seen.after, seen.given
    if isinstance(given, TimerFired):
        due = dict(before.timers).get(given.timer)
        demand((due is not None and due <= seen.at) or after == before, "{} counts, and is due {}", given, due)
    parts = ("timers", "batch", "subagents", "request", "turn", "phase")
    if after.phase is Phase.ENDED or all(getattr(after, part) is getattr(before, part) for part in parts):
        return
    calls = () if after.batch is None else after.batch.calls
    waits = {agent.call_id for agent in after.subagents if agent.waits and not agent.background}
    run = {c.call_id for c in calls if c.status is CallStatus.RUNNING} - waits
    held = {c.hold.approval_id: c.hold.expires_at for c in calls if c.hold is not None}
    timers = {name for name, _ in after.timers}
    missing = {call_timer(call_id) for call_id in run} - timers
    demand(not missing, "{} are not set, and the calls run", missing)
    wanted = {hold_timer(ref) for ref, until in held.items() if until is not None}
    there = {name for name in timers if name.startswith(hold_timer(""))}
    demand(there == wanted, "of holds the timers {} are set, and {} are wanted", there, wanted)
    late = {name for name in timers if name in map(call_timer, waits)}
    demand(not late, "{} go on, and the sub-agents wait for a person", late)
    demand(RETRY_TIMER not in timers or after.request is None, "a retry waits beside a request")
    demand(TURN_TIMER not in timers or after.turn is not None, "the time of no turn is kept")


def _sleeps(seen: Seen) -> None:
    """Check that a session falls asleep only without calls in the background, sub-agents, queued prompts and asks."""
    before, after = seen.before, seen.after
    if after.asleep and not before.asleep:
        lives = (before.quarantined, before.lingering, before.subagents, before.queue, before.suspended)
        demand(not any(lives), "it falls asleep beside {}", [one for one in lives if one])


def _tells_of_people(seen: Seen) -> None:
    """Check that events about a sub-agent's held calls and questions are events of this session too."""
    given = seen.given
    if isinstance(given, SubagentReported) and any(agent.child == given.child for agent in seen.before.subagents):
        for event in given.events:
            if isinstance(event, ApprovalRequired | ApprovalResolved | AskUser | UserResponded):
                found = next(agent for agent in seen.before.subagents if agent.child == given.child)
                demand(given.heard < found.heard or event in seen.events, "{} of a sub-agent is not told", event)


PROMISES: Final[tuple[Callable[[Seen], None], ...]] = (
    *PEOPLE,
    *WORK,
    *SEEN,
    _rules,
    _keeps_time,
    _sleeps,
    _tells_of_people,
)
"""The rules; each raises `InvariantBrokenError` if a step breaks it."""


def check_promises(seen: Seen) -> None:
    """Raise `InvariantBrokenError` if the step *seen* breaks one of the rules in `PROMISES`."""
    for promise in PROMISES:
        promise(seen)
