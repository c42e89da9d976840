"""Keeps tests that take much CPU out of `make test`: they are marked `long`."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Final

import pytest

MOST: Final = 0.3
"""Seconds of CPU of a test without the mark `long`; those that take more are listed at the end of a run."""

FAILING: Final = 3.0
"""Seconds of CPU at which a test without the mark fails, on a slow machine too."""

SHOWN: Final = 20
"""How many tests are listed at most."""

_PROPERTY: Final = "cpu"

_files: set[str] = set()
"""Files of which a test has run in this process; the first test of a file may pay for the first import of a module."""


def _cpu_seconds() -> float:
    """Return the CPU time of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Measure a test without the mark, and fail it if it takes far too long."""
    path = item.nodeid.partition("::")[0]
    is_measured = path.startswith("tests/") and path in _files and item.get_closest_marker("long") is None
    _files.add(path)
    before = _cpu_seconds()
    returned = yield
    seconds = _cpu_seconds() - before
    if is_measured:
        item.user_properties.append((_PROPERTY, seconds))
        if seconds > FAILING:
            pytest.fail(f"it took {seconds:.1f} s of CPU: mark it `long`, so that `make test` leaves it out")
    return returned


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that want the mark."""
    times = [(seconds, report.nodeid) for report in terminalreporter.getreports("passed") for seconds in _times(report)]
    slow = sorted(((seconds, name) for seconds, name in times if seconds > MOST), reverse=True)
    if slow:
        terminalreporter.section(f"without the mark `long`, and more than {MOST} s of CPU: {len(slow)}")
        for seconds, name in slow[:SHOWN]:
            terminalreporter.line(f"{seconds:.2f} {name}")


def _times(report: pytest.TestReport) -> list[float]:
    return [value for name, value in report.user_properties if name == _PROPERTY and isinstance(value, float)]
