"""A planted older format, number 0: what code before the first release could have written, and how it becomes format 1.

There is no older format yet. With this one, the machinery that brings stored sessions up to date is tested: in
format 0 the history of a session is `talk`, and the column `title` of the table `about` is `caption`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Final, cast

import pytest

from agentrail import State
from agentrail.adapters.journals import archive_writer, packing
from agentrail.adapters.journals.message_index import MessageReferences
from agentrail.adapters.journals.packing import PackedRecord
from agentrail.adapters.journals.sql import sqlite_tables, writer
from agentrail.adapters.journals.sql.sql_tables import DEFINITIONS
from agentrail.adapters.journals.stored_form import StoredRecord
from agentrail.codec.values import write
from agentrail.codec.versions import upcast
from agentrail.journals import Claim, Journal, Latest, Record, Snapshot, StoredSession
from agentrail.models import Json
from tests.adapters.journals.test_deleting import talked
from tests.kit import Setup, prompted
from tests.recovery.eraser import NOTE

OLDER: Final = 0

Contents = tuple[tuple[StoredSession, ...], list[tuple[Record, ...]], list[Latest], list[object]]


async def fill(journal: Journal) -> Contents:
    """Write sessions with all that tables may have; return what is found."""
    await talked(journal, "talked", 70, 10)
    await talked(journal, "long", 3, 20_000)
    opening = State("child", Setup(path=("talked", "c1")), "demo", title="title", labels=("b", "a", 'é"\\'))
    claim = await journal.claim("child", "test")
    await journal.append(claim, 0, (prompted("child", 1, opening=opening, due=7, at_work=True),))
    await talked(journal, "redacted", 10)
    await journal.redact("redacted", 2, 5, NOTE, "")
    return await contents(journal)


async def contents(journal: Journal) -> Contents:
    """Return all that is found in a journal."""
    sessions = await journal.sessions()
    names = [session.session_id for session in sessions]
    records = [await journal.read(name) for name in names]
    commands = [record.command for records_ in records for record in records_ if record.command]
    answers: list[object] = [await journal.answer(name, command) for name in names for command in commands[:5]]
    return sessions, records, [await journal.latest(name) for name in names], answers


# Records and snapshots


def _swapped(data: Mapping[str, Json], old: str, new: str) -> dict[str, Json]:
    made = dict(data)
    for place in ("change", "opening", "state"):
        if isinstance(fields := made.get(place), Mapping):
            made[place] = {new if name == old else name: value for name, value in fields.items()}
    return made


def _written_before(value: StoredRecord | Snapshot) -> bytes:
    data = cast("Mapping[str, Json]", json.loads(write(value)))
    return json.dumps(_swapped(data, "history", "talk"), separators=(",", ":"), ensure_ascii=False).encode()


def _packed_before(value: Record | Snapshot, places: MessageReferences | None = None) -> PackedRecord:
    return packing.pack(value, places).but(format=OLDER)


@contextmanager
def older_code(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let journals and exports write format 0, and read it, as code of that format did."""
    with monkeypatch.context() as patch:
        patch.setattr(packing, "write", _written_before)
        patch.setattr(writer, "pack", _packed_before)
        patch.setattr(archive_writer, "write", _written_before)
        patch.setattr(archive_writer, "FORMAT", OLDER)
        know_older_records(patch)
        yield


def know_older_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the upcaster from format 0 to format 1."""
    upcasters = {OLDER: lambda data: _swapped(cast("Mapping[str, Json]", data), "talk", "history")}
    monkeypatch.setattr(packing, "upcast", partial(upcast, upcasters=upcasters))


# Tables


def _is_of_about(definition: str) -> bool:
    return "~about " in definition


ABOUT: Final = tuple(filter(_is_of_about, DEFINITIONS))
COLUMNS: Final = "session, parent, tenant, owner, spec, {}, labels, created"


def _older(definition: str) -> str:
    return definition.replace("title", "caption")


def _moved(definitions: tuple[str, ...], before: str, after: str) -> tuple[str, ...]:
    """Return the statements that make the table `about` anew by *definitions*, with its rows."""
    indexes = ("about_by_parent", "about_by_tenant", "about_by_owner")
    return (
        "alter table ~about rename to old_about",
        *[f"drop index ~{index}" for index in indexes],
        *definitions,
        f"insert into ~about ({COLUMNS.format(after)}) select {COLUMNS.format(before)} from ~old_about",  # noqa: S608
        "drop table ~old_about",
    )


BACK: Final = (*_moved(tuple(map(_older, ABOUT)), "title", "caption"), f"update ~meta set version = {OLDER}")  # noqa: S608
"""Make tables of version 0 of those of today."""

TO_NEXT: Final = _moved(ABOUT, "caption", "title")
"""Make tables of version 1 of those of version 0."""


def know_older_tables(monkeypatch: pytest.MonkeyPatch, to_next: tuple[str, ...] = TO_NEXT) -> None:
    """Plant the upgrade of a file from version 0 to version 1."""
    older = sqlite_tables.OlderTables(
        tuple(map(_older, sqlite_tables.TABLES)),
        tuple(map(sqlite_tables.defined, to_next)),
    )
    monkeypatch.setattr(sqlite_tables, "OLDER_TABLES", MappingProxyType({OLDER: older}))


LATE: Final = Claim("talked", 1, 70)
"""The claim of a process that wrote the older tables."""
