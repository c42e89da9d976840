"""What a session and its sub-agents use of the limits that they share, and who is told of it."""

from __future__ import annotations

from agentrail.core.vocabulary.inputs import ElsewhereUsed
from agentrail.core.vocabulary.state import State
from agentrail.errors import SessionNotAlive
from agentrail.runtime.actor.parent_link import ParentLink
from agentrail.runtime.actor.request_limits import reached, time_used, time_used_up, used_beside
from agentrail.runtime.actor.session import Session
from agentrail.runtime.supervision.children import session_of
from agentrail.runtime.supervision.supervisor import SupervisorNode
from agentrail.runtime.work.reservations import Purse, Reached, Reservation
from agentrail.values.usage import NOTHING_USED, Usage


class SharedLimits:
    """The limits that a session set for its sub-agents and for itself: what each has used of them."""

    __slots__ = (
        "_coming",
        "_known",
        "_links",
        "_node",
        "_path",
        "_shared",
        "_spread",
        "_stood",
        "living_parent",
        "purse",
    )

    def __init__(self, parent: Session, node: SupervisorNode) -> None:
        self.living_parent: Session | None = parent  # `None` once no sub-agent can run for the parent any more
        self._shared = parent.shared
        self._path = (*parent.state.setup.path, parent.session_id)
        self._node = node  # runs the sub-agents
        self._spread: tuple[Usage, Usage, int] | None = None
        self._stood: frozenset[str] = frozenset()  # sub-agents whose work all waits for a person
        self._links: dict[str, ParentLink] = {}  # links to sub-agents whose usage the parent may not have counted yet
        self._known: frozenset[str] = frozenset()
        # Placeholders for the usage of sub-agents that come back, until it is known.
        self._coming: dict[str, Reservation] = {}
        above = parent.links.above
        self.purse = Purse() if above is None or above.beside is None else above.beside.limits.purse

    @property
    def parent(self) -> Session:
        """Session that set the limits; raise `SessionNotAlive` once it is gone, with all its sub-agents."""
        if self.living_parent is None:
            raise SessionNotAlive(self._path[-1], "it has ended")
        return self.living_parent

    def let_go(self) -> None:
        """Drop the reference to the parent: no sub-agent can run for it any more."""
        self.living_parent = None

    def begin(self, link: ParentLink) -> None:
        """Note that a sub-agent begins, whose usage the parent will count."""
        self._links[link.task.child] = link

    def end(self, link: ParentLink) -> None:
        """Note that a sub-agent has ended."""
        self.purse.clocks.pop(link.task.child, None)
        self._has_come(link)
        if not link.is_announced:
            self._links.pop(link.task.child, None)

    def spread(self, state: State) -> None:
        """Send each sub-agent that shares limits what the other sessions have used; *state* is the parent's.

        A sub-agent that waits for a person is told only when it continues how long others have worked meanwhile.
        """
        if self._links:
            children_ = frozenset(agent.child for agent in state.subagents)
            for child in self._known - children_:
                self._links.pop(child, None)
            self._known = children_
        stand = frozenset(agent.child for agent in state.subagents if not agent.works)
        go_on, self._stood = self._stood - stand, stand
        old, self._spread = self._spread, (state.usage, state.shared_usage, state.shared_worked_ms)
        if old == self._spread and not go_on:
            return
        total = state.usage.plus(state.shared_usage)
        counted = {agent.child: agent.used for agent in state.subagents}
        told_of_time = old is None or old[2] != state.shared_worked_ms
        for session in tuple(filter(None, map(session_of, self._node.children.values()))):
            child = session.session_id
            link = self._links.get(child)
            if link is None or child in self._coming or not session.state.setup.shares:
                continue
            others = total.plus(link.elsewhere_before).minus(link.base).minus(counted.get(child, NOTHING_USED))
            worked = link.elsewhere.worked_ms
            if child in go_on or (told_of_time and child not in stand):
                now_ms = self._shared.clock.now_ms()
                worked = max(worked, self.worked_since(child, now_ms) - session.state.worked(now_ms))
            used = ElsewhereUsed(others, worked)
            if link.note_elsewhere(used):
                session.mailbox.post(used)

    def untold(self) -> Usage:
        """Return usage of the sub-agents that the parent has not counted yet."""
        if self.living_parent is None:  # all sub-agents are gone, and their usage is counted
            return NOTHING_USED
        counted = {agent.child: agent.used for agent in self.living_parent.state.subagents}
        total = NOTHING_USED
        for child, link in self._links.items():
            total = total.plus(self._used_by(link).minus(counted.get(child, NOTHING_USED)))
        return total

    def _used_by(self, link: ParentLink) -> Usage:
        """Return what a sub-agent and its own sub-agents have used by now."""
        session = session_of(self._node.tree.sessions.get(link.task.child))
        if session is None:
            return link.used
        below = session.links.subagents
        return session.state.usage if below is None else session.state.usage.plus(below.limits.untold())

    def used_beside(self, child: str) -> tuple[str, Usage]:
        """Return the id of the session that set a sub-agent's shared limits, and what other sessions have used."""
        parent, link = self.parent, self._links[child]
        set_by, elsewhere = used_beside(parent.state, parent.links)
        total = parent.state.usage.plus(self.untold()).plus(elsewhere)
        return set_by, total.plus(link.elsewhere_before).minus(link.base).minus(self._used_by(link))

    def worked_since(self, child: str, now_ms: int) -> int:
        """Return the milliseconds up to *now_ms* that the family worked since a sub-agent began; 0 without parent."""
        parent, link = self.living_parent, self._links.get(child)
        if parent is None or link is None:
            return 0
        used = time_used(parent.state, parent.links, now_ms)
        return used.worked_ms + used.worked_elsewhere_ms - link.base_ms

    def reached_above(self, now_ms: int, *, at_most: bool) -> Reached | None:
        """Return a limit of the parent, or of a session above whose limits it shares, that is reached."""
        parent = self.parent
        return reached(parent.state, parent.code, parent.links, self.purse, now_ms, at_most=at_most, of_turn=False)

    def time_used_up(self, now_ms: int, *, of_turn: bool) -> str | None:
        """Return a limit of seconds of the parent, or one above whose limits it shares, that is used up at *now_ms*."""
        parent = self.living_parent
        if parent is None:
            return None
        return time_used_up(parent.state, parent.code, parent.links, now_ms, of_turn=of_turn)

    # After a restart

    def comes_back(self, link: ParentLink, used: Usage) -> None:
        """Note that a sub-agent will be resumed, with *used*: its usage as far as the parent has counted it."""
        state = self.parent.state
        link.base = state.usage.plus(state.shared_usage).minus(used)

    def hold(self, child: str) -> None:
        """Make requests wait until the usage of a sub-agent that is resumed is known."""
        self._coming[child] = self.purse.hold((*self._path[::2], child))

    def is_back(self, child: State) -> None:
        """See `FamilyUsage`.

        Called before its sources of tools have started, because a source may never answer.
        """
        name = child.session_id
        if name in self._coming:
            link, now_ms, state = self._links[name], self._shared.clock.now_ms(), self.parent.state
            link.elsewhere_before = child.shared_usage
            link.elsewhere = ElsewhereUsed(NOTHING_USED, child.shared_worked_ms)
            began = next((agent.began_ms for agent in state.subagents if agent.child == name), None)
            if began is None:
                began = state.worked(now_ms) + state.shared_worked_ms - child.worked(now_ms) - child.shared_worked_ms
            link.base_ms = began
            self._has_come(link)

    def _has_come(self, link: ParentLink) -> None:
        """Let the waiting requests go on: the usage of a resumed sub-agent is known, or it has ended."""
        coming = self._coming.pop(link.task.child, None)
        if coming is not None:
            self.purse.drop(coming)
            self._spread = None
