"""The link between a sub-agent and its parent: reports of its events and usage, joined while the parent is busy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import trio

from agentrail.api.session_values import HeldCall
from agentrail.core.machine.step import Step
from agentrail.core.vocabulary.inputs import AnyInput, ElsewhereUsed, SubagentEnded, SubagentReported, SubagentStarted
from agentrail.core.vocabulary.state import Phase, State
from agentrail.core.vocabulary.tool_calls import Subagent
from agentrail.errors import UnknownTask
from agentrail.ports.tool import Task
from agentrail.runtime.resources import ActorSubagents
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.work.reservations import FamilyUsage, Purse
from agentrail.values.events.envelope import Envelope, Event
from agentrail.values.tools import Err, Ok, err
from agentrail.values.usage import NOTHING_USED, Usage


class Beside(Protocol):
    """Interface: the sub-agents of the parent, as seen by one of them (implemented by `Subagents`)."""

    @property
    def limits(self) -> FamilyUsage:
        """Their usage of the limits that they share."""
        ...

    def peers(self, task: Task) -> tuple[Task, ...]:
        """Return the running sub-agents with which that of *task* may exchange messages."""
        ...

    async def send(self, task: Task, command: str, to: str, text: str, asked_by: tuple[str, ...]) -> None:
        """Send a message from the sub-agent of *task* to its peer *to*; raise `UnknownTask` if that is none."""
        ...

    def deadline(self, state: State | None, call_id: str | None, seconds: float) -> float:
        """Return when a call, started *seconds* before, has waited enough, for Trio; without a call, from now on."""
        ...


class ParentLink:
    """Reports one sub-agent to its parent.

    While a report waits in the parent's mailbox, further events join it, so that a fast child does not fill the
    mailbox.
    """

    __slots__ = (
        "_announced",
        "_askers",
        "_ended",
        "_events",
        "_has_elsewhere_letter",
        "_heard",
        "_post",
        "_posted",
        "_waits",
        "_works",
        "asked_by",
        "base",
        "base_ms",
        "beside",
        "elsewhere",
        "elsewhere_before",
        "prompt",
        "task",
        "used",
    )

    def __init__(
        self,
        task: Task,
        post: Callable[[AnyInput], None],
        beside: Beside | None = None,
        prompt: str = "",
        asked_by: tuple[str, ...] = (),
    ) -> None:
        self.task = task
        self.prompt = prompt
        self.asked_by = asked_by
        self.beside = beside  # the sub-agents of the parent, until this one has ended
        self._post = post
        self._announced: Slot[None] = Slot()
        self._events: list[Event] = []
        self._heard = 0
        self.used: Usage = NOTHING_USED
        self._waits = False
        self._works = True
        self._askers: tuple[str, ...] = ()
        self._posted = self._ended = False
        self._has_elsewhere_letter = False  # whether a letter with the usage of others waits in the child's mailbox
        self.base: Usage = NOTHING_USED
        self.elsewhere_before: Usage = NOTHING_USED  # usage of others that the child already knew of when it came back
        self.base_ms = 0  # milliseconds that the parent had worked when the child began
        # Usage of others that the child was last told, or is about to be told.
        self.elsewhere = ElsewhereUsed(NOTHING_USED)

    # From the child

    def tell(self, step: Step) -> None:
        """Add the events and usage of one journaled step of the child, and post a report unless one waits already.

        The first step after the start also announces the child.
        """
        self.missed(step.events)
        state = step.state
        if not self._announced.settled:
            if state.is_starting or state.phase is Phase.ENDED:
                return
            self.announce()
        askers = tuple(dict.fromkeys((*self._askers, *state.asked_by))) if state.asked_by else self._askers
        works = not state.waits or state.runs_without_person
        if (state.usage, state.waits, works, askers) != (self.used, self._waits, self._works, self._askers):
            self.used, self._waits, self._works, self._askers = state.usage, state.waits, works, askers
        elif not step.events:
            return
        if not self._posted and not self._ended:
            self._posted = True
            self._post(SubagentReported(self.task.child))

    def announce(self) -> None:
        """Post `SubagentStarted` to the parent."""
        task = self.task
        started = SubagentStarted(
            task.child,
            task.call_id,
            task.agent,
            task.description,
            task.background,
            task.peers,
            self.prompt,
            self.asked_by,
        )
        self._announced.settle(None)
        self._post(started)

    def back(self, agent: Subagent) -> None:
        """After a restart: take over from the parent's state (*agent*) the reported events and the child's usage."""
        self._heard, self.used, self._waits, self._works = agent.heard, agent.used, agent.waits, agent.works
        self._announced.settle(None)

    def missed(self, envelopes: Sequence[Envelope]) -> None:
        """Add those of the child's events that the parent does not have to the next report."""
        new = [envelope for envelope in envelopes if envelope.seq > self._heard]
        if new:
            self._heard = new[-1].seq
            self._events += [envelope.event for envelope in new]

    # To the child

    def begins(self, parent: State, now_ms: int) -> None:
        """Note that the child begins at *now_ms*: usage from before does not count for its limits."""
        self.base = parent.usage.plus(parent.shared_usage)
        self.base_ms = parent.worked(now_ms) + parent.shared_worked_ms

    def note_elsewhere(self, used: ElsewhereUsed) -> bool:
        """Keep what others have *used* of shared limits; return whether the child must be posted a letter with it.

        A letter that waits already needs no second: the child takes the newest usage with it (`latest`).
        """
        must_post = used != self.elsewhere and not self._has_elsewhere_letter
        self.elsewhere = used
        self._has_elsewhere_letter = self._has_elsewhere_letter or must_post
        return must_post

    def latest(self) -> ElsewhereUsed:
        """Return the latest usage of others for the letter that is being handled; later changes need a new letter."""
        self._has_elsewhere_letter = False
        return self.elsewhere

    # To the parent

    @property
    def waits(self) -> bool:
        """Whether the child can do nothing until a person decides something."""
        return self._waits

    @property
    def is_announced(self) -> bool:
        """Whether the child's start was reported to the parent."""
        return self._announced.settled

    async def announced(self) -> None:
        """Wait until the child was announced to the parent, or has ended without that."""
        await self._announced.wait()

    def decisions(self) -> SubagentReported:
        """Return a report with all events, usage and waiting since the last one; the next step posts a new report."""
        self._posted = False
        events, self._events = tuple(self._events), []
        return SubagentReported(self.task.child, events, self._heard, self.used, self._waits, self._askers, self._works)

    def end(self, answer: Ok | Err) -> None:
        """Post the last report and the child's end with *answer*, if it was announced; nothing is posted after that."""
        self._ended = True
        self.beside = None  # breaks a reference cycle, which only the garbage collector would free
        if self._announced.settled:
            self._post(self.decisions())
            self._post(SubagentEnded(self.task.child, answer))
        self._announced.settle(None)


class FamilyLinks:
    """Links of a session to its parent and to its own sub-agents; either may be missing."""

    __slots__ = ("_news", "_state", "above", "subagents")

    def __init__(self) -> None:
        self.above: ParentLink | None = None
        self.subagents: ActorSubagents | None = None
        self._state: State | None = None
        self._news: trio.Event | None = None

    @property
    def purse(self) -> Purse | None:
        """The uncounted requests of the session's family; `None` if it has neither parent nor sub-agents."""
        above = self.above
        family = self.subagents if above is None or above.beside is None else above.beside
        return None if family is None else family.limits.purse

    def held_calls(self) -> tuple[HeldCall, ...]:
        """Return the held calls and questions of the session's sub-agents."""
        return () if self.subagents is None else self.subagents.held_calls()

    def decisions(self, report: SubagentReported) -> SubagentReported:
        """Return *report* with what its sub-agent has added to it while it waited in the mailbox."""
        return report if self.subagents is None else self.subagents.decisions(report)

    def latest(self, used: ElsewhereUsed) -> ElsewhereUsed:
        """Return *used* with the latest usage of others."""
        return used if self.above is None else self.above.latest()

    def resume(self, children: tuple[str, ...], state: State, post: Callable[[AnyInput], None]) -> None:
        """Begin to resume sub-agents after a restart; if the session may have none any more, report each as ended."""
        if self.subagents is not None:
            self.subagents.resume(children, state)
            return
        for child in children:
            post(SubagentEnded(child, err("the session may start no sub-agents any more")))

    def stop(self, children: tuple[str, ...]) -> None:
        """Begin to stop sub-agents."""
        if self.subagents is not None:
            self.subagents.stop(children)

    def close(self) -> None:
        """Begin to stop all sub-agents, and start no more."""
        if self.subagents is not None:
            self.subagents.close()

    def tell(self, step: Step) -> None:
        """Report a journaled step to the parent, usage to sub-agents that share limits, and any news to `until`."""
        if self.above is None and self.subagents is None:
            return
        self._state = step.state
        if step.state.steering:
            self.notify()
        if self.subagents is not None:
            self.subagents.limits.spread(step.state)
        if self.above is not None:
            self.above.tell(step)

    # Messages

    def peers(self) -> tuple[Task, ...]:
        """Return the running sub-agents with which this one may exchange messages."""
        above = self.above
        return () if above is None or above.beside is None else above.beside.peers(above.task)

    async def send(self, call_id: str, to: str, text: str) -> None:
        """Send a message to one of the peers, once for each call; raise `UnknownTask` if *to* is none."""
        above = self.above
        if above is None or above.beside is None:
            raise UnknownTask.among(to, ())
        asked_by = () if self._state is None else self._state.asked_by
        await above.beside.send(above.task, f"{above.task.child}/{call_id}", to, text, asked_by)

    async def arrived(self, call_id: str, seconds: float) -> bool:
        """Wait until a message has come; return `False` if none has *seconds* after the start of the call."""
        above = self.above
        if above is not None and above.beside is not None:
            with trio.CancelScope(deadline=above.beside.deadline(self._state, call_id, seconds)):
                await self.until(lambda: self.has_message)
        return self.has_message

    @property
    def has_message(self) -> bool:
        """Whether a steering text, such as a message of another agent, waits for the next request."""
        return self._state is not None and bool(self._state.steering)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until *holds* returns `True`; it is called again when a message has come or a sub-agent has ended."""
        while not holds():
            if self._news is None:
                self._news = trio.Event()
            await self._news.wait()

    def notify(self) -> None:
        """Wake the tasks that wait in `until`."""
        news, self._news = self._news, None
        if news is not None:
            news.set()
