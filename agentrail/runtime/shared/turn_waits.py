"""Notes which tool or service a task runs, and for which session: a turn waits for it, so it must not wait for a turn.

Nor may it wait for another session whose turn waits for it, by tools of its own: `TurnWaits` has who waits for whom.
The note is a context variable. Tasks and threads that a tool starts inherit it, those that outlive the tool too. So a
caller belongs to the tool only if its task is the tool's, or is below it in the tree of tasks, or if it calls from a
thread, for which Trio starts a task without a parent, or from a loop of asyncio.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Final

import trio

from agentrail.errors import UsageError
from agentrail.errors.agentrail_error import listed

FROM_OUTSIDE: Final = "agentrail call"
"""Name of a task that carries out a call from another loop. Where in that loop its caller is, Trio does not know."""


class TurnWork:
    """A tool or service for which a session waits; within its `with` block, the current task runs it."""

    __slots__ = ("_token", "is_over", "name", "session_id", "task")

    def __init__(self, session_id: str, name: str) -> None:
        self.session_id = session_id
        """Id of the session."""
        self.name = name
        """Name of the tool or service."""
        self.is_over = False
        """Whether it has ended; tasks of another loop that it started may go on, with its note."""

    def __enter__(self) -> None:
        self.task = trio.lowlevel.current_task()
        """The task in which it runs."""
        self._token = _WORK.set(self)

    def __exit__(self, *_: object) -> None:
        self.is_over = True
        _WORK.reset(self._token)  # the task has its context, so the note would be a reference cycle
        del self._token  # it refers to this object


_WORK: Final[ContextVar[TurnWork | None]] = ContextVar("agentrail_turn_work", default=None)


_NOT_NOTED: Final[AbstractContextManager[None]] = nullcontext()


class TurnWaits:
    """Which sessions of a supervisor wait for turns of which others, because their tools or services ask them."""

    __slots__ = ("_awaited",)

    def __init__(self) -> None:
        self._awaited: dict[str, list[str]] = {}
        """By id of a session, the sessions for whose turns its open turn waits, each as often as it does."""

    def on(self, session_id: str) -> AbstractContextManager[None]:
        """Note that the caller waits for a turn of a session during the `with` block.

        Raise `UsageError` if the caller is a tool or service for which the open turn of this session waits, also by way
        of other sessions.
        """
        work = _WORK.get()
        if work is None or work.is_over or not _is_part_of(work.task):
            return _NOT_NOTED
        self._refuse_circle(work, session_id)
        return self._noted(work.session_id, session_id)

    @contextmanager
    def _noted(self, waiting: str, session_id: str) -> Generator[None]:
        """Note that the open turn of session *waiting* waits for a turn of the other during the `with` block."""
        awaited = self._awaited.setdefault(waiting, [])
        awaited.append(session_id)
        try:
            yield
        finally:
            awaited.remove(session_id)
            if not awaited:
                self._awaited.pop(waiting, None)

    def _refuse_circle(self, work: TurnWork, session_id: str) -> None:
        """Raise an error if the open turn of a session waits for that of *work*."""
        paths: list[tuple[str, ...]] = [(session_id,)]
        visited = {session_id}
        while paths:
            path = paths.pop()
            if path[-1] == work.session_id:
                way = "" if len(path) == 1 else f" (of {listed(path)}, each waits for the next)"
                raise UsageError("asks-itself", work.name, session_id, way)
            further = [id_ for id_ in self._awaited.get(path[-1], ()) if id_ not in visited]
            visited.update(further)
            paths += [(*path, id_) for id_ in further]


def _is_part_of(owner: trio.lowlevel.Task) -> bool:
    """Whether the current task is *owner*, or is below it, or was started for a thread or another loop."""
    task: trio.lowlevel.Task = trio.lowlevel.current_task()
    root = trio.lowlevel.current_root_task()
    parent = _parent(task)
    if parent is root or task.name == FROM_OUTSIDE:
        return True
    while parent is not None and task is not owner:
        task, parent = parent, _parent(parent)
    return task is owner


def _parent(task: trio.lowlevel.Task) -> trio.lowlevel.Task | None:
    """Return the task whose nursery *task* runs in; `None` for the root task of Trio."""
    return None if task.parent_nursery is None else task.parent_nursery.parent_task
