"""`ResultsFolder`: what a folder has of results, and what else may lie in it."""

import os
from pathlib import Path

import pytest

from agentrail.evals import Results, results_folder
from agentrail.evals.results_folder import ResultsFolder


def written(folder: Path, name: str, seconds: int) -> Path:
    """Write results called *name* at a time so many *seconds* after 1970."""
    file = folder / f"{name}.json"
    Results(name, (), (), 1, ()).write(file)
    os.utime(file, (seconds, seconds))
    return file


def summary(file: str, at_ms: int, results: Results) -> tuple[str, int, str]:
    return file, at_ms, results.name


def test_results_are_there_with_the_newest_first_and_other_files_are_left_out(tmp_path: Path) -> None:
    for name, seconds in (("middle", 20), ("newest", 30), ("oldest", 10)):
        written(tmp_path, name, seconds)
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    (tmp_path / "deep.json").write_text(f'{{"name": {"[" * 100_000}', encoding="utf-8")
    written(tmp_path, "no text", 40).rename(tmp_path / "no text \udcff.json")
    assert ResultsFolder(tmp_path, summary).summaries() == (
        ("newest", 30_000, "newest"),
        ("middle", 20_000, "middle"),
        ("oldest", 10_000, "oldest"),
    )


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "long", 10)
    monkeypatch.setattr(results_folder, "MOST_BYTES", file.stat().st_size - 1)
    assert ResultsFolder(tmp_path, summary).summaries() == ()
    monkeypatch.setattr(results_folder, "MOST_BYTES", file.stat().st_size)
    assert len(ResultsFolder(tmp_path, summary).summaries()) == 1
