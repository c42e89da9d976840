"""The sub-agents of one session: sessions of their own, under a supervisor that ends with their parent."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final

import trio

from agentrail.core.supervision_rules import Policy
from agentrail.core.vocabulary.commands import Answer, PromptSent, Refused
from agentrail.core.vocabulary.inputs import ElsewhereUsed, SubagentEnded, SubagentReported
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, SessionNotAlive, SessionStored, UnknownTask
from agentrail.ports.agents import Task
from agentrail.runtime.actor.loop import Session
from agentrail.runtime.actor.parent_link import Link, Run
from agentrail.runtime.commands import letter
from agentrail.runtime.diagnosis.crash_reports import ChildView
from agentrail.runtime.inbox.known_commands import Answers
from agentrail.runtime.inbox.mailbox import Letter, Mailbox
from agentrail.runtime.inbox.replies import HeldCall, Outcome, held_calls, told
from agentrail.runtime.resources import Recipe
from agentrail.runtime.shared.ids import MAX_ID
from agentrail.runtime.shared.journal_retry import patiently
from agentrail.runtime.shared.reply_slot import Slot
from agentrail.runtime.shared.sanitize import Contained
from agentrail.runtime.supervision.children import Child, SessionBody, session_of
from agentrail.runtime.supervision.recovery import opening_of
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.values.content import Text
from agentrail.values.events.life import PromptReceived, SessionEnded
from agentrail.values.messages import AssistantMessage
from agentrail.values.tools import Err, Ok, err
from agentrail.values.usage import NOTHING_USED, Usage

MAX_KEPT: Final = 32
"""Tasks in the background that have ended and whose answers are kept at hand."""

DIGEST_CHARS: Final = 16

ATTEMPTS: Final = 2
"""How often a sub-agent is asked for an answer in the form that it is to have."""

PAGE: Final = 1000
"""Records that are read at once."""

ANSWERED: Final = frozenset({"end", "max_turns", "length"})
"""How a turn ends that has an answer."""

Start = Callable[[SupervisorNode, Session, Link], Awaitable[Session]]
"""Starts the session of a link under a supervisor, for its parent."""


class Family:
    """The sub-agents of one session."""

    __slots__ = ("_back", "_closed", "_kept", "_node", "_parent", "_resume", "_runs", "_spread", "_start", "living")

    def __init__(self, parent: Session, node: SupervisorNode, start: Start, resume: Start) -> None:
        self._parent = parent
        self._node = SupervisorNode(node.tree, Policy(), (*node.path, parent.state.session_id))
        self._start = start
        self._resume = resume
        self._back: dict[str, Run] = {}
        self._runs: dict[str, Run] = {}
        self._kept: dict[str, Run] = {}
        self._closed = False
        self._spread: tuple[Usage, Usage] = (NOTHING_USED, NOTHING_USED)
        self.living = 0

    # For tools

    async def run(self, call_id: str, agent: str, description: str, prompt: str) -> Ok | Err:
        """Have *agent* do what *prompt* says, and return what it answers; cancelled, it is stopped."""
        child = self._name(call_id)
        run = self._back.pop(child, None) or self._begin(Task(child, agent, description, call_id), prompt)
        if isinstance(run, Err):
            return run
        try:
            await run.wait_ended()
        except trio.Cancelled:
            run.scope.cancel()
            with trio.CancelScope(shield=True):
                await run.wait_ended()
            raise
        return run.answer

    async def start(self, call_id: str, agent: str, description: str, prompt: str) -> Task | Err:
        """Have *agent* do it in the background; return when it runs, or why it does not."""
        task = Task(self._name(call_id), agent, description, call_id, background=True)
        run = self._runs.get(task.child) or self._kept.get(task.child) or self._begin(task, prompt)
        if isinstance(run, Err):
            return run
        await run.link.announced()
        return run.answer if run.has_ended and isinstance(run.answer, Err) else run.shown()

    def tasks(self) -> tuple[Task, ...]:
        """Return those that run, and the last ones in the background that have ended."""
        return tuple(run.shown() for run in (*self._kept.values(), *self._runs.values()))

    async def result(self, child: str) -> Ok | Err:
        """Return what a sub-agent answers, when it has."""
        run = self._find(child)
        await run.wait_ended()
        return run.answer

    async def cancel(self, child: str) -> None:
        """Stop a sub-agent, and return when it and everything under it has ended."""
        run = self._find(child)
        run.scope.cancel()
        await run.wait_ended()

    def _find(self, child: str) -> Run:
        run = self._runs.get(child) or self._kept.get(child)
        if run is None:
            raise UnknownTask.among(child, (*self._kept, *self._runs))
        return run

    # For the session

    def held(self) -> tuple[HeldCall, ...]:
        """Return what waits for a person in them, and in theirs."""
        sessions = self._sessions()
        return tuple(held for one in sessions for held in (*held_calls(one.state), *one.ties.held()))

    def mailbox(self, ref: str) -> Mailbox | None:
        """Return where a decision about *ref* goes, if it is one of them, or of theirs, that waits for it."""
        session = session_of(self._node.tree.sessions.get(ref.rpartition(":")[0]))
        if session is None:
            return None
        return session.mailbox if self._parent.state.session_id in session.state.setup.path[::2] else None

    async def answered(self, ref: str, letter: Letter) -> Answer | None:
        """Return the answer to a decision with a command id that one of them was sent, which is gone now."""
        child = ref.rpartition(":")[0]
        house = self._parent.house
        if letter.command is None or not child.startswith(f"{self._parent.session_id}."):
            return None
        if house.forget is not None:
            return Refused(SessionNotAlive(child, "what it has answered is forgotten"))
        return await Answers(child, house.journal).known(letter.command, letter.digest)

    def gathered(self, report: SubagentReported) -> SubagentReported:
        """Return *report* with all that has gathered for it."""
        run = self._runs.get(report.child)
        return report if run is None or report.heard else run.link.gathered()

    def spread(self, state: State) -> None:
        """Tell those that share limits with the session, which is now in *state*, what the others have used."""
        if (state.usage, state.elsewhere) == self._spread:
            return
        self._spread = (state.usage, state.elsewhere)
        total = state.usage.plus(state.elsewhere)
        counted = {agent.child: agent.used for agent in state.subagents}
        for session in self._sessions():
            run = self._runs.get(session.state.session_id)
            if run is None or not session.state.setup.shares:
                continue
            others = total.minus(run.link.base).minus(counted.get(run.task.child, NOTHING_USED))
            if run.link.used_elsewhere(others):
                session.post(ElsewhereUsed(others))

    def resume(self, children: tuple[str, ...], state: State) -> None:
        """Begin to bring back those that the process before this one had; the session is in *state*."""
        for known in state.subagents:
            asked = asked_for(state, known.call_id)
            recipe = self._parent.outfit.agents.get(known.agent)
            if known.child not in children:
                continue
            if recipe is None or asked is None:
                self._parent.post(SubagentEnded(known.child, err(f"there is no agent `{known.agent}` any more")))
                continue
            description, prompt = asked
            task = Task(known.child, known.agent, description, known.call_id, known.background)
            run = Run(task, prompt, recipe, Link(task, self._parent.post))
            run.link.back(known)
            run.link.base = state.usage.plus(state.elsewhere).minus(known.used)
            run.comes_back = True
            self._launch(run)
            if not known.background:
                self._back[known.child] = run  # its call asks for it, maybe when it has ended already

    def stop(self, children: tuple[str, ...]) -> None:
        """Begin to stop some of them."""
        for child in children:
            run = self._runs.get(child)
            if run is not None:
                run.scope.cancel()

    def close(self) -> None:
        """Begin to stop all of them, and start no more."""
        self._closed = True
        self.stop(tuple(self._runs))

    def views(self) -> tuple[ChildView, ...]:
        """Return what `tree()` shows of them."""
        return tuple(child.view() for child in self._node.children.values())

    def _sessions(self) -> tuple[Session, ...]:
        found = map(session_of, self._node.children.values())
        return tuple(session for session in found if session is not None)

    # One run

    def _name(self, call_id: str) -> str:
        """Return the id of the child for a call; one that is too long is shortened, and stays unique."""
        name = f"{self._parent.state.session_id}.{call_id}"
        if len(name) <= MAX_ID:
            return name
        digest = hashlib.sha256(name.encode()).hexdigest()[:DIGEST_CHARS]
        return f"{name[: MAX_ID - len(digest) - 1]}.{digest}"

    def _begin(self, task: Task, prompt: str) -> Run | Err:
        """Begin a run, or say why it may not be."""
        problem = self._problem()
        if problem is not None:
            return err(problem)
        return self._launch(Run(task, prompt, self._parent.outfit.agents[task.agent], Link(task, self._parent.post)))

    def _launch(self, run: Run) -> Run:
        self._runs[run.task.child] = run
        for family in self._line():
            family.living += 1
        self._parent.house.nursery.start_soon(self._live, run, name=f"sub-agent {run.task.child}")
        return run

    def _problem(self) -> str | None:
        options = self._parent.state.setup.options
        if self._closed:
            return "no sub-agent can be started: the session ends"
        if options.max_agent_depth < 1:
            return "no sub-agent can be started here: sub-agents are nested as deep as they may be; do it yourself"
        for family in self._line():
            most = family.most
            if family.living >= most:
                return f"{family.living} sub-agents run already, and no more than {most} may; wait for one to end"
        return None

    @property
    def most(self) -> int:
        """How many sub-agents may run at once, with all that are under them."""
        return self._parent.state.setup.options.max_agents

    def _line(self) -> Iterator[Family]:
        """Yield this family and those above it."""
        yield self
        for name in reversed(self._parent.state.setup.path[::2]):
            above = session_of(self._node.tree.sessions.get(name))
            subagents = None if above is None else above.ties.subagents
            if isinstance(subagents, Family):
                yield subagents

    async def _live(self, run: Run) -> None:
        """Live one run; whatever becomes of it, its session is stopped and its end is told."""
        try:
            with Contained(run.failed), run.scope:
                run.answer = await self._work(run)
        finally:
            with trio.CancelScope(shield=True):
                await self._see_off(run)

    async def _work(self, run: Run) -> Ok | Err:
        """Start the session, ask it, and once more if it does not answer in the form that it is to."""
        session = None if run.comes_back else await self._begun(run)
        asked, outcome = await self._past(run) if run.comes_back else (0, None)
        if session is None and outcome is None:
            session = await patiently(partial(self._resume, self._node, self._parent, run.link))
        if session is not None:
            outcome = await (
                run.link.outcome() if asked else self._ask(session, run.link, run.recipe.asked(run.prompt))
            )
        answer = _answered(run.recipe, outcome)
        if isinstance(answer, str) and session is not None and asked < ATTEMPTS:
            again = f"Your answer does not fit the schema: {answer}. Answer again, with the JSON alone."
            answer = _answered(run.recipe, await self._ask(session, run.link, again))
        if isinstance(answer, str):
            return err(f"the sub-agent has answered twice what does not fit: {answer}")
        return answer

    async def _begun(self, run: Run) -> Session | None:
        """Start the session; `None`: the process before this one had, and its parent had not heard of it."""
        try:
            return await patiently(partial(self._start, self._node, self._parent, run.link))
        except SessionStored as error:
            stored = error
        task, parent = run.task, self._parent.state
        opening = await patiently(partial(opening_of, self._parent.house, task.child))
        if opening.setup.path != (*parent.setup.path, parent.session_id, task.call_id):
            raise stored
        run.comes_back = True
        run.link.announce()
        return None

    async def _past(self, run: Run) -> tuple[int, Outcome | None]:
        """Hear what a sub-agent that comes back has done: how often it was asked, and its answer, if it has ended."""
        house, child = self._parent.house, run.task.child
        number, asked, ended = 0, 0, False
        outcome: Outcome | None = None
        while records := await patiently(partial(house.journal.read, child, number, PAGE)):
            number = records[-1].number
            for envelope in (envelope for record in records for envelope in record.events):
                end = told(envelope.event)
                outcome = outcome if end is None else end[1]
                ended = ended or isinstance(envelope.event, SessionEnded)
                if isinstance(envelope.event, PromptReceived):
                    asked, outcome = asked + 1, None
                    run.link.expect(envelope.event.ref)
            run.link.missed([envelope for record in records for envelope in record.events])
        if outcome is not None and not ended:
            run.link.settle(outcome)
        return asked, (outcome or SessionNotAlive(child, "it has no answer")) if ended else None

    async def _ask(self, session: Session, link: Link, text: str) -> Outcome:
        """Prompt a sub-agent, and return how the turn has ended, however often it waits for a person before."""
        slot: Slot[Answer] = Slot()
        asked = letter(PromptSent((Text(text),)), None, slot)
        asked.watch = link.expect
        await session.mailbox.post_user(asked)
        answer = await slot.wait()
        return answer.error if isinstance(answer, Refused) else await link.outcome()

    async def _see_off(self, run: Run) -> None:
        child: Child | None = self._node.children.get(run.task.child)
        if child is not None:
            if isinstance(child.body, SessionBody):
                child.body.why = "its task was stopped" if run.scope.cancel_called else "its task is done"
            tree = self._node.tree
            await (self._node.park(child) if tree.closing and tree.parks else self._node.stop(child))
        for family in self._line():
            family.living -= 1
        del self._runs[run.task.child]
        if run.task.background:
            self._kept[run.task.child] = run
            if len(self._kept) > MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        run.link.end(run.answer)
        run.end()


def asked_for(state: State, call_id: str) -> tuple[str, str] | None:
    """Return what a call of `task` has asked for, in few words and in full, from the conversation."""
    for message in reversed(state.history):
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            if call.call_id == call_id:
                return str(call.args.get("description", "")), str(call.args.get("prompt", ""))
    return None


def _answered(recipe: Recipe, outcome: Outcome | None) -> Ok | Err | str:
    """Return the answer of a turn, or why it does not fit what the agent is to return."""
    if outcome is None:
        return err("the sub-agent has not been asked")
    if isinstance(outcome, AgentrailError):
        return err(f"the sub-agent failed: {outcome}")
    if outcome.stop_reason not in ANSWERED:
        said = f"; it said: {outcome.text}" if outcome.text else ""
        return err(f"the sub-agent stopped without an answer ({outcome.stop_reason}){said}")
    return recipe.read(outcome.text)
