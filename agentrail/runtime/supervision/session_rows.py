"""`SessionRows`: the sessions of a tree as flat rows, each made for itself, so that a change costs one row."""

from __future__ import annotations

from itertools import islice
from typing import Final

from agentrail.api.session_values import CallInProgress, TreeRow
from agentrail.core.context_window import budget_of
from agentrail.core.vocabulary.state import State
from agentrail.core.vocabulary.tool_calls import RUNNING
from agentrail.runtime.supervision.children import Child, session_of
from agentrail.runtime.supervision.tree import Tree

CALLS: Final = 4
"""How many of the calls that run are named in a row."""


class SessionRows:
    """The sessions of a tree as rows."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all sessions, in the order of their start."""
        return tuple(self._tree.sessions)

    def row(self, session_id: str) -> TreeRow | None:
        """Return the row of a session; `None` if it is not in the tree, or has not started."""
        child = self._tree.sessions.get(session_id)
        session = session_of(child)
        if child is None or session is None or session.state.is_starting:
            return None
        return _row(child, session.state, session.records.head, suspended=session.mailbox.suspended)


def _row(child: Child, state: State, head: int, *, suspended: bool) -> TreeRow:
    setup, turn = state.setup, state.turn
    running = () if state.batch is None else state.batch.calls.among(RUNNING)
    return TreeRow(
        session=state.session_id,
        parent=setup.path[-2] if setup.path else "",
        tenant=setup.tenant,
        user=setup.owner,
        agent=setup.spec,
        title=state.title,
        state=child.state.value,
        restarts=child.restarts,
        suspended=suspended,
        phase=state.phase.value,
        waits=state.waits,
        model=state.using[0],
        turn=state.turn_count,
        round=state.round,
        turn_since=None if turn is None else turn.started_at,
        calls=0 if state.batch is None else state.batch.calls.count(RUNNING),
        running=tuple([CallInProgress(call.call_id, call.name, call.started_at) for call in islice(running, CALLS)]),
        queued=len(state.queue),
        steering=len(state.steering),
        held=0 if state.batch is None else state.batch.calls.waiting,
        quarantined=len(state.quarantined_calls),
        context_tokens=None if state.token_count is None else state.token_count.tokens,
        context_window=budget_of(state).window,
        tokens=state.usage.total_tokens,
        cost_usd=state.usage.spent_usd,
        records=head,
    )
