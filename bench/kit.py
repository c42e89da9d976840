"""Print what the kit for tests costs: simulated turns a second and core, and how soon a conflict is found."""

from __future__ import annotations

import statistics
import time
from functools import partial

from agentrail.plugins import AnyPlugin, BudgetGuard, HumanApproval, SecurityGuard
from agentrail.testing import ScriptStep, call, check_plugin, find_conflict, prompt, returns, say, simulate
from tests.testing.candidates import CANDIDATES, Turns, what_was_approved_is_safe, what_was_counted_was_paid

PLUGINS: tuple[AnyPlugin, ...] = (SecurityGuard(), HumanApproval(tools=("write",)), BudgetGuard(max_calls=10**9))
TURN: tuple[ScriptStep, ...] = (prompt("hello"), say(calls=[call("read", {"path": "a"})]), returns("x"), say("fine"))
REPEATS = 9
SEEDS = 5

TURNS_A_SECOND = 3_000
SECONDS_TO_A_CONFLICT = 30.0


def turns_a_second(sessions: int, turns: int) -> float:
    """Return how many turns with one tool call and three plugins a core plays in a second."""
    began = time.process_time()
    for _ in range(sessions):
        simulate(PLUGINS, TURN * turns)
    return sessions * turns / (time.process_time() - began)


def main() -> None:
    """Measure, and print."""
    simulate(PLUGINS, TURN)
    for what, measure in (
        ("10 sessions of 100 turns", partial(turns_a_second, 10, 100)),
        ("1,000 sessions of one turn", partial(turns_a_second, 1_000, 1)),
    ):
        rate = statistics.median(measure() for _ in range(REPEATS))
        print(f"simulate, {what}: {rate:,.0f} turns a second and core (figure {TURNS_A_SECOND:,})")
    for invariant in (what_was_counted_was_paid, what_was_approved_is_safe):
        took: list[float] = []
        for seed in range(SEEDS):
            began = time.perf_counter()
            conflict = find_conflict(CANDIDATES, invariant, seed=seed)
            took.append(time.perf_counter() - began)
            found = "nothing" if conflict is None else f"{len(conflict.plugins)} plugins, {len(conflict.script)} steps"
            print(f"find_conflict, {invariant.__name__}, seed {seed}: {took[-1]:.1f} s, {found}")
        print(f"  the slowest took {max(took):.1f} s (figure {SECONDS_TO_A_CONFLICT:.0f} s)")
    began = time.perf_counter()
    check_plugin(Turns())
    print(f"check_plugin, a small plugin: {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
