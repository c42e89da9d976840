"""One sub-agent at work, as its parent's family knows it."""

from __future__ import annotations

import logging

import trio

from agentrail.errors import AgentrailError
from agentrail.ports.agents import Task
from agentrail.runtime.actor.parent_link import Link
from agentrail.runtime.resources import Recipe
from agentrail.runtime.shared.sanitize import tell
from agentrail.values.foreign import described
from agentrail.values.tools import Err, Ok, err

log = logging.getLogger("agentrail.task")


class Run:
    """One sub-agent at work: a task of ours, which starts it, waits for its answer, and stops it in any case."""

    __slots__ = ("_ended", "answer", "comes_back", "link", "prompt", "recipe", "scope", "task")

    def __init__(self, task: Task, prompt: str, recipe: Recipe, link: Link) -> None:
        self.task = task
        self.prompt = prompt
        self.recipe = recipe
        self.link = link
        self.answer: Ok | Err = err("it was stopped before it had an answer")
        self.scope = trio.CancelScope()
        self._ended = trio.Event()
        self.comes_back = False

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it lives any more."""
        return self._ended.is_set()

    def shown(self) -> Task:
        """Return the task as it is now."""
        if not self.has_ended:
            return self.task.but(status="waiting" if self.link.waits else "running")
        return self.task.but(status="failed" if isinstance(self.answer, Err) else "done")

    def end(self) -> None:
        """Tell everybody who waits."""
        self._ended.set()

    async def wait_ended(self) -> None:
        """Return when nothing of it lives any more."""
        await self._ended.wait()

    def failed(self, error: BaseException) -> None:
        """Take note of why there is no answer."""
        if not isinstance(error, AgentrailError):
            tell(log, error, "the task of %s broke", self.task.child)
        self.answer = err(f"the sub-agent failed: {error if isinstance(error, AgentrailError) else described(error)}")
