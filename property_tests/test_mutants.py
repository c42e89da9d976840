"""Tests of the edits that are made on purpose: what can be edited, that a test notices, and that explanations fit."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from property_tests.mutants import operators, server
from property_tests.mutants.__main__ import all_edits, costs
from property_tests.mutants.areas import SUITES
from property_tests.mutants.explained import EXPLAINED
from property_tests.mutants.operators import Edit
from property_tests.mutants.server import Fate, Job, fate

SAMPLE = '''"""A module."""

MOST = 3
PAIRS: dict[str, tuple[int, ...]] = defaultdict[str, tuple[int, ...]](tuple)
KINDS = {"a": one, "b": two, "c": (two), **OTHERS}
WORDS = ("x", "y")


class Lane:
    """A lane."""

    size: int = 0

    def put(self, letter: int = 1) -> bool:
        """Put it in."""
        log.info("put %s", letter)
        if self.closed or self.full:
            raise Full(f"{letter + 1}")
        self.letters.append(letter)
        self.size += letter
        with shielded():
            try:
                self.wake()
            except Gone:
                self.reader = None
        return min(self.size, MOST) < MOST
'''

EDITS = """
: 3 → 4
: "a": one → **{}
: one → two
: "b": two → **{}
: two → one
: two → one #2
: "x" → *()
: "y" → *()
Lane: 0 → 1
Lane.put: self.closed or self.full → (self.full)
Lane.put: self.closed or self.full → (self.closed)
Lane.put: raise Full(f"{letter + 1}") → pass
Lane.put: self.letters.append(letter) → pass
Lane.put: self.size += letter → pass
Lane.put: shielded() → __import__('contextlib').nullcontext()
Lane.put: self.wake() → pass
Lane.put: self.reader = None → raise
Lane.put: self.reader = None → pass
Lane.put: min(self.size, MOST) < MOST → min(self.size, MOST) <= MOST
Lane.put: min → max
Lane.put: 1 → 2
"""


def test_every_kind_of_change_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "ROOT", tmp_path)
    module = tmp_path / "agentrail" / "lane.py"
    module.parent.mkdir()
    module.write_text(SAMPLE, encoding="utf-8")
    edits = list(operators.edits_of(module))
    assert [edit.name.removeprefix("lane.py ") for edit in edits] == EDITS.strip().splitlines()
    for edit in edits:
        edited = edit.applied(SAMPLE)
        compile(edited, "lane.py", "exec")
        assert edited.count("\n") == SAMPLE.count("\n")


def test_every_edit_has_a_name_of_its_own_and_every_explanation_an_edit() -> None:
    edits = [edit.name for edit in all_edits()]
    assert len(edits) == len(set(edits)) > 5_000
    explained = [name for names in EXPLAINED.values() for name in names]
    assert len(explained) == len(set(explained))
    assert set(explained) <= set(edits)


def test_every_area_has_edits_and_tests() -> None:
    edited = {edit.area for edit in all_edits()}
    assert {area for suite in SUITES for area in suite.areas} == edited
    assert {"host", "adapters", "plugins"} <= edited
    assert all((operators.ROOT / path).exists() for suite in SUITES for path in suite.paths)


FATES = {
    "runtime/inbox/mailbox.py Mailbox._take_result: 0 → 1 #2": "fails",
    "runtime/inbox/mailbox.py Mailbox.receive: await trio.lowlevel.wait_task_rescheduled(self) → pass": "SIGXCPU",
    "runtime/inbox/letter.py Letter.__init__: 0 → 1 #2": "fails",
    "runtime/inbox/mailbox.py : 16 → 17": "survived",
    "runtime/events/tracing.py ActorTrace.__aenter__: self._traces.remove(self) → pass": "unreached",
}
"""What becomes of edits when the tests of the mailbox alone are run; those without a function run at the import."""


@pytest.mark.long
def test_each_edit_has_the_fate_that_it_should(tmp_path: Path) -> None:
    options = ["--edits=1000000", "--jobs=1", "--tests=tests/runtime/test_mailbox.py", f"--results={tmp_path / 'all'}"]
    ran = subprocess.run(
        [sys.executable, "-m", "property_tests.mutants", *options, *FATES], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stderr
    told = [line.partition(" — ")[0].partition(": ") for line in ran.stdout.splitlines() if " — " in line]
    assert {name: how for how, _, name in told} == FATES
    assert re.search(r"^runtime: \d+ CPU minutes of tests, which are \d+ on 2 cores$", ran.stdout, re.MULTILINE)


def test_what_the_edits_of_each_area_cost_is_told_also_of_earlier_runs() -> None:
    edits = [edit_of("core/a.py"), edit_of("core/b.py"), edit_of("runtime/a.py"), edit_of("runtime/b.py")]
    fates = {edit.name: Fate("fails", "test", 1, 600.0) for edit in edits[:3]}
    assert list(costs(edits, fates)) == [
        "core: 20 CPU minutes of tests, which are 10 on 2 cores",
        "runtime: 10 CPU minutes of tests, which are 5 on 2 cores",
        "all: 30 CPU minutes of tests, which are 15 on 2 cores",
    ]


def edit_of(module: str) -> Edit:
    return Edit(module, "f", "1", "2", 0, frozenset({1}), 0, 1)


def test_a_process_that_waits_for_a_busy_one_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time counts from the last that any process of its group has used."""
    monkeypatch.setattr(server, "PATIENCE", 1.0)
    job = Job(edit_of("core/a.py"), ("test",), cold=False)

    def run(code: str, _tests: Sequence[str], pipe: int) -> int:
        os.write(pipe, b"test\n")
        return subprocess.run([sys.executable, "-c", code], check=False).returncode

    assert fate(job, partial(run, "sum(range(60_000_000))")).how == "survived"
    assert fate(job, partial(run, "import time; time.sleep(600)")).how == "hangs"


def test_a_process_that_only_wakes_up_now_and_then_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST", 2.0)

    def run(_tests: Sequence[str], pipe: int) -> int:
        os.write(pipe, b"test\n")
        while True:
            sum(range(1_000_000))
            time.sleep(0.1)

    assert fate(Job(edit_of("core/a.py"), ("test",), cold=False), run).how == "hangs"
