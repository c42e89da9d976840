"""Sub-agents of one session: child sessions under a supervisor of their own, which ends with the parent."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

import trio

from agentrail.api.session_values import ChildView, HeldCall
from agentrail.core.supervision_rules import Policy
from agentrail.core.vocabulary.commands import Answer, PromptSent, Refused
from agentrail.core.vocabulary.inputs import SubagentEnded, SubagentReported
from agentrail.core.vocabulary.state import State
from agentrail.errors import Fenced, SessionNotAlive, SessionStored
from agentrail.ports.tool import Task
from agentrail.runtime.actor.parent_link import Link
from agentrail.runtime.actor.session import Session
from agentrail.runtime.commands import letter
from agentrail.runtime.inbox.command_results import Answers
from agentrail.runtime.inbox.letter import Letter
from agentrail.runtime.inbox.mailbox import Mailbox
from agentrail.runtime.inbox.replies import Outcome, held_calls
from agentrail.runtime.shared.ids import MAX_ID
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.untrusted_calls import Contained
from agentrail.runtime.supervision.children import Child, SessionBody, session_of
from agentrail.runtime.supervision.restore import read_opening
from agentrail.runtime.supervision.subagents.shared_limits import SharedLimits
from agentrail.runtime.supervision.subagents.task_runs import Run, answered, introduced
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.values.content import Text
from agentrail.values.tools import Err, Ok, err

NO_PROMPT: Final = (
    "the process ended before the sub-agent had its prompt, and an older version has kept none; start the task again"
)

DIGEST_CHARS: Final = 16

Start = Callable[[SupervisorNode, Session, Link], Awaitable[Session]]
"""Function that starts (or resumes) a child session under a supervisor."""


class Family(SharedLimits):
    """The sub-agents of one session."""

    __slots__ = (
        "_back",
        "_closed",
        "_node",
        "_resume",
        "_start",
        "living",
    )

    def __init__(self, parent: Session, node: SupervisorNode, start: Start, resume: Start) -> None:
        super().__init__(parent)
        self._node = SupervisorNode(node.tree, Policy(), (*node.path, parent.state.session_id))
        self._start = start
        self._resume = resume
        self._back: dict[str, Run] = {}
        self._closed = False
        self.living = 0

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
        return run.answer if run.has_ended and isinstance(run.answer, Err) else run.shown()

    # For the session

    def held(self) -> tuple[HeldCall, ...]:
        """Return the calls of sub-agents, at any depth, that wait for a person."""
        sessions = self._sessions()
        return tuple(call for session in sessions for call in (*held_calls(session.state), *session.links.held()))

    def mailbox(self, ref: str) -> Mailbox | None:
        """Return the mailbox of the sub-agent, at any depth, that waits for a decision on *ref*; `None` if none."""
        session = self._session(ref.rpartition(":")[0])
        if session is None:
            return None
        return session.mailbox if self._path[-1] in session.state.setup.path[::2] else None

    async def answered(self, ref: str, letter: Letter) -> Answer | None:
        """Return the answer that a sub-agent gave to a command id before it ended; `None` if none is known."""
        child = ref.rpartition(":")[0]
        if letter.command is None or not child.startswith(f"{self._path[-1]}."):
            return None
        if self._shared.forget is not None:
            return Refused.of(SessionNotAlive(child, "what it has answered is forgotten"))
        return await Answers(child, self._shared.journal).known(letter.command, letter.digest)

    def gathered(self, report: SubagentReported) -> SubagentReported:
        """Return *report* with all that the sub-agent has reported since."""
        run = self._runs.get(report.child)
        return report if run is None or report.heard else run.link.gathered()

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
            link = Link(task, self._parent.mailbox.post, self, agent.prompt, agent.asked_by)
            run = Run(link, has_form=recipe.has_form)
            run.link.back(agent)
            self._comes_back(run, agent.used)
            self._launch(run)
            if not agent.background:
                self._back[agent.child] = run  # its call runs again, finds the run here, and takes its answer

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
        """Drop the parent if nothing can run for it any more: so it is freed without the garbage collector."""
        if self._closed and not self._runs:
            self._of = None

    @property
    def children(self) -> tuple[Child, ...]:
        """The sub-agents as children of their supervisor."""
        return tuple(self._node.children.values())

    def views(self) -> tuple[ChildView, ...]:
        """Return the sub-agents' entries in `tree()`."""
        return tuple(child.view() for child in self.children)

    def _session(self, child: str) -> Session | None:
        return session_of(self._node.tree.sessions.get(child))

    def _sessions(self) -> tuple[Session, ...]:
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

    def _begin(self, task: Task, prompt: str) -> Run | Err:
        """Begin to run a sub-agent, or return why that is not allowed."""
        problem = self._problem(task)
        if problem is not None:
            return err(problem)
        parent = self._parent
        link = Link(task, parent.mailbox.post, self, prompt, parent.state.asked_by)
        return self._launch(Run(link, has_form=parent.code.agents[task.agent].has_form))

    def _launch(self, run: Run) -> Run:
        self._runs[run.task.child] = run
        self._ended.pop(run.task.child, None)  # a call that runs again brings back one that had ended
        self._links[run.task.child] = run.link
        if run.comes_back:
            self._hold(run)
        for family in self._line():
            family.living += 1
        self._shared.nursery.start_soon(self._live, run, name=f"sub-agent {run.task.child}")
        return run

    def _problem(self, task: Task) -> str | None:
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
        """The most sub-agents that may run at once, their own sub-agents included."""
        return self._parent.state.setup.options.max_agents

    def _line(self) -> Iterator[Family]:
        """Yield this family and those of all parents above it."""
        yield self
        for name in reversed(self._path[:-1:2]):
            above = session_of(self._node.tree.sessions.get(name))
            subagents = None if above is None else above.links.subagents
            if isinstance(subagents, Family):
                yield subagents

    async def _live(self, run: Run) -> None:
        """Body of a sub-agent's task; at its end, however it comes, the session is stopped and its end reported."""
        try:
            with Contained(run.failed), run.scope:
                run.answer = await self._work(run)
        finally:
            # Shielded: a cancelled run still has to stop its session and to report the usage:
            # tests/runtime/test_cut_anywhere.py::test_a_sub_agent_whose_roof_comes_down
            with trio.CancelScope(shield=True):
                await self._see_off(run)

    async def _work(self, run: Run) -> Ok | Err:
        """Start the child session, prompt it, and return its answer."""
        session = None if run.comes_back else await self._begun(run)
        was_asked, outcome = await self._past(run) if run.comes_back else (False, None)
        if outcome is None:
            if session is None:
                session = await patiently(partial(self._resume, self._node, self._parent, run.link))
            if run.comes_back and not was_asked and not run.link.prompt:
                return err(NO_PROMPT)
            if was_asked:
                run.listens()
            outcome = await (run.link.outcome() if was_asked else self._ask(session, run))
        return answered(outcome, has_form=run.has_form)

    async def _begun(self, run: Run) -> Session | None:
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
        self._hold(run)
        run.link.announce()
        return None

    async def _ask(self, session: Session, run: Run) -> Outcome:
        """Prompt a sub-agent, and return how the turn ended; it may wait for a person several times before."""
        slot: Slot[Answer] = Slot()
        text = introduced(run.link.prompt, self.peers(run.task))
        prompt = letter(PromptSent((Text(text),), asked_by=run.link.asked_by), None, slot)
        prompt.watch = run.link.expect
        await session.mailbox.post_user(prompt)
        answer = await slot.wait()
        run.listens()
        return answer.error if isinstance(answer, Refused) else await run.link.outcome()

    @property
    def _goes_on(self) -> bool:
        """Whether the parent can come back with its sub-agents: parked in its journal, or under another supervisor."""
        tree, gone = self._node.tree, self._parent.gone
        parks = tree.parks and (tree.closing or self._shared.parkable is not None)
        return parks or (gone is not None and isinstance(gone.error, Fenced))

    async def _see_off(self, run: Run) -> None:
        child: Child | None = self._node.children.get(run.task.child)
        if child is not None:
            if isinstance(child.body, SessionBody):
                child.body.why = "its task was stopped" if run.scope.cancel_called else "its task is done"
            await (self._node.park(child) if self._goes_on else self._node.stop(child))
        for family in self._line():
            family.living -= 1
        del self._runs[run.task.child]
        self.purse.queue.clocks.pop(run.task.child, None)
        self._has_come(run)
        if not run.link.is_announced:
            self._links.pop(run.task.child, None)
        run.link.end(run.answer)
        run.end()
        if run.task.background:
            self._keep(run)
        if self._of is not None:
            self._of.links.notify()
        self._let_go()
