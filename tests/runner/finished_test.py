"""`FinishedTest`: a test that has run in a worker, and is not reported yet."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from attrs import define


@define
class FinishedTest:
    """What is known of it."""

    index: int
    """Its place in the list of all tests."""
    reports: Sequence[pytest.TestReport]
    """Of its set-up, its call and its end, those that there were."""
    cost: float
    """Its CPU seconds, without fixtures that it shares with others; 0 if there is no budget."""
    has_started_a_process: bool
    """Whether it did; false if there is no budget."""

    @property
    def has_passed(self) -> bool:
        """Whether nothing needs to be said but that it has passed: it was neither skipped nor expected to fail."""
        return all(report.passed and not hasattr(report, "wasxfail") for report in self.reports)
