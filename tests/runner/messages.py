"""What a worker tells the dispatcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen


@frozen
class Passed:
    """A test has passed, and there is nothing else to say; its reports would be most of what is sent."""

    index: int
    """Its place in the list of all tests."""
    seconds: float
    """How long it took, fixtures included."""


@frozen
class Reported:
    """Any other report, as pytest serializes it."""

    data: Mapping[str, object]
    """What `pytest_report_from_serializable` takes."""


@frozen
class PieceReport:
    """What has become of some tests of a piece."""

    reports: Sequence[Passed | Reported]
    """In the order in which they were made."""
    done: Sequence[int]
    """Places of the tests that are reported now."""
    over_budget: Mapping[int, float]
    """Seconds of CPU of those that were over the budget."""
    is_piece_done: bool
    """Whether the worker wants another piece."""


@frozen
class Ended:
    """A worker has run its last test, and its fixtures have ended: nothing follows but the end of its process."""

    reports: Sequence[Reported]
    """Of what tests left behind, an error for each."""
    daemons: Sequence[tuple[int | None, str]]
    """Threads that go on, each with the place of the test that began it, if that is known."""
