"""Notes which tool or service a task runs, and for which session: a turn waits for it, so it must not wait for a turn.

The note is a context variable. Tasks and threads that a tool starts inherit it, those that outlive the tool too. So a
caller belongs to the tool only if its task is the tool's, or is below it in the tree of tasks, or if it calls from a
thread, for which Trio starts a task without a parent.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

import trio

from agentrail.errors import AsksItself


class _TurnWork(NamedTuple):
    """A tool or service that runs, and for which a session waits."""

    session_id: str
    """Id of the session."""
    name: str
    """Name of the tool or service."""
    task: trio.lowlevel.Task
    """The task in which it runs."""


_WORK: Final[ContextVar[_TurnWork | None]] = ContextVar("agentrail_turn_work", default=None)


@contextmanager
def noted(session_id: str, name: str) -> Generator[None]:
    """Within this block, the current task runs the tool or service *name*, for which the session waits."""
    token = _WORK.set(_TurnWork(session_id, name, trio.lowlevel.current_task()))
    try:
        yield
    finally:
        _WORK.reset(token)  # the task has its context, so the note would be a reference cycle


def refuse_own_turn(session_id: str) -> None:
    """Raise `AsksItself` if the caller is a tool or service for which the open turn of this session waits."""
    work = _WORK.get()
    if work is not None and work.session_id == session_id and _is_part_of(work.task):
        raise AsksItself(work.name, session_id)


def _is_part_of(owner: trio.lowlevel.Task) -> bool:
    """Whether the current task is *owner*, or is below it, or was started by Trio for a thread."""
    task: trio.lowlevel.Task = trio.lowlevel.current_task()
    root = trio.lowlevel.current_root_task()
    parent = _parent(task)
    if parent is root:
        return True
    while parent is not None and task is not owner:
        task, parent = parent, _parent(parent)
    return task is owner


def _parent(task: trio.lowlevel.Task) -> trio.lowlevel.Task | None:
    """Return the task whose nursery *task* runs in; `None` for the root task of Trio."""
    return None if task.parent_nursery is None else task.parent_nursery.parent_task
