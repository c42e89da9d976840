"""The instructions that things take are equal on every machine with the same interpreter."""

from __future__ import annotations

import pytest

from bench.instructions import FIGURES, INTERPRETER, interpreter, measured, over, why_not


@pytest.mark.campaign
@pytest.mark.long
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.skipif(interpreter() != INTERPRETER, reason=f"the figures are those of {INTERPRETER}")
def test_nothing_takes_more_instructions_than_it_did() -> None:
    found = measured()
    assert set(found) == set(FIGURES)
    assert over(found) == {}


def test_what_takes_more_than_its_room_is_named() -> None:
    now = {name: figure.now for name, figure in FIGURES.items()}
    assert over(now) == {}
    assert over({**now, "chunk": now["chunk"] * 1.04}) == {}
    assert over({**now, "chunk": now["chunk"] * 1.06}) == {"chunk": pytest.approx(1.06)}
