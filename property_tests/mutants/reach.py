"""Records once which test reaches which line, and how long it takes; kept in `build/mutants` until a source changes."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from attrs import define, field, frozen
from coverage import Coverage, CoverageData

from property_tests.mutants.operators import AREAS, ROOT, Edit

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
class Reach:
    """Which tests reach what."""

    seconds: dict[str, float]
    """CPU time of each test that passes, by its node id."""
    data: CoverageData
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
            self._known[module] = self.data.contexts_by_lineno(str(ROOT / "agentrail" / module))
        return self._known[module]

    def _in_turn(self, tests: Collection[str]) -> list[str]:
        """Return *tests*, quick ones first; the time of the second of a file counts twice, so that many files come."""
        nth: Counter[str] = Counter()
        cost: dict[str, float] = {}
        for test in sorted(tests, key=self.seconds.__getitem__):
            file = test.partition("::")[0]
            nth[file] += 1
            cost[test] = nth[file] * self.seconds[test]
        return sorted(cost, key=cost.__getitem__)


def reach(paths: Sequence[str]) -> Reach:
    """Return who reaches what among the tests at *paths*: as recorded, or recorded now."""
    at = BUILD / f"reach-{_key(paths)}"
    if not at.with_suffix(".json").exists():
        for old in BUILD.glob("reach-*"):
            if time.time() - old.stat().st_mtime > 100_000:
                old.unlink()
        print("recording which test reaches which line", *paths, flush=True)
        subprocess.run([sys.executable, "-m", "property_tests.mutants.reach", str(at), *paths], check=True, cwd=ROOT)
    data = CoverageData(str(at.with_suffix(".coverage")))
    data.read()
    return Reach(json.loads(at.with_suffix(".json").read_text(encoding="utf-8")), data)


def _key(paths: Sequence[str]) -> str:
    digest = hashlib.sha256(" ".join(paths).encode())
    for folder in ("agentrail", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


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


def record(at: Path, paths: Sequence[str]) -> None:
    """Run the tests at *paths*, and store which lines each reaches."""
    at.parent.mkdir(parents=True, exist_ok=True)
    of = [f"{ROOT}/agentrail/{area}/*" for area in AREAS]
    coverage = Coverage(data_file=str(at.with_suffix(".coverage")), include=of, config_file=False)
    coverage.start()
    recorder = Recorder(coverage)
    code = pytest.main([*OPTIONS, f"--basetemp={at.with_suffix('.tmp')}", *paths], [recorder])
    coverage.stop()
    coverage.save()
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        sys.exit(f"the tests could not be run: {code!r}")
    at.with_suffix(".json").write_text(json.dumps(recorder.seconds), encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2:])
