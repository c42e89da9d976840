"""Pauses and closes a sandbox that a session has of its own, such as a container, when it falls asleep and ends."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from agentrail.ports.sandbox import CLOSED_WITHIN, SessionSandbox
from agentrail.runtime.shared.untrusted_calls import Contained, traced

log = logging.getLogger("agentrail.session")


def pause_sandbox(sandbox: SessionSandbox, session_id: str, nursery: trio.Nursery) -> None:
    """Start to pause *sandbox*; what goes wrong is written to the log."""
    nursery.start_soon(_bounded, sandbox.pause, "paused", session_id, name=f"pausing the sandbox of {session_id}")


def close_sandbox(sandbox: SessionSandbox, session_id: str, nursery: trio.Nursery) -> None:
    """Start to close *sandbox*; what goes wrong is written to the log."""
    nursery.start_soon(_bounded, sandbox.close, "closed", session_id, name=f"closing the sandbox of {session_id}")


async def _bounded(act: Callable[[], Awaitable[None]], word: str, session_id: str) -> None:
    """Run *act* for at most `CLOSED_WITHIN` seconds, also in a supervisor that ends."""

    def report(error: BaseException) -> None:
        """Write to the log what was raised."""
        log.warning("the sandbox of session %s cannot be %s: %s", session_id, word, traced(error))

    # Shielded: a supervisor that ends cancels all tasks, and a container would go on:
    # tests/sandboxes/containers/test_sessions.py::test_the_container_ends_with_the_supervisor
    with Contained(report), trio.move_on_after(CLOSED_WITHIN, shield=True) as scope:
        await act()
    if scope.cancelled_caught:
        log.warning("the sandbox of session %s could not be %s in %g seconds", session_id, word, CLOSED_WITHIN)
