"""One sub-agent at work, as its parent knows it, and what is said to it and comes of it."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

import trio

from agentrail.errors import AgentrailError
from agentrail.ports.tool import Task
from agentrail.reprs import in_brackets
from agentrail.runtime.actor.parent_link import ParentLink
from agentrail.runtime.inbox.letter import ReplyOutcome
from agentrail.runtime.shared.untrusted_calls import tell
from agentrail.values.content import Data, quoted
from agentrail.values.tools import Err, Ok, err, ok
from agentrail.values.untrusted_values import described

log = logging.getLogger("agentrail.task")

ANSWERED: Final = frozenset({"end", "max_rounds", "length"})
"""Stop reasons of a turn that has an answer."""

SILENT: Final = "it has ended without a word"
"""The answer of a sub-agent that has said nothing."""


class SubagentRun:
    """One sub-agent at work, as its parent knows it: a task that starts, prompts and stops the child session."""

    __slots__ = (
        "_ended",
        "_listens",
        "answer",
        "comes_back",
        "has_form",
        "link",
        "scope",
        "task",
    )

    def __init__(self, link: ParentLink, *, has_form: bool = False) -> None:
        self.task = link.task
        self.has_form = has_form
        self.link = link
        self.answer: Ok | Err = err("it was stopped before it had an answer")
        self.scope = trio.CancelScope()
        self._ended = trio.Event()
        self._listens = trio.Event()
        self.comes_back = False

    @in_brackets
    def __repr__(self) -> str:
        return f"{self.task.child!r} {'ended' if self.has_ended else 'alive'}"

    @property
    def has_ended(self) -> bool:
        """Whether the sub-agent and all of its own have ended."""
        return self._ended.is_set()

    def task_entry(self) -> Task:
        """Return the task with how far it is by now."""
        if not self.has_ended:
            return self.task.but(status="waiting" if self.link.waits else "running")
        return self.task.but(status="failed" if isinstance(self.answer, Err) else "done")

    def end(self) -> None:
        """Wake the tasks that wait in `wait_ended` and `wait_listens`."""
        self._listens.set()
        self._ended.set()

    def listens(self) -> None:
        """Let messages through, because the sub-agent has its prompt and no message can arrive before it."""
        self._listens.set()

    async def wait_listens(self) -> None:
        """Wait until the sub-agent has its prompt, or has ended."""
        await self._listens.wait()

    async def wait_ended(self) -> None:
        """Wait until the sub-agent and all of its own have ended."""
        await self._ended.wait()

    def failed(self, error: BaseException) -> None:
        """Make *error* the answer to the parent; an error that is not agentrail's own is also logged."""
        if not isinstance(error, AgentrailError):
            tell(log, error, "the task of %s broke", self.task.child)
        self.answer = err(f"the sub-agent failed: {error if isinstance(error, AgentrailError) else described(error)}")


def worded(sender: str, text: str) -> str:
    """Return a message as its receiver's model gets it: with its sender, and so that it cannot pass for another's."""
    return f"Message from {sender}:\n{quoted(text)}"


def introduced(prompt: str, peers: Iterable[Task]) -> str:
    """Return the prompt of a sub-agent, with the addresses of the peers to which it may send messages."""
    named = "; ".join(f"`{peer.child}`, an agent `{peer.agent}`" for peer in peers)
    return f"{prompt}\n\nYou may exchange messages with {named}." if named else prompt


def answered(outcome: ReplyOutcome, *, has_form: bool) -> Ok | Err:
    """Return the answer of a turn; an `Err` if it has none."""
    if isinstance(outcome, AgentrailError):
        return err(f"the sub-agent failed: {outcome}")
    if outcome.stop_reason not in ANSWERED:
        quote = f"; it said: {outcome.text}" if outcome.text else ""
        return err(f"the sub-agent stopped without an answer ({outcome.stop_reason}){quote}")
    if outcome.answer is not None:
        return Ok((Data(outcome.answer),))
    if has_form:
        return err(f"the sub-agent stopped without an answer in its form ({outcome.stop_reason})")
    return ok(outcome.text.strip() or SILENT)
