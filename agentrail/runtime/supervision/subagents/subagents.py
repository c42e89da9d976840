"""Sub-agents of one session: child sessions under a supervisor of their own, which ends with the parent."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, cast

import trio

from agentrail.api.session_values import ChildView, HeldCall
from agentrail.api.turn_ends import turn_end
from agentrail.core.supervision_rules import Policy
from agentrail.core.vocabulary.commands import Answer, PromptSent, Refused, SteerSent
from agentrail.core.vocabulary.inputs import SubagentEnded, SubagentReported
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import MAX_ENDED_TASKS
from agentrail.errors import Fenced, SessionNotAlive, SessionStored, UnknownTask, UsageError, WrongType
from agentrail.ports.journal import opening_of
from agentrail.ports.tool import Task
from agentrail.runtime.access.sending import has_ended, letter
from agentrail.runtime.access.status import ended_tasks, tasks_of
from agentrail.runtime.actor.parent_link import ParentLink
from agentrail.runtime.actor.session import Session
from agentrail.runtime.inbox.command_results import CommandResults
from agentrail.runtime.inbox.letter import Letter, ReplyOutcome, ReplySlot
from agentrail.runtime.inbox.replies import held_calls
from agentrail.runtime.shared.caller import Caller
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.untrusted_calls import Contained
from agentrail.runtime.supervision.children import Child, SessionRunner, session_of
from agentrail.runtime.supervision.restore import read_opening
from agentrail.runtime.supervision.subagents.shared_limits import SharedLimits
from agentrail.runtime.supervision.subagents.subagent_run import SubagentRun, answered, introduced, worded
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.values.content import Text
from agentrail.values.events.life import PromptReceived, SessionEnded
from agentrail.values.session_ids import MAX_ID, follows_grammar
from agentrail.values.tools import Err, Ok, err
from agentrail.values.untrusted_values import as_seconds as plain_seconds
from agentrail.values.untrusted_values import brief

NO_PROMPT: Final = "the process ended before the sub-agent had its prompt, and none is kept; start the task again"

NO_ANSWER: Final = "it has no answer"
"""Why there is no answer of a sub-agent that has ended before its turn."""

DIGEST_CHARS: Final = 16

PAGE: Final = 1000
"""How many records of a sub-agent are read from the journal at once."""

Start = Callable[[SupervisorNode, Session, ParentLink], Awaitable[Session]]
"""Function that starts (or resumes) a child session under a supervisor."""


class Subagents:
    """The sub-agents of one session."""

    __slots__ = (
        "_back",
        "_closed",
        "_ended",
        "_kept",
        "_node",
        "_path",
        "_resume",
        "_runs",
        "_shared",
        "_start",
        "limits",
        "living",
    )

    def __init__(self, parent: Session, node: SupervisorNode, start: Start, resume: Start) -> None:
        self._shared = parent.shared
        self._path = (*parent.state.setup.path, parent.session_id)
        self._node = SupervisorNode(node.tree, Policy(), (*node.path, parent.session_id))
        self._start = start
        self._resume = resume
        self._runs: dict[str, SubagentRun] = {}
        self._kept: dict[str, SubagentRun] = {}  # the part of `_ended` whose answers are in memory
        self._ended = {task.child: task for task in ended_tasks(parent.state)}
        self._back: dict[str, SubagentRun] = {}  # resumed sub-agents whose calls do not run again yet
        self._closed = False  # true when the session ends: no sub-agent may start
        self.limits = SharedLimits(parent, self._node)
        self.living = 0  # number of running sub-agents, their own included

    @property
    def _parent(self) -> Session:
        """The session whose sub-agents these are; raise `SessionNotAlive` once it is gone with all of them."""
        return self.limits.parent

    def tasks(self) -> tuple[Task, ...]:
        """Return the running sub-agents, and the last ended ones in the background, as the journal has them.

        The runs here begin before the parent's record of their start, and end before that of their end.
        """
        return tasks_of(self._parent.state)

    def _keep(self, run: SubagentRun) -> None:
        """Keep the entry and the answer of a sub-agent in the background that has ended; drop the oldest beyond 32."""
        child = run.task.child
        self._ended.pop(child, None)
        self._ended[child], self._kept[child] = run.task_entry(), run
        if len(self._ended) > MAX_ENDED_TASKS:
            oldest = next(iter(self._ended))
            del self._ended[oldest]
            self._kept.pop(oldest, None)

    # For tools

    async def run(
        self, call_id: str, agent: str, description: str, prompt: str, peers: tuple[str, ...] = ()
    ) -> Ok | Err:
        """Start sub-agent *agent* with *prompt* and wait for its answer; if cancelled, stop the sub-agent."""
        child = self._name(call_id)
        run = self._back.pop(child, None) or self._begin(Task(child, agent, description, call_id, peers=peers), prompt)
        if isinstance(run, Err):
            return run
        try:
            with self._shared.turn_waits.on(child):
                await run.wait_ended()
        except trio.Cancelled:
            run.scope.cancel()
            # Shielded: a cancelled call waits for its sub-agent to stop, which must not go on working for no call:
            # tests/runtime/test_cut_anywhere.py::test_a_call_is_not_over_before_its_sub_agent
            with trio.CancelScope(shield=True):
                await run.wait_ended()
            raise
        return run.answer

    async def start(
        self, call_id: str, agent: str, description: str, prompt: str, peers: tuple[str, ...] = ()
    ) -> Task | Err:
        """Start sub-agent *agent* in the background; return when it runs, or why it could not start."""
        task = Task(self._name(call_id), agent, description, call_id, background=True, peers=peers)
        run = self._runs.get(task.child) or self._kept.get(task.child) or self._begin(task, prompt)
        if isinstance(run, Err):
            return run
        await run.link.announced()
        return run.answer if run.has_ended and isinstance(run.answer, Err) else run.task_entry()

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
            raise WrongType("seconds", brief(seconds), "a number of seconds, of at least 0")
        if not isinstance(cast("object", every), bool):
            raise WrongType("every", brief(every), "true or false")
        parent, enough = self._parent, all if every else any
        runs = {child: await self._find(child) for child in children}
        if not runs:
            return {}

        def over() -> bool:
            """Whether the wait is over: enough sub-agents have ended, or a message has come."""
            return enough(run.has_ended for run in runs.values()) or (call_id is not None and parent.links.has_message)

        with trio.CancelScope(deadline=self.deadline(parent.state, call_id, plain)):
            await parent.links.until(over)
        return {child: run.answer for child, run in runs.items() if run.has_ended}

    def deadline(self, state: State | None, call_id: str | None, seconds: float) -> float:
        """Return Trio's time *seconds* after the start of the call; without a call, *seconds* from now.

        A call that an earlier process began, and this one runs again, waits only for the rest of the time.
        """
        clock = self._shared.clock
        calls = () if state is None or state.batch is None else state.batch.calls
        started = next((call.started_at for call in calls if call.call_id == call_id), None)
        return clock.deadline((clock.trio_time(started) if started else clock.now()) + seconds)

    async def _find(self, child: object) -> SubagentRun:
        """Return the run of a sub-agent, also of one that ended in an earlier process; raise `UnknownTask` if none."""
        if not isinstance(child, str):
            raise WrongType.of("child", child, "the id of a sub-agent")
        run = self._runs.get(child) or self._kept.get(child) or await self._stored(child)
        if run is None:
            raise UnknownTask.among(child, (*self._ended, *self._runs))
        return run

    async def _stored(self, child: str) -> SubagentRun | None:
        """Return the run of a sub-agent that has ended, as its records have it; `None` if no such one is stored."""
        if self._shared.forget is not None or not follows_grammar(child):
            return None
        first = await patiently(partial(self._shared.journal.read, child, 0, 1))
        setup = opening_of(first[0]).setup if first else None
        if setup is None or setup.path[:-1] != self._path:
            return None
        task = Task(child, "", "", setup.path[-1], background=True)
        run = SubagentRun(ParentLink(task, self._parent.mailbox.post))
        _, outcome = await self._past(run)
        if outcome is None and child not in self._ended:
            return None
        run.answer = answered(outcome or SessionNotAlive(child, NO_ANSWER), has_form=bool(setup.returns))
        run.end()
        return run

    async def _past(self, run: SubagentRun) -> tuple[str, ReplyOutcome | None]:
        """Read from the journal the ref of a resumed sub-agent's last prompt, empty if it has none, and its answer.

        There is an answer if the sub-agent has ended.
        """
        shared, child = self._shared, run.task.child
        number, ref, ended = 0, "", False
        outcome: ReplyOutcome | None = None
        while records := await patiently(partial(shared.journal.read, child, number, PAGE)):
            number = records[-1].number
            for envelope in (envelope for record in records for envelope in record.events):
                end = turn_end(envelope.event)
                outcome = outcome if end is None else end[1]
                ended = ended or isinstance(envelope.event, SessionEnded)
                if isinstance(envelope.event, PromptReceived):
                    ref, outcome = envelope.event.ref, None
            run.link.missed([envelope for record in records for envelope in record.events])
        return ref, (outcome or SessionNotAlive(child, NO_ANSWER)) if ended else None

    # Messages

    async def tell(self, command: str | None, child: str, text: str, by: str | None = None) -> None:
        """Send a message of the session, or of a program for *by*, to a running sub-agent."""
        if not isinstance(cast("object", text), str):
            raise WrongType.of("text", text, "a text")
        parent = self._parent
        asked_by = parent.state.asked_by if by is None else (by,) if by else ()
        sender = f"`{parent.session_id}`, which gave you the task"
        await self._deliver(child, worded(sender, text), Caller(by or parent.session_id), asked_by, command)

    async def send(self, task: Task, command: str, to: str, text: str, asked_by: tuple[str, ...]) -> None:
        """Send a message from the sub-agent of *task* to its peer *to*; raise `UnknownTask` if that is none."""
        receiver = self._ended.get(to) if (run := self._runs.get(to)) is None else run.task
        if to not in task.peers and (receiver is None or task.child not in receiver.peers):
            raise UnknownTask.among(to, (peer.child for peer in self.peers(task)))
        sender = f"`{task.child}`, an agent `{task.agent}` at work beside you"
        await self._deliver(to, worded(sender, text), Caller(task.child), asked_by, command)

    def peers(self, task: Task) -> tuple[Task, ...]:
        """Return the running sub-agents with which that of *task* may exchange messages."""
        others = (run for run in self._runs.values() if run.task.child in task.peers or task.child in run.task.peers)
        return tuple(run.task_entry() for run in others)

    def why_no_peers(self, task: Task) -> str | None:
        """Return why the peers of a new *task* cannot exchange messages with it; `None` if they can."""
        missing = next((peer for peer in task.peers if peer not in self._runs), None)
        if missing is not None:
            return f"no task `{missing}` runs, so it can be no peer of another; start it first"
        agents = self._parent.code.agents
        both = (task.agent, *(self._runs[peer].task.agent for peer in task.peers)) if task.peers else ()
        mute = next((agent for agent in both if not agents[agent].talks), None)
        return None if mute is None else f"agent `{mute}` has no `message_send`, so it has no peers; leave them out"

    async def _deliver(
        self, to: str, text: str, caller: Caller, asked_by: tuple[str, ...], command: str | None
    ) -> None:
        """Post a message to a sub-agent, at most once per command id; raise if it was not accepted."""
        steering = letter(SteerSent(text, message=True, asked_by=asked_by), command, caller)
        run = await self._find(to)
        await run.wait_listens()
        session = self._session(to)
        answer: Answer | None = None
        if session is not None:
            session.mailbox.post_steering(steering)
            answer = await steering.answer.wait()
        if answer is None or has_ended(answer):
            answer = await self._answered_before(to, steering) or Refused.of(UsageError("task-done", to))
        if isinstance(answer, Refused):
            raise answer.error

    async def _answered_before(self, child: str, steering: Letter) -> Answer | None:
        """Return the answer that a sub-agent, which has ended, gave to a command id; `None` if none is known."""
        if steering.command is None or self._shared.forget is not None:
            return None
        return await CommandResults(child, self._shared.journal).find(steering.command, steering.digest)

    # For the session

    def held_calls(self) -> tuple[HeldCall, ...]:
        """Return the calls of sub-agents, at any depth, that wait for a person."""
        sessions = self._sessions()
        return tuple(call for session in sessions for call in (*held_calls(session.state), *session.links.held_calls()))

    def waiting(self, ref: str) -> Session | None:
        """Return the session of the sub-agent, at any depth, that waits for a decision on *ref*; `None` if none."""
        session = self._session(ref.rpartition(":")[0])
        return session if session is not None and self._path[-1] in session.state.setup.path[::2] else None

    async def answered(self, ref: str, letter: Letter) -> Answer | None:
        """Return the answer that a sub-agent gave to a command id before it ended; `None` if none is known."""
        child = ref.rpartition(":")[0]
        if letter.command is None or not child.startswith(f"{self._path[-1]}."):
            return None
        if self._shared.forget is not None:
            return Refused.of(SessionNotAlive(child, "what it has answered is forgotten"))
        return await CommandResults(child, self._shared.journal).find(letter.command, letter.digest)

    def decisions(self, report: SubagentReported) -> SubagentReported:
        """Return *report* with all that the sub-agent has reported since."""
        run = self._runs.get(report.child)
        return report if run is None or report.heard else run.link.decisions()

    def resume(self, children: tuple[str, ...], state: State) -> None:
        """Start to resume the sub-agents that an earlier process ran; *state* is the parent's."""
        for agent in state.subagents:
            recipe = self._parent.code.agents.get(agent.agent)
            if agent.child not in children:
                continue
            if recipe is None:
                problem = err(f"there is no agent `{agent.agent}` any more")
                self._parent.mailbox.post(SubagentEnded(agent.child, problem))
                continue
            task = Task(agent.child, agent.agent, agent.description, agent.call_id, agent.background, peers=agent.peers)
            link = ParentLink(task, self._parent.mailbox.post, self, agent.prompt, agent.asked_by)
            run = SubagentRun(link, has_form=recipe.has_form)
            run.link.back(agent)
            run.comes_back = True
            self.limits.comes_back(run.link, agent.used)
            self._launch(run)
            if not agent.background:
                self._back[agent.child] = run  # its call runs again, and takes its answer from this run

    def stop(self, children: tuple[str, ...]) -> None:
        """Start to stop the given sub-agents."""
        for child in children:
            run = self._runs.get(child)
            if run is not None:
                run.scope.cancel()

    def close(self) -> None:
        """Start to stop all sub-agents, and refuse new ones."""
        self._closed = True
        self.stop(tuple(self._runs))
        self._let_go()

    def _let_go(self) -> None:
        """Drop the parent if no sub-agent can run for it any more: it is then freed without the garbage collector."""
        if self._closed and not self._runs:
            self.limits.let_go()

    @property
    def children(self) -> tuple[Child, ...]:
        """The sub-agents as children of their supervisor."""
        return tuple(self._node.children.values())

    def views(self) -> tuple[ChildView, ...]:
        """Return the sub-agents' entries in `tree()`."""
        return tuple(child.view() for child in self.children)

    def _session(self, child: str) -> Session | None:
        """Return the session of sub-agent *child*; `None` if it does not run here."""
        return session_of(self._node.tree.sessions.get(child))

    def _sessions(self) -> tuple[Session, ...]:
        """Return the sessions of the sub-agents that run."""
        sessions = map(session_of, self.children)
        return tuple(session for session in sessions if session is not None)

    # One run

    def _name(self, call_id: str) -> str:
        """Return the session id of a call's sub-agent: derived from the parent's, and shortened if too long."""
        name = f"{self._path[-1]}.{call_id}"
        if len(name) <= MAX_ID:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARS]
        return f"{name[: MAX_ID - len(digest) - 1]}.{digest}"

    def _begin(self, task: Task, prompt: str) -> SubagentRun | Err:
        """Begin to run a sub-agent, or return why that is not allowed."""
        problem = self._problem(task)
        if problem is not None:
            return err(problem)
        parent = self._parent
        link = ParentLink(task, parent.mailbox.post, self, prompt, parent.state.asked_by)
        return self._launch(SubagentRun(link, has_form=parent.code.agents[task.agent].has_form))

    def _launch(self, run: SubagentRun) -> SubagentRun:
        """Start the task of *run*, and count it in all families above."""
        self._runs[run.task.child] = run
        self._ended.pop(run.task.child, None)  # a call that runs again may resume a sub-agent that had ended
        self.limits.begin(run.link)
        if run.comes_back:
            self.limits.hold(run.task.child)
        for family in self._line():
            family.living += 1
        self._shared.nursery.start_soon(self._live, run, name=f"sub-agent {run.task.child}")
        return run

    def _problem(self, task: Task) -> str | None:
        """Return why no further sub-agent may start; `None` if one may."""
        if self._closed:
            return "no sub-agent can be started: the session ends"
        options = self._parent.state.setup.options
        if options.max_agent_depth < 1:
            return "no sub-agent can be started here: sub-agents are nested as deep as they may be; do it yourself"
        for family in self._line():
            most = family.most
            if family.living >= most:
                return f"{family.living} sub-agents run already, and no more than {most} may; wait for one to end"
        return self.why_no_peers(task)

    @property
    def most(self) -> int:
        """The most sub-agents that may run at once, counting those of sub-agents."""
        return self._parent.state.setup.options.max_agents

    def _line(self) -> Iterator[Subagents]:
        """Yield the sub-agents of this session, and those of each session above it."""
        yield self
        for name in reversed(self._path[:-1:2]):
            above = session_of(self._node.tree.sessions.get(name))
            subagents = None if above is None else above.links.subagents
            if isinstance(subagents, Subagents):
                yield subagents

    async def _live(self, run: SubagentRun) -> None:
        """Body of a sub-agent's task; however it ends, the child session is stopped and its end reported."""
        try:
            with Contained(run.failed), run.scope:
                run.answer = await self._work(run)
        finally:
            # Shielded: a cancelled run still has to stop its session and to report the usage:
            # tests/runtime/test_cut_anywhere.py::test_a_sub_agent_whose_roof_comes_down
            with trio.CancelScope(shield=True):
                await self._see_off(run)

    async def _work(self, run: SubagentRun) -> Ok | Err:
        """Start the child session, prompt it, and return its answer."""
        session = None if run.comes_back else await self._begin_session(run)
        ref, outcome = await self._past(run) if run.comes_back else ("", None)
        if outcome is None:
            if session is None:
                session = await patiently(partial(self._resume, self._node, self._parent, run.link))
            if run.comes_back and not ref and not run.link.prompt:
                return err(NO_PROMPT)
            if ref:
                run.listens()
            outcome = await (session.outcome(ref) if ref else self._ask(session, run))
        return answered(outcome, has_form=run.has_form)

    async def _begin_session(self, run: SubagentRun) -> Session | None:
        """Start the child's session. Return `None` if an earlier process had already started it; it is then resumed."""
        try:
            return await patiently(partial(self._start, self._node, self._parent, run.link))
        except SessionStored as error:
            stored = error
        task, parent = run.task, self._parent.state
        opening = await patiently(partial(read_opening, self._shared, task.child))
        if opening.setup.path != (*parent.setup.path, parent.session_id, task.call_id):
            raise stored
        run.comes_back = True
        self.limits.hold(task.child)
        run.link.announce()
        return None

    async def _ask(self, session: Session, run: SubagentRun) -> ReplyOutcome:
        """Prompt a sub-agent, and return how the turn ended; it may wait for a person several times before."""
        text = introduced(run.link.prompt, self.peers(run.task))
        prompt = letter(PromptSent((Text(text),), asked_by=run.link.asked_by), None, reply=(reply := ReplySlot()))
        answer = await session.mailbox.send(prompt)
        run.listens()
        return answer.error if isinstance(answer, Refused) else await reply.wait()

    @property
    def _goes_on(self) -> bool:
        """Whether the parent will come back with its sub-agents, so that they are parked and not stopped."""
        tree, end = self._node.tree, self._parent.gone
        parks = tree.parks and (tree.closing or self._shared.parkable is not None)
        return parks or (end is not None and isinstance(end.error, Fenced))

    async def _see_off(self, run: SubagentRun) -> None:
        """Stop or park the child session, report its end to the parent, and keep its answer."""
        child: Child | None = self._node.children.get(run.task.child)
        if child is not None:
            if isinstance(child.runner, SessionRunner):
                child.runner.stop_reason = "its task was stopped" if run.scope.cancel_called else "its task is done"
            await (self._node.park(child) if self._goes_on else self._node.stop(child))
        for family in self._line():
            family.living -= 1
        del self._runs[run.task.child]
        self.limits.end(run.link)
        run.link.end(run.answer)
        run.end()
        if run.task.background:
            self._keep(run)
        if self.limits.living_parent is not None:
            self.limits.living_parent.links.notify()
        self._let_go()
