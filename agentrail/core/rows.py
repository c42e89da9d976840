"""What the transition table is made of."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.core.state import Phase
from agentrail.values.value import Value, value


@value
class Rule(Value):
    """What one input may do in one phase."""

    to: frozenset[Phase]
    """Where the session may be behind it; empty: the input is illegal here."""
    may: frozenset[type[Value]]
    """Which effects the step may ask for."""
    why: str
    """What this row is about."""


Kinds: TypeAlias = tuple[type[Value], ...]
Rows: TypeAlias = dict[type[Value], Rule]


def illegal(why: str) -> Rule:
    """Say that an input has no meaning here."""
    return Rule(frozenset(), frozenset(), why)


def goes(*to: Phase, may: Kinds = (), why: str) -> Rule:
    """Say where an input may lead, and what it may ask for."""
    return Rule(frozenset(to), frozenset(may), why)


def each(inputs: Kinds, rule: Rule) -> Rows:
    """Give several inputs the same row."""
    return dict.fromkeys(inputs, rule)
