"""The runner of our tests, a plugin for pytest: `-p tests.runner.plugin --workers 4`.

All tests are collected once. The process that has collected them forks the workers, which share what is imported, and
hands them pieces of the list. Nothing of a test travels but its place in the list and its reports.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from pathlib import Path
from typing import Final, cast

import pytest

from tests.runner.dispatcher import Dispatcher
from tests.runner.known_seconds import load_seconds, store_seconds
from tests.runner.long_files import is_wholly_long
from tests.runner.pieces import function_of, longest_first, pieces_of
from tests.runner.rewriting import imported_from_the_end, unwritten
from tests.runner.shuffling import place_of, shuffled

UNKNOWN: Final = 0.005
"""Seconds of a test that is not among the slow ones."""

UNKNOWN_LONG: Final = 2.0
"""Seconds of a test that is marked `long`, and was not measured yet."""

MAX_SHOWN: Final = 20
"""The most lines of a list."""

NOT_LONG: Final = "not long"
"""The expression of marks by which `make test` leaves out the tests that take long."""

NEED_TERMINAL: Final = {"usepdb": "--pdb", "trace": "--trace", "setupshow": "--setup-show"}
"""Options of pytest that use the terminal while a test runs; `--setup-only` and `--setup-plan` set the last one."""

OVER_BUDGET: Final = pytest.StashKey[dict[str, float]]()
LEFT_RUNNING: Final = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("runner", "workers that are forked after the collection")
    group.addoption("--workers", type=int, default=0, help="how many processes run the tests; 0: this one")
    group.addoption(
        "--budget",
        type=float,
        default=0.0,
        help="seconds of CPU that a test may take, fixtures included, on the machine of `speed.py`; "
        "with a budget, a test that starts a process fails; 0: no budget",
    )
    group.addoption("--shuffle", type=int, default=0, metavar="SEED", help="the seed of another order; 0: as written")
    group.addoption("--only", type=Path, metavar="FILE", help="run the files and functions alone that are listed there")
    group.addoption("--store-seconds", action="store_true", help="write down how long the slow tests took")
    group.addoption("--store-skipped", type=Path, help="write the ids of the tests that were skipped to this file")
    group.addoption("--store-failed", type=Path, help="write the ids of the tests that failed to this file")


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say what repeats the order."""
    return f"order: --shuffle {config.option.shuffle}" if config.option.shuffle else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a list does not name, if there is one; sort the tests anew, if they shall be."""
    if config.option.only:
        names = set(config.option.only.read_text("utf-8").splitlines())
        kept, others = list[pytest.Item](), list[pytest.Item]()
        for item in items:
            is_listed = not names.isdisjoint((function_of(item.nodeid), item.nodeid.partition("::")[0]))
            (kept if is_listed else others).append(item)
        config.hook.pytest_deselected(items=others)
        items[:] = kept
    if config.option.shuffle:
        items.sort(key=lambda item: place_of(item.nodeid, config.option.shuffle))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file whose `pytestmark` marks all of its tests `long`, if these are not wanted.

    To import such a file, and what its tests need, takes longer than to read it.
    """
    if config.option.markexpr != NOT_LONG or collection_path.suffix != ".py":
        return None
    return True if is_wholly_long(collection_path.read_text("utf-8")) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Have a second process import modules that pytest rewrites for the first time, if there are many."""
    config = session.config
    files = [file for arg in config.args for file in _test_files(Path(arg.partition("::")[0]))]
    wanted = (
        [file for file in unwritten(files) if not pytest_ignore_collect(file, config)] if config.option.workers else []
    )
    with imported_from_the_end(config.rootpath, wanted):
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests in workers, if there shall be any."""
    option = session.config.option
    if not option.workers or option.collectonly:
        return None
    if session.testsfailed and not option.continue_on_collection_errors:
        message = f"{session.testsfailed} error{'s' if session.testsfailed != 1 else ''} during collection"
        raise session.Interrupted(message)
    _check_can_fork(session.config)
    ids, known = [item.nodeid for item in session.items], load_seconds()
    seconds = [known.get(function_of(item.nodeid), _expected(item)) for item in session.items]
    pieces = pieces_of(ids, seconds, [_package_of(item) for item in session.items])
    in_turn = shuffled(pieces, option.shuffle) if option.shuffle else longest_first(pieces)
    dispatcher = Dispatcher(session, in_turn, option.workers)
    session.config.stash[OVER_BUDGET] = dispatcher.over_budget
    session.config.stash[LEFT_RUNNING] = dispatcher.left_running
    try:
        dispatcher.run()
    finally:
        dispatcher.end()
    if option.store_seconds:
        store_seconds(dispatcher.seconds)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: pytest.ExitCode) -> None:
    """List the tests over the budget and the threads that are left; write down which tests were skipped or failed.

    `pytest @FILE` runs what was skipped, when what it needs is there. What failed is written down only if all tests
    ran: else a list of them would not say what is wrong.
    """
    config = terminalreporter.config
    over = sorted(config.stash.get(OVER_BUDGET, {}).items(), key=lambda item: -item[1])
    if over:
        terminalreporter.section(f"over the budget: {len(over)}, to be made smaller, or marked `long`")
        for node_id, seconds in over[:MAX_SHOWN]:
            terminalreporter.line(f"{seconds:.2f} s of CPU {node_id}")
    left_running = config.stash.get(LEFT_RUNNING, [])
    if left_running:
        terminalreporter.section(f"left running: {len(left_running)}, to be ended by the tests that began them")
        for line in sorted(left_running)[:MAX_SHOWN]:
            terminalreporter.line(line)
    _store_ids(terminalreporter, cast("Path | None", config.getoption("store_skipped")), "skipped")
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        _store_ids(terminalreporter, cast("Path | None", config.getoption("store_failed")), "failed", "error")


def _test_files(path: Path) -> list[Path]:
    return sorted(path.resolve().rglob("test_*.py")) if path.is_dir() else [path.resolve()]


def _store_ids(terminalreporter: pytest.TerminalReporter, file: Path | None, *outcomes: str) -> None:
    """Write the ids of the tests with one of the *outcomes* to the *file*, a line each, if one is given."""
    if file is not None:
        ids = {report.nodeid for outcome in outcomes for report in terminalreporter.getreports(outcome)}
        file.write_text("".join(f"{node_id}\n" for node_id in sorted(ids)), "utf-8")


def _expected(item: pytest.Item) -> float:
    """Return the seconds of a test of which nothing is known."""
    return UNKNOWN_LONG if item.get_closest_marker("long") else UNKNOWN


def _package_of(item: pytest.Item) -> str:
    """Return the package of which *item* uses a fixture with the scope `package`; empty if it uses none."""
    if not isinstance(item, pytest.Function):
        return ""
    fixtures = (known[-1] for known in item._fixtureinfo.name2fixturedefs.values())  # noqa: SLF001 - nothing else tells
    return next((fixture.baseid for fixture in fixtures if fixture.scope == "package"), "")


def _check_can_fork(config: pytest.Config) -> None:
    """Refuse what each worker would need for itself."""
    for name, option in NEED_TERMINAL.items():
        if config.getoption(name):
            message = f"{option} needs the terminal while a test runs, and a worker has none: add `--workers 0`"
            raise pytest.UsageError(message)
    if config.option.basetemp:
        message = "--basetemp is one folder, which each worker would empty: leave out `--basetemp` or `--workers`"
        raise pytest.UsageError(message)
    others = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
    if others:
        message = f"modules of tests have started threads, which a fork does not have: {', '.join(others)}"
        raise pytest.UsageError(message)
