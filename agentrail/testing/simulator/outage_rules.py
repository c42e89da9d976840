"""Checks that an outage of the journal never ends a session, nor counts as its crash, nor is recorded as one."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from agentrail import errors
from agentrail.app.supervisor import Supervisor
from agentrail.errors import JournalUnavailable
from agentrail.runtime.actor.session import Session
from agentrail.testing.simulator.environment import Environment
from agentrail.testing.simulator.virtual import swapped
from agentrail.values.events.life import InputQuarantined, SessionQuarantined, SessionRestarted

KINDS: Final = frozenset(
    name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, JournalUnavailable)
)
"""The names of all error classes that say that the journal cannot be used now."""


def check_outages(environment: Environment, supervisor: Supervisor) -> None:
    """Check crash reports and events: none names an outage of the journal as a cause."""
    for report in supervisor.crashes():
        text = f"`{report.path[-1]}` crashed: {report.reason.text}"
        environment.demand(report.reason.kind not in KINDS, "outages", text)
    for book in environment.auditor.books.values():
        for envelope in book.events:
            event = envelope.event
            if isinstance(event, SessionRestarted | SessionQuarantined | InputQuarantined):
                kind = event.cause.partition(":")[0]
                environment.demand(kind not in KINDS, "outages", "`{}` says: {}", book.session_id, event)


@contextmanager
def outages_watched(environment: Environment) -> Generator[None]:
    """Within this block, check that an outage of the journal ends no session that has written a record."""
    finish = Session.finish

    def noted_finish(ended: Session, error: BaseException | None) -> None:
        lost = isinstance(error, JournalUnavailable) and ended.records.has_written
        environment.demand(not lost, "outages", "`{}` was let go of: {}", ended.session_id, error)
        finish(ended, error)

    with swapped(Session, "finish", noted_finish):
        yield
