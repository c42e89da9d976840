"""Records once which test reaches which line, and how long it takes: `python -m property_tests.mutants.reach`.

What is recorded of a file of tests stays in `build/mutants` until the package, that file, or a module that tests share
changes. Without arguments, all that `make test` runs is recorded.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest
from attrs import define, field, frozen
from coverage import Coverage, CoverageData

from property_tests.mutants.operators import ROOT, Edit

BUILD: Final = ROOT / "build" / "mutants"

OPTIONS: Final = (
    "--quiet",
    "--no-header",
    "--no-summary",
    "--disable-warnings",
    "--assert=plain",  # pytest would import the package by itself, as it is a plugin, and so without an edit
    "-p",
    "no:cacheprovider",
)


IMPORT: Final = ""
"""What stands for a test while modules are imported."""


@frozen
class Part:
    """Tests that are recorded together."""

    path: str
    """Their folder or module."""
    is_long: bool = False
    """Whether these are the ones that are marked `long`, or the others."""

    @property
    def mark(self) -> str:
        """Expression of marks by which pytest selects them."""
        return "long" if self.is_long else "not long"

    @property
    def files(self) -> list[str]:
        """Their files."""
        path = ROOT / self.path
        files = path.rglob("test_*.py") if path.is_dir() else [path]
        return sorted(file.relative_to(ROOT).as_posix() for file in files)


@frozen
class Reach:
    """Which tests reach what."""

    seconds: dict[str, float]
    """CPU time of each test that passes, by its node id."""
    recordings: tuple[CoverageData, ...]
    """Lines by test, or by `IMPORT`."""
    _known: dict[str, dict[int, list[str]]] = field(init=False, factory=dict)

    def tests(self, edit: Edit) -> tuple[list[str], bool]:
        """Return the tests that reach *edit*, the quick ones of many files first, and whether it runs at the import.

        If it runs only then, these are all tests, those that reach its module first: a table may be read by others.
        """
        lines = self._lines(edit.module)
        reached = {test for line in edit.lines for test in lines.get(line, ())}
        imported = IMPORT in reached
        others: set[str] = set()
        if reached == {IMPORT}:
            reached = {test for tests in lines.values() for test in tests}
            others = self.seconds.keys() - reached
        return [*self._in_turn(reached & self.seconds.keys()), *self._in_turn(others)], imported

    def _lines(self, module: str) -> dict[int, list[str]]:
        if module not in self._known:
            lines: dict[int, list[str]] = {}
            for recording in self.recordings:
                for line, tests in recording.contexts_by_lineno(str(ROOT / "agentrail" / module)).items():
                    lines.setdefault(line, []).extend(tests)
            self._known[module] = lines
        return self._known[module]

    def _in_turn(self, tests: Collection[str]) -> list[str]:
        """Return *tests*, quick ones first; the time of the second of a file counts twice, so that many files come."""
        nth: Counter[str] = Counter()
        cost: dict[str, float] = {}
        for test in sorted(tests, key=lambda test: (self.seconds[test], test)):
            file = test.partition("::")[0]
            nth[file] += 1
            cost[test] = nth[file] * self.seconds[test]
        return sorted(cost, key=cost.__getitem__)


def all_parts() -> list[Part]:
    """Return what `make test` runs: each folder of tests, and each module beside them."""
    tests = ROOT / "tests"
    paths = [*(path.parent for path in tests.glob("*/__init__.py")), *tests.glob("test_*.py")]
    return [Part(path.relative_to(ROOT).as_posix()) for path in sorted(paths)]


def reach(parts: Iterable[Part]) -> Reach:
    """Return who reaches what among the tests of *parts*: as recorded, or recorded now."""
    _forget_old()
    seconds: dict[str, float] = {}
    recordings: list[CoverageData] = []
    sources = _sources()
    for part in parts:
        places = _cut_indices(part.files, part.mark, sources)
        new = [file for file, at in places.items() if not at.with_suffix(".json").exists()]
        if new:
            print(f"recording which test reaches which line: {len(new)} files of {part.path}, {part.mark}", flush=True)
            subprocess.run(
                [sys.executable, "-m", "property_tests.mutants.reach", part.mark, *new], check=True, cwd=ROOT
            )
        for at in places.values():
            seconds |= json.loads(at.with_suffix(".json").read_text(encoding="utf-8"))
            if at.with_suffix(".coverage").exists():
                data = CoverageData(str(at.with_suffix(".coverage")))
                data.read()
                recordings.append(data)
    return Reach(seconds, tuple(recordings))


def _forget_old() -> None:
    for old in BUILD.glob("reach-*"):
        if time.time() - old.stat().st_mtime > 100_000:
            old.unlink()


def _sources() -> bytes:
    """Return a digest of what any test may import."""
    shared = (path for path in (ROOT / "tests").rglob("*.py") if not path.name.startswith("test_"))
    return _digest([*(ROOT / "agentrail").rglob("*.py"), *shared])


def _cut_indices(files: Iterable[str], mark: str, sources: bytes) -> dict[str, Path]:
    """Return where what is recorded of each of *files* is stored, without a suffix."""
    return {file: BUILD / f"reach-{_key(file, mark, sources)}" for file in files}


def _key(file: str, mark: str, sources: bytes) -> str:
    parts = (sources, file.encode(), mark.encode(), (ROOT / file).read_bytes())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _digest(paths: Iterable[Path]) -> bytes:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.digest()


@define(eq=False)
class Recorder:
    """A plugin of pytest that makes a recording of each file of tests, in which each test has a context of its own."""

    places: Mapping[str, Path]
    """Where the recording of each file is stored, without a suffix."""
    _file: str = ""
    _coverage: Coverage | None = None
    _seconds: dict[str, dict[str, float]] = field(factory=dict)

    def turn_to(self, file: str) -> None:
        """Go on with the recording of *file*; no-op if it is the one under way."""
        if file == self._file:
            return
        self.store()
        at = self.places[file]
        coverage = Coverage(str(at.with_suffix(".coverage")), include=[f"{ROOT}/agentrail/*"], config_file=False)
        coverage.set_option("run:disable_warnings", ["no-data-collected"])  # a file may test programs of its own
        if file in self._seconds:
            coverage.load()
        self._file, self._coverage = file, coverage
        self._seconds.setdefault(file, {})
        coverage.start()

    def store(self) -> None:
        """End the recording that is under way, and store it."""
        if self._coverage is not None:
            self._coverage.stop()
            self._coverage.save()
            seconds = json.dumps(self._seconds[self._file])
            self.places[self._file].with_suffix(".json").write_text(seconds, encoding="utf-8")
            self._file, self._coverage = "", None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record the lines and the time of one test."""
        self.turn_to(item.nodeid.partition("::")[0])
        assert self._coverage is not None
        seconds = self._seconds[self._file]
        self._coverage.switch_context(item.nodeid)
        began = time.process_time()
        seconds[item.nodeid] = 0.0
        done = yield
        if item.nodeid in seconds:
            seconds[item.nodeid] = time.process_time() - began
        self._coverage.switch_context(IMPORT)
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out what does not pass."""
        if not report.passed:
            self._seconds[self._file].pop(report.nodeid, None)


def record(mark: str, files: Sequence[str]) -> None:
    """Run the tests of *files* with a *mark*, and store which lines each reaches."""
    BUILD.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(_cut_indices(files, mark, _sources()))
    recorder.turn_to(files[0])  # it also gets what runs while the modules of all files are imported
    code = pytest.main([*OPTIONS, f"--basetemp={BUILD / f'tmp-{os.getpid()}'}", "-m", mark, *files], [recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"the tests could not be run: {code!r}")
    recorder.store()
    for at in recorder.places.values():
        if not at.with_suffix(".json").exists():  # no test of the file has this mark
            at.with_suffix(".json").write_text("{}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        record(sys.argv[1], sys.argv[2:])
    else:
        reach(all_parts())
