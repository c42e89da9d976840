"""The way from a sub-agent to its parent: what happens in it is gathered, and posted as one report at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import AnyInput, ElsewhereUsed, SubagentEnded, SubagentReported, SubagentStarted
from agentrail.core.vocabulary.state import Phase, Subagent
from agentrail.errors import AgentrailError
from agentrail.ports.agents import Task
from agentrail.runtime.inbox.replies import Outcome, told
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.tools import Err, Ok
from agentrail.values.usage import NOTHING_USED, Usage


class Link:
    """Tells a parent of one sub-agent.

    While a report waits in the mailbox of the parent, what happens meanwhile joins it: a child that is faster than the
    disk of its parent does not fill the mailbox.
    """

    __slots__ = (
        "_announced",
        "_elsewhere",
        "_elsewhere_posted",
        "_ended",
        "_events",
        "_heard",
        "_outcome",
        "_post",
        "_posted",
        "_ref",
        "_used",
        "_waits",
        "base",
        "task",
    )

    def __init__(self, task: Task, post: Callable[[AnyInput], None]) -> None:
        self.task = task
        self._post = post
        self._announced: Slot[None] = Slot()
        self._events: list[Event] = []
        self._heard = 0
        self._used: Usage = NOTHING_USED
        self._waits = False
        self._posted = False
        self._ended = False
        self._ref: str | None = None
        self._outcome: Slot[Outcome] = Slot()
        self.base: Usage = NOTHING_USED
        self._elsewhere: Usage = NOTHING_USED
        self._elsewhere_posted = False

    # From the child

    def tell(self, step: Step) -> None:
        """Hear of one step of the child, which is durable."""
        for event in self.missed(step.events):
            self._notice(event)
        state = step.state
        if not self._announced.settled:
            if state.opening or state.phase is Phase.ENDED:
                return
            self.announce()
        if (state.usage, state.waits) != (self._used, self._waits):
            self._used, self._waits = state.usage, state.waits
        elif not step.events:
            return
        if not self._posted and not self._ended:
            self._posted = True
            self._post(SubagentReported(self.task.child))

    def announce(self) -> None:
        """Tell the parent that the child is there."""
        task = self.task
        self._post(SubagentStarted(task.child, task.call_id, task.agent, task.description, task.background))
        self._announced.settle(None)

    def _notice(self, event: Event) -> None:
        ended = None if self._ref is None else told(event)
        if ended is not None and ended[0] == self._ref:
            self._outcome.settle(ended[1])

    def gone(self, error: AgentrailError) -> None:
        """Hear that the child is gone."""
        self._outcome.settle(error)

    def back(self, known: Subagent) -> None:
        """Go on where the process before this one has ended."""
        self._heard, self._used, self._waits = known.heard, known.used, known.waits
        self._announced.settle(None)

    def missed(self, envelopes: Sequence[Envelope]) -> list[Event]:
        """Take in events of the child that its parent has not heard of, and return which those are."""
        new = [envelope for envelope in envelopes if envelope.seq > self._heard]
        if not new:
            return []
        self._heard = new[-1].seq
        events = [envelope.event for envelope in new]
        self._events += events
        return events

    # To the child

    def used_elsewhere(self, others: Usage) -> bool:
        """Take note of what *others* have used; return whether the child needs to be told, and no letter waits."""
        if others == self._elsewhere:
            return False
        self._elsewhere = others
        posted, self._elsewhere_posted = self._elsewhere_posted, True
        return not posted

    def latest(self) -> ElsewhereUsed:
        """Return what others have used by now; what they use from now on is told anew."""
        self._elsewhere_posted = False
        return ElsewhereUsed(self._elsewhere)

    # To the parent

    @property
    def waits(self) -> bool:
        """Whether nothing of the child goes on without a person."""
        return self._waits

    async def announced(self) -> None:
        """Return when the parent has been told of the child, or never will be."""
        await self._announced.wait()

    def gathered(self) -> SubagentReported:
        """Return what has gathered; the next event asks for a report of its own."""
        self._posted = False
        events, self._events = tuple(self._events), []
        return SubagentReported(self.task.child, events, self._heard, self._used, self._waits)

    def end(self, answer: Ok | Err) -> None:
        """Tell all that is left to tell, of a child that has started; nothing comes behind it."""
        self._ended = True
        if self._announced.settled:
            self._post(self.gathered())
            self._post(SubagentEnded(self.task.child, answer))
        self._announced.settle(None)

    # The turn that the parent waits for

    def expect(self, ref: str) -> None:
        """Wait for the end of the turn that answers a prompt, however often it rests before."""
        self._ref = ref
        self._outcome = Slot()

    def settle(self, outcome: Outcome) -> None:
        """Say how that turn has ended, as the journal tells."""
        self._outcome.settle(outcome)

    async def outcome(self) -> Outcome:
        """Return how that turn has ended."""
        return await self._outcome.wait()
