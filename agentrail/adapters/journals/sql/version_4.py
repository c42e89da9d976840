"""The tables of version 4, and its seals: what `conversion` reads.

A row of a session has a checksum over itself, its seal. Only every 64th record of a session is in the index.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from agentrail.adapters.journals.checksums import as_bytes
from agentrail.adapters.journals.packing import digest

VERSION_4: Final = 4
"""The version of these tables, kept as `user_version` of the file."""

TABLES: Final = 0
"""Version number of a file without tables."""

APPLICATION: Final = 0x41524A4C
"""The `application_id` of the file: the letters ARJL."""

PAGE_SIZE: Final = 1024
"""Bytes of a page of a new file. A commit writes whole pages: 9 kB for a short turn, and 25 kB with SQLite's 4,096."""

AUTO_VACUUM: Final = "auto_vacuum = INCREMENTAL"
"""The setting with which a file gives free pages back, and has a map that says what each page is."""

STRIDE: Final = 64
"""One record of this many is in the index; the others are found from it. A change needs a new version of the tables."""

INDEXED: Final = f"number % {STRIDE} = 1"
"""The condition in SQL for the records that are in the index."""

TABLES_4: Final[tuple[str, ...]] = (
    """CREATE TABLE journal (generation INTEGER NOT NULL, epoch INTEGER NOT NULL)""",
    """CREATE TABLE session (
        id TEXT NOT NULL PRIMARY KEY,
        epoch INTEGER NOT NULL,
        owner TEXT NOT NULL,
        head INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        "check" BLOB NOT NULL,
        due INTEGER,
        at_work INTEGER NOT NULL,
        ended INTEGER NOT NULL,
        active INTEGER NOT NULL,
        seal BLOB NOT NULL,
        slot INTEGER NOT NULL
    )""",
    "CREATE INDEX session_by_due ON session (due, id) WHERE due IS NOT NULL AND at_work = 0",
    "CREATE INDEX session_at_work ON session (id) WHERE at_work = 1",
    "CREATE INDEX session_by_end ON session (ended, id)",
    """CREATE TABLE about (
        session TEXT NOT NULL PRIMARY KEY,
        tenant TEXT NOT NULL,
        owner TEXT NOT NULL,
        spec TEXT NOT NULL,
        title TEXT NOT NULL,
        labels TEXT NOT NULL,
        created INTEGER NOT NULL,
        seal BLOB NOT NULL,
        ended INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE INDEX about_by_tenant ON about (tenant, session, owner, ended) WHERE tenant != ''",
    "CREATE INDEX about_by_owner ON about (owner, session, tenant, ended) WHERE owner != ''",
    """CREATE TABLE label (
        label TEXT NOT NULL,
        session TEXT NOT NULL,
        tenant TEXT NOT NULL,
        owner TEXT NOT NULL,
        ended INTEGER NOT NULL,
        PRIMARY KEY (label, session)
    ) WITHOUT ROWID""",
    """CREATE TABLE record (
        slot INTEGER PRIMARY KEY,
        back INTEGER NOT NULL,
        session TEXT NOT NULL,
        number INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        command TEXT,
        format INTEGER NOT NULL,
        blobs TEXT NOT NULL,
        "check" BLOB NOT NULL,
        body BLOB NOT NULL,
        sealed BLOB
    )""",
    "CREATE UNIQUE INDEX record_by_number ON record (session, number) WHERE number % 64 = 1",
    "CREATE INDEX record_by_command ON record (session, command) WHERE command IS NOT NULL",
    """CREATE TABLE snapshot (
        session TEXT NOT NULL PRIMARY KEY,
        number INTEGER NOT NULL,
        behind BLOB NOT NULL,
        format INTEGER NOT NULL,
        blobs TEXT NOT NULL,
        "check" BLOB NOT NULL,
        body BLOB NOT NULL
    )""",
    """CREATE TABLE blob (digest TEXT NOT NULL PRIMARY KEY, content BLOB NOT NULL)""",
    """CREATE TABLE child (session TEXT NOT NULL PRIMARY KEY, parent TEXT NOT NULL) WITHOUT ROWID""",
    "CREATE INDEX child_by_parent ON child (parent)",
    """CREATE TABLE blob_use (
        digest TEXT NOT NULL,
        session TEXT NOT NULL,
        PRIMARY KEY (digest, session)
    ) WITHOUT ROWID""",
    "CREATE INDEX blob_use_by_session ON blob_use (session)",
    """CREATE TABLE deleting (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT NOT NULL,
        slot INTEGER NOT NULL,
        epoch INTEGER NOT NULL
    )""",
)


class SealedSession(NamedTuple):
    """The row of a session: its claim, and the number, checksum and place of its last record."""

    id: str
    epoch: int
    owner: str
    head: int = 0
    seq: int = 0
    check: bytes = b""
    due: int | None = None
    at_work: int = 0
    ended: int = 0
    active: int = 0
    seal: bytes = b""
    slot: int = 0
    """The slot of the last record; not part of the seal, because the record that is found there is checked itself."""

    @property
    def is_whole(self) -> bool:
        """Whether the row is unchanged since it was written: whether its seal fits."""
        return self.seal == digest(as_bytes(self[:FACTS]))


FACTS: Final = 10
"""The number of fields before the seal."""

COLUMNS_4: Final = 'id, epoch, owner, head, seq, "check", due, at_work, ended, active, seal, slot'
