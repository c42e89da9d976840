"""`AboutTable`: what is said of sessions, in tables of its own, because it is seldom written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, cast

from agentrail.adapters.journals.redacting import about_redacted
from agentrail.adapters.journals.sqlite.tables import SessionRow, seal_of
from agentrail.ports.journal import About, Record
from agentrail.ports.session_summary import about_after, has_ended, tells_about

UNSAID: Final = About()
"""What is said of a session before its first record."""

ABOUT_COLUMNS: Final = "session, tenant, owner, spec, title, labels, created, seal, ended"

SEALED: Final = 7
"""How many columns the seal covers: those before it."""


class AboutRow(NamedTuple):
    """A row of the table `about`; the labels are JSON.

    `ended` repeats what the session's row says, so that lists of ended or open sessions need not look there.
    """

    session: str
    tenant: str
    owner: str
    spec: str
    title: str
    labels: str
    created: int
    seal: bytes
    ended: int

    @property
    def is_whole(self) -> bool:
        """Whether the row is unchanged since it was written: whether its seal fits."""
        return self.seal == seal_of(self[:SEALED])

    @property
    def about(self) -> About:
        """The row as a value."""
        labels = cast("list[str]", json.loads(self.labels))
        return About(self.tenant, self.owner, self.spec, self.title, tuple(labels), self.created)


class AboutTable:
    """What is said of sessions: noted while jobs run, and written at the end of their transaction."""

    __slots__ = ("_ended", "_said")

    def __init__(self) -> None:
        self._said: dict[str, About] = {}
        self._ended: set[str] = set()

    def note(
        self, db: sqlite3.Connection, row: SessionRow, records: Sequence[Record], first: Callable[[], Record]
    ) -> None:
        """Note what *records* change of it; *row* is that of their session, *first* reads the session's first record.

        A stored row that is damaged is made again from that record: each change of labels tells all labels.
        """
        if has_ended(records[-1]):
            self._ended.add(row.id)
        telling = [record for record in records if tells_about(record)]
        if not telling:
            return
        about = self._said.get(row.id)
        if about is None and row.head:
            stored = _stored(db, row.id)
            about = about_after(first(), UNSAID) if stored is None else stored.about
        about = about or UNSAID
        for record in telling:
            about = about_after(record, about)
        self._said[row.id] = about

    def redact(self, db: sqlite3.Connection, session_id: str, records: Sequence[Record]) -> None:
        """Replace the title of a session by a mark, if one of *records* has given it."""
        stored = _stored(db, session_id)
        about = None if stored is None else about_redacted(stored.about, records)
        if stored is not None and about is not None and about != stored.about:
            self._said[session_id] = about

    def write(self, db: sqlite3.Connection) -> None:
        """Write what was noted; the rows of the sessions are written before."""
        said, self._said = self._said, {}
        ended, self._ended = self._ended, set()
        for session_id, about in said.items():
            before = _stored(db, session_id)
            labels = json.dumps(about.labels, ensure_ascii=False)
            facts = (session_id, about.tenant, about.owner, about.spec, about.title, labels, about.created)
            db.execute(_WRITE, (*facts, seal_of(facts), session_id))
            old, new = set[str]() if before is None else set(before.about.labels), set(about.labels)
            db.executemany(_UNLABEL, [(one, session_id) for one in old - new])
            db.executemany(_LABEL, [(one, session_id) for one in new - old])
        for session_id in ended:
            stored = _stored(db, session_id)
            db.execute("UPDATE about SET ended = 1 WHERE session = ?", (session_id,))
            labels_of = () if stored is None else stored.about.labels
            db.executemany(_END_LABEL, [(one, session_id) for one in labels_of])

    def undo(self) -> None:
        """Forget what was noted: the transaction is rolled back."""
        self._said.clear()
        self._ended.clear()


def erase_about(db: sqlite3.Connection, session_id: str) -> None:
    """Erase what is said of a session; if its row is damaged, its labels are looked for among all labels."""
    stored = _stored(db, session_id)
    if stored is None:
        db.execute("DELETE FROM label WHERE session = ?", (session_id,))
    else:
        db.executemany(_UNLABEL, [(one, session_id) for one in stored.about.labels])
    db.execute("DELETE FROM about WHERE session = ?", (session_id,))


_WRITE: Final = f"""INSERT OR REPLACE INTO about ({ABOUT_COLUMNS})
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ended FROM session WHERE id = ?"""  # noqa: S608

_UNLABEL: Final = "DELETE FROM label WHERE label = ? AND session = ?"
_LABEL: Final = "INSERT OR REPLACE INTO label SELECT ?, session, tenant, owner, ended FROM about WHERE session = ?"
_END_LABEL: Final = "UPDATE label SET ended = 1 WHERE label = ? AND session = ?"


def _stored(db: sqlite3.Connection, session_id: str) -> AboutRow | None:
    """Return the stored row of a session; `None` if there is none, or it is damaged."""
    found = db.execute(f"SELECT {ABOUT_COLUMNS} FROM about WHERE session = ?", (session_id,)).fetchone()  # noqa: S608
    row = None if found is None else AboutRow._make(found)
    return row if row is not None and row.is_whole else None
