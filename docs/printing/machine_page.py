"""The page of the state machine: its transition table, its inputs and effects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from agentrail.core.machine.table import TABLE, TableRule
from agentrail.core.vocabulary.effects import EFFECTS
from agentrail.core.vocabulary.inputs import INPUTS
from agentrail.core.vocabulary.state import Phase
from agentrail.values.value import Value
from docs.printing.fields_page import summary
from docs.printing.markdown import code, codes, joined, section, table
from docs.printing.source_text import Source

_PHASES = {phase: place for place, phase in enumerate(Phase)}


def transitions() -> list[str]:
    """Return the transition table, phase by phase; inputs that share a rule share a line."""
    return joined(section(code(phase.value), _legal(row), _illegal(row)) for phase, row in TABLE.items())


def _legal(row: Mapping[type[Value], TableRule]) -> list[str]:
    lines = [
        (codes(names), codes(_in_order(rule.to)), codes(sorted(effect.__name__ for effect in rule.may)), rule.why)
        for rule, names in _grouped(row)
        if rule.to
    ]
    return table(("on", "may lead to", "may ask for", "why"), lines) if lines else []


def _illegal(row: Mapping[type[Value], TableRule]) -> list[str]:
    return [f"Refused, because {rule.why}: {codes(names)}." for rule, names in _grouped(row) if not rule.to]


def _grouped(row: Mapping[type[Value], TableRule]) -> list[tuple[TableRule, list[str]]]:
    """Return each rule of *row* once, with the inputs that it is for."""
    groups: dict[TableRule, list[str]] = {}
    for kind, rule in row.items():
        groups.setdefault(rule, []).append(kind.__name__)
    return list(groups.items())


def _in_order(phases: Iterable[Phase]) -> list[str]:
    return [phase.value for phase in sorted(phases, key=_PHASES.__getitem__)]


def inputs(source: Source) -> list[str]:
    """Return the table of the machine's inputs: all that can happen to a session."""
    return _values(source, INPUTS)


def effects(source: Source) -> list[str]:
    """Return the table of the machine's effects: all that a session can ask the runtime to do."""
    return _values(source, EFFECTS)


def _values(source: Source, classes: Iterable[type[Value]]) -> list[str]:
    rows: list[tuple[str, str, str]] = []
    for _, group in groupby(classes, key=lambda cls: cls.__module__):
        rows += [(code(cls.__name__), summary(cls.__doc__), _carries(source, cls)) for cls in group]
    return table(("name", "what it says", "carries"), rows)


def _carries(source: Source, cls: type) -> str:
    return codes(one.name for one in source.fields(cls, inherited=False))
