"""Tests of the kill matrix: what is drawn, stored and compared, and which tests are asked."""

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import pytest
from coverage import CoverageData

from property_tests.mutants import matrix
from property_tests.mutants.areas import Suite
from property_tests.mutants.matrix import (
    EDITS,
    FILE,
    GROUPS,
    MORE_SECONDS,
    SECONDS,
    drawn,
    is_near,
    jobs_of,
    load,
    lost_edits,
    main,
    store,
)
from property_tests.mutants.operators import Edit
from property_tests.mutants.reach import Reach
from property_tests.mutants.server import Job

MATRIX = {"host/a.py A.f: 1 → 2": ["api", "host"], "host/a.py g: x or y → (x)": []}


def test_a_matrix_is_read_as_it_was_written(tmp_path: Path) -> None:
    store(tmp_path / "matrix.txt", MATRIX)
    assert load(tmp_path / "matrix.txt") == MATRIX
    assert load(tmp_path / "none.txt") == {}


def test_an_edit_is_lost_when_no_folder_notices_it_any_more() -> None:
    before = {"seen": ["api", "host"], "elsewhere": ["api"], "lost": ["host"], "never": []}
    assert lost_edits(before, {"seen": ["host"], "elsewhere": ["remote"], "lost": [], "never": []}) == ["lost"]


def test_an_edit_that_is_gone_is_replaced_and_the_others_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix, "needs_import", lambda _: False)
    (group,) = (group for group in GROUPS if group.areas == ("core",))
    edits = [Edit("core/compaction.py", f"f{nth}", "1", "2", 0, frozenset({1}), 0, 1) for nth in range(EDITS + 9)]
    edits.sort(key=lambda edit: edit.rank)
    worst = edits[-EDITS:]
    gone, *stay = worst
    now = [edit for edit in edits if edit is not gone]
    names = {edit.name for edit in worst}
    assert set(drawn(now, group, names)) == {*stay, now[0]}
    assert drawn(now, Suite(("host",), ()), names) == []


def test_an_interrupted_run_keeps_what_it_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, tried = tmp_path / "matrix.txt", list[str]()

    def interrupted(_: Iterable[Edit], names: Collection[str], _jobs: int) -> dict[str, list[str]]:
        if tried:
            raise KeyboardInterrupt
        tried.extend(names)
        return {name: ["core"] for name in names}

    monkeypatch.setattr(matrix, "FILE", file)
    monkeypatch.setattr(matrix, "tested", interrupted)
    store(file, MATRIX)
    with pytest.raises(KeyboardInterrupt):
        main(["--write", "--area", "core"])
    assert load(file) == MATRIX | {name: ["core"] for name in tried}
    assert 0 < len(tried) < EDITS


def test_an_edit_that_no_quick_test_notices_is_looked_at_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edits = [Edit("core/cache_prefix.py", name, "1", "2", 0, frozenset({1}), 0, 1) for name in ("quick", "slow")]
    looked: list[tuple[str, float]] = []

    def look(_: Suite, those: Sequence[Edit], _jobs: int, seconds: float) -> None:
        looked.extend((edit.function, seconds) for edit in those)
        with matrix.RESULTS.open("a", encoding="utf-8") as out:
            for edit in those:
                by = "test_it" if edit.function == "quick" or seconds > SECONDS else None
                out.write(json.dumps([edit.name, "core", by]) + "\n")

    monkeypatch.setattr(matrix, "RESULTS", tmp_path / "matrix.jsonl")
    monkeypatch.setattr(matrix, "_test", look)
    names = [edit.name for edit in edits]
    assert matrix.tested(edits, names, 1) == {name: ["core"] for name in names}
    assert sorted(looked) == [("quick", SECONDS), ("slow", SECONDS), ("slow", MORE_SECONDS)]


def test_each_folder_gets_its_quick_tests_that_reach_the_edit_and_more_of_those_near_it() -> None:
    edit = Edit("core/machine/hook_order.py", "f", "1", "2", 0, frozenset({1}), 0, 1)
    seconds = {
        "tests/core/test_a.py::test_slow": SECONDS,
        "tests/core/test_a.py::test_slower": SECONDS,
        "tests/core/test_a.py::test_quick": 0.1,
        "tests/core/test_order.py::test_slow": SECONDS,
        "tests/host/ag_ui/test_b.py::test_b": 0.1,
    }

    class RecordedRunner(CoverageData):
        """All tests reach line 1."""

        def contexts_by_lineno(self, filename: str) -> dict[int, list[str]]:
            """Return that."""
            return {1: list(seconds)}

    jobs = jobs_of(edit, Reach(seconds, (RecordedRunner(no_disk=True),)))
    assert sorted(jobs, key=lambda job: job.tests) == [
        Job(
            edit,
            (
                "tests/core/test_order.py::test_slow",
                "tests/core/test_a.py::test_quick",
                "tests/core/test_a.py::test_slow",
            ),
            cold=False,
        ),
        Job(edit, ("tests/host/ag_ui/test_b.py::test_b",), cold=False),
    ]


@pytest.mark.parametrize(
    ("test", "is_it"),
    [
        ("tests/host/http11/test_limits.py::test_a", True),
        ("tests/host/test_server_ends.py::test_a", True),
        ("tests/host/test_streams.py::test_http11", False),
    ],
)
def test_a_test_is_near_an_edit_by_a_word_of_its_path(test: str, is_it: bool) -> None:
    edit = Edit("host/http11/http_server.py", "f", "1", "2", 0, frozenset({1}), 0, 1)
    assert is_near(test, edit) is is_it


def test_each_edit_of_the_matrix_is_of_a_group_and_its_folders_are_asked() -> None:
    stored = load(FILE)
    asked = {area: {Path(path).name for path in group.paths} for group in GROUPS for area in group.areas}
    assert all(asked[name.partition("/")[0]].issuperset(folders) for name, folders in stored.items())
    for group in GROUPS:
        assert sum(name.partition("/")[0] in group.areas for name in stored) in (0, EDITS)
