"""The scorers that ship."""

from dataclasses import dataclass

import pytest

from agentrail.errors import UsageError
from agentrail.evals import (
    Arguments,
    Case,
    MadeCall,
    Order,
    Run,
    Score,
    Scorer,
    calls_match,
    contains,
    exact,
    expect,
    fits,
    held,
    matches,
    no_call,
    within,
)
from agentrail.evals.scores import scored


def run(reply: str = "", expected: object = None, **more: object) -> Run:
    case = Case("one", ("Hi",), expected=expected)
    usual: dict[str, object] = {"calls": (), "held_tools": (), "cost": 0.5, "seconds": 2.0, "rounds": 3, "turns": 1}
    return Run(case, "one", reply, (), (), **usual | more)  # type: ignore[arg-type]


async def value(scorer: Scorer, run: Run) -> float | None:
    score = await scored(scorer, run)
    return None if score is None else score.value


@pytest.mark.parametrize(
    ("scorer", "reply", "expected", "wanted"),
    [
        (exact, " yes\n", "yes", 1),
        (exact, "Yes", "yes", 0),
        (exact, '{"n": 17.0, "l": [1]}', {"l": [1], "n": 17}, 1),
        (exact, '{"n": true}', {"n": 1}, 0),
        (exact, "anything", None, None),
        (contains, "The REFUND is on its way", "refund", 1),
        (contains, "a and b", ["a", "c"], 0.5),
        (contains, "a", {"a": 1}, None),
        (matches, "order 17 is paid", r"order \d+", 1),
        (matches, "no", r"order \d+", 0),
    ],
)
async def test_replies(scorer: Scorer, reply: str, expected: object, wanted: float | None) -> None:
    assert await value(scorer, run(reply, expected)) == wanted


@dataclass
class Verdict:
    sure: bool


async def test_the_form_of_a_reply_is_a_type_or_a_schema() -> None:
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    for form in (fits(Verdict), fits(schema)):
        assert await value(form, run('{"sure": true}')) == 1
        assert await value(form, run('{"sure": 1}')) == 0
        assert await value(form, run("yes")) == 0


A, B, C = MadeCall("a", {"x": 1, "y": 2}), MadeCall("b", {}), MadeCall("c", {})
AX, AZ, EB = expect("a", x=1), expect("a", x=1, z=3), expect("b")


@pytest.mark.parametrize(
    ("expected", "made", "order", "arguments", "wanted"),
    [
        ((AX, EB), (A, C, B), "in order", "named", 1),
        ((AX, EB), (B, A), "in order", "named", 0.5),
        ((AX, EB), (B, A), "any", "named", 1),
        ((AX, EB), (A, C, B), "exact", "named", 2 / 3),
        ((AX, EB), (B,), "some", "named", 1),
        ((AX,), (A,), "exact", "all", 2 / 3),
        ((AZ,), (A,), "in order", "named", 2 / 3),
        ((AZ,), (A,), "in order", "none", 1),
        ((AX, AX), (A,), "any", "named", 0.5),
        ((AX,), (), "any", "named", 0),
        ((AX,), (A,), "any", lambda *_: 0.25, 0.25),
    ],
)
async def test_calls(
    expected: tuple[object, ...], made: tuple[MadeCall, ...], order: Order, arguments: Arguments, wanted: float
) -> None:
    case = Case("one", ("Hi",), calls=expected)  # type: ignore[arg-type]
    scorer = calls_match(order, arguments)
    made_run = Run(case, "one", "", (), (), made, (), None, 0.0, 1, 1)
    assert await value(scorer, made_run) == pytest.approx(wanted)


async def test_a_case_without_expected_calls_has_no_score_of_them() -> None:
    assert await value(calls_match(), run()) is None


async def test_calls_that_are_not_to_be_and_calls_that_are_held() -> None:
    made = run(calls=(A,), held_tools=("refund",))
    assert await value(no_call("b"), made) == 1
    assert await value(no_call("a"), made) == 0
    assert await value(no_call(), made) == 0
    assert await value(held("refund"), made) == 1
    assert await value(held("a"), made) == 0


async def test_limits() -> None:
    assert await value(within(usd=1, seconds=2, rounds=3), run()) == 1
    score = await scored(within(usd=0.1, rounds=1), run())
    assert score == Score(0.0, "it took 0.5 usd, 3 rounds")
    with pytest.raises(ValueError, match="cost of the run is unknown"):
        await scored(within(usd=1), run(cost=None))


@pytest.mark.parametrize("answer", [float("nan"), float("inf"), "yes", Score(float("nan")), 1e101, Score(-1e308)])
async def test_an_answer_that_is_no_number_is_an_error(answer: object) -> None:
    with pytest.raises(ValueError, match=r"no finite number|a number beyond 1e"):
        await scored(Scorer("odd", lambda _: answer), run())  # type: ignore[arg-type, return-value]


def test_options_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="no order `sorted`"):
        calls_match("sorted")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="arguments are named"):
        calls_match("any", "some")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="needs `usd`"):
        within()
