"""The instructions that things take are equal on every machine with the same interpreter."""

from __future__ import annotations

import pytest

from bench.counted import JOBS, LONG
from bench.instructions import FIGURES, INTERPRETER, interpreter, measured, off, why_not

counting = pytest.mark.skipif(bool(why_not()), reason=why_not())
here = pytest.mark.skipif(interpreter() != INTERPRETER, reason=f"the figures are those of {INTERPRETER}")


@pytest.mark.campaign
@pytest.mark.long
@counting
@here
def test_everything_takes_as_many_instructions_as_the_table_says() -> None:
    found = measured()
    assert set(found) == set(FIGURES)
    assert off(found) == {}


@pytest.mark.long
@counting
@here
def test_what_is_counted_within_a_minute_takes_as_many_instructions_as_the_table_says() -> None:
    found = measured([job for job in JOBS if job not in LONG])
    assert len(FIGURES) - len(found) == len(LONG)
    assert off(found) == {}


def test_what_takes_more_or_less_than_the_table_says_is_named() -> None:
    now = {name: figure.now for name, figure in FIGURES.items()}
    assert off(now) == {}
    assert off({**now, "chunk": now["chunk"] * 1.02}) == {}
    assert off({**now, "chunk": now["chunk"] * 1.04}) == {"chunk": pytest.approx(1.04)}
    assert off({**now, "chunk": now["chunk"] * 0.96}) == {"chunk": pytest.approx(0.96)}
