"""Data sets that Pydantic Evals has written are read: by that library itself, where it is installed."""

import warnings
from pathlib import Path

import pytest

from agentrail.errors import UsageError
from agentrail.evals import Case, Dataset, contains, exact, experiment
from tests.evals.drawn import agent

UNTRIED = "PYDANTIC EVALS IS NOT INSTALLED: nobody has tried that its files are read"


def written(folder: Path, suffix: str) -> Path:
    """Write a data set by Pydantic Evals."""
    theirs = pytest.importorskip("pydantic_evals", reason=UNTRIED)
    evaluators = pytest.importorskip("pydantic_evals.evaluators", reason=UNTRIED)
    cases = [
        theirs.Case(
            name="Find: Room 1!",
            inputs="room 1",
            expected_output="it is in room 1",
            metadata={"difficulty": "easy", "where": {"floor": 2}, "beds": 2},
            evaluators=(evaluators.EqualsExpected(),),
        ),
        theirs.Case(inputs="room 2", expected_output={"room": [2]}),
        theirs.Case(inputs="room 2"),
    ]
    path = folder / f"cases.{suffix}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about generic parameters
        theirs.Dataset(name="rooms", cases=cases, evaluators=[evaluators.Contains(value="room")]).to_file(path)
    return path


@pytest.mark.long  # the import of that library takes a second
@pytest.mark.parametrize("suffix", ["yaml", "json"])
async def test_a_data_set_becomes_cases_that_run(suffix: str, tmp_path: Path) -> None:
    dataset = Dataset.from_pydantic_evals(written(tmp_path, suffix))
    assert dataset.cases == (
        Case("Find-Room-1", ("room 1",), "it is in room 1", tags=("difficulty=easy", "beds=2")),
        Case("room-2", ("room 2",), {"room": [2]}),
        Case("room-2-3", ("room 2",)),
    )
    assert dataset.folder == tmp_path
    results = await experiment(dataset.tagged("difficulty=easy"), agent(), [exact, contains], repeats=1)
    assert (results.mean("exact"), results.mean("contains")) == (1, 1)
    dataset.write(tmp_path / "cases.jsonl")
    assert Dataset.read(tmp_path / "cases.jsonl").cases == dataset.cases


def test_inputs_that_are_no_text_need_a_function(tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text("cases:\n- name: dict\n  inputs: {question: Why}\n")
    with pytest.raises(UsageError, match=r"case 1 \(dict\) are a `dict`, .* give a function `prompt` of the inputs"):
        Dataset.from_pydantic_evals(path)
    (case,) = Dataset.from_pydantic_evals(path, lambda inputs: inputs["question"])  # type: ignore[index]
    assert case.prompts == ("Why",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cases: [", "while parsing a flow node"),
        ("cases: {}", "Expected `array`, got `object`"),
        ("- 1", "Expected `object`, got `array`"),
        ("cases:\n- name: a", "missing required field `inputs`"),
        ("cases:\n- inputs: ''", "case 1: cannot use the case"),
        ("cases:\n- {inputs: a, name: x}\n- {inputs: b, name: x}", "another case has this name"),
        ("cases:\n- !!python/object:os.system {}", "could not determine a constructor"),
        ("\udcff", "invalid start byte"),
        ("cases:\n- {inputs: a, expected_output: &it [*it]}", "the anchor `it` has an alias of itself"),
        pytest.param(
            f"cases:\n- {{inputs: a, expected_output: {'[' * 900}{']' * 900}}}",
            "maximum recursion depth",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_is_no_data_set_is_told(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.yaml"
    path.write_text(text, "utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match=problem):
        Dataset.from_pydantic_evals(path)
    with pytest.raises(UsageError, match="No such file"):
        Dataset.from_pydantic_evals(tmp_path / "none.yaml")


@pytest.mark.parametrize("value", ["[{}]", "{{<<: [{}]}}"], ids=["lists", "keys that are merged"])
def test_aliases_of_aliases_are_bounded(value: str, tmp_path: Path) -> None:
    lines = [
        "a0: &a0 {a: some text}",
        *(f"a{n}: &a{n} {value.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, 12)),
    ]
    path = tmp_path / "cases.yaml"
    path.write_text("\n".join([*lines, "cases:", "- {inputs: a, expected_output: *a11}"]), "utf-8")
    with pytest.raises(UsageError, match="its aliases repeat more than 1000000 characters"):
        Dataset.from_pydantic_evals(path)
    path.write_text("text: &text Why\ncases:\n- {inputs: *text, name: a}\n- {inputs: *text, name: b}", "utf-8")
    assert [case.prompts for case in Dataset.from_pydantic_evals(path)] == [("Why",), ("Why",)]
