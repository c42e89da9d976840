"""Whatever is given to evaluations by mistake is answered by an error of agentrail, with what was meant."""

import inspect
import math
from collections.abc import Mapping
from contextlib import suppress

import pytest

from agentrail.errors import UsageError, WrongType
from agentrail.evals import Case, Dataset, Score, exact, expect, experiment
from tests.evals.drawn import agent, rooms

USUAL: Mapping[str, object] = {"dataset": rooms(1), "spec": agent(), "scorers": [exact], "repeats": 1}
WRONG = (5, -1, "x", None, object(), math.nan, math.inf, b"x", ["x"], {"a": 1}, [5], [None], lambda _: None)


@pytest.mark.parametrize("argument", inspect.signature(experiment).parameters)
async def test_no_argument_of_an_experiment_breaks_somewhere_inside(argument: str) -> None:
    for wrong in WRONG:
        with suppress(UsageError):
            await experiment(**{**USUAL, argument: wrong})  # type: ignore[arg-type]  # on purpose


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"at_once": "x"}, "cannot take a `str` as `at_once`; give `int`"),
        ({"repeats": 2.5}, "cannot take a `float` as `repeats`; give `int`"),
        ({"spec": "app.py"}, "cannot take a `str` as `spec`"),
        ({"spec": lambda _: 5}, "cannot take a `int` as `spec`; give a function that returns a `SessionSpec`"),
        ({"dataset": "cases.jsonl"}, "cannot take a `str` as `dataset`"),
        ({"dataset": ["cases.jsonl"]}, "cannot take a `str` as `cases`; give an iterable of `Case`"),
        ({"journal": "kept.db"}, r"cannot take a `str` as `journal`; give a journal, such as `SqliteJournal\(path\)`"),
        ({"progres": None}, "did you mean `progress`"),
    ],
)
async def test_it_says_what_was_meant(change: dict[str, object], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        await experiment(**{**USUAL, **change})  # type: ignore[arg-type]  # on purpose


def test_a_field_of_a_case_is_of_its_type() -> None:
    with pytest.raises(WrongType, match=r"as `Case.prompts`; give `tuple\[str, ...\]`"):
        Case("a", [5])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(WrongType, match=r"as `Case.calls`"):
        Case("a", ["Hi"], calls=["refund"])  # type: ignore[arg-type]  # on purpose
    with pytest.raises(UsageError, match="its `expected` is a `object`, which is no JSON"):
        Case("a", ("Hi",), object())
    assert Case("a", ["Hi"], calls=[expect("look")]) == Case("a", ("Hi",), calls=(expect("look"),))  # type: ignore[arg-type]
    assert Score(True).value == 1.0
    with pytest.raises(WrongType, match=r"cannot take a `str` .* as `Score.value`"):
        Score("good")  # type: ignore[arg-type]  # on purpose
    with pytest.raises(WrongType, match="cannot take a `int` as `path`"):
        Dataset.read(5)  # type: ignore[arg-type]  # on purpose
