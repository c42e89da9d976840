"""The invariants that a trace of `simulate` is checked against: those that ship, and the checks of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from agentrail.testing import INVARIANTS, Trace
from agentrail.testing.world.outstanding import Outstanding
from tests.kit import Phase, TimerFired
from tests.machinery.checks.state_invariants import Ledger


def keeps_the_books(trace: Trace) -> None:
    """Each step passes the checks of `Ledger`, as in random sessions: each call gets one result, and so on."""
    ledger, out = Ledger(), Outstanding()
    for happened in trace.steps:
        input_ = happened.arrival.input
        request = happened.before.request
        if happened.before.phase is Phase.STREAMING and request is not None:
            out.requests[request.request_id].began = True  # no input tells of the first piece of an answer
        if isinstance(input_, TimerFired):
            out.timers.pop(input_.timer, None)
        out.answered(input_)
        for effect in happened.step.effects:
            out.perform(effect, happened.arrival.at)
        ledger.check(happened.before, happened.arrival, happened.step, out)


ALL_INVARIANTS: Final[Mapping[str, Callable[[Trace], None]]] = MappingProxyType(
    {keeps_the_books.__name__: keeps_the_books, **INVARIANTS}
)
"""The invariants by name; each raises `AssertionError`."""
