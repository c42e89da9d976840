"""`HealthParts`: what watches the sessions of a host."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Self

from attrs import frozen

from agentrail.api.limits import CHANGES_SECONDS, METRIC_TENANTS
from agentrail.app.supervisor import Supervisor, rows_of
from agentrail.host.health.figures_history import FiguresHistory
from agentrail.host.health.held_changes import HeldChanges
from agentrail.host.health.loop_lag import LoopLag
from agentrail.host.health.prometheus import MetricCalls
from agentrail.host.health.tree_feed import TreeFeed
from agentrail.host.health.troubles import Troubles
from agentrail.runtime.diagnosis.metrics import Figures


@frozen
class HealthParts:
    """What watches the sessions of a host."""

    figures: Figures
    """Counts what all sessions do."""
    metrics: MetricCalls
    """Shows the figures as they are now."""
    troubles: Troubles
    """Keeps what went wrong of late."""
    tree: TreeFeed
    """Tells which rows of the tree have changed."""
    held_changes: HeldChanges
    """Tells when other calls wait for people."""
    history: FiguresHistory
    """Keeps the figures of the last hours."""
    lag: LoopLag
    """Measures how late the event loop is."""

    @property
    def when_erased(self) -> tuple[Callable[[str], None], ...]:
        """What forgets a session whose records or texts are erased."""
        return self.troubles.erase, self.history.erase, self.held_changes.waiting_changed

    @classmethod
    @contextmanager
    def watching(cls, supervisor: Supervisor, host: str = "") -> Generator[Self]:
        """Watch the sessions of *supervisor* as long as this is open; *host* is the address of one of several."""
        figures, troubles = supervisor.figures(METRIC_TENANTS), Troubles()
        tree = TreeFeed(rows_of(supervisor), troubles, CHANGES_SECONDS, host)
        history = FiguresHistory(lambda: figures.now_ms, figures.tell, figures.tell_no_more)
        lag = LoopLag()
        held_changes = HeldChanges()
        lag.when_measured = history.lagged
        with figures.telling(troubles, tree, held_changes):
            try:
                yield cls(figures, MetricCalls(figures), troubles, tree, held_changes, history, lag)
            finally:
                history.end()
