"""Drops the snapshots of files that a stored session and its sub-agents have taken, and no others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import trio

from agentrail.adapters.sandboxes.kept_files.folder_snapshots import forget_owners, has_stores, snapshot_owners
from agentrail.core.vocabulary.inputs import SessionBranched, SessionOpened, SessionReturned
from agentrail.errors import BadRecord
from agentrail.ports.journal import Journal, Record
from agentrail.ports.snapshots import snapshot_owner

PAGE: Final = 100
"""How many records are read at once."""

COMMON: Final = 100
"""With so many characters of the id of its session, at least, the id of a sub-agent begins: a long one is cut."""


async def has_snapshots(session_id: str) -> bool:
    """Whether there may be snapshots of the session, or of a sub-agent."""
    return bool(await _near(session_id))


async def forget_snapshots(journal: Journal, session_id: str) -> None:
    """Drop the snapshots of a session in *journal* and of its sub-agents, while their records are still there."""
    await drop_snapshots(await owners_of(journal, session_id))


async def owners_of(journal: Journal, session_id: str) -> set[str]:
    """Return for whom a session in *journal* and its sub-agents took snapshots; empty if none are kept."""
    owners = set[str]()
    for name in await _near(session_id):
        owners |= await _owners(journal, name, session_id)
    return owners


async def drop_snapshots(owners: Collection[str]) -> None:
    """Drop the snapshots that were taken for these *owners*. No-op if there are none."""
    if owners:
        await trio.to_thread.run_sync(forget_owners, owners)


async def _near(session_id: str) -> list[str]:
    """Return the ids of sessions with snapshots on this machine that may be the session or a sub-agent, sorted."""
    if not has_stores():
        return []
    names = {owner.partition("/")[0] for owner in await trio.to_thread.run_sync(snapshot_owners)}
    return sorted(name for name in names if name.startswith(session_id[:COMMON]))


async def _owners(journal: Journal, name: str, session_id: str) -> set[str]:
    """Return for whom session *name* took snapshots, up to a damaged record; empty if it is no sub-agent.

    An owner without incarnation is of an earlier release, which had one for all sessions of an id.
    """
    owners, after = set[str](), 0
    while records := await _page(journal, name, after):
        if not after:
            opening = records[0].opening
            if name != session_id and (opening is None or session_id not in opening.setup.path[::2]):
                break
            owners.add(name)
        for record in records:
            match record.arrival.input:
                case SessionOpened() | SessionBranched() | SessionReturned() as begun:
                    owners.add(snapshot_owner(name, begun.incarnation))
                case _:
                    pass
        after = records[-1].number
    return owners


async def _page(journal: Journal, name: str, after: int) -> Sequence[Record]:
    """Return the next records up to one that is damaged."""
    try:
        return await journal.read(name, after, PAGE)
    except BadRecord as damage:
        intact = damage.number - after - 1
    return await journal.read(name, after, intact) if 0 < intact < PAGE else ()
