"""What the transition table is made of."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.core.vocabulary.state import Phase
from agentrail.values.value import Value, value


@value
class TableRule(Value):
    """What one input may do in one phase."""

    to: frozenset[Phase]
    """Where the session may be behind it; empty: the input is illegal here."""
    may: frozenset[type[Value]]
    """Which effects the step may ask for."""
    why: str
    """What this row is about."""


Kinds: TypeAlias = tuple[type[Value], ...]
Rows: TypeAlias = dict[type[Value], TableRule]


def illegal(why: str) -> TableRule:
    """Say that an input has no meaning here."""
    return TableRule(frozenset(), frozenset(), why)


def goes(*to: Phase, may: Kinds = (), why: str) -> TableRule:
    """Say where an input may lead, and what it may ask for."""
    return TableRule(frozenset(to), frozenset(may), why)


def each(inputs: Kinds, rule: TableRule) -> Rows:
    """Give several inputs the same row."""
    return dict.fromkeys(inputs, rule)
