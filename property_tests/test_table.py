from collections import Counter
from itertools import product

import pytest

from agentrail import State
from agentrail.core.machine.step import GROUPS, HANDLERS, handlers_of, step
from agentrail.core.machine.table import TABLE
from agentrail.core.vocabulary.effects import EFFECTS, WriteLog
from agentrail.core.vocabulary.inputs import INPUTS, SessionBranched
from agentrail.errors import IllegalInput
from agentrail.hooks.hook_runner import RecordedRunner
from property_tests.volume import STEPS, profile, volume
from tests.kit import Arrival, Phase, Setup

REACHED = {"ci": 1, "campaign": 20}
"""How often each legal row is reached at least."""

UNSHOWN = {"ci": 40, "campaign": 0}
"""Of how many rows not all that they allow is shown, at most: for the rarest, the steps of CI are too few."""


def test_the_table_is_total() -> None:
    assert {(phase, kind) for phase, row in TABLE.items() for kind in row} == set(product(Phase, INPUTS))


def test_each_rule_says_why() -> None:
    assert all(rule.why and rule.why[-1] != "." for row in TABLE.values() for rule in row.values())


def test_an_illegal_rule_asks_for_nothing() -> None:
    assert all(not rule.may for row in TABLE.values() for rule in row.values() if not rule.to)


def test_an_input_has_a_handler_just_if_it_is_legal_somewhere() -> None:
    legal = {kind for kind in INPUTS if any(TABLE[phase][kind].to for phase in Phase)}
    assert Counter(kind for group in GROUPS for kind, _ in handlers_of(group)) == dict.fromkeys(legal, 1)
    assert set(HANDLERS) == legal


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.NEW])
def test_an_illegal_input_is_refused_with_the_reason_of_its_row(phase: Phase) -> None:
    state = State("s", Setup(), "model", phase=phase)
    with pytest.raises(IllegalInput) as refused:
        step(state, Arrival(SessionBranched("other", 1), 0), RecordedRunner(()))
    assert refused.value == IllegalInput(phase.value, "SessionBranched", "the session is open already")


def test_each_effect_is_promised_somewhere() -> None:
    promised = {effect for row in TABLE.values() for rule in row.values() for effect in rule.may}
    assert promised == set(EFFECTS) - {WriteLog}


@pytest.mark.long
def test_many_sessions_hold_the_invariants_reach_each_legal_row_and_keep_every_promise() -> None:
    """One test: as several, each process that runs one would play all sessions anew."""
    tally = volume()
    assert tally.steps >= STEPS[profile()]
    assert tally.seldom(REACHED[profile()]) == {}, "rows of the table that are seldom reached"
    assert len(tally.broken()) <= UNSHOWN[profile()], tally.broken()
