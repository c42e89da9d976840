"""The transition table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from agentrail.core.effects import EFFECTS
from agentrail.core.inputs import INPUTS, ForkSent, ResumeSent, SessionOpened, SessionReturned, SuspendSent, TraceSent
from agentrail.core.state import Phase
from agentrail.values.value import Value, value


@value
class Rule(Value):
    """What one input may do in one state."""

    to: frozenset[Phase]
    """Where the session may be behind it; empty: the input is illegal here."""
    may: frozenset[type[Value]]
    """Which effects the step may ask for."""
    why: str
    """What this row is about."""


_LATER = (ForkSent, SuspendSent, ResumeSent, TraceSent, SessionReturned)
_COMMANDS = INPUTS[:15]


def _bootstrap(phase: Phase, input_: type[Value]) -> Rule:
    if input_ in _LATER:
        return Rule(frozenset(), frozenset(), "not before supervision")
    if (phase is Phase.NEW) != (input_ is SessionOpened):
        return Rule(frozenset(), frozenset(), "x")
    if phase is Phase.ENDED and input_ in _COMMANDS:
        return Rule(frozenset(), frozenset(), "ended")
    return Rule(frozenset(Phase), frozenset(EFFECTS), "")


TABLE: Final[Mapping[Phase, Mapping[type[Value], Rule]]] = MappingProxyType(
    {phase: {input_: _bootstrap(phase, input_) for input_ in INPUTS} for phase in Phase}
)
