"""Steps of stored sessions that need no code of their agents: what commands write that run no session.

`paused` has an imported session rest, without a file as its agent. `branched` begins a fork with the past of a session.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from agentrail.cli.agents.agent_source import AgentSource
from agentrail.cli.output.bad_input import BadInputError
from agentrail.cli.stored.stored_sessions import state_after
from agentrail.core.machine.forking import branch
from agentrail.core.machine.step import step
from agentrail.core.vocabulary.changes import change
from agentrail.core.vocabulary.commands import AbortSent
from agentrail.core.vocabulary.inputs import AnyInput, Arrival, SessionBranched
from agentrail.core.vocabulary.state import Phase, State
from agentrail.errors import IllegalInput, LeftItsRow, ReplayDiffers
from agentrail.hooks.hook_runner import PluginsAway
from agentrail.ports.journal import Record, opening_of
from agentrail.runtime.shared.ids import INCARNATION_BYTES

IMPORTED: Final = "the session was imported"
"""Why an open turn of an imported session ends."""

GOES_ON: Final = "it cannot be paused: its records say of work what no session does; import nothing of who made it"

MAX_STEPS: Final = 3
"""The most aborts of an imported session: one that does not rest after them never will."""


def paused(records: Sequence[Record], at_ms: int) -> tuple[Record, ...]:
    """Return *records* as an import writes them: the session rests, and its agent is neither sealed nor a file's.

    A turn that is open is aborted, and what waits is dropped. Raise `BadInputError` if the session would go on anyway.
    """
    opening = opening_of(records[0])
    opening = opening.but(setup=opening.setup.but(spec=_without_file(opening.setup.spec)))
    records = [records[0].but(opening=opening), *records[1:]]
    state = state_after(records)
    for _ in range(MAX_STEPS):
        if rests(state):
            break
        state, record = _make_step(state, AbortSent(IMPORTED, "all", clear_queue=True), len(records) + 1, at_ms)
        records.append(record)
    if not rests(state):
        raise BadInputError(f"{state.session_id}: {GOES_ON}")
    return (*records[:-1], records[-1].but(due=None, at_work=False))


def branched(origin: State, head: int, left_behind: Sequence[str], session_id: str, at_ms: int) -> Record:
    """Return the first record of a fork of the session *origin* after record *head*; its code is found at its start."""
    state = branch(origin, session_id)
    first = SessionBranched(
        origin.session_id,
        head,
        tuple(left_behind),
        state.plugins,
        incarnation=secrets.token_hex(INCARNATION_BYTES),
    )
    _, record = _make_step(state, first, 1, at_ms)
    return record.but(opening=state)


def _make_step(state: State, input_: AnyInput, number: int, at_ms: int) -> tuple[State, Record]:
    """Make a step without plugins; return the state after it, and its record. Nobody carries out its effects."""
    arrival = Arrival(input_, at_ms)
    try:
        outcome = step(state, arrival, PluginsAway())
    except (IllegalInput, LeftItsRow, ReplayDiffers, LookupError, ValueError) as error:
        raise BadInputError(f"{state.session_id}: {GOES_ON}") from error
    new_state = outcome.state
    return new_state, Record(
        state.session_id,
        number,
        arrival,
        outcome.rulings,
        outcome.events,
        tuple([type(effect).__name__ for effect in outcome.effects]),
        change(state, new_state),
        answer=outcome.answer,
        due=min([due_ms for _, due_ms in new_state.timers], default=None),
        at_work=new_state.has_running_work,
    )


def _without_file(agent_id: str) -> str:
    """Return the name of an agent of the command line without its seal and its file; another one as it is."""
    source = AgentSource.read(agent_id)
    return agent_id if source is None else source.but(file="", name="", seal="").id


def rests(state: State) -> bool:
    """Whether nothing of the session goes on when it is brought back."""
    if state.phase is Phase.ENDED:
        return True
    waits = (
        *(state.turn, state.request, state.batch, state.compaction, state.compaction_reason, state.next_prompt),
        *(state.is_paused, state.suspended_runs, state.timers, state.queue, state.steering),
        *(state.subagents, state.lingering_calls, state.plugin_changes),
    )
    return state.phase is Phase.IDLE and not state.is_starting and not any(waits)
