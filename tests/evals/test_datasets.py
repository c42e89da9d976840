"""Cases in files."""

from pathlib import Path

import pytest

from agentrail.errors import UsageError
from agentrail.evals import Case, CasePast, Dataset, RecordedCall, expect

CASES = (
    Case("plain", ("Hi",)),
    Case(
        "full",
        ("I want my money back", "Now!"),
        expected={"refund": True},
        calls=(expect("refund", order_id=17),),
        tools="recorded",
        recorded=(RecordedCall("refund", {"order_id": 17}, "done", decision="approved"),),
        past=CasePast("past.jsonl", 12),
        tags=("money",),
        source="session:2",
    ),
    Case("fixed", ("Hi",), tools={"look": "nothing"}),
)


def test_a_file_of_cases_comes_back(tmp_path: Path) -> None:
    Dataset(CASES).write(tmp_path / "cases.jsonl")
    dataset = Dataset.read(tmp_path / "cases.jsonl")
    assert dataset.cases == CASES
    assert dataset.folder == tmp_path
    assert [case.name for case in dataset.tagged("money")] == ["full"]
    assert [path.name for path in tmp_path.iterdir()] == ["cases.jsonl"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", r"line 3: Input data was truncated"),
        ('{"name": "a"}', r"line 3: Object missing required field `prompts`"),
        ('{"name": "a", "prompts": "Hi"}', r"line 3: Expected `array`, got `str` - at `\$.prompts`"),
        ('{"name": "a", "prompts": ["Hi"], "expect": 1}', "line 3: Object contains unknown field `expect`"),
        ('{"name": "a", "prompts": []}', "line 3: cannot use the case `a`: it has no prompt"),
        ('{"name": "a b", "prompts": ["Hi"]}', "line 3: cannot use the case `a b`: a name is"),
        ('{"name": "first", "prompts": ["Hi"]}', "line 3: the case of line 1 is called `first` too"),
        ('{"name": "a", "prompts": ["Hi"], "tools": "replayed"}', "line 3: Invalid enum value 'replayed'"),
        ("\udcff", "line 3: "),
        (f'{{"name": "a", "prompts": ["Hi"], "expected": {"[" * 100_000}', "line 3: maximum recursion depth"),
    ],
    ids=range(10),
)
def test_a_broken_line_is_named(line: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(f'{{"name": "first", "prompts": ["Hi"]}}\n\n{line}\n', "utf-8", errors="surrogateescape")
    with pytest.raises(UsageError, match=problem) as caught:
        Dataset.read(path)
    assert str(path) in str(caught.value)


def test_a_file_without_cases_and_a_missing_one_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UsageError, match="has no case"):
        Dataset.read(tmp_path / "empty.jsonl")
    with pytest.raises(UsageError, match="No such file"):
        Dataset.read(tmp_path / "none.jsonl")


def test_cases_that_could_never_run_are_refused() -> None:
    with pytest.raises(UsageError, match="another case has this name"):
        Dataset([CASES[0], CASES[0]])
    with pytest.raises(UsageError, match="write a list"):
        Case("a", "Hi")  # type: ignore[arg-type]


def test_cases_with_a_tag_have_the_same_folder(tmp_path: Path) -> None:
    dataset = Dataset([Case("a", ("x",), tags=("hard",)), Case("b", ("x",))], tmp_path)
    hard = dataset.tagged("hard")
    assert ([case.name for case in hard], hard.folder) == (["a"], tmp_path)


def test_of_a_file_nothing_is_lost_if_it_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, real = tmp_path / "cases.jsonl", Path.write_bytes
    Dataset([Case("a", ("x",))]).write(file)
    before = file.read_bytes()

    def write_half(path: Path, data: bytes) -> int:
        real(path, data[: len(data) // 2])
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", write_half)
        with pytest.raises(OSError, match="no space left"):
            Dataset([Case("b", ("y",))]).write(file)
    assert file.read_bytes() == before
