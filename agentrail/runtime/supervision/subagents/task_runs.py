"""The tasks of one session: which sub-agents run or have ended, waiting for them, and messages to and between them.

`Run`: one sub-agent at work, as its parent knows it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, cast

import trio

from agentrail.core.vocabulary.commands import Answer, Refused, SteerSent
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import MAX_ENDED_TASKS
from agentrail.errors import AgentrailError, SessionNotAlive, TaskDone, UnknownTask, WrongType
from agentrail.ports.journal import opening_of
from agentrail.ports.tool import Task
from agentrail.reprs import in_brackets
from agentrail.runtime.actor.parent_link import Link
from agentrail.runtime.actor.session import Session
from agentrail.runtime.commands import ended_tasks, letter
from agentrail.runtime.inbox.command_results import Answers
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.replies import Outcome, turn_end
from agentrail.runtime.resources import SharedServices, has_ended
from agentrail.runtime.shared.ids import follows_grammar
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.reply_slot import Caller, Slot
from agentrail.runtime.shared.untrusted_calls import tell
from agentrail.values.content import Data, quoted
from agentrail.values.events.life import PromptReceived, SessionEnded
from agentrail.values.tools import Err, Ok, err, ok
from agentrail.values.untrusted_values import described, shown
from agentrail.values.untrusted_values import seconds as plain_seconds

log = logging.getLogger("agentrail.task")


class Run:
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

    def __init__(self, link: Link, *, has_form: bool = False) -> None:
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

    def shown(self) -> Task:
        """Return the entry for `tasks()`."""
        if not self.has_ended:
            return self.task.but(status="waiting" if self.link.waits else "running")
        return self.task.but(status="failed" if isinstance(self.answer, Err) else "done")

    def end(self) -> None:
        """Wake the tasks that wait in `wait_ended` and `wait_listens`."""
        self._listens.set()
        self._ended.set()

    def listens(self) -> None:
        """Let messages through: the sub-agent has its prompt, and no message can overtake that any more."""
        self._listens.set()

    async def wait_listens(self) -> None:
        """Wait until the sub-agent has its prompt, or has ended."""
        await self._listens.wait()

    async def wait_ended(self) -> None:
        """Wait until the sub-agent and all of its own have ended."""
        await self._ended.wait()

    def failed(self, error: BaseException) -> None:
        """Make *error* the answer to the parent; an error that is not one of agentrail's own is logged too."""
        if not isinstance(error, AgentrailError):
            tell(log, error, "the task of %s broke", self.task.child)
        self.answer = err(f"the sub-agent failed: {error if isinstance(error, AgentrailError) else described(error)}")


PAGE: Final = 1000
"""How many records of a sub-agent are read from the journal at once."""

ANSWERED: Final = frozenset({"end", "max_turns", "length"})
"""Stop reasons of a turn that has an answer."""

NO_ANSWER: Final = "it has no answer"
"""Why there is no answer of a sub-agent that has ended before its turn."""

SILENT: Final = "it has ended without a word"
"""The answer of a sub-agent that has said nothing."""


class TaskRuns:
    """The running sub-agents of a session, and the last ones that have ended."""

    __slots__ = ("_ended", "_kept", "_of", "_path", "_runs", "_shared")

    def __init__(self, parent: Session) -> None:
        self._of: Session | None = parent
        self._shared: SharedServices = parent.shared
        self._path = (*parent.state.setup.path, parent.session_id)
        self._runs: dict[str, Run] = {}
        self._kept: dict[str, Run] = {}  # those of `_ended` whose answers are in memory
        self._ended = {task.child: task for task in ended_tasks(parent.state)}

    @property
    def _parent(self) -> Session:
        """Session that these are the sub-agents of; raise `SessionNotAlive` once it is gone, with all of them."""
        if self._of is None:
            raise SessionNotAlive(self._path[-1], "it has ended")
        return self._of

    def _session(self, child: str) -> Session | None:
        """Return the session of a sub-agent, at any depth; `None` if it is not alive."""
        raise NotImplementedError

    def tasks(self) -> tuple[Task, ...]:
        """Return the running sub-agents, and the last ones in the background that have ended."""
        return (*self._ended.values(), *(run.shown() for run in self._runs.values()))

    def _keep(self, run: Run) -> None:
        """Keep the entry and the answer of a sub-agent in the background that has ended; drop the oldest beyond 32."""
        child = run.task.child
        self._ended.pop(child, None)
        self._ended[child], self._kept[child] = run.shown(), run
        if len(self._ended) > MAX_ENDED_TASKS:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._kept.pop(oldest, None)

    # Waiting

    async def result(self, child: str) -> Ok | Err:
        """Wait for the answer of a sub-agent and return it."""
        run = await self._find(child)
        await run.wait_ended()
        return run.answer

    async def cancel(self, child: str) -> None:
        """Stop a sub-agent; return when it and its own sub-agents have ended."""
        run = await self._find(child)
        run.scope.cancel()
        await run.wait_ended()

    async def wait(
        self, call_id: str | None, children: Iterable[str], seconds: float, *, every: bool
    ) -> Mapping[str, Ok | Err]:
        """Wait until *every* one of *children* has ended, or any one; return the answers of those that have, by id."""
        if (plain := plain_seconds(seconds)) is None:
            raise WrongType("seconds", shown(seconds), "a number of seconds, of at least 0")
        if not isinstance(cast("object", every), bool):
            raise WrongType("every", shown(every), "true or false")
        parent, enough = self._parent, all if every else any
        runs = {child: await self._find(child) for child in children}
        if not runs:
            return {}

        def over() -> bool:
            return enough(run.has_ended for run in runs.values()) or (call_id is not None and parent.links.has_message)

        with trio.CancelScope(deadline=self.deadline(parent.state, call_id, plain)):
            await parent.links.until(over)
        return {child: run.answer for child, run in runs.items() if run.has_ended}

    def deadline(self, state: State | None, call_id: str | None, seconds: float) -> float:
        """Return when a call, started *seconds* before, has waited enough, for Trio; without a call, from now on.

        A call that an earlier process began, and this one runs again, waits for what is left of the time.
        """
        clock = self._shared.clock
        calls = () if state is None or state.batch is None else state.batch.calls
        started = next((call.started_at for call in calls if call.call_id == call_id), None)
        return clock.deadline((clock.moment(started) if started else clock.now()) + seconds)

    async def _find(self, child: object) -> Run:
        """Return the run of a sub-agent, also of one that ended in an earlier process; raise `UnknownTask` if none."""
        if not isinstance(child, str):
            raise WrongType.of("child", child, "the id of a sub-agent")
        run = self._runs.get(child) or self._kept.get(child) or await self._stored(child)
        if run is None:
            raise UnknownTask.among(child, (*self._ended, *self._runs))
        return run

    async def _stored(self, child: str) -> Run | None:
        """Return the run of a sub-agent that has ended, as its records have it; `None` if no such one is stored."""
        if self._shared.forget is not None or not follows_grammar(child):
            return None
        first = await patiently(partial(self._shared.journal.read, child, 0, 1))
        setup = opening_of(first[0]).setup if first else None
        if setup is None or setup.path[:-1] != self._path:
            return None
        task = Task(child, "", "", setup.path[-1], background=True)
        run = Run(Link(task, self._parent.mailbox.post))
        _, outcome = await self._past(run)
        if outcome is None and child not in self._ended:
            return None
        run.answer = answered(outcome or SessionNotAlive(child, NO_ANSWER), has_form=bool(setup.returns))
        run.end()
        return run

    async def _past(self, run: Run) -> tuple[bool, Outcome | None]:
        """Read from the journal whether a resumed sub-agent was prompted, and its answer if it has ended."""
        shared, child = self._shared, run.task.child
        number, was_asked, ended = 0, False, False
        outcome: Outcome | None = None
        while records := await patiently(partial(shared.journal.read, child, number, PAGE)):
            number = records[-1].number
            for envelope in (envelope for record in records for envelope in record.events):
                end = turn_end(envelope.event)
                outcome = outcome if end is None else end[1]
                ended = ended or isinstance(envelope.event, SessionEnded)
                if isinstance(envelope.event, PromptReceived):
                    was_asked, outcome = True, None
                    run.link.expect(envelope.event.ref)
            run.link.missed([envelope for record in records for envelope in record.events])
        if outcome is not None and not ended:
            run.link.settle(outcome)
        return was_asked, (outcome or SessionNotAlive(child, NO_ANSWER)) if ended else None

    # Messages

    async def tell(self, command: str | None, child: str, text: str, by: str | None = None) -> None:
        """Send a message of the session, or of a program for *by*, to a running sub-agent."""
        if not isinstance(cast("object", text), str):
            raise WrongType.of("text", text, "a text")
        parent = self._parent
        asked_by = parent.state.asked_by if by is None else (by,) if by else ()
        sender = f"`{parent.session_id}`, which gave you the task"
        await self._deliver(child, _worded(sender, text), Caller(by or parent.session_id), asked_by, command)

    async def send(self, task: Task, command: str, to: str, text: str, asked_by: tuple[str, ...]) -> None:
        """Send a message from the sub-agent of *task* to its peer *to*; raise `UnknownTask` if that is none."""
        there = self._ended.get(to) if (run := self._runs.get(to)) is None else run.task
        if to not in task.peers and (there is None or task.child not in there.peers):
            raise UnknownTask.among(to, (peer.child for peer in self.peers(task)))
        sender = f"`{task.child}`, an agent `{task.agent}` at work beside you"
        await self._deliver(to, _worded(sender, text), Caller(task.child), asked_by, command)

    def peers(self, task: Task) -> tuple[Task, ...]:
        """Return the running sub-agents with which that of *task* may exchange messages."""
        others = (run for run in self._runs.values() if run.task.child in task.peers or task.child in run.task.peers)
        return tuple(run.shown() for run in others)

    def why_no_peers(self, task: Task) -> str | None:
        """Return why the peers of a new *task* cannot exchange messages with it; `None` if they can."""
        gone = next((peer for peer in task.peers if peer not in self._runs), None)
        if gone is not None:
            return f"no task `{gone}` runs, so it can be no peer of another; start it first"
        agents = self._parent.code.agents
        both = (task.agent, *(self._runs[peer].task.agent for peer in task.peers)) if task.peers else ()
        mute = next((agent for agent in both if not agents[agent].talks), None)
        return None if mute is None else f"agent `{mute}` has no `message_send`, so it has no peers; leave them out"

    async def _deliver(
        self, to: str, text: str, caller: Caller, asked_by: tuple[str, ...], command: str | None
    ) -> None:
        """Send a message to a sub-agent, which a command id does once only; raise why it was not taken."""
        slot: Slot[Answer] = Slot()
        steering = letter(SteerSent(text, message=True, asked_by=asked_by), command, slot, caller)
        run = await self._find(to)
        await run.wait_listens()
        session = self._session(to)
        answer: Answer | None = None
        if session is not None:
            session.mailbox.post_steering(steering)
            answer = await slot.wait()
        if answer is None or has_ended(answer):
            answer = await self._answered_before(to, steering) or Refused.of(TaskDone(to))
        if isinstance(answer, Refused):
            raise answer.error

    async def _answered_before(self, child: str, steering: Letter) -> Answer | None:
        """Return the answer that a sub-agent, which has ended, gave to a command id; `None` if none is known."""
        if steering.command is None or self._shared.forget is not None:
            return None
        return await Answers(child, self._shared.journal).known(steering.command, steering.digest)


def _worded(sender: str, text: str) -> str:
    """Return a message as its receiver's model gets it: with its sender, and so that it cannot pass for another's."""
    return f"Message from {sender}:\n{quoted(text)}"


def introduced(prompt: str, peers: Iterable[Task]) -> str:
    """Return the prompt of a sub-agent, with the addresses of those with which it may exchange messages."""
    named = "; ".join(f"`{peer.child}`, an agent `{peer.agent}`" for peer in peers)
    return f"{prompt}\n\nYou may exchange messages with {named}." if named else prompt


def answered(outcome: Outcome, *, has_form: bool) -> Ok | Err:
    """Return the answer of a turn, or an `Err` if there is none."""
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
