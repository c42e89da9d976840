"""Tests edits, each in a fork of a process that has collected the tests: an edit costs no start.

What is in functions is put into the functions that there are, whoever has imported them. What runs at the import is
tested in a fork of a process that has not imported the package yet.
"""

from __future__ import annotations

import gc
import importlib.abc
import importlib.machinery
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import spec_from_loader
from inspect import CO_NEWLOCALS
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Final, TypeAlias

import pytest
from attrs import define, evolve, frozen

from property_tests.mutants.operators import ROOT, Edit
from property_tests.mutants.reach import BUILD, OPTIONS

LEAST_SECONDS: Final = 6
"""CPU seconds that a test may take at least, with fixtures of its module; it may take ten times what it took."""
FAILED: Final = 1
"""Exit code of the process of an edit that a test notices; 0 if none does."""
UNKNOWN: Final = 3
"""Exit code of the process of an edit in a function that is not there."""
BROKEN: Final = 4
"""Exit code of a process that has failed by itself."""
IMPORTED: Final = "import"
"""What has noticed an edit with which the module, or a test, cannot be imported."""
HOW: Final = {0: "survived", UNKNOWN: "unknown"}
TWICE: Final = ("fails", "hangs")
"""What a test may do by chance."""

Position: TypeAlias = tuple[str, int, str]
"""Path, first line and qualified name of a function, which tell it from all others."""
Run: TypeAlias = Callable[[Sequence[str], int], int]
"""Function that runs tests with an edit, tells a pipe which one begins, and returns the exit code."""
Functions: TypeAlias = Mapping[Position, list[FunctionType]]

PATIENCE: Final = 8.0
"""Seconds of sleep after which a test hangs."""
LONGEST: Final = 180.0
"""Seconds after which a test hangs that only wakes up now and then, as a thread of its own does."""
_KILLERS: Final[defaultdict[str, Counter[str]]] = defaultdict(Counter)
"""How many edits of a module each test has killed in this process."""
MEMORY: Final = 3 * 1024**3
"""Bytes that a process may take."""


@frozen
class Fate:
    """What has become of an edit."""

    how: str
    """`fails`, `hangs`, the name of a signal, or why nobody has noticed it."""
    by: str | None
    """The test that has noticed it; `None` if none has."""
    tests: int
    """How many tests were run."""
    seconds: float
    """CPU time of that, of all processes."""


# Putting an edit into this process


class Editor(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with other code."""

    def __init__(self, name: str, code: CodeType) -> None:
        self._name = name
        self._code = code

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Answer for the module that is edited."""
        return spec_from_loader(fullname, self, origin=self._code.co_filename) if fullname == self._name else None

    def exec_module(self, module: ModuleType) -> None:
        """Run the edited code."""
        module.__file__ = self._code.co_filename
        exec(self._code, vars(module))  # noqa: S102 - it is our own module, edited


def position_of(code: CodeType) -> Position:
    """Return where *code* is written, which tells a function from all others."""
    return code.co_filename, code.co_firstlineno, code.co_qualname


def functions() -> dict[Position, list[FunctionType]]:
    """Return the functions of the package that there are, by their place."""
    found: dict[Position, list[FunctionType]] = {}
    ours = str(ROOT / "agentrail")
    for each in gc.get_objects():
        if type(each) is FunctionType and each.__code__.co_filename.startswith(ours):
            found.setdefault(position_of(each.__code__), []).append(each)
    return found


def differing(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Yield the functions that differ, outer ones first; raise `ValueError` if anything else does."""
    if old.co_flags & CO_NEWLOCALS:
        yield old, new
    elif _bare(old) != _bare(new):
        raise ValueError(old.co_qualname)
    for before, after in zip(_inner(old), _inner(new), strict=False):
        if before != after:
            yield from differing(before, after)


def _inner(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


def _bare(code: CodeType) -> CodeType:
    """Return *code* without its functions and without the lines on which they end."""
    consts = tuple(None if isinstance(each, CodeType) else each for each in code.co_consts)
    return code.replace(co_consts=consts, co_linetable=b"")


def put(edit: Edit, known: Mapping[Position, list[FunctionType]]) -> bool:
    """Put *edit* into the functions that there are; return whether all of them were found."""
    before, after = codes(edit)
    for old, new in differing(before, after):
        for function in known.get(position_of(old), ()):
            function.__code__ = new
    return all(known.get(position_of(old)) for old, _ in differing(before, after) if "<locals>" not in old.co_qualname)


@cache
def _parsed(path: Path) -> tuple[str, CodeType]:
    text = path.read_text(encoding="utf-8")
    return text, compile(text, path, "exec")


def module_of(edit: Edit) -> str:
    """Return the name of the module that *edit* is in."""
    return f"agentrail/{edit.module}".removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def codes(edit: Edit) -> tuple[CodeType, CodeType]:
    """Return the code of the module, and its code with *edit*."""
    path = ROOT / "agentrail" / edit.module
    text, before = _parsed(path)
    return before, compile(edit.applied(text), path, "exec")


def needs_import(edit: Edit) -> bool:
    """Whether *edit* is in what runs when its module is imported."""
    before, after = codes(edit)
    try:
        return not list(differing(before, after))
    except ValueError:
        return True


# Running tests


@frozen
class Job:
    """An edit, and the tests that reach it."""

    edit: Edit
    tests: tuple[str, ...]
    cold: bool
    """Whether its code runs when the module is imported."""


@define(eq=False)
class Watcher:
    """A plugin of pytest, in the process of one edit, that tells which test runs, and ends at the first that fails."""

    pipe: int
    seconds: Mapping[str, float]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tell which test begins, and limit it."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        least = int(used.ru_utime + used.ru_stime + max(LEAST_SECONDS, 10 * self.seconds.get(nodeid, 0.0))) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (least, resource.RLIM_INFINITY))
        os.write(self.pipe, f"{nodeid}\n".encode())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """End at the first failure."""
        if report.failed:
            os._exit(FAILED)


def fate(job: Job, run: Run) -> Fate:
    """Test *job*, by the tests that killed its neighbours first.

    A test that fails or hangs has to do so twice, for on a busy machine one that reads a clock may.
    """
    killers = _KILLERS[job.edit.module]
    tests = sorted(job.tests, key=lambda test: -killers[test])
    left, spent = len(tests), 0.0
    while tests:
        found = _once(tests, run)
        spent += found.seconds
        if found.how not in TWICE or found.by not in tests:
            return evolve(found, seconds=spent)
        again = _once((found.by,), run)
        spent += again.seconds
        if again.by is not None:
            killers[found.by] += 1
            return evolve(found, seconds=spent)
        tests.remove(found.by)
    return Fate("unreached" if not job.tests else "survived", None, left, spent)


def _once(tests: Sequence[str], run: Run) -> Fate:
    """Fork, let *run* test the edit there, and watch: it returns the exit code."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        code = BROKEN
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
            code = run(tests, writing)
        except BaseException:  # noqa: BLE001 - told to the process that waits for this one
            os.write(writing, f"{traceback.format_exc()}\n".encode())
        finally:
            os._exit(code)
    os.close(writing)
    told, hangs = _watched(pid, reading)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _, status, used = os.wait4(pid, 0)
    os.close(reading)
    names = told.decode().split("\n")[:-1]
    seconds = round(used.ru_utime + used.ru_stime, 2)
    last = names[-1] if names else IMPORTED
    if hangs or os.WIFSIGNALED(status):
        return Fate("hangs" if hangs else signal.Signals(os.WTERMSIG(status)).name, last, len(names), seconds)
    code = os.WEXITSTATUS(status)
    if code == BROKEN:
        raise RuntimeError(told.decode())
    return Fate(HOW.get(code, "fails"), None if code in HOW else last, len(names), seconds)


def _watched(pid: int, reading: int) -> tuple[bytes, bool]:
    """Read until the process has ended, has slept for `PATIENCE`, or is in one test for `LONGEST`.

    Return what it told, and whether it hangs.
    """
    told, used = b"", -1
    since = began = time.monotonic()
    while True:
        if select.select([reading], [], [], 1.0)[0]:
            more = os.read(reading, 65536)
            if not more:
                return told, False
            told, began = told + more, time.monotonic()
        state, *_ = _figures(Path(f"/proc/{pid}/stat"))
        ticks = sum(_ticks(pid))
        if ticks != used or state != "S":
            used, since = ticks, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            return told, True
        if time.monotonic() - began > LONGEST:
            return told, True


def _ticks(group: int) -> Iterator[int]:
    """Yield the CPU time of each process of a group, with that of its children that have ended."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            figures = _figures(path)
            if int(figures[2]) == group:
                yield sum(map(int, figures[11:15]))


def _figures(stat: Path) -> list[str]:
    """Return the figures of a process: its state, parent, group, and so on."""
    return stat.read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()


@define(eq=False)
class Warm:
    """A plugin of pytest that, once the tests are collected, tests each edit in a fork."""

    jobs: Sequence[Job]
    seconds: Mapping[str, float]
    tell: Callable[[Job, Fate], None]

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Test every edit."""
        for name in {module_of(job.edit) for job in self.jobs}:
            import_module(name)  # the package imports some when they are first used
        gc.unfreeze()
        known = functions()
        gc.freeze()
        items = {item.nodeid: item for item in session.items}
        for job in self.jobs:
            self.tell(job, fate(job, partial(self._run, known, items, job.edit)))
        return True

    def _run(
        self, known: Functions, items: Mapping[str, pytest.Item], edit: Edit, tests: Sequence[str], pipe: int
    ) -> int:
        if not put(edit, known):
            return UNKNOWN
        wanted = [items[test] for test in tests]
        wanted[0].config.pluginmanager.register(Watcher(pipe, self.seconds))
        for item, after in zip(wanted, [*wanted[1:], None], strict=True):
            try:
                item.ihook.pytest_runtest_protocol(item=item, nextitem=after)
            except BaseException:  # noqa: BLE001 - it fails in a way that pytest cannot report, such as a deep recursion
                return FAILED
        return 0


def cold(job: Job, seconds: Mapping[str, float], options: Sequence[str]) -> Fate:
    """Test *job* in a process that imports the edited module."""

    def run(tests: Sequence[str], pipe: int) -> int:
        sys.meta_path.insert(0, Editor(module_of(job.edit), codes(job.edit)[1]))
        quiet()
        watcher = Watcher(pipe, seconds)
        return FAILED if any(pytest.main([*options, *some], [watcher]) for some in by_files(job, tests)) else 0

    return fate(job, run)


def by_files(job: Job, tests: Sequence[str]) -> Iterator[list[str]]:
    """Yield *tests* by their files: those of the likeliest two first, then of twice as many each time."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    name = Path(job.edit.module).stem
    order = sorted(files, key=lambda file: (name not in file, -len(files[file])))
    many = 2
    while order:
        yield [test for file in order[:many] for test in files[file]]
        order, many = order[many:], 2 * many


def quiet(log: Path = Path(os.devnull)) -> None:
    """Let this process print to *log* alone."""
    at = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(at, 1)
    os.dup2(at, 2)


def work(
    jobs: Sequence[Job],
    seconds: Mapping[str, float],
    paths: Sequence[str],
    tell: Callable[[Job, Fate], None],
    log: Path,
) -> None:
    """Test *jobs*, all of one kind, in a process of its own that has not imported the package."""
    options = [*OPTIONS, f"--basetemp={BUILD / f'tmp-{os.getpid()}'}"]
    quiet(log)
    if jobs and not jobs[0].cold:
        pytest.main([*options, *paths], [Warm(jobs, seconds, tell)])
        return
    for job in jobs:
        tell(job, cold(job, seconds, options))
