"""A session whose actor has crashed, from its records."""

from __future__ import annotations

from collections.abc import Iterable

import trio

from agentrail.core.machine.step import redo, step
from agentrail.core.vocabulary.inputs import Arrival, StreamBegan
from agentrail.core.vocabulary.state import State
from agentrail.errors import AgentrailError, BadRecord, PluginMismatch, ReplayDiffers
from agentrail.hooks.judge import Recorded
from agentrail.hooks.plugin import UNKNOWN, AnyPlugin, state_type
from agentrail.ports.failpoints import Failpoint, reach
from agentrail.ports.journal import Journal, Record
from agentrail.values.foreign import described
from agentrail.values.json import Json, canonical

PAGE = 100
"""Records that are done again at once, before others have their turn."""


async def rebuilt(journal: Journal, session_id: str, upto: int | None = None) -> tuple[State, int]:
    """Return a session as its records tell, all or those up to one, and the number of the last of them."""
    snapshot = await journal.snapshot(session_id)
    reach(Failpoint.SNAPSHOT_READ)
    if snapshot is not None and upto is not None and snapshot.number > upto:
        snapshot = None
    state, number = (None, 0) if snapshot is None else (snapshot.state, snapshot.number)
    more = True
    while more:
        wanted = PAGE if upto is None else min(PAGE, upto - number)
        records = await journal.read(session_id, number, wanted)
        more = len(records) == wanted > 0
        for record in records:
            number = record.number
            state = record.opening if state is None else state
            if state is None:
                raise ReplayDiffers(session_id, number, "its beginning, which is not there")
            state = _redone(state, record)
        await trio.lowlevel.checkpoint()
        reach(Failpoint.RECORDS_REDONE)
    if state is None:
        raise ReplayDiffers(session_id, number, "its beginning: there are no records")
    return state, number


def _redone(state: State, record: Record) -> State:
    """Return *state* after the step of *record*; raise `BadRecord` if what the record holds breaks the step."""
    try:
        return redo(state, record.arrival, record.rulings, record.events, record.began, record.number)
    except (BadRecord, ReplayDiffers):
        raise
    except Exception as error:  # whatever breaks, it is no crash of the session: it has only been read
        raise BadRecord(record.session_id, record.number, f"its step breaks: {described(error)}") from error


def begun(state: State, request_id: str) -> State:
    """Return *state* behind the first chunk of a response, which has no record of its own yet."""
    return step(state, Arrival(StreamBegan(request_id), 0), Recorded(())).state


def _texts(found: Iterable[Json]) -> list[str]:
    """Return JSON as it would be written: what was read back has tuples for lists."""
    return [canonical(data) for data in found]


def with_plugins_of(state: State, live: State, number: int) -> State:
    """Return *state* with the plugin states of *live*: they must be the same, and records do not know their classes."""
    if state.plugin_states == live.plugin_states:
        return state.but(plugin_states=live.plugin_states)
    from agentrail.codec import data_of  # noqa: PLC0415 - only what was written and read again needs it

    if _texts(map(data_of, state.plugin_states)) != _texts(map(data_of, live.plugin_states)):
        raise ReplayDiffers(state.session_id, number, "the states of its plugins")
    return state.but(plugin_states=live.plugin_states)


def revived(session_id: str, key: str, plugin: AnyPlugin, state: object) -> object:
    """Return a plugin state that was read, in the class that the plugin says; raise `PluginMismatch` if it is none."""
    from agentrail.codec import Stored, revive  # noqa: PLC0415 - only what was written and read again needs it

    wanted = state_type(plugin)
    if wanted is UNKNOWN:
        if isinstance(state, Stored):
            problem = f"its state is a `{state.name}`, and its class does not say so: write `Plugin[…]` with the type"
            raise PluginMismatch(session_id, key, problem)
        return state
    try:
        return revive(wanted, state)
    except AgentrailError as error:
        raise PluginMismatch(session_id, key, f"its state cannot be read: {error}") from error
