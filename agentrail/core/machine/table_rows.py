"""Building blocks of the transition table (`table.py`)."""

from __future__ import annotations

from typing import TypeAlias

from agentrail.core.vocabulary.state import Phase
from agentrail.values.value import Value


class TableRule(Value, gc=True):
    """What one kind of input may do in one phase."""

    to: frozenset[Phase]
    """Phases in which the step may leave the session; empty if the input is illegal in this phase."""
    may: frozenset[type[Value]]
    """Types of the effects that the step may ask for."""
    why: str
    """Explanation of this rule, printed in the docs."""


Kinds: TypeAlias = tuple[type[Value], ...]
Rows: TypeAlias = dict[type[Value], TableRule]


def illegal(why: str) -> TableRule:
    """Return the rule of an input that is an error in its phase."""
    return TableRule(frozenset(), frozenset(), why)


def goes(*to: Phase, may: Kinds = (), why: str) -> TableRule:
    """Return the rule of an input that may lead to the phases *to* and ask for the effects *may*."""
    return TableRule(frozenset(to), frozenset(may), why)


def each(inputs: Kinds, rule: TableRule) -> Rows:
    """Return a dict that gives each of *inputs* the same rule."""
    return dict.fromkeys(inputs, rule)
