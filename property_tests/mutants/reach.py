"""Records once which test reaches which line, and how long it takes: `python -m property_tests.mutants.reach`.

What is recorded of a folder of tests stays in `build/mutants` until the package, a test of that folder, or a module
that tests share changes. Without arguments, all that `make test` runs is recorded.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
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
    def options(self) -> tuple[str, ...]:
        """What pytest is given to run them."""
        return "-m", "long" if self.is_long else "not long", self.path


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
        at = BUILD / f"reach-{_key(part, sources)}"
        if not at.with_suffix(".json").exists():
            print("recording which test reaches which line:", *part.options, flush=True)
            command = [sys.executable, "-m", "property_tests.mutants.reach", str(at), *part.options]
            subprocess.run(command, check=True, cwd=ROOT)
        seconds |= json.loads(at.with_suffix(".json").read_text(encoding="utf-8"))
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


def _key(part: Part, sources: bytes) -> str:
    path = ROOT / part.path
    tests = _digest(path.rglob("test_*.py") if path.is_dir() else [path])
    return hashlib.sha256(sources + tests + " ".join(part.options).encode()).hexdigest()[:16]


def _digest(paths: Iterable[Path]) -> bytes:
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.digest()


@define(eq=False)
class Recorder:
    """A plugin of pytest that gives each test a context of its own."""

    coverage: Coverage
    seconds: dict[str, float] = field(factory=dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record the lines and the time of one test."""
        self.coverage.switch_context(item.nodeid)
        began = time.process_time()
        self.seconds[item.nodeid] = 0.0
        done = yield
        if item.nodeid in self.seconds:
            self.seconds[item.nodeid] = time.process_time() - began
        self.coverage.switch_context(IMPORT)
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Leave out what does not pass."""
        if not report.passed:
            self.seconds.pop(report.nodeid, None)


def record(at: Path, options: Sequence[str]) -> None:
    """Run the tests that pytest finds by *options*, and store which lines each reaches."""
    at.parent.mkdir(parents=True, exist_ok=True)
    data_file, of = str(at.with_suffix(".coverage")), [f"{ROOT}/agentrail/*"]
    coverage = Coverage(data_file=data_file, include=of, config_file=False)
    coverage.start()
    recorder = Recorder(coverage)
    code = pytest.main([*OPTIONS, f"--basetemp={at.with_suffix('.tmp')}", *options], [recorder])
    coverage.stop()
    coverage.save()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        sys.exit(f"the tests could not be run: {code!r}")
    at.with_suffix(".json").write_text(json.dumps(recorder.seconds), encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        record(Path(sys.argv[1]), sys.argv[2:])
    else:
        reach(all_parts())
