"""`PendingStep`: a step that was made without a task, while its record is written."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import Arrival
from agentrail.ports.journal import Record, Withdraw
from agentrail.runtime.inbox.letter import Letter


class PendingStep:
    """The *outcome* of the step for *letter*, whose record *withdraw* takes back."""

    __slots__ = ("_task", "_withdraw", "arrival", "letter", "outcome", "result")

    def __init__(self, letter: Letter, arrival: Arrival, outcome: Step, withdraw: Withdraw) -> None:
        self.letter = letter
        self.arrival = arrival
        self.outcome = outcome
        self._withdraw = withdraw
        self._task: trio.lowlevel.Task | None = None
        self.result: Sequence[Record] | Exception | None = None
        """What was written, or why nothing was; `None` while it is being written."""

    def settle(self, result: Sequence[Record] | Exception) -> bool:
        """Set the result; return whether a task waits for it, which goes on."""
        self.result = result
        task, self._task = self._task, None
        if task is None:
            return False
        trio.lowlevel.reschedule(task)
        return True

    async def wait(self) -> Sequence[Record] | Exception:
        """Wait for the result. If it is cancelled, nothing was written."""
        if self.result is None:
            self._task = trio.lowlevel.current_task()
            await trio.lowlevel.wait_task_rescheduled(self._take_back)
        if self.result is None:
            raise RuntimeError(self.letter)
        return self.result

    def _take_back(self, _: object) -> trio.lowlevel.Abort:
        """Called by Trio when the task is cancelled."""
        if not self._withdraw():
            return trio.lowlevel.Abort.FAILED
        self._task = None
        return trio.lowlevel.Abort.SUCCEEDED
